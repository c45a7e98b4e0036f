/* SPDX-License-Identifier: Apache-2.0 */
#include "util/arena.h"

#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

#define BLOCK_BYTES ((size_t)256 * 1024)

void arena_init(struct arena *arena)
{
    arena->blocks = NULL;
    arena->scratch = arena->next = NULL;
}

void arena_finish(struct arena *arena)
{
    for (; arena->scratch != NULL; arena->scratch = arena->scratch->next)
        arena_finish(arena->scratch);
    while (arena->blocks != NULL) {
        struct arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

void arena_clear(struct arena *arena)
{
    struct arena_block *open = arena->blocks;
    if (open == NULL)
        return;
    arena->blocks = open->next;
    arena_finish(arena);
    memset(open->bytes, 0, open->used);
    open->used = 0;
    open->next = NULL;
    arena->blocks = open;
}

static struct arena_block *add_block(struct arena *arena, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct arena_block *block = calloc(1, sizeof(*block) + size);
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
    size_t larger = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = arena_alloc(arena, larger, size);
    if (count > 0)
        memcpy(grown, items, count * size);
    *capacity = larger;
    return grown;
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
