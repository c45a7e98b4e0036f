/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/lower.h"

#include <stdlib.h>
#include <string.h>

#include "schedule/walk.h"

struct box transfer_box(const struct transfer *transfer)
{
    if (transfer->slices == 1)
        return transfer->cell->box;
    return box_slice(&transfer->cell->box, transfer->slice, transfer->slices);
}

/** Transfers with room for all: their number is known before they are made. */
struct transfer_array {
    size_t count;
    struct transfer *items;
};

static void lower_unit(struct walk *walk, uint32_t round, struct transfer_array *out)
{
    const struct job *job = walk->chunk.job;
    const struct route_type *type = walk->chunk.type;
    for (uint32_t i = 0; i < walk->count; i++) {
        uint32_t p = walk_piece(walk, i);
        const struct route_piece *piece = &type->pieces[p];
        uint64_t elements = (uint64_t)walk_elements(walk, piece->cell);
        if (elements == 0)
            continue;
        struct transfer *transfer = &out->items[out->count++];
        *transfer = (struct transfer){.round = round,
                                      .source = route_device(walk->sources[p]),
                                      .taker = piece->taker,
                                      .item = job->item,
                                      .cell = piece->cell,
                                      .fresh = piece->fresh,
                                      .forwarded = walk->sources[p] >> ROUTE_STAGE_SHIFT > 0 && !piece->passed,
                                      .passing = piece->passing,
                                      .passed = piece->passed,
                                      .slice = (uint16_t)walk->chunk.slice,
                                      .slices = (uint16_t)walk->chunk.slices};
        transfer->written = elements * (piece->passing ? job->elem_bytes : walk->item.new_bytes);
        transfer->bytes = transfer->source == transfer->taker ? transfer->written : elements * job->elem_bytes;
    }
}

/** Most transfers that the rounds can make; slices that turn out empty make none. */
static size_t count_pieces(const struct problem *problem, const struct rounds *rounds)
{
    size_t count = 0;
    for (uint32_t u = 0; u < rounds->unit_count; u++) {
        const struct unit *unit = &rounds->units[u];
        if (unit->chunk < unit->chunking.slices) /* once per slice, for all groups and stages together */
            count += problem->route->types[problem->jobs[unit->job].type].piece_count;
    }
    return count;
}

/** Lists by device, by counting: `field` is the device of a transfer on this end. */
static struct transfer_list *list_by_device(struct arena *arena, const struct transfer_array *transfers,
                                            uint32_t devices, bool reads)
{
    struct transfer_list *lists = ARENA_NEW(arena, struct transfer_list, devices);
    for (size_t i = 0; i < transfers->count; i++)
        lists[reads ? transfers->items[i].source : transfers->items[i].taker].count++;
    for (uint32_t d = 0; d < devices; d++) {
        lists[d].transfers = ARENA_NEW(arena, uint32_t, lists[d].count);
        lists[d].count = 0;
    }
    for (size_t i = 0; i < transfers->count; i++) {
        struct transfer_list *list = &lists[reads ? transfers->items[i].source : transfers->items[i].taker];
        list->transfers[list->count++] = (uint32_t)i;
    }
    return lists;
}

/**
 * Place the transfers of one sender in its messages, round by round. `fill` counts, by peer, the bytes of
 * the open round's message; `touched` remembers which peers to reset.
 */
static void place_sends(const struct transfer_list *list, struct transfer *transfers, uint64_t *fill, uint32_t *touched)
{
    uint32_t touched_count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        struct transfer *transfer = &transfers[list->transfers[i]];
        bool opens = i == 0 || transfers[list->transfers[i - 1]].round != transfer->round;
        for (uint32_t t = 0; opens && t < touched_count; t++)
            fill[touched[t]] = 0;
        touched_count = opens ? 0 : touched_count;
        if (transfer->source == transfer->taker)
            continue;
        if (fill[transfer->taker] == 0)
            touched[touched_count++] = transfer->taker;
        transfer->message_offset = fill[transfer->taker];
        fill[transfer->taker] += problem_align(transfer->bytes);
    }
    for (uint32_t t = 0; t < touched_count; t++)
        fill[touched[t]] = 0;
}

struct lowered *lower_build(struct arena *arena, const struct problem *problem, const struct rounds *rounds)
{
    uint32_t devices = problem->route->world->device_count;
    struct lowered *lowered = ARENA_NEW(arena, struct lowered, 1);
    lowered->item_first_round = ARENA_NEW(arena, uint32_t, problem->route->space->item_count);
    memset(lowered->item_first_round, 0xff, problem->route->space->item_count * sizeof(uint32_t));
    struct walk walk;
    walk_init(arena, problem, &walk);
    struct transfer_array transfers = {.items = ARENA_NEW(arena, struct transfer, count_pieces(problem, rounds))};
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            const struct unit *unit = &rounds->units[u];
            uint32_t *first = &lowered->item_first_round[problem->jobs[unit->job].item];
            *first = k < *first ? k : *first;
            walk_unit(arena, &walk, unit);
            lower_unit(&walk, k, &transfers);
        }
    }
    lowered->transfers = transfers.items;
    lowered->transfer_count = (uint32_t)transfers.count;
    lowered->reads = list_by_device(arena, &transfers, devices, true);
    lowered->writes = list_by_device(arena, &transfers, devices, false);
    uint64_t *fill = ARENA_NEW(arena, uint64_t, devices);
    uint32_t *touched = ARENA_NEW(arena, uint32_t, devices);
    for (uint32_t d = 0; d < devices; d++)
        place_sends(&lowered->reads[d], transfers.items, fill, touched);
    return lowered;
}
