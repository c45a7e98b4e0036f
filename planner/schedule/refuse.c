/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/refuse.h"

#include <stdio.h>
#include <stdlib.h>

#include "schedule/cap_lp.h"
#include "schedule/peak.h"

#define LARGEST      3   /* tensors that are named */
#define MOST_LANES   200 /* of a program */
#define MOST_CLASSES 64

typedef unsigned long long ull;

/** One job on one device. */
struct change {
    uint64_t alloc, release;
    uint32_t job;
};

/** What gives room first, the least needed beforehand first; then what takes room, the most given back first. */
static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    bool x_gives = x->release >= x->alloc, y_gives = y->release >= y->alloc;
    if (x_gives != y_gives)
        return x_gives ? -1 : 1;
    if (x_gives && x->alloc != y->alloc)
        return x->alloc < y->alloc ? -1 : 1;
    if (!x_gives && x->release != y->release)
        return x->release > y->release ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

/** Least peak of a device's buffers, tensor by tensor in the order that is best for it alone, and the job that sets it. */
struct alone {
    uint64_t peak;
    uint32_t job;
};

static struct alone peak_alone(struct arena *arena, const struct problem *problem, uint32_t device)
{
    VEC(struct change) changes = {0};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        for (uint32_t m = 0; m < job->memory_count; m++) {
            if (job->memory[m].device == device)
                *VEC_PUSH(arena, &changes) = (struct change){job->memory[m].alloc, job->memory[m].release, j};
        }
    }
    if (changes.count > 1)
        qsort(changes.items, changes.count, sizeof(*changes.items), compare_changes);
    uint64_t live = problem->devices[device].from - problem->devices[device].unread;
    struct alone alone = {.peak = problem->devices[device].from, .job = JOB_NONE};
    for (size_t i = 0; i < changes.count; i++) {
        live += changes.items[i].alloc;
        if (live > alone.peak)
            alone = (struct alone){live, changes.items[i].job};
        live -= changes.items[i].release;
    }
    return alone;
}

static const char *job_name(struct arena *arena, const struct problem *problem, uint32_t j, const char **state_out)
{
    const struct space *space = problem->route->space;
    const struct space_item *item = &space->items[problem->jobs[j].item];
    *state_out = shunt_state_name(item->state);
    return space_tensor_name(arena, &space->families[item->family], item->layer, item->expert);
}

static int compare_allocs(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->alloc != y->alloc)
        return x->alloc > y->alloc ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

/** "a.weight (master) 100 B, b.weight (param) 50 B": what a device allocates most for. */
static void name_largest(struct arena *arena, const struct problem *problem, uint32_t device, char *text, size_t room)
{
    VEC(struct change) changes = {0};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        for (uint32_t m = 0; m < job->memory_count; m++) {
            if (job->memory[m].device == device && job->memory[m].alloc > 0)
                *VEC_PUSH(arena, &changes) = (struct change){job->memory[m].alloc, 0, j};
        }
    }
    if (changes.count > 1)
        qsort(changes.items, changes.count, sizeof(*changes.items), compare_allocs);
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < changes.count && i < LARGEST && at < room; i++) {
        const char *state, *name = job_name(arena, problem, changes.items[i].job, &state);
        int written = snprintf(text + at, room - at, "%s%.60s (%s) %llu B", i > 0 ? ", " : "", name, state,
                               (ull)changes.items[i].alloc);
        at += written > 0 ? (size_t)written : room;
    }
}

static uint64_t cap_of(const struct refusal *refusal, uint32_t device)
{
    return problem_cap(refusal->problem, refusal->problem->cap, device);
}

/** Device that is above its cap most, by what a function says of each beside what is fixed there. */
static uint32_t worst_device(const struct refusal *refusal, uint64_t (*need)(const struct refusal *, uint32_t))
{
    uint32_t worst = 0;
    int64_t most = INT64_MIN;
    for (uint32_t d = 0; d < refusal->problem->route->world->device_count; d++) {
        int64_t above = (int64_t)(refusal->problem->devices[d].fixed + need(refusal, d) - cap_of(refusal, d));
        if (above > most) {
            most = above;
            worst = d;
        }
    }
    return worst;
}

static uint64_t old_side(const struct refusal *refusal, uint32_t device)
{
    return refusal->problem->devices[device].from;
}

static uint64_t new_side(const struct refusal *refusal, uint32_t device)
{
    return refusal->problem->devices[device].to;
}

static uint64_t in_order(const struct refusal *refusal, uint32_t device)
{
    uint64_t from = refusal->problem->devices[device].from, peak = refusal->worst_buffers[device];
    return (peak > from ? peak : from) + refusal->least_slot[device];
}

/** Least rooms of some numbers of slices, and what is lacking in the last. */
struct program_work {
    const struct refusal *refusal;
    char *text;
    size_t room;
};

static const uint32_t slice_counts[] = {8, 16, 32, 64};
#define SLICE_COUNTS (sizeof(slice_counts) / sizeof(slice_counts[0]))

static uint64_t largest_slot(const struct refusal *refusal)
{
    uint64_t largest = 0;
    for (uint32_t d = 0; d < refusal->problem->route->world->device_count; d++)
        largest = refusal->least_slot[d] > largest ? refusal->least_slot[d] : largest;
    return largest;
}

static size_t say_lacking(struct arena *scratch, const struct program_work *work, const struct lanes *classes,
                          size_t at)
{
    const struct problem *problem = work->refusal->problem;
    uint64_t taken = problem_most_fixed(problem) + largest_slot(work->refusal), most = 0, devices = 0;
    const struct cap_lp_input input = {.problem = problem,
                                       .classes = classes,
                                       .slices = slice_counts[SLICE_COUNTS - 1],
                                       .room = problem->cap > taken ? problem->cap - taken : 0,
                                       .mode = CAP_LP_ELASTIC};
    const struct cap_lp_result solved = cap_lp_solve(scratch, &input);
    for (uint32_t c = 0; c < classes->class_count && solved.status == LP_OPTIMAL; c++) {
        most = solved.lacking[c] > most ? solved.lacking[c] : most;
        devices += solved.lacking[c] > 0 ? classes->class_size[c] : 0;
    }
    if (devices == 0)
        return at;
    return at + (size_t)snprintf(work->text + at, work->room - at,
                                 "; in %u slices %llu device%s lack%s up to %llu B each", input.slices, (ull)devices,
                                 devices == 1 ? "" : "s", devices == 1 ? "s" : "", (ull)most);
}

static void ask_programs(struct arena *scratch, void *context)
{
    const struct program_work *work = context;
    const struct problem *problem = work->refusal->problem;
    const struct lanes *classes = lanes_build(scratch, problem, MOST_LANES);
    size_t at = 0;
    if (classes->lane_count > MOST_LANES || classes->class_count > MOST_CLASSES)
        return;
    for (size_t i = 0; i < SLICE_COUNTS; i++) {
        const struct cap_lp_input input = {
            .problem = problem, .classes = classes, .slices = slice_counts[i], .mode = CAP_LP_CAP};
        const struct cap_lp_result solved = cap_lp_solve(scratch, &input);
        if (solved.status != LP_OPTIMAL)
            continue;
        uint64_t cap = (uint64_t)solved.room + problem_most_fixed(problem) + largest_slot(work->refusal);
        at += (size_t)snprintf(work->text + at, work->room - at, "%s%llu B in %u",
                               at > 0 ? ", " : " (all stages in equal step: ", (ull)cap, slice_counts[i]);
    }
    if (at == 0)
        return;
    at = say_lacking(scratch, work, classes, at);
    snprintf(work->text + at, work->room - at, ")");
}

/** The reason, and the device that it is about. */
static uint32_t find_reason(struct arena *arena, const struct refusal *refusal, char *why, size_t room)
{
    const struct problem *problem = refusal->problem;
    uint32_t old = worst_device(refusal, old_side), new = worst_device(refusal, new_side);
    uint64_t held = problem->devices[old].fixed + problem->devices[old].from;
    uint64_t wanted = problem->devices[new].fixed + problem->devices[new].to;
    if (held > cap_of(refusal, old)) {
        snprintf(why, room, "the old layout alone is larger: it holds %llu B now, %llu B more than the cap", (ull)held,
                 (ull)(held - cap_of(refusal, old)));
        return old;
    }
    if (wanted > cap_of(refusal, new)) {
        char largest[300];
        name_largest(arena, problem, new, largest, sizeof(largest));
        snprintf(
            why, room,
            "the new layout alone is larger: it needs %llu B in any order, %llu B more than the cap; the largest of "
            "it: %s",
            (ull)wanted, (ull)(wanted - cap_of(refusal, new)), largest);
        return new;
    }
    uint32_t worst = worst_device(refusal, in_order);
    struct alone alone = peak_alone(arena, problem, worst);
    uint64_t taken = problem->devices[worst].fixed + refusal->least_slot[worst], cap = cap_of(refusal, worst);
    if (alone.job != JOB_NONE && taken + alone.peak > cap) {
        const char *state, *name = job_name(arena, problem, alone.job, &state);
        const struct problem_device *device = &problem->devices[worst];
        uint64_t larger = taken + (device->from > device->to ? device->from : device->to);
        char parts[80];
        if (larger < cap)
            snprintf(parts, sizeof(parts), "in parts of at most %llu B it would fit", (ull)(cap - larger));
        else
            snprintf(parts, sizeof(parts), "the larger side and the smallest staging alone are %llu B too much",
                     (ull)(larger - cap));
        snprintf(why, room,
                 "buffers come and go whole: with both sides of %.60s (%s) at once it needs %llu B, in the best order "
                 "for it alone; %s",
                 name, state, (ull)(taken + alone.peak), parts);
        return worst;
    }
    char programs[300] = "";
    struct program_work work = {refusal, programs, sizeof(programs)};
    if (refusal->solve && lp_solver_name() != NULL)
        arena_with_scratch(arena, ask_programs, &work);
    snprintf(why, room, "the order of moves needs both sides of some tensors at once%s", programs);
    return worst;
}

/** "cap 10 B is 2 B short", or that no cap would do on a device that has less memory than others. */
static void say_short(const struct refusal *refusal, uint32_t device, char *text, size_t room)
{
    const struct problem *problem = refusal->problem;
    uint64_t memory = problem->devices[device].memory;
    uint64_t need = problem->devices[device].fixed + in_order(refusal, device);
    if (refusal->least_cap < PEAK_OVER)
        snprintf(text, room, "cap %llu B is %llu B short", (ull)problem->cap, (ull)(refusal->least_cap - problem->cap));
    else
        snprintf(text, room, "memory is %llu B short, whatever the cap,", (ull)(need > memory ? need - memory : 0));
}

/** "; the least cap that would do is 20 B, or 15 B with --spill host" */
static void say_least(const struct refusal *refusal, char *text, size_t room)
{
    size_t at = 0;
    text[0] = '\0';
    if (refusal->least_cap < PEAK_OVER)
        at = (size_t)snprintf(text, room, "; the least cap that would do is %llu B", (ull)refusal->least_cap);
    uint64_t spilled = refusal->spilled_least_cap;
    if (spilled > 0 && spilled < refusal->least_cap && spilled < PEAK_OVER)
        snprintf(text + at, room - at, at > 0 ? ", or %llu B with --spill host" : "; %llu B would do with --spill host",
                 (ull)spilled);
}

enum shunt_status refuse_cap(struct arena *arena, const struct refusal *refusal, struct shunt_err *err)
{
    const struct problem *problem = refusal->problem;
    const struct world *world = problem->route->world;
    char why[640], shortage[96], peers[64] = "", least[128];
    uint32_t worst = find_reason(arena, refusal, why, sizeof(why));
    const struct problem_device *device = &problem->devices[worst];
    bool is_new = world->devices[worst].to_rank != WORLD_NO_RANK;
    say_short(refusal, worst, shortage, sizeof(shortage));
    say_least(refusal, least, sizeof(least));
    if (problem_peer_bytes(problem, worst) > 0)
        snprintf(peers, sizeof(peers), " (%llu B of it for its peers)", (ull)problem_peer_bytes(problem, worst));
    return shunt_fail(
        err, SHUNT_ERR_INFEASIBLE,
        "infeasible: %s on device %u (%s rank %u): %s; old side %llu B, new side %llu B, smallest staging "
        "%llu B, reserve and transport %llu B%s%s",
        shortage, world->devices[worst].id, is_new ? "new" : "old",
        is_new ? world->devices[worst].to_rank : world->devices[worst].from_rank, why, (ull)device->from,
        (ull)device->to, (ull)refusal->least_slot[worst], (ull)device->fixed, peers, least);
}
