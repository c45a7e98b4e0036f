/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/sources.h"

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

uint32_t sources_pick(const struct world *world, const struct route_piece *piece, const uint64_t *intra,
                      const uint64_t *inter)
{
    uint32_t begin, end;
    narrow_to_node(world, piece, &begin, &end);
    bool inside = world->devices[piece->candidates[begin]].node == world->devices[piece->taker].node;
    return least_loaded(inside ? intra : inter, piece->candidates, begin, end);
}

void sources_choose(struct arena *arena, struct route *route, const struct classes *classes)
{
    for (uint32_t t = 0; t < route->type_count; t++) {
        struct route_type *type = &route->types[t];
        type->sources = ARENA_NEW(arena, uint32_t, (size_t)type->item_count * type->piece_count);
        for (uint32_t i = 0; i < type->item_count; i++) {
            for (uint32_t p = 0; p < type->piece_count; p++)
                type->sources[(size_t)i * type->piece_count + p] = type->pieces[p].taker;
        }
    }
    quota_choose(arena, classes, &route->quotas);
}
