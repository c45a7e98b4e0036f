/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/sources.h"

#include <stdlib.h>

struct loads {
    uint64_t *intra, *inter; /* bytes that each device sends inside its node and across */
};

/** Holders in the taker's node; all of them when there are none. Candidates ascend by device, nodes too. */
static void narrow_to_node(const struct world *world, const struct route_piece *piece, uint32_t *begin_out,
                           uint32_t *end_out)
{
    uint32_t node = world->devices[piece->taker].node;
    uint32_t begin = 0, end = piece->candidate_count;
    while (begin < end && world->devices[piece->candidates[begin]].node < node)
        begin++;
    uint32_t behind = begin;
    while (behind < end && world->devices[piece->candidates[behind]].node == node)
        behind++;
    bool inside = behind > begin;
    *begin_out = inside ? begin : 0;
    *end_out = inside ? behind : end;
}

static uint32_t least_loaded(const uint64_t *load, const uint32_t *candidates, uint32_t begin, uint32_t end)
{
    uint32_t best = candidates[begin];
    for (uint32_t i = begin + 1; i < end; i++) {
        if (load[candidates[i]] < load[best])
            best = candidates[i];
    }
    return best;
}

static void assign_piece(const struct route *route, struct route_type *type, uint32_t index, struct loads *loads)
{
    const struct route_piece *piece = &type->pieces[index];
    uint32_t begin = 0, end = 1;
    if (piece->candidate_count > 0)
        narrow_to_node(route->world, piece, &begin, &end);
    for (uint32_t i = 0; i < type->item_count; i++) {
        uint32_t *source = &type->sources[(size_t)i * type->piece_count + index];
        if (piece->candidate_count == 0) {
            *source = piece->taker;
            continue;
        }
        bool inside = route->world->devices[piece->candidates[begin]].node == route->world->devices[piece->taker].node;
        uint64_t *load = inside ? loads->intra : loads->inter;
        *source = least_loaded(load, piece->candidates, begin, end);
        load[*source] += (uint64_t)piece->cell->elements * route->space->items[type->items[i]].wire_bytes;
    }
}

/** A piece of a type that has a choice of sources. */
struct choice {
    uint64_t bytes; /* of its largest state */
    uint32_t type, piece;
};

static int compare_choices(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

static uint64_t largest_bytes(const struct route *route, const struct route_type *type, const struct route_piece *piece)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < type->item_count; i++) {
        uint32_t bytes = route->space->items[type->items[i]].wire_bytes;
        widest = bytes > widest ? bytes : widest;
    }
    return (uint64_t)piece->cell->elements * widest;
}

void sources_choose(struct arena *arena, struct route *route)
{
    struct loads loads = {.intra = ARENA_NEW(arena, uint64_t, route->world->device_count),
                          .inter = ARENA_NEW(arena, uint64_t, route->world->device_count)};
    VEC(struct choice) choices = {0};
    for (uint32_t t = 0; t < route->type_count; t++) {
        struct route_type *type = &route->types[t];
        type->sources = ARENA_NEW(arena, uint32_t, (size_t)type->item_count * type->piece_count);
        for (uint32_t p = 0; p < type->piece_count; p++) {
            if (type->pieces[p].candidate_count <= 1)
                assign_piece(route, type, p, &loads);
            else
                *VEC_PUSH(arena, &choices) =
                    (struct choice){.bytes = largest_bytes(route, type, &type->pieces[p]), .type = t, .piece = p};
        }
    }
    if (choices.count > 0)
        qsort(choices.items, choices.count, sizeof(*choices.items), compare_choices);
    for (size_t i = 0; i < choices.count; i++)
        assign_piece(route, &route->types[choices.items[i].type], choices.items[i].piece, &loads);
}
