/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/estimate.h"

#include "schedule/meter.h"
#include "schedule/pairs.h"

struct estimate_work {
    const struct problem *problem;
    const struct rounds *rounds;
    double seconds;
};

static void add_unit(struct arena *arena, struct meter *meter, struct pairs *pairs, struct walk *walk, uint32_t round)
{
    struct port_use use;
    for (uint32_t i = 0; i < walk->count; i++) {
        if (!ports_piece(walk, walk_piece(walk, i), &use))
            continue;
        bool local = use.source == use.taker;
        uint64_t message = local ? 0 : pairs_extend(arena, pairs, use.source, use.taker, round, use.wire);
        meter_add(arena, meter, &use, message);
    }
}

static void estimate_rounds(struct arena *scratch, void *context)
{
    struct estimate_work *work = context;
    const struct rounds *rounds = work->rounds;
    struct meter meter;
    struct pairs pairs = {0};
    struct walk walk;
    struct round_cost *costs = ARENA_NEW(scratch, struct round_cost, rounds->round_count);
    meter_init(scratch, work->problem, &meter);
    walk_init(scratch, work->problem, &walk);
    meter_add_parks(scratch, &meter);
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            walk_unit(scratch, &walk, &rounds->units[u]);
            add_unit(scratch, &meter, &pairs, &walk, k);
        }
        costs[k] = meter_close(&meter);
    }
    double round_seconds = work->problem->route->world->cluster->round_seconds;
    work->seconds = clock_total(costs, rounds->round_count, rounds->depth, round_seconds).total;
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
