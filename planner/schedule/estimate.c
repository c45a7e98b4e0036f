/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/estimate.h"

#include "schedule/meter.h"
#include "schedule/pairs.h"
#include "util/crew.h"

/** What one worker has of its own. */
struct estimator {
    bool ready;
    struct meter meter;
    struct pairs pairs;
    struct walk walk;
};

struct estimate_work {
    const struct problem *problem;
    const struct rounds *rounds;
    struct estimator *estimators; /* by worker */
    struct round_cost *costs;     /* by round */
    double seconds;
};

static void add_unit(struct arena *arena, struct estimator *estimator, uint32_t round)
{
    struct walk *walk = &estimator->walk;
    struct port_use use;
    for (uint32_t i = 0; i < walk->count; i++) {
        if (!ports_piece(walk, walk_piece(walk, i), &use))
            continue;
        bool local = use.source == use.taker;
        uint64_t message = local ? 0 : pairs_extend(arena, &estimator->pairs, use.source, use.taker, round, use.wire);
        meter_add(arena, &estimator->meter, &use, message);
    }
}

static void start(struct arena *arena, const struct problem *problem, struct estimator *estimator)
{
    if (estimator->ready)
        return;
    meter_init(arena, problem, &estimator->meter);
    walk_init(arena, problem, &estimator->walk);
    estimator->ready = true;
}

static void cost_rounds(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct estimate_work *work = context;
    struct estimator *estimator = &work->estimators[worker];
    const struct rounds *rounds = work->rounds;
    start(arena, work->problem, estimator);
    for (uint32_t k = begin; k < end; k++) {
        if (k == 0)
            meter_add_parks(arena, &estimator->meter);
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            walk_unit(arena, &estimator->walk, &rounds->units[u]);
            add_unit(arena, estimator, k);
        }
        work->costs[k] = meter_close(&estimator->meter);
    }
}

static void estimate_rounds(struct arena *scratch, void *context)
{
    struct estimate_work *work = context;
    const struct rounds *rounds = work->rounds;
    struct crew *crew = crew_open(scratch, problem_threads(work->problem));
    work->costs = ARENA_NEW(scratch, struct round_cost, rounds->round_count);
    work->estimators = ARENA_NEW(scratch, struct estimator, crew_size(crew));
    crew_share(crew, rounds->round_count, 1, cost_rounds, work);
    crew_close(crew);
    double round_seconds = work->problem->route->world->cluster->round_seconds;
    work->seconds = clock_total(work->costs, rounds->round_count, rounds->depth, round_seconds).total;
}

double estimate_seconds(struct arena *arena, const struct problem *problem, const struct rounds *rounds)
{
    struct estimate_work work = {.problem = problem, .rounds = rounds};
    arena_with_scratch(arena, estimate_rounds, &work);
    return work.seconds;
}

double estimate_least_seconds(struct arena *arena, const struct problem *problem)
{
    struct ports ports;
    struct walk walk;
    ports_init(arena, problem, &ports);
    walk_init(arena, problem, &walk);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct unit whole = {.job = j, .chunking = {.groups = 1, .slices = 1, .stages = 1}};
        ports_add_unit(arena, &ports, &walk, &whole);
    }
    double least = 0;
    for (size_t i = 0; i < ports.touched.count; i++) {
        double seconds = ports_seconds(&ports, ports.touched.items[i]);
        least = port_is_link(ports.touched.items[i]) && seconds > least ? seconds : least;
    }
    return least;
}
