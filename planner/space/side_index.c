/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "space/side.h"

/* Beginnings are counted two places on, so that filling leaves every one in its place. */

static void index_ranks(struct arena *arena, const struct side *side, struct side_index *index)
{
    uint32_t ranks = side->grid.rank_count;
    index->rank_begin = ARENA_NEW(arena, size_t, (size_t)ranks + 2);
    for (uint32_t p = 0; p < side->placement_count; p++) {
        for (uint32_t m = 0; m < side->placements[p].member_count; m++)
            index->rank_begin[side->placements[p].members[m].rank + 2]++;
    }
    for (uint32_t r = 2; r <= ranks + 1; r++)
        index->rank_begin[r] += index->rank_begin[r - 1];
    index->rank_placement = ARENA_NEW(arena, uint32_t, index->rank_begin[ranks + 1]);
    for (uint32_t p = 0; p < side->placement_count; p++) {
        for (uint32_t m = 0; m < side->placements[p].member_count; m++)
            index->rank_placement[index->rank_begin[side->placements[p].members[m].rank + 1]++] = p;
    }
}

static void index_items(struct arena *arena, const struct side *side, struct side_index *index)
{
    index->placement_begin = ARENA_NEW(arena, uint32_t, (size_t)side->placement_count + 2);
    index->placement_item = ARENA_NEW(arena, uint32_t, side->space->item_count);
    for (uint32_t i = 0; i < side->space->item_count; i++) {
        if (side_keeps(side, i))
            index->placement_begin[side->item_placement[i] + 2]++;
    }
    for (uint32_t p = 2; p <= side->placement_count + 1; p++)
        index->placement_begin[p] += index->placement_begin[p - 1];
    for (uint32_t i = 0; i < side->space->item_count; i++) {
        if (side_keeps(side, i))
            index->placement_item[index->placement_begin[side->item_placement[i] + 1]++] = i;
    }
}

void side_index_build(struct arena *arena, struct side *side)
{
    index_ranks(arena, side, &side->index);
    index_items(arena, side, &side->index);
}

static int compare_items(const void *a, const void *b)
{
    const struct side_item *x = a, *y = b;
    return (x->item > y->item) - (x->item < y->item);
}

void side_list(struct arena *arena, const struct side *side, uint32_t rank, side_items *list)
{
    const struct side_index *index = &side->index;
    for (size_t n = index->rank_begin[rank]; n < index->rank_begin[rank + 1]; n++) {
        uint32_t p = index->rank_placement[n];
        const struct placement *placement = &side->placements[p];
        const struct placement_variant *variant = &placement->variants[placement_variant_of(placement, rank)];
        for (uint32_t i = index->placement_begin[p]; i < index->placement_begin[p + 1]; i++)
            *VEC_PUSH(arena, list) = (struct side_item){.item = index->placement_item[i], .variant = variant};
    }
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), compare_items);
}
