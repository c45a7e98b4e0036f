/* SPDX-License-Identifier: Apache-2.0 */
/** Orders that need little memory, against all orders of random small moves. */

#include "route_rig.h"
#include "schedule/frugal.h"
#include "schedule/order.h"

#define DEVICES    3u
#define MOST_JOBS  7u
#define MOVES      200u
#define LEAST_SIZE 8u

/** A move of some jobs between three devices, with no more than it needs. */
struct small {
    struct route route;
    struct world world;
    struct problem problem;
    struct problem_device devices[DEVICES];
    struct job jobs[MOST_JOBS];
    struct job_memory memory[MOST_JOBS][DEVICES];
    uint64_t slot[DEVICES];
    uint64_t larger; /* the larger side of any device, with what is beside it */
};

static void make_job(struct rig_random *random, struct small *small, uint32_t j)
{
    struct job *job = &small->jobs[j];
    job->after = JOB_NONE;
    job->memory = small->memory[j];
    if (j > 0 && rig_draw(random, 3) == 0) { /* of the kind of the one before */
        memcpy(job->memory, small->memory[j - 1], sizeof(small->memory[j]));
        job->memory_count = small->jobs[j - 1].memory_count;
    } else {
        for (uint32_t d = 0; d < DEVICES; d++) {
            uint64_t alloc = rig_draw(random, 2) * (LEAST_SIZE + rig_draw(random, 90));
            uint64_t release = rig_draw(random, 2) * (LEAST_SIZE + rig_draw(random, 90));
            if (alloc + release > 0)
                job->memory[job->memory_count++] = (struct job_memory){d, alloc, release};
        }
    }
    for (uint32_t m = 0; m < job->memory_count; m++) {
        small->devices[job->memory[m].device].from += job->memory[m].release;
        small->devices[job->memory[m].device].to += job->memory[m].alloc;
    }
}

static void make_small(struct rig_random *random, struct small *small)
{
    *small = (struct small){.world = {.device_count = DEVICES}};
    small->route.world = &small->world;
    small->problem = (struct problem){.route = &small->route,
                                      .cap = PROBLEM_NO_CAP,
                                      .job_count = 2 + rig_draw(random, MOST_JOBS - 1),
                                      .jobs = small->jobs,
                                      .devices = small->devices};
    for (uint32_t j = 0; j < small->problem.job_count; j++)
        make_job(random, small, j);
    for (uint32_t d = 0; d < DEVICES; d++) {
        struct problem_device *device = &small->devices[d];
        uint64_t kept = rig_draw(random, 50);
        *device = (struct problem_device){.fixed = rig_draw(random, 20),
                                          .memory = PROBLEM_NO_CAP,
                                          .unread = rig_draw(random, 30),
                                          .from = device->from + kept,
                                          .to = device->to + kept};
        device->from += device->unread;
        small->slot[d] = rig_draw(random, 10);
        uint64_t own = device->fixed + small->slot[d] + (device->from > device->to ? device->from : device->to);
        small->larger = own > small->larger ? own : small->larger;
    }
}

static uint64_t peak_of(struct arena *arena, const struct small *small, const uint32_t *order)
{
    uint64_t *buffers = ARENA_NEW(arena, uint64_t, DEVICES), peak = 0;
    order_peak(arena, &small->problem, order, buffers);
    for (uint32_t d = 0; d < DEVICES; d++) {
        uint64_t from = small->devices[d].from, own = buffers[d] > from ? buffers[d] : from;
        own += small->devices[d].fixed + small->slot[d];
        peak = own > peak ? own : peak;
    }
    return peak;
}

/** The peaks of the best and of the worst of all orders of what is behind the first `done` jobs. */
static void try_all(struct arena *arena, const struct small *small, uint32_t *order, uint32_t done, uint64_t *best,
                    uint64_t *worst)
{
    if (done == small->problem.job_count) {
        uint64_t peak = peak_of(arena, small, order);
        *best = peak < *best ? peak : *best;
        *worst = peak > *worst ? peak : *worst;
        return;
    }
    for (uint32_t i = done; i < small->problem.job_count; i++) {
        uint32_t first = order[done];
        order[done] = order[i];
        order[i] = first;
        try_all(arena, small, order, done + 1, best, worst);
        order[i] = order[done];
        order[done] = first;
    }
}

static bool is_permutation(const uint32_t *order, uint32_t count)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < count; i++)
        seen |= order[i] < count ? UINT32_C(1) << order[i] : 0;
    return seen == (UINT32_C(1) << count) - 1;
}

static void check_small(struct arena *arena, const struct small *small, uint32_t move)
{
    uint32_t order[MOST_JOBS];
    uint64_t best = UINT64_MAX, worst = 0;
    for (uint32_t j = 0; j < small->problem.job_count; j++)
        order[j] = j;
    try_all(arena, small, order, 0, &best, &worst);
    const struct frugal_options better = {.slot = small->slot, .least = small->larger, .most = worst + 1};
    const uint32_t *found = frugal_order(arena, &small->problem, &better);
    /* the search stops this near, or does not begin */
    uint64_t near = (worst - small->larger) / 100 + small->larger / 500 + 2;
    CHECK_MSG(found != NULL || worst - best <= near, "move %u", move);
    if (found == NULL)
        return;
    CHECK_MSG(is_permutation(found, small->problem.job_count), "move %u", move);
    uint64_t peak = peak_of(arena, small, found);
    CHECK_MSG(peak >= best && peak <= best + near, "move %u: %" PRIu64 " of %" PRIu64 " to %" PRIu64, move, peak, best,
              worst);
    const struct frugal_options best_known = {.slot = small->slot, .least = small->larger, .most = best};
    CHECK_MSG(best == small->larger || frugal_order(arena, &small->problem, &best_known) == NULL, "move %u", move);
}

static void try_move(struct rig_random *random, uint32_t move)
{
    static struct small small;
    struct arena arena;
    arena_init(&arena);
    make_small(random, &small);
    if (setjmp(arena.on_failure) == 0)
        check_small(&arena, &small, move);
    else
        CHECK(!"memory");
    arena_finish(&arena);
}

static void near_the_best_of_all(void)
{
    struct rig_random random = {7};
    for (uint32_t move = 0; move < MOVES; move++)
        try_move(&random, move);
}

/** A device of less memory than the cap has that limit, and jobs that wait for others are left alone. */
static void own_limits_and_chains(void)
{
    struct rig_random random = {11};
    struct small small;
    struct arena arena;
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        make_small(&random, &small);
        const struct frugal_options options = {.slot = small.slot, .least = small.larger, .most = 100000};
        CHECK(frugal_order(&arena, &small.problem, &options) != NULL);
        small.jobs[1].after = 0;
        CHECK(frugal_order(&arena, &small.problem, &options) == NULL);
        small.jobs[1].after = JOB_NONE;
        small.devices[0].memory = 1;
        CHECK(small.devices[0].from > 1);
        CHECK(frugal_order(&arena, &small.problem, &options) == NULL);
    }
    arena_finish(&arena);
}

static const struct test_case cases[] = {
    {"orders are near the best of all", near_the_best_of_all},
    {"devices have limits of their own, and jobs that wait are left alone", own_limits_and_chains},
};

TEST_MAIN(cases)
