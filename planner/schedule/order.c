/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** What choosing a job now means. */
struct candidate {
    uint64_t peak; /* highest memory on its devices while it runs */
    double change; /* of the potential, per byte */
};

/** Jobs of one type and element sizes, in order. */
struct kind {
    uint32_t count, next;
    uint32_t *jobs;
    struct candidate weight; /* of the next job, when `weighed` jobs had run */
    uint32_t weighed;        /* UINT32_MAX: not weighed */
};

struct kinds {
    uint32_t count;
    struct kind *kinds;
};

static bool same_kind(const struct problem *problem, const struct job *a, const struct job *b)
{
    const struct space_item *x = &problem->route->space->items[a->item], *y = &problem->route->space->items[b->item];
    return a->type == b->type && memcmp(x->elem_bytes, y->elem_bytes, sizeof(x->elem_bytes)) == 0;
}

/** A type's jobs are not contiguous (layers alternate between states), but its kinds are few. */
static struct kinds list_kinds(struct arena *arena, const struct problem *problem)
{
    VEC(struct kind) list = {0};
    VEC(uint32_t) first_job = {0};
    uint32_t *of_job = ARENA_NEW(arena, uint32_t, problem->job_count);
    uint32_t *last_of_type = ARENA_NEW(arena, uint32_t, problem->route->type_count); /* kind + 1 */
    uint32_t *previous = ARENA_NEW(arena, uint32_t, problem->job_count);             /* kind + 1 of the same type */
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        uint32_t k = last_of_type[job->type];
        while (k != 0 && !same_kind(problem, &problem->jobs[first_job.items[k - 1]], job))
            k = previous[k - 1];
        if (k == 0) {
            *VEC_PUSH(arena, &list) = (struct kind){.weighed = UINT32_MAX};
            *VEC_PUSH(arena, &first_job) = j;
            k = (uint32_t)list.count;
            previous[k - 1] = last_of_type[job->type];
            last_of_type[job->type] = k;
        }
        of_job[j] = k - 1;
        list.items[k - 1].count++;
    }
    for (size_t k = 0; k < list.count; k++) {
        list.items[k].jobs = ARENA_NEW(arena, uint32_t, list.items[k].count);
        list.items[k].count = 0;
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        struct kind *kind = &list.items[of_job[j]];
        kind->jobs[kind->count++] = j;
    }
    return (struct kinds){.count = (uint32_t)list.count, .kinds = list.items};
}

/** The same order, but a job that comes after another one stands right behind it where it stood before. */
static uint32_t *order_pairs(struct arena *arena, const struct problem *problem, uint32_t *order)
{
    uint32_t *follower = ARENA_NEW(arena, uint32_t, problem->job_count); /* + 1: waits for the job */
    uint32_t *ordered = ARENA_NEW(arena, uint32_t, problem->job_count);
    bool *done = ARENA_NEW(arena, bool, problem->job_count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < problem->job_count; i++) {
        uint32_t j = order[i], after = problem->jobs[j].after;
        if (after != JOB_NONE && !done[after]) {
            follower[after] = j + 1; /* nothing else waits for it */
            continue;
        }
        ordered[count++] = j;
        done[j] = true;
        if (follower[j] != 0)
            ordered[count++] = follower[j] - 1;
    }
    return ordered;
}

struct mixed_key {
    uint64_t key;
    uint32_t job;
};

static int compare_keys(const void *a, const void *b)
{
    const struct mixed_key *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

uint32_t *order_mixed(struct arena *arena, const struct problem *problem)
{
    struct kinds kinds = list_kinds(arena, problem);
    struct mixed_key *keys = ARENA_NEW(arena, struct mixed_key, problem->job_count);
    uint32_t *order = ARENA_NEW(arena, uint32_t, problem->job_count);
    for (uint32_t k = 0; k < kinds.count; k++) {
        const struct kind *kind = &kinds.kinds[k];
        for (uint32_t m = 0; m < kind->count; m++) {
            uint32_t job = kind->jobs[m];
            keys[job] = (struct mixed_key){.key = ((2 * (uint64_t)m + 1) << 31) / kind->count, .job = job};
        }
    }
    if (problem->job_count > 0)
        qsort(keys, problem->job_count, sizeof(*keys), compare_keys);
    for (uint32_t j = 0; j < problem->job_count; j++)
        order[j] = keys[j].job;
    return order_pairs(arena, problem, order);
}

#define POTENTIAL_STEEPNESS 60.0

/** Jobs run last whose devices are remembered: a weight that is older is taken anew. */
#define REMEMBERED 8u

struct potential {
    const struct problem *problem;
    uint64_t *memory; /* by device: buffers live now */
    uint64_t *peak;   /* by device */
    uint64_t highest; /* max of peak */
    bool *done;       /* by job */
    double *weight;   /* by device: exp(60 (memory - limit) / limit) */
    double **growth;  /* by job and memory entry: exp(60 net / limit) - 1 */
    double limit;
    uint64_t *mask;               /* by job: a bit for each range of devices that it touches */
    uint32_t run;                 /* jobs run so far */
    uint64_t touched[REMEMBERED]; /* masks of the last ones, that of job n at n mod REMEMBERED */
};

/**
 * 2^x for x in about [-1000, 1000]: the library's exp differs in its last bit between processors, and a plan must
 * not. Plain additions and multiplications do not.
 */
static double power_of_two(double x)
{
    /* ln(2)^n / n! */
    static const double terms[] = {1.0,
                                   0.6931471805599453,
                                   0.2402265069591007,
                                   0.05550410866482158,
                                   0.009618129107628477,
                                   0.0013333558146428443,
                                   0.00015403530393381608,
                                   0.000015252733804059841,
                                   0.0000013215486790144307,
                                   0.00000010178086009239699};
    int whole = (int)x - (x < 0);
    double rest = x - whole, sum = 0;
    for (int n = (int)(sizeof(terms) / sizeof(terms[0])); n-- > 0;)
        sum = sum * rest + terms[n];
    return ldexp(sum, whole);
}

#define LOG2_OF_E 1.4426950408889634

/** exp(60 bytes / limit), held away from overflow. */
static double steep(double bytes, double limit)
{
    double exponent = POTENTIAL_STEEPNESS * LOG2_OF_E * bytes / limit;
    return power_of_two(exponent > 900 ? 900 : exponent < -900 ? -900 : exponent);
}

static void potential_init(struct arena *arena, const struct problem *problem, struct potential *potential)
{
    uint32_t devices = problem->route->world->device_count;
    uint64_t limit = problem->from_max > problem->to_max ? problem->from_max : problem->to_max;
    potential->problem = problem;
    potential->limit = limit > 0 ? (double)limit : 1.0;
    potential->done = ARENA_NEW(arena, bool, problem->job_count);
    potential->memory = ARENA_NEW(arena, uint64_t, devices);
    potential->weight = ARENA_NEW(arena, double, devices);
    potential->growth = ARENA_NEW(arena, double *, problem->job_count);
    potential->mask = ARENA_NEW(arena, uint64_t, problem->job_count);
    for (uint32_t d = 0; d < devices; d++) {
        potential->memory[d] = problem->devices[d].from - problem->devices[d].unread;
        potential->weight[d] = steep((double)potential->memory[d] - potential->limit, potential->limit);
        potential->peak[d] = potential->memory[d];
        if (potential->memory[d] > potential->highest)
            potential->highest = potential->memory[d];
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        potential->growth[j] = ARENA_NEW(arena, double, job->memory_count);
        for (uint32_t m = 0; m < job->memory_count; m++) {
            double net = (double)job->memory[m].alloc - (double)job->memory[m].release;
            potential->growth[j][m] = steep(net, potential->limit) - 1.0;
            potential->mask[j] |= UINT64_C(1) << ((uint64_t)job->memory[m].device * 64 / devices);
        }
    }
}

static struct candidate weigh(const struct potential *potential, uint32_t j)
{
    const struct job *job = &potential->problem->jobs[j];
    struct candidate candidate = {0};
    double change = 0, bytes = 1;
    for (uint32_t m = 0; m < job->memory_count; m++) {
        const struct job_memory *memory = &job->memory[m];
        uint64_t live = potential->memory[memory->device] + memory->alloc;
        candidate.peak = live > candidate.peak ? live : candidate.peak;
        change += potential->weight[memory->device] * potential->growth[j][m];
        bytes += (double)memory->alloc + (double)memory->release;
    }
    candidate.change = change / bytes;
    return candidate;
}

/** The weight of a kind's next job: as it was, unless a job has touched its devices since. */
static const struct candidate *weigh_kind(const struct potential *potential, struct kind *kind)
{
    uint32_t j = kind->jobs[kind->next];
    bool known = kind->weighed != UINT32_MAX && potential->run - kind->weighed <= REMEMBERED;
    for (uint32_t n = kind->weighed; known && n < potential->run; n++)
        known = (potential->touched[n % REMEMBERED] & potential->mask[j]) == 0;
    if (!known)
        kind->weight = weigh(potential, j);
    kind->weighed = potential->run;
    return &kind->weight;
}

static bool better(const struct candidate *a, const struct candidate *b, uint64_t highest)
{
    bool a_fits = a->peak <= highest, b_fits = b->peak <= highest;
    if (a_fits != b_fits)
        return a_fits;
    if (!a_fits && a->peak != b->peak)
        return a->peak < b->peak;
    return a->change < b->change;
}

static void run_job(struct potential *potential, uint32_t j)
{
    const struct job *job = &potential->problem->jobs[j];
    potential->done[j] = true;
    for (uint32_t m = 0; m < job->memory_count; m++) {
        uint32_t d = job->memory[m].device;
        uint64_t live = potential->memory[d] + job->memory[m].alloc;
        if (live > potential->peak[d])
            potential->peak[d] = live;
        if (live > potential->highest)
            potential->highest = live;
        potential->memory[d] = live - job->memory[m].release;
        potential->weight[d] = steep((double)potential->memory[d] - potential->limit, potential->limit);
    }
    potential->touched[potential->run++ % REMEMBERED] = potential->mask[j];
}

/** Kinds that still have jobs: beyond some hundred, each step looks at a moving sample only. */
#define MOST_SAMPLED   384u
#define FEWEST_SAMPLED 16u

/** Memory entries, and jobs at so many each, that are looked at in all: more of them make for smaller samples. */
#define ENTRIES_WEIGHED 60000000u
#define ENTRIES_PER_JOB 4u

static uint32_t sample_kinds(const struct problem *problem)
{
    uint64_t entries = 1;
    for (uint32_t j = 0; j < problem->job_count; j++)
        entries += problem->jobs[j].memory_count + ENTRIES_PER_JOB;
    uint64_t sample = ENTRIES_WEIGHED / entries;
    return sample < FEWEST_SAMPLED ? FEWEST_SAMPLED : sample > MOST_SAMPLED ? MOST_SAMPLED : (uint32_t)sample;
}

static bool is_blocked(const struct potential *potential, uint32_t j)
{
    uint32_t after = potential->problem->jobs[j].after;
    return after != JOB_NONE && !potential->done[after];
}

/** Best of the open kinds [begin, begin + count), taken round the end; UINT32_MAX when all of them wait for others. */
static uint32_t best_kind(const struct potential *potential, const struct kinds *kinds, const uint32_t *open,
                          uint32_t open_count, uint32_t begin, uint32_t count)
{
    struct candidate best = {0};
    uint32_t best_place = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = (begin + i) % open_count;
        struct kind *kind = &kinds->kinds[open[place]];
        if (is_blocked(potential, kind->jobs[kind->next]))
            continue;
        const struct candidate *candidate = weigh_kind(potential, kind);
        if (best_place == UINT32_MAX || better(candidate, &best, potential->highest)) {
            best_place = place;
            best = *candidate;
        }
    }
    return best_place;
}

uint32_t *order_least_peak(struct arena *arena, const struct problem *problem, uint64_t *peak_out)
{
    struct kinds kinds = list_kinds(arena, problem);
    struct potential potential = {.peak = peak_out};
    potential_init(arena, problem, &potential);
    uint32_t *order = ARENA_NEW(arena, uint32_t, problem->job_count);
    uint32_t *open = ARENA_NEW(arena, uint32_t, kinds.count);
    uint32_t open_count = kinds.count, begin = 0, sample = sample_kinds(problem);
    for (uint32_t k = 0; k < kinds.count; k++)
        open[k] = k;
    for (uint32_t n = 0; n < problem->job_count; n++) {
        bool all = open_count <= sample;
        uint32_t place =
            best_kind(&potential, &kinds, open, open_count, all ? 0 : begin % open_count, all ? open_count : sample);
        if (place == UINT32_MAX) /* what they wait for is elsewhere */
            place = best_kind(&potential, &kinds, open, open_count, 0, open_count);
        struct kind *kind = &kinds.kinds[open[place]];
        order[n] = kind->jobs[kind->next++];
        kind->weighed = UINT32_MAX;
        run_job(&potential, order[n]);
        if (kind->next == kind->count) /* keep the rest in order: ties go to the earlier job */
            memmove(&open[place], &open[place + 1], (--open_count - place) * sizeof(*open));
        begin += sample / 4;
    }
    return order;
}

void order_peak(struct arena *arena, const struct problem *problem, const uint32_t *order, uint64_t *peak_out)
{
    uint32_t devices = problem->route->world->device_count;
    uint64_t *memory = ARENA_NEW(arena, uint64_t, devices);
    for (uint32_t d = 0; d < devices; d++)
        peak_out[d] = memory[d] = problem->devices[d].from - problem->devices[d].unread;
    for (uint32_t i = 0; i < problem->job_count; i++) {
        const struct job *job = &problem->jobs[order[i]];
        for (uint32_t m = 0; m < job->memory_count; m++) {
            uint64_t *live = &memory[job->memory[m].device];
            uint64_t *peak = &peak_out[job->memory[m].device];
            *live += job->memory[m].alloc;
            *peak = *live > *peak ? *live : *peak;
            *live -= job->memory[m].release;
        }
    }
}
