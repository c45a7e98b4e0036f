/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/timing.h"

#include "schedule/meter.h"

static struct port_use use_of(const struct route *route, const struct transfer *transfer)
{
    const struct space_item *item = &route->space->items[transfer->item];
    bool local = transfer->source == transfer->taker;
    uint64_t elements = transfer->written / item->elem_bytes[SPACE_TO];
    return (struct port_use){.source = transfer->source,
                             .taker = transfer->taker,
                             .wire = local ? 0 : problem_aligned_bytes((int64_t)elements, item->wire_bytes),
                             .packed = local ? 0 : transfer->bytes,
                             .read = elements * shunt_dtype_bytes(item->read_dtype),
                             .written = transfer->written,
                             .from_host = ports_read_host(route, transfer->item, transfer->fresh),
                             .to_host = ports_write_host(route, transfer->item)};
}

static struct clock_sum sum_rounds(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                                   const struct lowered *lowered)
{
    const struct route *route = problem->route;
    struct round_cost *costs = ARENA_NEW(arena, struct round_cost, rounds->round_count + 1);
    struct meter meter;
    uint32_t i = 0;
    meter_init(arena, problem, &meter);
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        for (; i < lowered->transfer_count && lowered->transfers[i].round == k; i++) {
            const struct port_use use = use_of(route, &lowered->transfers[i]);
            meter_add(arena, &meter, &use, lowered->transfers[i].message_offset + use.wire);
        }
        costs[k] = meter_close(&meter);
    }
    return clock_total(costs, rounds->round_count, rounds->depth, route->world->cluster->round_seconds);
}

struct timing timing_compute(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                             const struct lowered *lowered)
{
    const struct route_figures *figures = &problem->route->figures;
    double round_seconds = problem->route->world->cluster->round_seconds;
    uint64_t least_rounds = figures->max_missing > 0 ? 1 : 0;
    if (problem->staging > 0 && figures->max_missing > problem->staging)
        least_rounds = (figures->max_missing + problem->staging - 1) / problem->staging;
    return (struct timing){.predicted_seconds = sum_rounds(arena, problem, rounds, lowered).total,
                           .lower_bound_rounds_seconds =
                               figures->lower_bound_seconds + (double)least_rounds * round_seconds};
}
