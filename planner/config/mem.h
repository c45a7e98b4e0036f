/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_MEM_H
#define SHUNT_PLANNER_CONFIG_MEM_H

/** Every allocation of the loader goes through here, so that a test can fail each in turn. */

#include <stddef.h>

/** Zeroed memory, never NULL for 0 bytes; NULL when there is none left. Release with free(). */
void *cfg_alloc(size_t bytes);

/** NUL-terminated copy of `length` bytes; NULL when there is no memory. Release with free(). */
char *cfg_copy_text(const char *text, size_t length);

/** For tests: let `count` more allocations of this thread succeed, then fail one. Negative: never fail. */
void cfg_mem_fail_after(long count);

/** Many small pieces released together. Start with {0}. */
struct cfg_arena {
    struct cfg_arena_block *blocks;
};

/** Zeroed, aligned for any type; NULL when there is no memory. */
void *cfg_arena_alloc(struct cfg_arena *arena, size_t bytes);
void cfg_arena_finish(struct cfg_arena *arena);

#endif
