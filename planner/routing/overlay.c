/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/overlay.h"

#include <stdlib.h>
#include <string.h>

typedef VEC(struct box) box_list;

static const struct route_holding *add_holding(struct arena *arena, const struct route_holding *before, uint32_t count,
                                               struct route_holding holding)
{
    struct route_holding *holdings = ARENA_NEW(arena, struct route_holding, count + 1);
    if (count > 0)
        memcpy(holdings, before, count * sizeof(*holdings));
    holdings[count] = holding;
    return holdings;
}

/** Cut cell c along `common`, which lies in it and becomes the cell; the rest is appended. */
static struct route_cell *cut_cell(struct arena *arena, cell_list *cells, size_t c, const struct box *common)
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
    return cell;
}

/** Cut cell c along `common`, which lies in it; the common part also comes from `holding`. */
static void split_cell(struct arena *arena, cell_list *cells, size_t c, const struct box *common,
                       struct route_holding holding)
{
    struct route_cell *cell = cut_cell(arena, cells, c, common);
    cell->holdings = add_holding(arena, cell->holdings, cell->holding_count, holding);
    cell->holding_count++;
}

static void cut_fresh(struct arena *arena, const struct box *box, struct route_holding holding, size_t begin,
                      cell_list *cells)
{
    struct box common;
    /* what is cut off on the way stands behind, and does not meet the box */
    for (size_t c = begin; c < cells->count; c++) {
        if (!box_intersect(box, &cells->items[c].box, &common))
            continue;
        struct route_cell *cell = cut_cell(arena, cells, c, &common);
        cell->fresh = add_holding(arena, cell->fresh, cell->fresh_count, holding);
        cell->fresh_count++;
    }
}

/** Overlap of the pending boxes with cell c: splits the cell, and takes the overlap out of the pending ones. */
static void meet_cell(struct arena *arena, cell_list *cells, size_t c, box_list *pending, struct route_holding holding)
{
    for (size_t p = 0; p < pending->count; p++) {
        struct box common, rest[BOX_MAX_PARTS], whole = pending->items[p];
        if (!box_intersect(&whole, &cells->items[c].box, &common))
            continue;
        split_cell(arena, cells, c, &common, holding);
        pending->items[p] = pending->items[--pending->count];
        uint32_t count = box_subtract(&whole, &common, rest);
        for (uint32_t i = 0; i < count; i++)
            *VEC_PUSH(arena, pending) = rest[i];
        return; /* the cell is now exactly the common part: no other pending box meets it */
    }
}

static void push_cell(struct arena *arena, cell_list *cells, const struct box *box, struct route_holding holding,
                      const struct route_cell *model)
{
    struct route_cell *cell = VEC_PUSH(arena, cells);
    *cell = *model;
    cell->box = *box;
    cell->elements = box_volume(box);
    cell->holdings = add_holding(arena, NULL, 0, holding);
    cell->holding_count = 1;
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

static void add_old_holding(struct arena *arena, const struct overlay *overlay, cell_list *cells, size_t begin,
                            const struct box *box, struct route_holding holding, const struct route_cell *model)
{
    if (overlay->apart || !meets_any(cells, begin, box)) {
        push_cell(arena, cells, box, holding, model);
        return;
    }
    box_list pending = {0};
    *VEC_PUSH(arena, &pending) = *box;
    /* cells split off on the way stand behind, and are visited too */
    for (size_t c = begin; c < cells->count && pending.count > 0; c++)
        meet_cell(arena, cells, c, &pending, holding);
    for (size_t p = 0; p < pending.count; p++)
        push_cell(arena, cells, &pending.items[p], holding, model);
}

/* ---- which holdings a new one meets ------------------------------------------ */

struct overlay_entry {
    int64_t lo, hi;
    int64_t reach;   /* largest hi up to here */
    uint32_t number; /* in the order of variants and holdings */
    struct route_holding holding;
};

static const struct box *entry_box(const struct overlay *overlay, const struct overlay_entry *entry)
{
    return &overlay->from->variants[entry->holding.variant].holdings[entry->holding.index].box;
}

static int compare_bounds(const void *a, const void *b)
{
    const struct overlay_entry *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int compare_numbers(const void *a, const void *b)
{
    const struct overlay_entry *x = *(struct overlay_entry *const *)a, *y = *(struct overlay_entry *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

/** The dimension along which the holdings are shortest beside the extent that they cover. */
static uint32_t choose_dimension(const struct overlay *overlay)
{
    uint32_t best = 0, ndim = entry_box(overlay, &overlay->entries[0])->ndim;
    double least = 0;
    for (uint32_t d = 0; d < ndim; d++) {
        double length = 0, extent = 1;
        for (uint32_t e = 0; e < overlay->count; e++) {
            const struct box *box = entry_box(overlay, &overlay->entries[e]);
            length += (double)(box->hi[d] - box->lo[d]);
            extent = (double)box->hi[d] > extent ? (double)box->hi[d] : extent;
        }
        if (d == 0 || length / extent < least) {
            best = d;
            least = length / extent;
        }
    }
    return best;
}

/** Boxes compared per holding, on average, before giving up the proof that they are disjoint. */
#define PATIENCE 64u

static bool prove_apart(const struct overlay *overlay)
{
    uint64_t left = (uint64_t)PATIENCE * overlay->count;
    for (uint32_t e = 0; e < overlay->count; e++) {
        const struct overlay_entry *entry = &overlay->entries[e];
        for (uint32_t i = e; i-- > 0 && overlay->entries[i].reach > entry->lo;) {
            struct box common;
            if (left-- == 0 ||
                box_intersect(entry_box(overlay, &overlay->entries[i]), entry_box(overlay, entry), &common))
                return false;
        }
    }
    return true;
}

void overlay_init(struct arena *arena, const struct placement *from, struct overlay *overlay_out)
{
    struct overlay overlay = {.from = from};
    for (uint32_t v = 0; v < from->variant_count; v++)
        overlay.count += from->variants[v].holding_count;
    overlay.entries = ARENA_NEW(arena, struct overlay_entry, overlay.count);
    uint32_t n = 0;
    for (uint32_t v = 0; v < from->variant_count; v++) {
        for (uint32_t h = 0; h < from->variants[v].holding_count; h++, n++)
            overlay.entries[n] =
                (struct overlay_entry){.number = n, .holding = (struct route_holding){.variant = v, .index = h}};
    }
    if (n > 0)
        overlay.dim = choose_dimension(&overlay);
    for (uint32_t e = 0; e < n; e++) {
        overlay.entries[e].lo = entry_box(&overlay, &overlay.entries[e])->lo[overlay.dim];
        overlay.entries[e].hi = entry_box(&overlay, &overlay.entries[e])->hi[overlay.dim];
    }
    if (n > 1)
        qsort(overlay.entries, n, sizeof(*overlay.entries), compare_bounds);
    for (uint32_t e = 0; e < n; e++) {
        int64_t before = e > 0 ? overlay.entries[e - 1].reach : 0;
        overlay.entries[e].reach = overlay.entries[e].hi > before ? overlay.entries[e].hi : before;
    }
    overlay.apart = prove_apart(&overlay);
    *overlay_out = overlay;
}

/** List the holdings that may meet a box, in the order of variants and holdings. */
static void find_entries(struct arena *arena, struct overlay *overlay, const struct box *want)
{
    overlay->found.count = 0;
    uint32_t lo = 0, hi = overlay->count;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (overlay->entries[middle].lo < want->hi[overlay->dim])
            lo = middle + 1;
        else
            hi = middle;
    }
    for (uint32_t e = lo; e-- > 0 && overlay->entries[e].reach > want->lo[overlay->dim];) {
        if (overlay->entries[e].hi > want->lo[overlay->dim])
            *VEC_PUSH(arena, &overlay->found) = &overlay->entries[e];
    }
    if (overlay->found.count > 1)
        qsort(overlay->found.items, overlay->found.count, sizeof(*overlay->found.items), compare_numbers);
}

void overlay_holding(struct arena *arena, struct overlay *overlay, const struct placement *to, uint32_t to_variant,
                     uint32_t to_holding, cell_list *cells)
{
    const struct box *want = &to->variants[to_variant].holdings[to_holding].box;
    const struct route_cell model = {.to_variant = to_variant, .to_holding = to_holding};
    size_t begin = cells->count;
    find_entries(arena, overlay, want);
    for (size_t e = 0; e < overlay->found.count; e++) {
        struct box box;
        if (box_intersect(entry_box(overlay, overlay->found.items[e]), want, &box))
            add_old_holding(arena, overlay, cells, begin, &box, overlay->found.items[e]->holding, &model);
    }
}

void overlay_fresh(struct arena *arena, struct overlay *fresh, const struct box *want, size_t begin, cell_list *cells)
{
    find_entries(arena, fresh, want);
    for (size_t e = 0; e < fresh->found.count; e++)
        cut_fresh(arena, entry_box(fresh, fresh->found.items[e]), fresh->found.items[e]->holding, begin, cells);
}
