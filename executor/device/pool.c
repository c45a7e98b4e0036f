/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/device.h"

#define POOL_MIN_BYTES  (UINT64_C(64) << 10) /* below this a block is heap memory */
#define POOL_MAX_SPARE  4096u                /* pieces; the kernel allows some 65000 mappings in all */
#define POOL_MAX_PIECES 256u                 /* of one block */

static uint64_t page_bytes(void)
{
    static uint64_t bytes;
    if (bytes == 0)
        bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

uint64_t pool_footprint(uint64_t bytes)
{
    return bytes < POOL_MIN_BYTES ? 0 : (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

static char *map_pages(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Fetch pages now; where the kernel cannot, they come one by one on first touch. */
static void fetch_pages(char *at, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    (void)madvise(at, bytes, MADV_POPULATE_WRITE);
#else
    (void)at, (void)bytes;
#endif
}

/* Takes over the piece; what cannot be kept goes back to the system. */
static void keep_piece(struct pool *pool, struct pool_piece piece)
{
    if (pool->count == pool->room && pool->room < POOL_MAX_SPARE) {
        uint32_t room = pool->room < 64 ? 64 : 2 * pool->room;
        struct pool_piece *spare = realloc(pool->spare, room * sizeof(*spare));
        if (spare != NULL) {
            pool->spare = spare;
            pool->room = room;
        }
    }
    if (pool->count == pool->room) {
        munmap(piece.at, piece.bytes);
        return;
    }
    pool->spare[pool->count++] = piece;
    pool->spare_bytes += piece.bytes;
}

static void drop_spare(struct pool *pool, uint64_t bytes)
{
    while (bytes > 0 && pool->count > 0) {
        struct pool_piece *piece = &pool->spare[pool->count - 1];
        uint64_t n = piece->bytes < bytes ? piece->bytes : bytes;
        piece->bytes -= n;
        munmap(piece->at + piece->bytes, n);
        if (piece->bytes == 0)
            pool->count--;
        pool->spare_bytes -= n;
        bytes -= n;
    }
}

void pool_reserve(struct pool *pool, uint64_t bytes)
{
    bytes = bytes / page_bytes() * page_bytes();
    if (pool->spare_bytes > bytes)
        drop_spare(pool, pool->spare_bytes - bytes);
    if (pool->spare_bytes == bytes)
        return;
    struct pool_piece piece = {.bytes = bytes - pool->spare_bytes};
    piece.at = map_pages(piece.bytes);
    if (piece.at == NULL)
        return;
    fetch_pages(piece.at, piece.bytes);
    keep_piece(pool, piece);
}

/*
 * The system call itself: UCX 1.13 puts its own mremap in place of libc's, and that one forgets the
 * new address. Pool memory is never handed to UCX, so it need not hear of the move.
 */
static bool move_pages_to(char *from, uint64_t bytes, char *to)
{
    return syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)(intptr_t)to;
}

/* A fixed mremap that fails may have unmapped its target before: some failures come late. */
static bool map_again(char *at, uint64_t bytes)
{
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (void *)at;
}

/*
 * Move spare pages to [at, at + bytes), done_out of them, from the front on. False if the next
 * pages behind those are not mapped any more.
 */
static bool move_spare(struct pool *pool, struct pool_block *block, char *at, uint64_t bytes, uint64_t *done_out)
{
    uint64_t done = 0;
    bool mapped = true;
    while (done < bytes && pool->count > 0 && block->piece_count + 1 < POOL_MAX_PIECES) {
        struct pool_piece *piece = &pool->spare[pool->count - 1];
        uint64_t n = piece->bytes < bytes - done ? piece->bytes : bytes - done;
        if (!move_pages_to(piece->at + piece->bytes - n, n, at + done)) {
            mapped = map_again(at + done, n);
            break;
        }
        block->pieces[block->piece_count++] = (struct pool_piece){at + done, n};
        piece->bytes -= n;
        pool->spare_bytes -= n;
        if (piece->bytes == 0)
            pool->count--;
        done += n;
    }
    *done_out = done;
    return mapped;
}

static bool take_pages(struct pool *pool, uint64_t bytes, struct pool_block *block)
{
    uint64_t span = pool_footprint(bytes);
    char *at = map_pages(span);
    block->pieces = calloc(POOL_MAX_PIECES, sizeof(*block->pieces));
    if (at == NULL || block->pieces == NULL) {
        if (at != NULL)
            munmap(at, span);
        free(block->pieces);
        return false;
    }
    uint64_t done;
    if (!move_spare(pool, block, at, span, &done)) {
        munmap(at, span);
        free(block->pieces);
        return false;
    }
    if (done < span) {
        fetch_pages(at + done, span - done);
        block->pieces[block->piece_count++] = (struct pool_piece){at + done, span - done};
    }
    struct pool_piece *fit = realloc(block->pieces, block->piece_count * sizeof(*fit));
    block->pieces = fit != NULL ? fit : block->pieces;
    block->data = at;
    return true;
}

static void *small_block(uint64_t bytes)
{
    void *data;
    return device_host.alloc_host(device_of_host(), bytes, &data, NULL) == SHUNT_OK ? data : NULL;
}

bool pool_take(struct pool *pool, uint64_t bytes, struct pool_block *block_out)
{
    struct pool_block block = {.bytes = bytes};
    if (bytes < POOL_MIN_BYTES)
        block.data = small_block(bytes);
    else if (!take_pages(pool, bytes, &block))
        return false;
    *block_out = block;
    return block.data != NULL;
}

void pool_give(struct pool *pool, struct pool_block *block)
{
    if (block->pieces == NULL)
        device_host.free_host(device_of_host(), block->data, block->bytes);
    for (uint32_t i = 0; i < block->piece_count; i++)
        keep_piece(pool, block->pieces[i]);
    free(block->pieces);
    *block = (struct pool_block){0};
}

void pool_finish(struct pool *pool)
{
    drop_spare(pool, pool->spare_bytes);
    free(pool->spare);
    *pool = (struct pool){0};
}
