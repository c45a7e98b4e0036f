/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/cells.h"

struct cells cells_index(struct arena *arena, const struct route_type *type)
{
    struct cells cells = {.begin = ARENA_NEW(arena, uint32_t, (size_t)type->cell_count + 2),
                          .pieces = ARENA_NEW(arena, uint32_t, type->piece_count)};
    uint32_t *next = cells.begin + 1; /* where the next piece of a cell goes; in the end, where the next cell begins */
    for (uint32_t p = 0; p < type->piece_count; p++)
        next[type->pieces[p].cell->number + 1]++;
    for (uint32_t c = 1; c <= type->cell_count; c++)
        next[c] += next[c - 1];
    for (uint32_t p = 0; p < type->piece_count; p++) /* pieces ascend by taker */
        cells.pieces[next[type->pieces[p].cell->number]++] = p;
    return cells;
}
