/* SPDX-License-Identifier: Apache-2.0 */
#include "mem.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10)

struct cfg_arena_block {
    struct cfg_arena_block *next;
    size_t used, size;
    alignas(max_align_t) unsigned char bytes[];
};

static _Thread_local long allocations_left = -1;

static bool allocation_must_fail(void)
{
    if (allocations_left < 0)
        return false;
    return allocations_left-- == 0;
}

void cfg_mem_fail_after(long count)
{
    allocations_left = count;
}

void *cfg_alloc(size_t bytes)
{
    if (allocation_must_fail())
        return NULL;
    return calloc(1, bytes != 0 ? bytes : 1);
}

char *cfg_copy_text(const char *text, size_t length)
{
    char *copy = cfg_alloc(length + 1);
    if (copy != NULL && length != 0)
        memcpy(copy, text, length);
    return copy;
}

static struct cfg_arena_block *arena_grow(struct cfg_arena *arena, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct cfg_arena_block *block = cfg_alloc(sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    block->size = size;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *cfg_arena_alloc(struct cfg_arena *arena, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    bytes = (bytes + align - 1) / align * align;
    struct cfg_arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < bytes)
        block = arena_grow(arena, bytes);
    if (block == NULL)
        return NULL;
    void *piece = block->bytes + block->used;
    block->used += bytes;
    return piece;
}

void cfg_arena_finish(struct cfg_arena *arena)
{
    while (arena->blocks != NULL) {
        struct cfg_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
