/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/pieces.h"

#include <stdlib.h>
#include <unistd.h>

#include "routing/overlay.h"
#include "routing/spread.h"

/** Cells of one new variant of a type. */
struct variant_cells {
    uint32_t count;
    struct route_cell *cells;
};

/** A box of a holding that no cell covers; false when all is covered. Cells are disjoint. */
static bool find_gap(struct arena *arena, const struct box *want, const struct variant_cells *cells,
                     struct box *gap_out)
{
    VEC(struct box) left = {0};
    *VEC_PUSH(arena, &left) = *want;
    for (uint32_t c = 0; c < cells->count; c++) {
        for (size_t l = left.count; l-- > 0;) {
            struct box common, rest[BOX_MAX_PARTS], whole = left.items[l];
            if (!box_intersect(&whole, &cells->cells[c].box, &common))
                continue;
            left.items[l] = left.items[--left.count];
            uint32_t count = box_subtract(&whole, &common, rest);
            for (uint32_t i = 0; i < count; i++)
                *VEC_PUSH(arena, &left) = rest[i];
        }
    }
    if (left.count > 0)
        *gap_out = left.items[0];
    return left.count > 0;
}

static enum shunt_status refuse_gap(struct arena *arena, const struct route *route, const struct route_type *type,
                                    const struct placement_variant *want, const struct variant_cells *cells,
                                    struct shunt_err *err)
{
    const struct space_item *item = &route->space->items[type->items[0]];
    char text[SHUNT_MAX_DIMS * 48] = "";
    struct box gap;
    for (uint32_t h = 0; h < want->holding_count && text[0] == '\0'; h++) {
        if (find_gap(arena, &want->holdings[h].box, cells, &gap))
            box_print(&gap, text, sizeof(text));
    }
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s: found no rank that holds %s of %s %s, expected one: new rank %u of %s "
                      "needs it",
                      route->from->layout->path, shunt_state_name(item->state),
                      space_tensor_name(arena, &route->space->families[item->family], item->layer, item->expert), text,
                      want->ranks[0], route->to->layout->path);
}

static enum shunt_status check_cover(struct arena *arena, const struct route *route, const struct route_type *type,
                                     uint32_t variant, const struct variant_cells *cells, struct shunt_err *err)
{
    const struct placement_variant *want = &route_to(route, type)->variants[variant];
    int64_t wanted = 0, found = 0;
    for (uint32_t h = 0; h < want->holding_count; h++)
        wanted += box_volume(&want->holdings[h].box);
    for (uint32_t c = 0; c < cells->count; c++)
        found += cells->cells[c].elements;
    return wanted == found ? SHUNT_OK : refuse_gap(arena, route, type, want, cells, err);
}

/** Intersect all variants of a type. */
static enum shunt_status intersect(struct arena *arena, const struct route *route, struct route_type *type,
                                   struct variant_cells **cells_out, struct shunt_err *err)
{
    const struct placement *from = route_from(route, type), *to = route_to(route, type);
    const struct placement *fresh = route_fresh(route, type);
    struct variant_cells *all = ARENA_NEW(arena, struct variant_cells, to->variant_count);
    struct overlay overlay, made;
    overlay_init(arena, from, &overlay);
    if (fresh != NULL)
        overlay_init(arena, fresh, &made);
    for (uint32_t v = 0; v < to->variant_count; v++) {
        cell_list cells = {0};
        for (uint32_t h = 0; h < to->variants[v].holding_count; h++) {
            size_t begin = cells.count;
            overlay_holding(arena, &overlay, to, v, h, &cells);
            if (fresh != NULL)
                overlay_fresh(arena, &made, &to->variants[v].holdings[h].box, begin, &cells);
        }
        all[v].count = (uint32_t)cells.count;
        all[v].cells = cells.items;
        for (size_t c = 0; c < cells.count; c++)
            cells.items[c].number = type->cell_count++;
        enum shunt_status status = check_cover(arena, route, type, v, &all[v], err);
        if (status != SHUNT_OK)
            return status;
    }
    *cells_out = all;
    return SHUNT_OK;
}

static int compare_members(const void *a, const void *b)
{
    const struct route_member *x = a, *y = b;
    return (x->device > y->device) - (x->device < y->device);
}

/** Devices of a placement, ascending. */
static struct route_member *list_members(struct arena *arena, const uint32_t *device_of,
                                         const struct placement *placement, uint32_t *count_out)
{
    *count_out = placement == NULL ? 0 : placement->member_count;
    struct route_member *members = ARENA_NEW(arena, struct route_member, *count_out);
    for (uint32_t m = 0; m < *count_out; m++)
        members[m] = (struct route_member){.device = device_of[placement->members[m].rank],
                                           .variant = placement->members[m].variant};
    if (*count_out > 0)
        qsort(members, *count_out, sizeof(*members), compare_members);
    return members;
}

static void list_givers(struct arena *arena, const struct route *route, struct route_type *type)
{
    const uint32_t *device_of = route->world->from_device;
    type->givers = list_members(arena, device_of, route_from(route, type), &type->giver_count);
    type->owners = type->givers;
    type->owner_count = type->giver_count;
    if (type->key.derived)
        type->owners = list_members(arena, device_of, route_own(route, type), &type->owner_count);
}

/** Both lists ascend by device: one walk finds the devices on both and marks what they keep. */
static void mark_kept(const struct route *route, struct route_type *type)
{
    const struct placement *from = route_from(route, type), *to = route_to(route, type);
    uint32_t g = 0;
    for (uint32_t t = 0; t < type->taker_count && !type->key.rewritten; t++) {
        struct route_member *taker = &type->takers[t];
        while (g < type->giver_count && type->givers[g].device < taker->device)
            g++;
        if (g == type->giver_count)
            return;
        struct route_member *giver = &type->givers[g];
        if (giver->device == taker->device &&
            placement_same_content(&from->variants[giver->variant], &to->variants[taker->variant]))
            taker->kept = giver->kept = true;
    }
}

/** Devices of every old variant, ascending; shared by all pieces of a type. */
static uint32_t **list_candidates(struct arena *arena, const struct route *route, const struct route_type *type,
                                  uint32_t **counts_out)
{
    uint32_t variants = route_from(route, type)->variant_count;
    uint32_t **lists = ARENA_NEW(arena, uint32_t *, variants);
    uint32_t *counts = ARENA_NEW(arena, uint32_t, variants);
    for (uint32_t g = 0; g < type->giver_count; g++)
        counts[type->givers[g].variant]++;
    for (uint32_t v = 0; v < variants; v++) {
        lists[v] = ARENA_NEW(arena, uint32_t, counts[v]);
        counts[v] = 0;
    }
    for (uint32_t g = 0; g < type->giver_count; g++) {
        uint32_t v = type->givers[g].variant;
        lists[v][counts[v]++] = type->givers[g].device;
    }
    *counts_out = counts;
    return lists;
}

static int compare_devices(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/** Devices that hold a cell, ascending: those of its variant, or merged from several. */
static uint32_t *cell_candidates(struct arena *arena, const struct route_cell *cell, uint32_t **by_variant,
                                 const uint32_t *counts, uint32_t *count_out)
{
    uint32_t total = 0;
    if (cell->holding_count == 1) {
        *count_out = counts[cell->holdings[0].variant];
        return by_variant[cell->holdings[0].variant];
    }
    for (uint32_t h = 0; h < cell->holding_count; h++)
        total += counts[cell->holdings[h].variant];
    uint32_t *merged = ARENA_NEW(arena, uint32_t, total);
    *count_out = 0;
    for (uint32_t h = 0; h < cell->holding_count; h++) {
        for (uint32_t i = 0; i < counts[cell->holdings[h].variant]; i++)
            merged[(*count_out)++] = by_variant[cell->holdings[h].variant][i];
    }
    qsort(merged, total, sizeof(*merged), compare_devices);
    return merged;
}

/** Whether a device has a cell before, in what is read; `giver` is what it is there, or NULL. */
static bool is_held(const struct route_cell *cell, const struct route_member *giver)
{
    return giver != NULL && route_find_holding(cell->holdings, cell->holding_count, giver->variant) != NULL;
}

/** Whether the new side of what the item is derived from covers a cell on the device. */
static bool is_fresh(const struct route *route, const struct placement *fresh, const struct route_cell *cell,
                     uint32_t device)
{
    if (fresh == NULL || cell->fresh_count == 0)
        return false;
    uint32_t variant = placement_variant_of(fresh, route->world->devices[device].to_rank);
    return variant != PLACEMENT_NO_VARIANT && route_find_holding(cell->fresh, cell->fresh_count, variant) != NULL;
}

static void list_pieces(struct arena *arena, const struct route *route, struct route_type *type,
                        const struct variant_cells *cells)
{
    uint32_t *counts;
    uint32_t **by_variant = list_candidates(arena, route, type, &counts);
    uint32_t **candidates = ARENA_NEW(arena, uint32_t *, type->cell_count);
    uint32_t *candidate_counts = ARENA_NEW(arena, uint32_t, type->cell_count);
    VEC(struct route_piece) pieces = {0};
    for (uint32_t t = 0; t < type->taker_count; t++) {
        const struct route_member *taker = &type->takers[t];
        if (taker->kept)
            continue;
        const struct route_member *giver = route_find_member(type->givers, type->giver_count, taker->device);
        for (uint32_t c = 0; c < cells[taker->variant].count; c++) {
            const struct route_cell *cell = &cells[taker->variant].cells[c];
            uint32_t n = cell->number;
            if (candidates[n] == NULL)
                candidates[n] = cell_candidates(arena, cell, by_variant, counts, &candidate_counts[n]);
            struct route_piece *piece = VEC_PUSH(arena, &pieces);
            piece->cell = cell;
            piece->taker = taker->device;
            if (is_held(cell, giver))
                continue;
            piece->fresh = is_fresh(route, route_fresh(route, type), cell, taker->device);
            if (piece->fresh)
                continue;
            piece->candidates = candidates[n];
            piece->candidate_count = candidate_counts[n];
        }
    }
    type->pieces = pieces.items;
    type->piece_count = (uint32_t)pieces.count;
}

/** Types by their keys, found through an open-addressing table. */
struct type_table {
    VEC(struct route_type) types;
    uint32_t *slots;   /* type + 1; 0: free */
    size_t slot_count; /* power of two, at least twice the number of items */
};

static struct route_key key_of(const struct route *route, uint32_t item)
{
    const struct space_item *record = &route->space->items[item];
    uint32_t read = record->derived_from;
    return (struct route_key){.from = route->from->item_placement[read],
                              .to = route->to->item_placement[item],
                              .own = route->from->item_placement[item],
                              .fresh = record->fresh ? route->to->item_placement[read] : SIDE_KEEPS_NONE,
                              .rewritten = space_is_rewritten(route->space, item) ||
                                           side_tier(route->from, item) != side_tier(route->to, item),
                              .derived = read != item};
}

static bool same_key(const struct route_key *a, const struct route_key *b)
{
    return a->from == b->from && a->to == b->to && a->own == b->own && a->fresh == b->fresh &&
           a->rewritten == b->rewritten && a->derived == b->derived;
}

static uint32_t find_type(struct arena *arena, struct type_table *table, const struct route_key *key)
{
    uint64_t hash = ((uint64_t)key->from << 32 | key->to) * UINT64_C(0x9e3779b97f4a7c15);
    size_t slot = (size_t)(hash >> 32) & (table->slot_count - 1);
    while (table->slots[slot] != 0) {
        if (same_key(&table->types.items[table->slots[slot] - 1].key, key))
            return table->slots[slot] - 1;
        slot = (slot + 1) & (table->slot_count - 1);
    }
    struct route_type *type = VEC_PUSH(arena, &table->types);
    type->key = *key;
    type->group = (uint32_t)table->types.count;
    table->slots[slot] = (uint32_t)table->types.count;
    return (uint32_t)table->types.count - 1;
}

static void group_items(struct arena *arena, struct route *route)
{
    const struct space *space = route->space;
    struct type_table table = {.slot_count = 16};
    while (table.slot_count < 2 * (size_t)space->item_count)
        table.slot_count *= 2;
    table.slots = ARENA_NEW(arena, uint32_t, table.slot_count);
    route->item_type = ARENA_NEW(arena, uint32_t, space->item_count);
    route->item_index = ARENA_NEW(arena, uint32_t, space->item_count);
    for (uint32_t i = 0; i < space->item_count; i++) {
        struct route_key key = key_of(route, i);
        uint32_t t = find_type(arena, &table, &key);
        route->item_type[i] = t;
        route->item_index[i] = table.types.items[t].item_count++;
        table.types.items[t].wire_bytes += space->items[i].wire_bytes;
        table.types.items[t].new_bytes += space->items[i].elem_bytes[SPACE_TO];
    }
    route->types = table.types.items;
    route->type_count = (uint32_t)table.types.count;
    for (uint32_t t = 0; t < route->type_count; t++)
        route->types[t].items = ARENA_NEW(arena, uint32_t, route->types[t].item_count);
    for (uint32_t i = 0; i < space->item_count; i++)
        route->types[route->item_type[i]].items[route->item_index[i]] = i;
}

/** Bytes of memory, about, that a piece of an item costs from here to the plan. */
#define BYTES_PER_PIECE 350u

uint64_t pieces_most = 0;

static uint64_t most_pieces(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pieces_most > 0 || pages <= 0 || page_bytes <= 0)
        return pieces_most > 0 ? pieces_most : UINT64_MAX;
    return (uint64_t)pages * (uint64_t)page_bytes / BYTES_PER_PIECE;
}

/** Many devices that each gather all from many: their number grows with the square, and would take all memory. */
static enum shunt_status count_pieces(const struct route *route, const struct route_type *type,
                                      const struct variant_cells *cells, uint64_t *count, struct shunt_err *err)
{
    uint64_t most = most_pieces();
    for (uint32_t t = 0; t < type->taker_count; t++) {
        if (!type->takers[t].kept)
            *count += (uint64_t)cells[type->takers[t].variant].count * type->item_count;
    }
    if (*count <= most)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                      "not supported: the ranks of %s put together what they need from at least %llu pieces of %s, "
                      "and the memory of this machine is enough to plan with %llu: a layout between the two has fewer",
                      route->to->layout->path, (unsigned long long)*count, route->from->layout->path,
                      (unsigned long long)most);
}

enum shunt_status pieces_build(struct arena *arena, struct route *route, struct shunt_err *err)
{
    struct spreader spreader;
    uint64_t count = 0;
    group_items(arena, route);
    spreader_init(arena, route->world->device_count, &spreader);
    for (uint32_t t = 0; t < route->type_count; t++) {
        struct route_type *type = &route->types[t];
        struct variant_cells *cells;
        list_givers(arena, route, type);
        if (type->key.to == SIDE_KEEPS_NONE)
            continue; /* dropped */
        enum shunt_status status = intersect(arena, route, type, &cells, err);
        if (status != SHUNT_OK)
            return status;
        type->takers = list_members(arena, route->world->to_device, route_to(route, type), &type->taker_count);
        mark_kept(route, type);
        status = count_pieces(route, type, cells, &count, err);
        if (status != SHUNT_OK)
            return status;
        list_pieces(arena, route, type, cells);
        spread_pieces(arena, &spreader, type);
    }
    return SHUNT_OK;
}
