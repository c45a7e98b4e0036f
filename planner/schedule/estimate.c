/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/estimate.h"

#include "schedule/pairs.h"
#include "schedule/ports.h"

/** Seconds of one round: the busiest of the wire ports, messages included, of the packs and of the unpacks. */
struct round_cost {
    double wire, pack, unpack;
};

struct estimator {
    const struct problem *problem;
    struct ports ports;
    struct pairs pairs;
    uint32_t *messages; /* by device: sends and receives of the open round */
};

static struct round_cost close_round(struct estimator *estimator)
{
    struct ports *ports = &estimator->ports;
    double message_seconds = estimator->problem->route->world->cluster->message_seconds;
    struct round_cost cost = {0};
    for (size_t i = 0; i < ports->touched.count; i++) {
        uint32_t port = ports->touched.items[i], kind = port % PORT_KINDS;
        double *most = kind == PORT_PACK ? &cost.pack : kind == PORT_UNPACK ? &cost.unpack : &cost.wire;
        double seconds = ports_seconds(ports, port);
        if (port_is_wire(port))
            seconds += estimator->messages[port / PORT_KINDS] * message_seconds;
        *most = seconds > *most ? seconds : *most;
    }
    for (size_t i = 0; i < ports->touched.count; i++)
        estimator->messages[ports->touched.items[i] / PORT_KINDS] = 0;
    ports_clear(ports);
    return cost;
}

/** Packs of the next round and unpacks of the one before run beside the wire of a round, where there are two slots. */
static double sum_rounds(const struct problem *problem, const struct rounds *rounds, const struct round_cost *costs)
{
    double total = 0, round_seconds = problem->route->world->cluster->round_seconds;
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        const struct round_cost *now = &costs[k];
        bool first = k == 0, last = k + 1 == rounds->round_count;
        if (rounds->depth == 1) {
            total += now->pack + now->wire + now->unpack;
        } else {
            double beside = (first ? 0 : costs[k - 1].unpack) + (last ? 0 : costs[k + 1].pack);
            total += beside > now->wire ? beside : now->wire;
            total += (first ? now->pack : 0) + (last ? now->unpack : 0);
        }
        total += now->wire > 0 ? round_seconds : 0;
    }
    return total;
}

struct estimate_work {
    const struct problem *problem;
    const struct rounds *rounds;
    double seconds;
};

static void estimate_rounds(struct arena *scratch, void *context)
{
    struct estimate_work *work = context;
    const struct problem *problem = work->problem;
    const struct rounds *rounds = work->rounds;
    struct estimator estimator = {.problem = problem,
                                  .messages = ARENA_NEW(scratch, uint32_t, problem->route->world->device_count)};
    struct round_cost *costs = ARENA_NEW(scratch, struct round_cost, rounds->round_count);
    ports_init(scratch, problem, &estimator.ports);
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            ports_add_unit(scratch, &estimator.ports, &rounds->units[u]);
            pairs_add_unit(scratch, &estimator.pairs, problem, &rounds->units[u], k, estimator.messages);
        }
        costs[k] = close_round(&estimator);
    }
    work->seconds = sum_rounds(problem, rounds, costs);
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
    ports_init(arena, problem, &ports);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct unit whole = {.job = j, .chunking = {.groups = 1, .slices = 1}};
        ports_add_unit(arena, &ports, &whole);
    }
    double least = 0;
    for (size_t i = 0; i < ports.touched.count; i++) {
        double seconds = ports_seconds(&ports, ports.touched.items[i]);
        least = port_is_wire(ports.touched.items[i]) && seconds > least ? seconds : least;
    }
    return least;
}
