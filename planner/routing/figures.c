/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/figures.h"

#include <stddef.h>

/**
 * The lower bound in seconds is the largest of
 *   - per device: bytes it must get, over all its ports together;
 *   - per device: bytes that only it holds and others must get, likewise;
 *   - per node: bytes it lacks, each once, over its network ports together;
 *   - per node: bytes that only it holds and other nodes lack, each once, likewise.
 * With all devices in one node there is no network traffic: a device has its node port only.
 */
struct tally {
    uint64_t *sent, *missing, *only_here; /* by device */
    uint64_t *node_missing, *node_only;   /* by node */
    uint32_t *node_stamp;                 /* last cell that counted a node */
    uint32_t stamp;
};

/** Elements of a cell that the taker's old buffer of the item itself holds. */
static int64_t held_before(const struct route *route, const struct route_type *type, const struct route_piece *piece)
{
    const struct placement *own = route_own(route, type);
    uint32_t rank = route->world->devices[piece->taker].from_rank;
    uint32_t variant = own == NULL || rank == WORLD_NO_RANK ? PLACEMENT_NO_VARIANT : placement_variant_of(own, rank);
    int64_t elements = 0;
    for (uint32_t h = 0; variant != PLACEMENT_NO_VARIANT && h < own->variants[variant].holding_count; h++) {
        struct box common;
        if (box_intersect(&own->variants[variant].holdings[h].box, &piece->cell->box, &common))
            elements += box_volume(&common);
    }
    return elements;
}

static void tally_sends(const struct route *route, const struct route_type *type, uint32_t index, struct tally *tally,
                        struct route_figures *figures)
{
    const struct route_piece *piece = &type->pieces[index];
    const struct world_device *devices = route->world->devices;
    for (uint32_t i = 0; i < type->item_count; i++) {
        uint32_t source = route_source(type, i, index);
        uint64_t bytes = (uint64_t)piece->cell->elements * route->space->items[type->items[i]].wire_bytes;
        tally->sent[source] += bytes;
        if (devices[source].node == devices[piece->taker].node)
            figures->intra_node += bytes;
        else
            figures->inter_node += bytes;
    }
}

static bool node_holds(const struct route *route, const struct route_piece *piece, uint32_t node)
{
    for (uint32_t i = 0; i < piece->candidate_count; i++) {
        if (route->world->devices[piece->candidates[i]].node == node)
            return true;
    }
    return false;
}

/** Whether the new side of what is read brings a cell into a node: what is derived from it then need not enter. */
static bool node_makes(const struct route *route, const struct route_type *type, const struct route_cell *cell,
                       uint32_t node)
{
    const struct placement *fresh = route_fresh(route, type);
    for (uint32_t o = 0; fresh != NULL && o < cell->fresh_count; o++) {
        const struct placement_variant *variant = &fresh->variants[cell->fresh[o].variant];
        for (uint32_t r = 0; r < variant->rank_count; r++) {
            if (route->world->devices[route->world->to_device[variant->ranks[r]]].node == node)
                return true;
        }
    }
    return false;
}

/**
 * Count a piece for the bounds; `bytes` is that of all items of its type. What is derived from another item may
 * also leave its holders in the form of that one: it counts where it arrives alone.
 */
static void tally_bounds(const struct route *route, const struct route_type *type, const struct route_piece *piece,
                         bool first_of_cell, struct tally *tally, struct route_figures *figures)
{
    uint64_t bytes = (uint64_t)piece->cell->elements * type->wire_bytes;
    const struct world_device *devices = route->world->devices;
    uint32_t node = devices[piece->taker].node;
    uint32_t first = devices[piece->candidates[0]].node;
    uint32_t last = devices[piece->candidates[piece->candidate_count - 1]].node;
    tally->missing[piece->taker] += bytes;
    if (first_of_cell && piece->candidate_count == 1 && !type->key.derived)
        tally->only_here[piece->candidates[0]] += bytes;
    if (node_holds(route, piece, node) || tally->node_stamp[node] == tally->stamp ||
        node_makes(route, type, piece->cell, node))
        return;
    tally->node_stamp[node] = tally->stamp;
    tally->node_missing[node] += bytes;
    figures->inter_node_lower_bound += bytes;
    /* holders ascend by node: all in one node when the first and the last agree; leaves it at least once */
    if (first == last && tally->node_stamp[first] != tally->stamp && !type->key.derived) {
        tally->node_stamp[first] = tally->stamp;
        tally->node_only[first] += bytes;
    }
}

static void tally_type(const struct route *route, const struct route_type *type, struct tally *tally,
                       struct route_figures *figures, int64_t *saved)
{
    const struct placement *to = route_to(route, type);
    for (uint32_t p = 0; p < type->piece_count; p++) {
        const struct route_piece *piece = &type->pieces[p];
        uint64_t elements = (uint64_t)piece->cell->elements;
        if (type->key.derived) /* what the own state would lack here, less what is lacking now */
            *saved += (piece->candidate_count == 0 ? piece->cell->elements : 0) * (int64_t)type->wire_bytes -
                      held_before(route, type, piece) * (int64_t)type->wire_bytes;
        if (piece->candidate_count > 0) {
            figures->needed_remote += elements * type->wire_bytes;
            tally_sends(route, type, p, tally, figures);
            continue;
        }
        figures->local += elements * type->new_bytes;
    }
    for (uint32_t t = 0; t < type->taker_count; t++) {
        const struct placement_variant *variant = &to->variants[type->takers[t].variant];
        uint64_t pad = (uint64_t)placement_pad_elements(variant);
        figures->filled += pad * type->new_bytes;
        if (type->takers[t].kept)
            figures->kept += ((uint64_t)variant->elements - pad) * type->new_bytes;
    }
}

/** Indices of a type's pieces in the order of their cells (stable counting sort). */
static uint32_t *order_by_cell(struct arena *arena, const struct route_type *type)
{
    uint32_t *begin = ARENA_NEW(arena, uint32_t, (size_t)type->cell_count + 1);
    uint32_t *order = ARENA_NEW(arena, uint32_t, type->piece_count);
    for (uint32_t p = 0; p < type->piece_count; p++)
        begin[type->pieces[p].cell->number + 1]++;
    for (uint32_t c = 0; c < type->cell_count; c++)
        begin[c + 1] += begin[c];
    for (uint32_t p = 0; p < type->piece_count; p++)
        order[begin[type->pieces[p].cell->number]++] = p;
    return order;
}

static void tally_type_bounds(struct arena *arena, const struct route *route, const struct route_type *type,
                              struct tally *tally, struct route_figures *figures)
{
    uint32_t *order = order_by_cell(arena, type);
    const struct route_cell *cell = NULL;
    for (uint32_t i = 0; i < type->piece_count; i++) {
        const struct route_piece *piece = &type->pieces[order[i]];
        if (piece->candidate_count == 0)
            continue;
        bool first = piece->cell != cell;
        cell = piece->cell;
        tally->stamp += first;
        tally_bounds(route, type, piece, first, tally, figures);
    }
}

static void raise_to(double *bound, double seconds)
{
    if (seconds > *bound)
        *bound = seconds;
}

static void compute_seconds(const struct route *route, const struct tally *tally, struct route_figures *figures)
{
    const struct world *world = route->world;
    bool one_node = world->devices[0].node == world->devices[world->device_count - 1].node;
    double *bound = &figures->lower_bound_seconds;
    for (uint32_t d = 0; d < world->device_count; d++) {
        const struct cfg_machine *machine = world_machine(world, d);
        double device_rate = machine->intra_node + (one_node ? 0 : machine->inter_node);
        raise_to(bound, (double)tally->missing[d] / device_rate);
        raise_to(bound, (double)tally->only_here[d] / device_rate);
        if (world->devices[d].first == d) {
            raise_to(bound, (double)tally->node_missing[world->devices[d].node] / machine->node_inter_node);
            raise_to(bound, (double)tally->node_only[world->devices[d].node] / machine->node_inter_node);
        }
        if (tally->sent[d] > figures->max_send)
            figures->max_send = tally->sent[d];
        if (tally->missing[d] > figures->max_missing)
            figures->max_missing = tally->missing[d];
    }
    figures->max_recv = figures->max_missing; /* every missing byte is received once, from one source */
}

void route_figures_compute(struct arena *arena, struct route *route)
{
    const struct world *world = route->world;
    struct tally tally = {.sent = ARENA_NEW(arena, uint64_t, world->device_count),
                          .missing = ARENA_NEW(arena, uint64_t, world->device_count),
                          .only_here = ARENA_NEW(arena, uint64_t, world->device_count),
                          .node_missing = ARENA_NEW(arena, uint64_t, world->node_count),
                          .node_only = ARENA_NEW(arena, uint64_t, world->node_count),
                          .node_stamp = ARENA_NEW(arena, uint32_t, world->node_count)};
    struct route_figures *figures = &route->figures;
    *figures = (struct route_figures){0};
    int64_t saved = 0; /* below 0: more is sent than if nothing were derived */
    for (uint32_t t = 0; t < route->type_count; t++) {
        tally_type(route, &route->types[t], &tally, figures, &saved);
        tally_type_bounds(arena, route, &route->types[t], &tally, figures);
    }
    figures->local += figures->kept;
    figures->saved = saved > 0 ? (uint64_t)saved : 0;
    figures->moved = figures->intra_node + figures->inter_node;
    compute_seconds(route, &tally, figures);
}
