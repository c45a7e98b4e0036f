/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/figures.h"

#include "routing/bound.h"

struct tally {
    uint64_t *sent, *received; /* by device */
    int64_t saved;             /* below 0: more is sent than if nothing were derived */
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
        tally->received[piece->taker] += bytes;
        figures->needed_remote += piece->passing ? 0 : bytes;
        figures->relayed += piece->passing ? bytes : 0;
        figures->forwarded += route_stage(type, i, index) > 0 && !piece->passed ? bytes : 0;
        if (devices[source].node == devices[piece->taker].node)
            figures->intra_node += bytes;
        else
            figures->inter_node += bytes;
    }
}

static void tally_type(const struct route *route, const struct route_type *type, struct tally *tally,
                       struct route_figures *figures)
{
    const struct placement *to = route_to(route, type);
    for (uint32_t p = 0; p < type->piece_count; p++) {
        const struct route_piece *piece = &type->pieces[p];
        uint64_t elements = (uint64_t)piece->cell->elements;
        if (type->key.derived && !piece->passing) /* what the own state would lack here, less what is lacking now */
            tally->saved += (piece->candidate_count == 0 ? piece->cell->elements : 0) * (int64_t)type->wire_bytes -
                            held_before(route, type, piece) * (int64_t)type->wire_bytes;
        if (piece->candidate_count > 0) {
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

void route_figures_recount(struct arena *arena, struct route *route)
{
    const struct world *world = route->world;
    struct tally tally = {.sent = ARENA_NEW(arena, uint64_t, world->device_count),
                          .received = ARENA_NEW(arena, uint64_t, world->device_count)};
    struct route_figures *figures = &route->figures;
    *figures = (struct route_figures){.inter_node_lower_bound = figures->inter_node_lower_bound,
                                      .lower_bound_seconds = figures->lower_bound_seconds,
                                      .lower_bound = figures->lower_bound,
                                      .max_missing = figures->max_missing};
    for (uint32_t t = 0; t < route->type_count; t++)
        tally_type(route, &route->types[t], &tally, figures);
    for (uint32_t d = 0; d < world->device_count; d++) {
        figures->max_send = tally.sent[d] > figures->max_send ? tally.sent[d] : figures->max_send;
        figures->max_recv = tally.received[d] > figures->max_recv ? tally.received[d] : figures->max_recv;
    }
    figures->local += figures->kept;
    figures->saved = tally.saved > 0 ? (uint64_t)tally.saved : 0;
    figures->moved = figures->intra_node + figures->inter_node;
}

void route_figures_compute(struct arena *arena, struct route *route, const struct classes *classes)
{
    struct bounds bounds;
    bounds_compute(arena, classes, &bounds);
    route->figures.inter_node_lower_bound = bounds.inter_node;
    route->figures.lower_bound_seconds = bounds.seconds;
    route->figures.lower_bound = bounds.reason;
    route->figures.max_missing = bounds.max_missing;
    route_figures_recount(arena, route);
}
