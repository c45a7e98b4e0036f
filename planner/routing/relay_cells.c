/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/relay_cells.h"

#include "routing/spread.h"

#define MOST_PARTS  64u
#define LEAST_BYTES UINT64_C(65536) /* of a part */

/** Whether the piece's taker gets it from another device. */
static bool is_remote(const struct route_piece *piece)
{
    return piece->candidate_count > 0;
}

static bool is_held_in(const struct world *world, const struct route_piece *piece, uint32_t node)
{
    for (uint32_t i = 0; i < piece->candidate_count; i++) {
        if (world->devices[piece->candidates[i]].node == node)
            return true;
    }
    return false;
}

static enum relay_run_kind kind_of(const struct world *world, const struct route_type *type,
                                   const struct relay_run *run)
{
    bool made = false;
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &type->pieces[run->pieces[i]];
        made = made || piece->fresh;
        if (!is_remote(piece) && !piece->fresh)
            return RELAY_HELD;
    }
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &type->pieces[run->pieces[i]];
        if (is_remote(piece)) /* all of them know the same holders */
            return is_held_in(world, piece, world->devices[piece->taker].node) ? RELAY_HELD
                   : made                                                      ? RELAY_MADE
                                                                               : RELAY_NEEDY;
    }
    return RELAY_MADE;
}

uint32_t relay_list_runs(const struct world *world, const struct route_type *type, const uint32_t *pieces,
                         uint32_t count, struct relay_run *runs_out)
{
    uint32_t runs = 0;
    for (uint32_t begin = 0, end = 0; begin < count; begin = end) {
        uint32_t node = world->devices[type->pieces[pieces[begin]].taker].node;
        while (end < count && world->devices[type->pieces[pieces[end]].taker].node == node)
            end++;
        struct relay_run *run = &runs_out[runs++];
        *run = (struct relay_run){.pieces = &pieces[begin], .count = end - begin};
        run->kind = kind_of(world, type, run);
    }
    return runs;
}

bool relay_can_forward(const struct route *route, uint32_t item)
{
    const struct space_item *record = &route->space->items[item];
    return side_keeps(route->to, item) && record->wire_bytes == record->elem_bytes[SPACE_TO] &&
           side_tier(route->to, item) != CFG_TIER_HOST;
}

/** Widest item of a type that may be sent on, in bytes of an element; 0: there is none. */
static uint32_t widest_item(const struct route *route, const struct route_type *type)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < type->item_count; i++) {
        uint32_t bytes = route->space->items[type->items[i]].wire_bytes;
        if (relay_can_forward(route, type->items[i]) && bytes > widest)
            widest = bytes;
    }
    return widest;
}

/** Parts that a cell must be cut into, in multiples of its takers in a node; 0: its pieces cannot come from each other. */
static uint32_t count_parts(const struct relay_run *runs, uint32_t run_count, uint64_t bytes, uint64_t part_bytes)
{
    uint32_t needy = 0, most = 0;
    bool made = false;
    for (uint32_t r = 0; r < run_count; r++) {
        needy += runs[r].kind == RELAY_NEEDY;
        most = runs[r].kind == RELAY_NEEDY && runs[r].count > most ? runs[r].count : most;
        made = made || (runs[r].kind == RELAY_MADE && runs[r].count > 1);
    }
    if (needy < 2 && most < 2)
        return made ? 1 : 0;
    uint32_t step = most > 1 ? most : needy;
    uint64_t parts = (bytes + part_bytes - 1) / part_bytes;
    if (parts <= 1)
        return 1;
    parts = (parts + step - 1) / step * step;
    parts = parts > MOST_PARTS ? MOST_PARTS : parts;
    return parts * LEAST_BYTES > bytes ? 1 : (uint32_t)parts;
}

/** What has become of a cell. */
struct cut_cell {
    uint32_t count; /* of parts */
    struct route_cell *parts;
    bool joined;
};

static struct cut_cell cut_cell(struct arena *arena, struct route_type *type, const struct route_cell *cell,
                                uint32_t parts)
{
    struct cut_cell cut = {.parts = ARENA_NEW(arena, struct route_cell, parts > 0 ? parts : 1), .joined = parts > 0};
    for (uint32_t i = 0; i == 0 || i < parts; i++) {
        struct route_cell part = *cell;
        if (parts > 1)
            part.box = box_slice(&cell->box, i, parts);
        part.elements = box_volume(&part.box);
        part.number = type->cell_count;
        if (part.elements == 0)
            continue;
        cut.parts[cut.count++] = part;
        type->cell_count++;
    }
    return cut;
}

/** What all types share. */
struct cutter {
    struct route *route;
    uint64_t part_bytes;
    struct relay_run *runs; /* of the cell at hand */
};

/** Parts of all cells that must be sent, as count_parts has them. @return false: none can be sent on */
static bool count_all_parts(const struct cutter *cutter, const struct route_type *type, const struct cells *cells,
                            uint32_t *parts_out)
{
    uint32_t widest = widest_item(cutter->route, type);
    bool any = false;
    for (uint32_t c = 0; c < type->cell_count && widest > 0; c++) {
        const uint32_t *of_cell = &cells->pieces[cells->begin[c]];
        uint32_t count = cells->begin[c + 1] - cells->begin[c];
        if (count == 0)
            continue;
        uint32_t run_count = relay_list_runs(cutter->route->world, type, of_cell, count, cutter->runs);
        uint64_t bytes = (uint64_t)type->pieces[of_cell[0]].cell->elements * widest;
        parts_out[c] = count_parts(cutter->runs, run_count, bytes, cutter->part_bytes);
        any = any || parts_out[c] > 0;
    }
    return any;
}

/** @return false when the type is left as it was: its pieces cannot come from each other */
static bool cut_type(struct arena *arena, const struct cutter *cutter, struct route_type *type)
{
    const struct route_type whole = *type;
    const struct cells cells = cells_index(arena, &whole);
    uint32_t *parts = ARENA_NEW(arena, uint32_t, whole.cell_count);
    VEC(struct route_piece) pieces = {0};
    if (!count_all_parts(cutter, &whole, &cells, parts))
        return false;
    struct cut_cell *cuts = ARENA_NEW(arena, struct cut_cell, whole.cell_count);
    type->cell_count = 0;
    for (uint32_t c = 0; c < whole.cell_count; c++) {
        if (cells.begin[c] < cells.begin[c + 1])
            cuts[c] = cut_cell(arena, type, whole.pieces[cells.pieces[cells.begin[c]]].cell, parts[c]);
    }
    for (uint32_t p = 0; p < whole.piece_count; p++) {
        const struct cut_cell *cut = &cuts[whole.pieces[p].cell->number];
        for (uint32_t i = 0; i < cut->count; i++) {
            struct route_piece *piece = VEC_PUSH(arena, &pieces);
            *piece = whole.pieces[p];
            piece->cell = &cut->parts[i];
            piece->joined = cut->joined;
        }
    }
    type->pieces = pieces.items;
    type->piece_count = (uint32_t)pieces.count;
    return true;
}

void relay_cut_cells(struct arena *arena, struct route *route, uint64_t part_bytes)
{
    struct spreader spreader;
    struct cutter cutter = {.route = route,
                            .part_bytes = part_bytes,
                            .runs = ARENA_NEW(arena, struct relay_run, route->world->device_count)};
    spreader_init(arena, route->world->device_count, &spreader);
    for (uint32_t t = 0; t < route->type_count; t++) {
        struct route_type *type = &route->types[t];
        if (type->piece_count > 0 && cut_type(arena, &cutter, type))
            spread_pieces(arena, &spreader, type);
    }
}
