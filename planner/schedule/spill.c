/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/spill.h"

#include <stdlib.h>
#include <string.h>

/** A job's memory on one device, at its place in the order. */
struct step {
    uint32_t job, entry;
};

/** The steps of each device, in order: those of device d are steps[begin[d] .. begin[d + 1]). */
struct steps {
    size_t *begin;
    struct step *steps;
};

/** An old buffer that lives at the step at hand. */
struct candidate {
    uint64_t bytes;
    uint32_t step; /* that releases it */
};

/** One device while its buffers are chosen. */
struct choice {
    const struct problem *problem;
    const struct step *steps;
    uint32_t count;
    uint64_t limit;
    uint64_t *live; /* by step: bytes of buffers while it runs, nothing parked */
    bool *parked;   /* by step: what it releases */
    struct candidate *candidates;
    uint32_t candidate_count;
};

static const struct job_memory *memory_of(const struct problem *problem, const struct step *step)
{
    return &problem->jobs[step->job].memory[step->entry];
}

static struct steps list_steps(struct arena *arena, const struct problem *problem, const uint32_t *order)
{
    uint32_t devices = problem->route->world->device_count;
    struct steps list = {.begin = ARENA_NEW(arena, size_t, devices + 2)};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++)
            list.begin[problem->jobs[j].memory[m].device + 2]++;
    }
    for (uint32_t d = 2; d <= devices + 1; d++)
        list.begin[d] += list.begin[d - 1];
    list.steps = ARENA_NEW(arena, struct step, list.begin[devices + 1]);
    for (uint32_t n = 0; n < problem->job_count; n++) {
        const struct job *job = &problem->jobs[order[n]];
        for (uint32_t m = 0; m < job->memory_count; m++)
            list.steps[list.begin[job->memory[m].device + 1]++] = (struct step){.job = order[n], .entry = m};
    }
    return list;
}

/** What is live while each step runs. @return the most of it */
static uint64_t replay(struct choice *choice, uint32_t device)
{
    uint64_t live = choice->problem->devices[device].from - choice->problem->devices[device].unread, peak = live;
    for (uint32_t n = 0; n < choice->count; n++) {
        const struct job_memory *memory = memory_of(choice->problem, &choice->steps[n]);
        choice->live[n] = live + memory->alloc;
        live = choice->live[n] - memory->release;
        peak = choice->live[n] > peak ? choice->live[n] : peak;
    }
    return peak;
}

/** The smallest candidate that is enough, else the largest; they ascend. */
static uint32_t take_candidate(struct choice *choice, uint64_t need)
{
    uint32_t at = 0;
    while (at + 1 < choice->candidate_count && choice->candidates[at].bytes < need)
        at++;
    return at;
}

static void add_candidate(struct choice *choice, uint32_t n)
{
    const struct job_memory *memory = memory_of(choice->problem, &choice->steps[n]);
    uint32_t at = choice->candidate_count;
    if (memory->release == 0)
        return;
    while (at > 0 && choice->candidates[at - 1].bytes > memory->release) {
        choice->candidates[at] = choice->candidates[at - 1];
        at--;
    }
    choice->candidates[at] = (struct candidate){.bytes = memory->release, .step = n};
    choice->candidate_count++;
}

/** From the last step back: what is released at a step or later is there while it runs. */
static void choose_parks(struct choice *choice)
{
    uint64_t gone = 0;
    choice->candidate_count = 0;
    for (uint32_t n = choice->count; n-- > 0;) {
        add_candidate(choice, n);
        while (choice->live[n] - gone > choice->limit && choice->candidate_count > 0) {
            uint32_t at = take_candidate(choice, choice->live[n] - gone - choice->limit);
            gone += choice->candidates[at].bytes;
            choice->parked[choice->candidates[at].step] = true;
            choice->candidate_count--;
            memmove(&choice->candidates[at], &choice->candidates[at + 1],
                    (choice->candidate_count - at) * sizeof(*choice->candidates));
        }
    }
}

/** What a job releases on a device is released before anything moves. */
static void park(struct arena *arena, struct problem *problem, const struct problem *original, const struct step *step)
{
    struct job *job = &problem->jobs[step->job];
    struct problem_device *device = &problem->devices[job->memory[step->entry].device];
    if (job->memory == original->jobs[step->job].memory) {
        struct job_memory *own = ARENA_NEW(arena, struct job_memory, job->memory_count);
        memcpy(own, job->memory, job->memory_count * sizeof(*own));
        job->memory = own;
    }
    device->unread += job->memory[step->entry].release;
    job->memory[step->entry].release = 0;
    problem->unread_max = device->unread > problem->unread_max ? device->unread : problem->unread_max;
    problem->frees_unread = true;
}

static int compare_items(const void *a, const void *b)
{
    const struct parked *x = a, *y = b;
    return (x->item > y->item) - (x->item < y->item);
}

typedef VEC(struct parked) parked_vec;

/** Take what was chosen on a device into the problem. */
static void park_chosen(struct arena *arena, struct problem *problem, const struct choice *choice, parked_vec *list)
{
    size_t begin = list->count;
    for (uint32_t n = 0; n < choice->count; n++) {
        const struct step *step = &choice->steps[n];
        if (!choice->parked[n])
            continue;
        *VEC_PUSH(arena, list) =
            (struct parked){.item = problem->route->space->items[problem->jobs[step->job].item].derived_from,
                            .bytes = memory_of(choice->problem, step)->release};
        park(arena, problem, choice->problem, step);
    }
    if (list->count > begin)
        qsort(&list->items[begin], list->count - begin, sizeof(*list->items), compare_items);
}

static struct problem *copy_problem(struct arena *arena, const struct problem *problem)
{
    uint32_t devices = problem->route->world->device_count;
    struct problem *copy = ARENA_NEW(arena, struct problem, 1);
    *copy = *problem;
    copy->jobs = ARENA_NEW(arena, struct job, problem->job_count);
    copy->devices = ARENA_NEW(arena, struct problem_device, devices);
    if (problem->job_count > 0)
        memcpy(copy->jobs, problem->jobs, problem->job_count * sizeof(*copy->jobs));
    memcpy(copy->devices, problem->devices, devices * sizeof(*copy->devices));
    return copy;
}

/** Room for the steps of any device. */
static void make_choice(struct arena *arena, const struct steps *steps, uint32_t devices, struct choice *choice)
{
    size_t most = 0;
    for (uint32_t d = 0; d < devices; d++)
        most = steps->begin[d + 1] - steps->begin[d] > most ? steps->begin[d + 1] - steps->begin[d] : most;
    choice->live = ARENA_NEW(arena, uint64_t, most);
    choice->parked = ARENA_NEW(arena, bool, most);
    choice->candidates = ARENA_NEW(arena, struct candidate, most);
}

/** Bytes of buffers that a device may have beside so much else. */
static uint64_t buffers_beside(const struct problem *problem, uint32_t device, uint64_t room)
{
    uint64_t cap = problem_cap(problem, problem->cap, device), fixed = problem->devices[device].fixed;
    uint64_t left = cap > fixed ? cap - fixed : 0;
    return left > room ? left - room : 0;
}

struct problem *spill_build(struct arena *arena, const struct problem *problem, const uint32_t *order, uint64_t room,
                            uint64_t *peak_out)
{
    uint32_t devices = problem->route->world->device_count;
    struct problem *spilled = copy_problem(arena, problem);
    struct steps steps = list_steps(arena, problem, order);
    struct choice choice = {.problem = problem};
    uint32_t *begin = ARENA_NEW(arena, uint32_t, devices + 1);
    parked_vec list = {0};
    make_choice(arena, &steps, devices, &choice);
    for (uint32_t d = 0; d < devices; d++) {
        choice.steps = &steps.steps[steps.begin[d]];
        choice.count = (uint32_t)(steps.begin[d + 1] - steps.begin[d]);
        choice.limit = buffers_beside(problem, d, room);
        peak_out[d] = replay(&choice, d);
        if (peak_out[d] > choice.limit) {
            memset(choice.parked, 0, choice.count * sizeof(*choice.parked));
            choose_parks(&choice);
            park_chosen(arena, spilled, &choice, &list);
            struct choice parked = choice;
            parked.problem = spilled;
            peak_out[d] = replay(&parked, d);
        }
        begin[d + 1] = (uint32_t)list.count;
    }
    spilled->parks = (struct parks){.begin = begin, .list = list.items};
    return spilled;
}

void spill_delay(struct arena *arena, const struct problem *problem, struct rounds *rounds)
{
    if (!parks_any(problem))
        return;
    uint32_t *begin = ARENA_NEW(arena, uint32_t, rounds->round_count + rounds->depth + 1);
    memcpy(begin + rounds->depth, rounds->round_begin, (rounds->round_count + 1) * sizeof(*begin));
    rounds->round_begin = begin;
    rounds->round_count += rounds->depth;
    rounds->idle_rounds += rounds->depth;
}
