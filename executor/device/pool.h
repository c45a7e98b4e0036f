/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_POOL_H
#define SHUNT_EXECUTOR_POOL_H

/**
 * Host pages that go from old buffers to new ones without a detour through the system: a page
 * that the kernel has to fetch and clear costs several times the copy into it. Freed blocks leave
 * their pages here; a new block is put together out of them by moving page-table entries (mremap).
 *
 *     spare pieces   |aaaa|bb|cccccc|            a block of 8 pages: |cccccc|bb|
 *
 * What may be kept is bounded by pool_reserve(), which also fetches pages ahead of time, so that a
 * plan's growth is paid for before the move begins.
 */

#include <stdbool.h>
#include <stdint.h>

/** Mapped pages in one piece, as the kernel sees it. */
struct pool_piece {
    char *at;
    uint64_t bytes;
};

struct pool {
    struct pool_piece *spare;
    uint32_t count, room;
    uint64_t spare_bytes;
};

/** Memory from a pool. Small blocks are ordinary heap memory and have no pieces. */
struct pool_block {
    void *data; /* 64-byte aligned; contents are anybody's */
    uint64_t bytes;
    struct pool_piece *pieces;
    uint32_t piece_count;
};

/** Bytes of pages that a block of this size takes. */
uint64_t pool_footprint(uint64_t bytes);

/** Keep exactly this many spare bytes (less if the system has none left): fetch or give back. */
void pool_reserve(struct pool *pool, uint64_t bytes);

/** @return false when out of memory */
bool pool_take(struct pool *pool, uint64_t bytes, struct pool_block *block_out);
void pool_give(struct pool *pool, struct pool_block *block);
void pool_finish(struct pool *pool);

#endif
