/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/peak.h"

#include <stdlib.h>

#include "schedule/walk.h"

/** First write and last read of a job's buffers on one device, as rounds + 1; 0: none. */
struct lifetime {
    uint32_t first_write, last_read;
};

/** What a device holds of a unit in scratch memory until it has sent it on. */
struct passing {
    uint32_t device, job, chunk, round;
    uint64_t bytes;
};

struct tracker {
    struct arena *arena;
    const struct problem *problem;
    const struct rounds *rounds;
    struct lifetime **lifetimes; /* by job, beside its memory */
    uint32_t *first_round;       /* by job: round + 1 of its first unit */
    struct round_load {
        uint64_t bytes; /* staging used in a round */
        uint32_t round; /* that round + 1 */
    } * load;           /* by device */
    uint64_t *slot[2];  /* by device: largest load of the even and the odd rounds */
    uint32_t *place;    /* by device: 1 + its entry in the memory of the job at hand; 0: none */
    uint32_t **round;   /* by job that has passing pieces, and chunk: the round of the unit */
    uint32_t *stride;   /* by job: of its chunks */
    VEC(struct passing) passing;
    struct walk walk;
};

static void add_load(struct tracker *tracker, uint32_t device, uint64_t bytes, uint32_t round)
{
    struct round_load *load = &tracker->load[device];
    uint64_t *slot = &tracker->slot[round % tracker->rounds->depth][device];
    if (load->round != round + 1)
        *load = (struct round_load){.round = round + 1};
    load->bytes += bytes;
    *slot = load->bytes > *slot ? load->bytes : *slot;
}

static void track_bytes(struct tracker *tracker, const struct unit *unit, uint32_t p, uint32_t round, int64_t elements)
{
    const struct job *job = &tracker->problem->jobs[unit->job];
    const struct route_type *type = &tracker->problem->route->types[job->type];
    uint32_t source = route_source(type, job->index, p), taker = type->pieces[p].taker;
    struct lifetime *lifetimes = tracker->lifetimes[unit->job];
    bool old = !type->pieces[p].fresh && route_stage(type, job->index, p) == 0;
    if (tracker->place[source] != 0 && old) /* a kept buffer is read too, and has no lifetime */
        lifetimes[tracker->place[source] - 1].last_read = round + 1;
    if (type->pieces[p].passing)
        *VEC_PUSH(tracker->arena, &tracker->passing) = (struct passing){.device = taker,
                                                                        .job = unit->job,
                                                                        .chunk = unit->chunk,
                                                                        .round = round,
                                                                        .bytes = (uint64_t)elements * job->elem_bytes};
    else if (tracker->place[taker] != 0 && lifetimes[tracker->place[taker] - 1].first_write == 0)
        lifetimes[tracker->place[taker] - 1].first_write = round + 1;
    if (source == taker)
        return;
    uint64_t bytes = problem_aligned_bytes(elements, job->elem_bytes);
    add_load(tracker, source, bytes, round);
    add_load(tracker, taker, bytes, round);
}

static void track_unit(struct arena *arena, struct tracker *tracker, const struct unit *unit, uint32_t round)
{
    const struct job *job = &tracker->problem->jobs[unit->job];
    if (tracker->first_round[unit->job] == 0)
        tracker->first_round[unit->job] = round + 1;
    if (job->passes && tracker->round[unit->job] == NULL)
        tracker->round[unit->job] = ARENA_NEW(tracker->arena, uint32_t, chunk_count(&unit->chunking));
    if (job->passes)
        tracker->round[unit->job][unit->chunk] = round;
    tracker->stride[unit->job] = chunk_stride(&unit->chunking);
    for (uint32_t m = 0; m < job->memory_count; m++)
        tracker->place[job->memory[m].device] = m + 1;
    walk_unit(arena, &tracker->walk, unit);
    for (uint32_t i = 0; i < tracker->walk.count; i++) {
        uint32_t p = walk_piece(&tracker->walk, i);
        int64_t elements = walk_elements(&tracker->walk, tracker->walk.chunk.type->pieces[p].cell);
        if (elements > 0)
            track_bytes(tracker, unit, p, round, elements);
    }
    for (uint32_t m = 0; m < job->memory_count; m++)
        tracker->place[job->memory[m].device] = 0;
}

/** Entries of the jobs' memory by device: those of device d are entries[begin[d]] to entries[begin[d + 1] - 1]. */
struct memory_index {
    size_t *begin;
    struct memory_entry {
        uint32_t job, entry;
    } * entries;
};

static struct memory_index index_memory(struct arena *arena, const struct problem *problem)
{
    uint32_t devices = problem->route->world->device_count;
    struct memory_index index = {.begin = ARENA_NEW(arena, size_t, (size_t)devices + 2)};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++)
            index.begin[problem->jobs[j].memory[m].device + 2]++;
    }
    for (uint32_t d = 2; d <= devices + 1; d++)
        index.begin[d] += index.begin[d - 1];
    index.entries = ARENA_NEW(arena, struct memory_entry, index.begin[devices + 1]);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++)
            index.entries[index.begin[problem->jobs[j].memory[m].device + 1]++] =
                (struct memory_entry){.job = j, .entry = m};
    }
    return index;
}

/** A change of the memory of the device at hand. */
struct event {
    uint64_t time; /* twice the round; one more for what is allocated, as frees that are due come first */
    uint64_t alloc, release;
};

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

/** Events of one entry; rounds are counted from 1 here. @return their number, at most 2 */
static uint32_t list_events(const struct tracker *tracker, const struct memory_entry *at, struct event *events)
{
    const struct rounds *rounds = tracker->rounds;
    const struct job_memory *memory = &tracker->problem->jobs[at->job].memory[at->entry];
    const struct lifetime *lifetime = &tracker->lifetimes[at->job][at->entry];
    uint64_t alloc = lifetime->first_write > 0 ? lifetime->first_write : tracker->first_round[at->job];
    uint64_t release = rounds->hold_old ? rounds->round_count : lifetime->last_read;
    uint32_t count = 0;
    if (memory->alloc > 0)
        events[count++] = (struct event){.time = 2 * alloc + 1, .alloc = memory->alloc};
    if (memory->release > 0)
        events[count++] = (struct event){.time = 2 * (release + rounds->depth), .release = memory->release};
    return count;
}

/** What passes through devices, by device: that of device d is at entries[begin[d]] to entries[begin[d + 1] - 1]. */
struct passing_index {
    size_t *begin;
    struct event *events; /* two for each: that of alloc and that of release */
};

/** It is there from the round that brings it to that of the next stage's unit, which sends it on. */
static struct passing_index index_passing(struct arena *arena, const struct tracker *tracker)
{
    uint32_t devices = tracker->problem->route->world->device_count;
    struct passing_index index = {.begin = ARENA_NEW(arena, size_t, (size_t)devices + 2)};
    for (size_t i = 0; i < tracker->passing.count; i++)
        index.begin[tracker->passing.items[i].device + 2] += 2;
    for (uint32_t d = 2; d <= devices + 1; d++)
        index.begin[d] += index.begin[d - 1];
    index.events = ARENA_NEW(arena, struct event, index.begin[devices + 1]);
    for (size_t i = 0; i < tracker->passing.count; i++) {
        const struct passing *passing = &tracker->passing.items[i];
        uint32_t sent_on = tracker->round[passing->job][passing->chunk + tracker->stride[passing->job]];
        struct event *events = &index.events[index.begin[passing->device + 1]];
        index.begin[passing->device + 1] += 2;
        events[0] = (struct event){.time = 2 * ((uint64_t)passing->round + 1) + 1, .alloc = passing->bytes};
        events[1] =
            (struct event){.time = 2 * ((uint64_t)sent_on + 1 + tracker->rounds->depth), .release = passing->bytes};
    }
    return index;
}

static uint64_t device_peak(const struct tracker *tracker, const struct memory_index *index,
                            const struct passing_index *passing, struct event *events, uint32_t d)
{
    const struct rounds *rounds = tracker->rounds;
    uint64_t live = tracker->problem->devices[d].from, peak = live,
             first_free = rounds->hold_old ? rounds->round_count : 1;
    uint32_t count = 0;
    if (rounds->round_count > 0)
        events[count++] =
            (struct event){.time = 2 * (first_free + rounds->depth), .release = tracker->problem->devices[d].unread};
    for (size_t e = index->begin[d]; e < index->begin[d + 1]; e++)
        count += list_events(tracker, &index->entries[e], &events[count]);
    for (size_t e = passing->begin[d]; e < passing->begin[d + 1]; e++)
        events[count++] = passing->events[e];
    qsort(events, count, sizeof(*events), compare_events);
    for (uint32_t e = 0; e < count; e++) {
        live = live - events[e].release + events[e].alloc;
        peak = live > peak ? live : peak;
    }
    peak += tracker->problem->devices[d].fixed + tracker->slot[0][d] + tracker->slot[1][d];
    return peak > tracker->problem->devices[d].memory ? peak + PEAK_OVER : peak;
}

/** Room for the events of any device. */
static struct event *make_events(struct arena *arena, const struct memory_index *index,
                                 const struct passing_index *passing, uint32_t devices)
{
    size_t most = 0;
    for (uint32_t d = 0; d < devices; d++) {
        size_t count = 2 * (index->begin[d + 1] - index->begin[d]) + passing->begin[d + 1] - passing->begin[d];
        most = count > most ? count : most;
    }
    return ARENA_NEW(arena, struct event, most + 1);
}

static uint64_t compute_peak(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                             uint64_t *staging_out)
{
    uint32_t devices = problem->route->world->device_count;
    struct tracker tracker = {.arena = arena,
                              .problem = problem,
                              .rounds = rounds,
                              .lifetimes = ARENA_NEW(arena, struct lifetime *, problem->job_count),
                              .first_round = ARENA_NEW(arena, uint32_t, problem->job_count),
                              .load = ARENA_NEW(arena, struct round_load, devices),
                              .slot = {ARENA_NEW(arena, uint64_t, devices), ARENA_NEW(arena, uint64_t, devices)},
                              .place = ARENA_NEW(arena, uint32_t, devices),
                              .round = ARENA_NEW(arena, uint32_t *, problem->job_count),
                              .stride = ARENA_NEW(arena, uint32_t, problem->job_count)};
    walk_init(arena, problem, &tracker.walk);
    for (uint32_t j = 0; j < problem->job_count; j++)
        tracker.lifetimes[j] = ARENA_NEW(arena, struct lifetime, problem->jobs[j].memory_count);
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++)
            track_unit(arena, &tracker, &rounds->units[u], k);
    }
    struct memory_index index = index_memory(arena, problem);
    const struct passing_index passing = index_passing(arena, &tracker);
    struct event *events = make_events(arena, &index, &passing, devices);
    uint64_t peak = 0;
    *staging_out = 0;
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t own = device_peak(&tracker, &index, &passing, events, d);
        uint64_t staging = tracker.slot[0][d] + tracker.slot[1][d];
        peak = own > peak ? own : peak;
        *staging_out = staging > *staging_out ? staging : *staging_out;
    }
    return peak;
}

struct peak_work {
    const struct problem *problem;
    const struct rounds *rounds;
    uint64_t peak, staging;
};

static void find_peak(struct arena *scratch, void *context)
{
    struct peak_work *work = context;
    work->peak = compute_peak(scratch, work->problem, work->rounds, &work->staging);
}

uint64_t peak_and_staging_of_rounds(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                                    uint64_t *staging_out)
{
    struct peak_work work = {.problem = problem, .rounds = rounds};
    arena_with_scratch(arena, find_peak, &work);
    *staging_out = work.staging;
    return work.peak;
}

uint64_t peak_of_rounds(struct arena *arena, const struct problem *problem, const struct rounds *rounds)
{
    uint64_t staging;
    return peak_and_staging_of_rounds(arena, problem, rounds, &staging);
}
