/* SPDX-License-Identifier: Apache-2.0 */
#include "util/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    size_t mapped; /* bytes of the mapping that it is; 0: from malloc */
    _Alignas(16) unsigned char bytes[];
};

#define BLOCK_BYTES ((size_t)256 * 1024)
#define LARGE_BYTES ((size_t)1 << 20) /* from here on an array has a block of its own, which is a mapping */
#define HUGE_PAGE   ((size_t)2 << 20)

void arena_init(struct arena *arena)
{
    arena->blocks = NULL;
    arena->scratch = arena->next = NULL;
}

static void free_block(struct arena_block *block)
{
    if (block->mapped > 0)
        munmap(block, block->mapped);
    else
        free(block);
}

void arena_finish(struct arena *arena)
{
    for (; arena->scratch != NULL; arena->scratch = arena->scratch->next)
        arena_finish(arena->scratch);
    while (arena->blocks != NULL) {
        struct arena_block *next = arena->blocks->next;
        free_block(arena->blocks);
        arena->blocks = next;
    }
}

void arena_clear(struct arena *arena)
{
    struct arena_block *open = arena->blocks;
    if (open == NULL || open->mapped > 0) {
        arena_finish(arena);
        return;
    }
    arena->blocks = open->next;
    arena_finish(arena);
    memset(open->bytes, 0, open->used);
    open->used = 0;
    open->next = NULL;
    arena->blocks = open;
}

/** Bytes of a mapping with room for an array: of whole large pages where there are many, which are fewer to fault in. */
static size_t mapping_bytes(size_t bytes)
{
    size_t unit = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 4096;
    return (sizeof(struct arena_block) + bytes + unit - 1) / unit * unit;
}

static struct arena_block *map_block(size_t bytes)
{
    size_t mapped = mapping_bytes(bytes);
    struct arena_block *block = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    madvise(block, mapped, MADV_HUGEPAGE); /* as good as it gets */
    block->mapped = mapped;
    return block;
}

static struct arena_block *add_block(struct arena *arena, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct arena_block *block = size >= LARGE_BYTES ? map_block(size) : calloc(1, sizeof(*block) + size);
    if (block == NULL)
        longjmp(arena->on_failure, 1);
    block->size = size;
    /* A block made for one large array is full at once: keep the open block in front. */
    if (bytes > BLOCK_BYTES / 4 && arena->blocks != NULL) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    return block;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        longjmp(arena->on_failure, 1);
    bytes = (bytes + 15) & ~(size_t)15;
    struct arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < bytes)
        block = add_block(arena, bytes);
    void *result = block->bytes + block->used;
    block->used += bytes;
    return result;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(arena_alloc(arena, bytes, 1), text, bytes);
}

void *vec_grow(struct arena *arena, void *items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return items;
    size_t first = size < 64 ? 16 : size < 128 ? 4 : 2; /* lists of large things are short, and many */
    size_t larger = *capacity == 0 ? first : *capacity * 2;
    void *grown = arena_alloc(arena, larger, size);
    if (count > 0)
        memcpy(grown, items, count * size);
    *capacity = larger;
    return grown;
}

/** Make a block that is a mapping larger, wherever it comes to lie. */
static struct arena_block *stretch(struct arena *arena, struct arena_block *block, size_t bytes)
{
    struct arena_block **link = &arena->blocks;
    size_t mapped = mapping_bytes(bytes);
    while (*link != block)
        link = &(*link)->next;
    struct arena_block *moved = mremap(block, block->mapped, mapped, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
        longjmp(arena->on_failure, 1);
    *link = moved;
    moved->mapped = mapped;
    moved->used = moved->size = bytes;
    return moved;
}

void *vec_stretch(struct arena *arena, void *items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return items;
    if (*capacity * size < LARGE_BYTES)
        return vec_grow(arena, items, capacity, count, size);
    struct arena_block *block = (struct arena_block *)((char *)items - offsetof(struct arena_block, bytes));
    *capacity *= 2;
    return stretch(arena, block, (*capacity * size + 15) & ~(size_t)15)->bytes;
}

void arena_with_scratch(struct arena *arena, void (*work)(struct arena *scratch, void *context), void *context)
{
    struct arena *scratch = ARENA_NEW(arena, struct arena, 1);
    arena_init(scratch);
    scratch->next = arena->scratch;
    arena->scratch = scratch;
    if (setjmp(scratch->on_failure) != 0)
        longjmp(arena->on_failure, 1); /* whoever finishes the arena finishes this one too */
    work(scratch, context);
    arena->scratch = scratch->next;
    arena_finish(scratch);
}
