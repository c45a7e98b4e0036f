/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/lower.h"

#include <string.h>

#include "schedule/walk.h"
#include "util/crew.h"

struct box transfer_box(const struct transfer *transfer)
{
    if (transfer->slices == 1)
        return transfer->cell->box;
    return box_slice(&transfer->cell->box, transfer->slice, transfer->slices);
}

/** What one worker has of its own. */
struct lowerer {
    bool ready;
    struct walk walk;
    uint64_t *fill;    /* by device: bytes of the open round's message to it */
    uint32_t *touched; /* devices whose `fill` is to be reset */
};

struct lower_work {
    const struct problem *problem;
    const struct rounds *rounds;
    struct lowerer *lowerers; /* by worker */
    uint32_t *begin;          /* by round: its first transfer; before that is known, the number of them, one round on */
    struct lowered *lowered;
};

static struct lowerer *take_lowerer(struct arena *arena, struct lower_work *work, uint32_t worker)
{
    struct lowerer *lowerer = &work->lowerers[worker];
    uint32_t devices = work->problem->route->world->device_count;
    if (lowerer->ready)
        return lowerer;
    walk_init(arena, work->problem, &lowerer->walk);
    lowerer->fill = ARENA_NEW(arena, uint64_t, devices);
    lowerer->touched = ARENA_NEW(arena, uint32_t, devices);
    lowerer->ready = true;
    return lowerer;
}

/** Pieces of the unit at hand that have something there: slices may be empty. */
static uint32_t count_transfers(struct walk *walk)
{
    const struct route_piece *pieces = walk->chunk.type->pieces;
    uint32_t count = 0;
    if (walk->chunk.slices == 1)
        return walk->count;
    for (uint32_t i = 0; i < walk->count; i++)
        count += walk_elements(walk, pieces[walk_piece(walk, i)].cell) > 0;
    return count;
}

static void count_rounds(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct lower_work *work = context;
    struct walk *walk = &take_lowerer(arena, work, worker)->walk;
    const struct rounds *rounds = work->rounds;
    for (uint32_t k = begin; k < end; k++) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            walk_unit(arena, walk, &rounds->units[u]);
            work->begin[k + 1] += count_transfers(walk);
        }
    }
}

/** Make the transfers of a unit. @return their number */
static uint32_t lower_unit(struct walk *walk, uint32_t round, struct transfer *transfers)
{
    const struct job *job = walk->chunk.job;
    const struct route_type *type = walk->chunk.type;
    uint32_t count = 0;
    for (uint32_t i = 0; i < walk->count; i++) {
        uint32_t p = walk_piece(walk, i);
        const struct route_piece *piece = &type->pieces[p];
        uint64_t elements = (uint64_t)walk_elements(walk, piece->cell);
        if (elements == 0)
            continue;
        struct transfer *transfer = &transfers[count++];
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
    return count;
}

static void lower_rounds(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct lower_work *work = context;
    struct walk *walk = &take_lowerer(arena, work, worker)->walk;
    const struct rounds *rounds = work->rounds;
    for (uint32_t k = begin; k < end; k++) {
        struct transfer *next = &work->lowered->transfers[work->begin[k]];
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            walk_unit(arena, walk, &rounds->units[u]);
            next += lower_unit(walk, k, next);
        }
    }
}

static uint32_t end_of(const struct transfer *transfer, bool reads)
{
    return reads ? transfer->source : transfer->taker;
}

/** List the transfers of every device on one end, by counting. @param numbers  room for those of all */
static void list_by_device(const struct lowered *lowered, uint32_t devices, bool reads, struct transfer_list *lists,
                           uint32_t *numbers)
{
    for (uint32_t i = 0; i < lowered->transfer_count; i++)
        lists[end_of(&lowered->transfers[i], reads)].count++;
    for (uint32_t d = 0; d < devices; d++) {
        lists[d].transfers = numbers;
        numbers += lists[d].count;
        lists[d].count = 0;
    }
    for (uint32_t i = 0; i < lowered->transfer_count; i++) {
        struct transfer_list *list = &lists[end_of(&lowered->transfers[i], reads)];
        list->transfers[list->count++] = i;
    }
}

/** The lists of both ends, one after the other or at once; `transfers` of the first of each has room for all. */
static void list_ends(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct lower_work *work = context;
    struct lowered *lowered = work->lowered;
    uint32_t devices = work->problem->route->world->device_count;
    (void)arena, (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        struct transfer_list *lists = i == 0 ? lowered->reads : lowered->writes;
        list_by_device(lowered, devices, i == 0, lists, lists[0].transfers);
    }
}

/** Place the transfers of one sender in its messages, round by round. */
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

static void place_devices(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct lower_work *work = context;
    struct lowerer *lowerer = take_lowerer(arena, work, worker);
    for (uint32_t d = begin; d < end; d++)
        place_sends(&work->lowered->reads[d], work->lowered->transfers, lowerer->fill, lowerer->touched);
}

static uint32_t *find_first_rounds(struct arena *arena, const struct problem *problem, const struct rounds *rounds)
{
    uint32_t items = problem->route->space->item_count, *first = ARENA_NEW(arena, uint32_t, items);
    memset(first, 0xff, items * sizeof(*first));
    for (uint32_t k = rounds->round_count; k-- > 0;) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++)
            first[problem->jobs[rounds->units[u].job].item] = k;
    }
    return first;
}

#define DEVICES_AT_ONCE 64u

struct lowered *lower_build(struct arena *arena, const struct problem *problem, const struct rounds *rounds)
{
    uint32_t devices = problem->route->world->device_count;
    struct lowered *lowered = ARENA_NEW(arena, struct lowered, 1);
    struct lower_work work = {.problem = problem, .rounds = rounds, .lowered = lowered};
    lowered->item_first_round = find_first_rounds(arena, problem, rounds);
    work.begin = ARENA_NEW(arena, uint32_t, (size_t)rounds->round_count + 1);
    struct crew *crew = crew_open(arena, problem_threads(problem));
    work.lowerers = ARENA_NEW(arena, struct lowerer, crew_size(crew));
    crew_share(crew, rounds->round_count, 1, count_rounds, &work);
    for (uint32_t k = 0; k < rounds->round_count; k++)
        work.begin[k + 1] += work.begin[k];
    lowered->transfer_count = work.begin[rounds->round_count];
    lowered->transfers = ARENA_NEW(arena, struct transfer, lowered->transfer_count);
    crew_share(crew, rounds->round_count, 1, lower_rounds, &work);
    lowered->reads = ARENA_NEW(arena, struct transfer_list, devices);
    lowered->writes = ARENA_NEW(arena, struct transfer_list, devices);
    lowered->reads[0].transfers = ARENA_NEW(arena, uint32_t, lowered->transfer_count);
    lowered->writes[0].transfers = ARENA_NEW(arena, uint32_t, lowered->transfer_count);
    crew_share(crew, 2, 1, list_ends, &work);
    crew_share(crew, devices, DEVICES_AT_ONCE, place_devices, &work);
    crew_close(crew);
    return lowered;
}
