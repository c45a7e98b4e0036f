/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/peak.h"

#include <string.h>

/** First write and last read of a job's buffers on one device, as rounds + 1; 0: none. */
struct lifetime {
    uint32_t first_write, last_read;
};

struct tracker {
    const struct problem *problem;
    const struct rounds *rounds;
    struct lifetime **lifetimes; /* by job, beside its memory */
    uint32_t *first_round;       /* by job: round + 1 of its first unit */
    uint64_t *load;              /* by device: staging used in the open round */
    uint64_t *slot[2];           /* by device: largest load of the even and the odd rounds */
};

static struct lifetime *find_lifetime(const struct tracker *tracker, uint32_t j, uint32_t device)
{
    const struct job *job = &tracker->problem->jobs[j];
    uint32_t lo = 0, hi = job->memory_count;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (job->memory[middle].device < device)
            lo = middle + 1;
        else
            hi = middle;
    }
    bool found = lo < job->memory_count && job->memory[lo].device == device;
    return found ? &tracker->lifetimes[j][lo] : NULL;
}

static void track_piece(struct tracker *tracker, const struct unit *unit, uint32_t p, uint32_t round)
{
    const struct job *job = &tracker->problem->jobs[unit->job];
    const struct route_type *type = &tracker->problem->route->types[job->type];
    const struct route_piece *piece = &type->pieces[p];
    if (!unit_has_piece(&unit->chunking, unit->chunk, piece))
        return;
    struct box slice = box_slice(&piece->cell->box, unit->chunk % unit->chunking.slices, unit->chunking.slices);
    if (box_empty(&slice))
        return;
    uint32_t source = route_source(type, job->index, p);
    struct lifetime *read = find_lifetime(tracker, unit->job, source);
    struct lifetime *write = find_lifetime(tracker, unit->job, piece->taker);
    if (read != NULL) /* a kept buffer is read too, and has no lifetime */
        read->last_read = round + 1;
    if (write != NULL && write->first_write == 0)
        write->first_write = round + 1;
    if (source == piece->taker)
        return;
    uint64_t bytes = problem_aligned_bytes(box_volume(&slice), job->elem_bytes);
    tracker->load[source] += bytes;
    tracker->load[piece->taker] += bytes;
}

static void track_round(struct tracker *tracker, uint32_t round)
{
    const struct rounds *rounds = tracker->rounds;
    uint32_t devices = tracker->problem->route->world->device_count;
    uint64_t *slot = tracker->slot[round % rounds->depth];
    memset(tracker->load, 0, devices * sizeof(*tracker->load));
    for (uint32_t u = rounds->round_begin[round]; u < rounds->round_begin[round + 1]; u++) {
        const struct unit *unit = &rounds->units[u];
        if (tracker->first_round[unit->job] == 0)
            tracker->first_round[unit->job] = round + 1;
        uint32_t pieces = tracker->problem->route->types[tracker->problem->jobs[unit->job].type].piece_count;
        for (uint32_t p = 0; p < pieces; p++)
            track_piece(tracker, unit, p, round);
    }
    for (uint32_t d = 0; d < devices; d++)
        slot[d] = tracker->load[d] > slot[d] ? tracker->load[d] : slot[d];
}

/** Bytes allocated and freed by device and round; rounds + 1 columns. */
struct ledger {
    uint64_t *allocs, *frees;
    size_t columns;
};

static void enter_jobs(const struct tracker *tracker, struct ledger *ledger)
{
    const struct rounds *rounds = tracker->rounds;
    for (uint32_t j = 0; j < tracker->problem->job_count; j++) {
        const struct job *job = &tracker->problem->jobs[j];
        for (uint32_t m = 0; m < job->memory_count; m++) {
            const struct job_memory *memory = &job->memory[m];
            const struct lifetime *lifetime = &tracker->lifetimes[j][m];
            size_t row = memory->device * ledger->columns;
            uint32_t alloc = lifetime->first_write > 0 ? lifetime->first_write : tracker->first_round[j];
            if (memory->alloc > 0)
                ledger->allocs[row + alloc - 1] += memory->alloc;
            if (memory->release > 0)
                ledger->frees[row + (rounds->hold_old ? rounds->round_count : lifetime->last_read) - 1] +=
                    memory->release;
        }
    }
    for (uint32_t d = 0; d < tracker->problem->route->world->device_count && rounds->round_count > 0; d++)
        ledger->frees[d * ledger->columns + (rounds->hold_old ? rounds->round_count - 1 : 0)] +=
            tracker->problem->devices[d].unread;
}

static uint64_t device_peak(const struct tracker *tracker, const struct ledger *ledger, uint32_t d)
{
    const struct rounds *rounds = tracker->rounds;
    uint64_t live = tracker->problem->devices[d].from, peak = live;
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        if (k >= rounds->depth)
            live -= ledger->frees[d * ledger->columns + k - rounds->depth];
        live += ledger->allocs[d * ledger->columns + k];
        peak = live > peak ? live : peak;
    }
    return tracker->problem->fixed + tracker->slot[0][d] + tracker->slot[1][d] + peak;
}

uint64_t peak_of_rounds(struct arena *arena, const struct problem *problem, const struct rounds *rounds)
{
    uint32_t devices = problem->route->world->device_count;
    struct tracker tracker = {.problem = problem,
                              .rounds = rounds,
                              .lifetimes = ARENA_NEW(arena, struct lifetime *, problem->job_count),
                              .first_round = ARENA_NEW(arena, uint32_t, problem->job_count),
                              .load = ARENA_NEW(arena, uint64_t, devices),
                              .slot = {ARENA_NEW(arena, uint64_t, devices), ARENA_NEW(arena, uint64_t, devices)}};
    for (uint32_t j = 0; j < problem->job_count; j++)
        tracker.lifetimes[j] = ARENA_NEW(arena, struct lifetime, problem->jobs[j].memory_count);
    for (uint32_t k = 0; k < rounds->round_count; k++)
        track_round(&tracker, k);
    struct ledger ledger = {.columns = rounds->round_count + 1};
    ledger.allocs = ARENA_NEW(arena, uint64_t, devices * ledger.columns);
    ledger.frees = ARENA_NEW(arena, uint64_t, devices * ledger.columns);
    enter_jobs(&tracker, &ledger);
    uint64_t peak = 0;
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t own = device_peak(&tracker, &ledger, d);
        peak = own > peak ? own : peak;
    }
    return peak;
}
