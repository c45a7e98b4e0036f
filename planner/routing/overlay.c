/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/overlay.h"

#include <string.h>

typedef VEC(struct box) box_list;

static const struct route_origin *add_origin(struct arena *arena, const struct route_cell *cell,
                                             struct route_origin origin)
{
    struct route_origin *origins = ARENA_NEW(arena, struct route_origin, cell->origin_count + 1);
    if (cell->origin_count > 0)
        memcpy(origins, cell->origins, cell->origin_count * sizeof(*origins));
    origins[cell->origin_count] = origin;
    return origins;
}

/** Cut cell c along `common`, which lies in it; the common part also comes from `origin`. */
static void split_cell(struct arena *arena, cell_list *cells, size_t c, const struct box *common,
                       struct route_origin origin)
{
    struct box rest[BOX_MAX_PARTS];
    uint32_t count = box_subtract(&cells->items[c].box, common, rest);
    for (uint32_t i = 0; i < count; i++) {
        struct route_cell part = cells->items[c];
        part.box = rest[i];
        part.elements = box_volume(&rest[i]);
        *VEC_PUSH(arena, cells) = part;
    }
    struct route_cell *cell = &cells->items[c];
    cell->box = *common;
    cell->elements = box_volume(common);
    cell->origins = add_origin(arena, cell, origin);
    cell->origin_count++;
}

/** Overlap of the pending boxes with cell c: splits the cell, and takes the overlap out of the pending ones. */
static void meet_cell(struct arena *arena, cell_list *cells, size_t c, box_list *pending, struct route_origin origin)
{
    for (size_t p = 0; p < pending->count; p++) {
        struct box common, rest[BOX_MAX_PARTS], whole = pending->items[p];
        if (!box_intersect(&whole, &cells->items[c].box, &common))
            continue;
        split_cell(arena, cells, c, &common, origin);
        pending->items[p] = pending->items[--pending->count];
        uint32_t count = box_subtract(&whole, &common, rest);
        for (uint32_t i = 0; i < count; i++)
            *VEC_PUSH(arena, pending) = rest[i];
        return; /* the cell is now exactly the common part: no other pending box meets it */
    }
}

static void push_cell(struct arena *arena, cell_list *cells, const struct box *box, struct route_origin origin,
                      const struct route_cell *model)
{
    struct route_cell *cell = VEC_PUSH(arena, cells);
    *cell = *model;
    cell->box = *box;
    cell->elements = box_volume(box);
    cell->origins = add_origin(arena, cell, origin);
    cell->origin_count = 1;
}

static bool meets_any(const cell_list *cells, size_t begin, const struct box *box)
{
    struct box common;
    for (size_t c = begin; c < cells->count; c++) {
        if (box_intersect(box, &cells->items[c].box, &common))
            return true;
    }
    return false;
}

static void add_old_holding(struct arena *arena, cell_list *cells, size_t begin, const struct box *box,
                            struct route_origin origin, const struct route_cell *model)
{
    if (!meets_any(cells, begin, box)) {
        push_cell(arena, cells, box, origin, model);
        return;
    }
    box_list pending = {0};
    *VEC_PUSH(arena, &pending) = *box;
    /* cells split off on the way stand behind, and are visited too */
    for (size_t c = begin; c < cells->count && pending.count > 0; c++)
        meet_cell(arena, cells, c, &pending, origin);
    for (size_t p = 0; p < pending.count; p++)
        push_cell(arena, cells, &pending.items[p], origin, model);
}

void overlay_holding(struct arena *arena, const struct placement *from, const struct placement *to, uint32_t to_variant,
                     uint32_t to_holding, cell_list *cells)
{
    const struct box *want = &to->variants[to_variant].holdings[to_holding].box;
    const struct route_cell model = {.to_variant = to_variant, .to_holding = to_holding};
    size_t begin = cells->count;
    for (uint32_t v = 0; v < from->variant_count; v++) {
        for (uint32_t h = 0; h < from->variants[v].holding_count; h++) {
            struct box box;
            if (box_intersect(&from->variants[v].holdings[h].box, want, &box))
                add_old_holding(arena, cells, begin, &box, (struct route_origin){.variant = v, .holding = h}, &model);
        }
    }
}
