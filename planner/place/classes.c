/* SPDX-License-Identifier: Apache-2.0 */
#include "place/classes.h"

#include <stdlib.h>
#include <string.h>

/* ---- ranks ------------------------------------------------------------------------- */

/** New classes of a placement's members, by old class and variant: an open-addressing table. */
struct split_slot {
    uint32_t before, variant;
    uint32_t after; /* 0: free */
};

static uint32_t split(struct split_slot *slots, size_t slot_count, uint32_t before, uint32_t variant, uint32_t *next)
{
    uint64_t hash = ((uint64_t)before << 32 | variant) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (slot_count - 1);
    while (slots[at].after != 0 && (slots[at].before != before || slots[at].variant != variant))
        at = (at + 1) & (slot_count - 1);
    if (slots[at].after == 0)
        slots[at] = (struct split_slot){before, variant, (*next)++};
    return slots[at].after;
}

struct refining {
    const struct side *side;
    uint32_t *class_of; /* after every placement: equal exactly if all placements so far are */
    uint32_t count;
};

static void number_classes(struct arena *arena, struct refining *refining, uint32_t next)
{
    uint32_t *number = ARENA_NEW(arena, uint32_t, next); /* + 1; 0: not met */
    for (uint32_t r = 0; r < refining->side->grid.rank_count; r++) {
        uint32_t *own = &number[refining->class_of[r]];
        if (*own == 0)
            *own = ++refining->count;
        refining->class_of[r] = *own - 1;
    }
}

static void refine(struct arena *scratch, void *context)
{
    struct refining *refining = context;
    const struct side *side = refining->side;
    size_t slot_count = 16;
    uint32_t next = 1;
    while (slot_count < 2 * (size_t)side->grid.rank_count)
        slot_count *= 2;
    struct split_slot *slots = ARENA_NEW(scratch, struct split_slot, slot_count);
    for (uint32_t p = 0; p < side->placement_count; p++) {
        const struct placement *placement = &side->placements[p];
        size_t used = 16;
        while (used < 2 * (size_t)placement->member_count)
            used *= 2;
        memset(slots, 0, used * sizeof(*slots));
        if (next > UINT32_MAX / 2) { /* start again from small numbers */
            refining->count = 0;
            number_classes(scratch, refining, next);
            next = refining->count + 1;
        }
        for (uint32_t m = 0; m < placement->member_count; m++) {
            uint32_t *own = &refining->class_of[placement->members[m].rank];
            *own = split(slots, used, *own, placement->members[m].variant, &next);
        }
    }
    refining->count = 0;
    number_classes(scratch, refining, next);
}

uint32_t classes_of_ranks(struct arena *arena, const struct side *side, uint32_t *class_out)
{
    struct refining refining = {.side = side, .class_of = class_out};
    memset(class_out, 0, side->grid.rank_count * sizeof(*class_out));
    arena_with_scratch(arena, refine, &refining);
    return refining.count;
}

/* ---- rows of a table --------------------------------------------------------------- */

struct table {
    const uint32_t *rows;
    uint32_t width;
};

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct table *table = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const uint32_t *row_x = table->rows + (size_t)x * table->width, *row_y = table->rows + (size_t)y * table->width;
    for (uint32_t i = 0; i < table->width; i++) {
        if (row_x[i] != row_y[i])
            return row_x[i] < row_y[i] ? -1 : 1;
    }
    return (x > y) - (x < y);
}

uint32_t classes_of_rows(struct arena *arena, uint32_t count, uint32_t width, const uint32_t *table,
                         uint32_t *class_out)
{
    struct table all = {table, width};
    uint32_t *order = ARENA_NEW(arena, uint32_t, count), *first = ARENA_NEW(arena, uint32_t, count), classes = 0;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    if (count > 1)
        qsort_r(order, count, sizeof(*order), compare_rows, &all);
    for (uint32_t i = 0; i < count; i++) { /* of equal rows, the first one stands in front */
        bool same = i > 0 && memcmp(table + (size_t)order[i] * width, table + (size_t)order[i - 1] * width,
                                    width * sizeof(*table)) == 0;
        first[order[i]] = same ? first[order[i - 1]] : order[i];
    }
    for (uint32_t i = 0; i < count; i++)
        class_out[i] = first[i] == i ? classes++ : class_out[first[i]];
    return classes;
}

/* ---- index ------------------------------------------------------------------------- */

struct class_index classes_index(struct arena *arena, uint32_t class_count, uint32_t count, const uint32_t *class_of)
{
    struct class_index index = {ARENA_NEW(arena, uint32_t, (size_t)class_count + 2), ARENA_NEW(arena, uint32_t, count)};
    for (uint32_t i = 0; i < count; i++)
        index.begin[class_of[i] + 2]++; /* two places on, so that filling leaves every one in its place */
    for (uint32_t c = 2; c <= class_count + 1; c++)
        index.begin[c] += index.begin[c - 1];
    for (uint32_t i = 0; i < count; i++)
        index.members[index.begin[class_of[i] + 1]++] = i;
    return index;
}
