/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ARENA_H
#define SHUNT_PLANNER_ARENA_H

/**
 * All memory of a compile comes from one arena and goes with it: no stage frees anything.
 * An allocation that fails jumps to the point set with ARENA_TRY, so that stages need no
 * checks of their own:
 *
 *     struct arena arena;
 *     arena_init(&arena);
 *     if (setjmp(arena.on_failure) == 0)
 *         status = work(&arena);
 *     else
 *         status = SHUNT_ERR_NOMEM;
 *     arena_finish(&arena);
 */

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
    struct arena_block *blocks;
    struct arena *scratch, *next; /* arenas of work that is under way with this one, and the next one of its own list */
    jmp_buf on_failure;
};

void arena_init(struct arena *arena);
/** Give everything back. */
void arena_finish(struct arena *arena);
/** Empty it, and keep a block for what comes next; no work may be under way with it. */
void arena_clear(struct arena *arena);

/** count * size zeroed bytes, 16-byte aligned; never NULL. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);
char *arena_strdup(struct arena *arena, const char *text);

/**
 * Do some work with an arena of its own, which is given back behind it, or with `arena` when an allocation fails: one
 * that fails in there fails in `arena`.
 */
void arena_with_scratch(struct arena *arena, void (*work)(struct arena *scratch, void *context), void *context);

/** Typed allocation of an array. */
#define ARENA_NEW(arena, type, count) ((type *)arena_alloc((arena), (count), sizeof(type)))

/** Growing array: the header of every VEC(type). */
#define VEC(type)                                                                                                      \
    struct {                                                                                                           \
        type *items;                                                                                                   \
        size_t count, capacity;                                                                                        \
    }

/** Make room for one more item and return its address; the item is zero. */
#define VEC_PUSH(arena, vec)                                                                                           \
    ((vec)->items = (vec)->count < (vec)->capacity                                                                     \
                        ? (vec)->items                                                                                 \
                        : vec_grow((arena), (vec)->items, &(vec)->capacity, (vec)->count, sizeof(*(vec)->items)),      \
     (vec)->count++, &(vec)->items[(vec)->count - 1])

void *vec_grow(struct arena *arena, void *items, size_t *capacity, size_t count, size_t size);

/** The same for a vector that gets large, and into which nothing points: it leaves nothing behind where it grows. */
#define VEC_EXTEND(arena, vec)                                                                                         \
    ((vec)->items = (vec)->count < (vec)->capacity                                                                     \
                        ? (vec)->items                                                                                 \
                        : vec_stretch((arena), (vec)->items, &(vec)->capacity, (vec)->count, sizeof(*(vec)->items)),   \
     (vec)->count++, &(vec)->items[(vec)->count - 1])

void *vec_stretch(struct arena *arena, void *items, size_t *capacity, size_t count, size_t size);

#endif
