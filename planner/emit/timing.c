/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/timing.h"

#include "schedule/meter.h"
#include "schedule/rounds_bound.h"
#include "util/crew.h"

/** Bytes that a transfer reads, where they come from host memory; elsewhere nobody asks. */
static uint64_t read_bytes(const struct space_item *item, const struct transfer *transfer)
{
    uint64_t elements = transfer->written / (transfer->passing ? item->wire_bytes : item->elem_bytes[SPACE_TO]);
    return elements * shunt_dtype_bytes(item->read_dtype);
}

static struct port_use use_of(const struct problem *problem, const struct transfer *transfer)
{
    const struct route *route = problem->route;
    bool local = transfer->source == transfer->taker;
    bool from_host = !transfer->passed && ports_read_host(problem, transfer->source, transfer->item, transfer->fresh);
    return (struct port_use){.source = transfer->source,
                             .taker = transfer->taker,
                             .wire = local ? 0 : problem_align(transfer->bytes),
                             .packed = local ? 0 : transfer->bytes,
                             .read = from_host ? read_bytes(&route->space->items[transfer->item], transfer) : 0,
                             .written = transfer->written,
                             .from_host = from_host,
                             .to_host = !transfer->passing && ports_write_host(route, transfer->item)};
}

struct sum_work {
    const struct problem *problem;
    const struct lowered *lowered;
    struct meter *meters; /* by worker; not yet begun without a problem of its ports */
    struct round_cost *costs;
};

/** The first transfer of a round or of one behind it. */
static uint32_t first_of_round(const struct lowered *lowered, uint32_t round)
{
    uint32_t low = 0, high = lowered->transfer_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lowered->transfers[middle].round < round)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cost_rounds(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct sum_work *work = context;
    struct meter *meter = &work->meters[worker];
    if (meter->ports.problem == NULL)
        meter_init(arena, work->problem, meter);
    for (uint32_t k = begin; k < end; k++) {
        if (k == 0)
            meter_add_parks(arena, meter);
        for (uint32_t i = first_of_round(work->lowered, k), last = first_of_round(work->lowered, k + 1); i < last;
             i++) {
            const struct transfer *transfer = &work->lowered->transfers[i];
            const struct port_use use = use_of(work->problem, transfer);
            meter_add(arena, meter, &use, transfer->message_offset + use.wire);
        }
        work->costs[k] = meter_close(meter);
    }
}

/** Count all transfers, round by round; the bytes of all rounds go to `meter`. */
static struct clock_sum sum_rounds(struct arena *arena, struct meter *meter, const struct rounds *rounds,
                                   const struct lowered *lowered)
{
    const struct problem *problem = meter->ports.problem;
    struct crew *crew = crew_open(arena, problem_threads(problem));
    struct sum_work work = {.problem = problem,
                            .lowered = lowered,
                            .meters = ARENA_NEW(arena, struct meter, crew_size(crew)),
                            .costs = ARENA_NEW(arena, struct round_cost, rounds->round_count + 1)};
    crew_share(crew, rounds->round_count, 1, cost_rounds, &work);
    for (uint32_t w = 0; w < crew_size(crew); w++) {
        for (uint32_t port = 0; work.meters[w].ports.problem != NULL && port < meter->ports.count; port++)
            meter->total[port] += work.meters[w].total[port];
    }
    crew_close(crew);
    return clock_total(work.costs, rounds->round_count, rounds->depth, problem->route->world->cluster->round_seconds);
}

static double seconds_per_byte(const struct meter *meter, uint32_t port)
{
    return ports_rates(&meter->ports, port / PORT_KINDS)->seconds_per_byte[port % PORT_KINDS];
}

/** The busiest port of each kind. @return the busiest link */
static uint32_t find_busiest(const struct meter *meter, struct timing_port busiest[PORT_KINDS])
{
    uint32_t bound = 0;
    double most = 0;
    for (uint32_t port = 0; port < meter->ports.count; port++) {
        struct timing_port *kind = &busiest[port % PORT_KINDS];
        double seconds = (double)meter->total[port] * seconds_per_byte(meter, port);
        if (seconds > kind->seconds)
            *kind = (struct timing_port){.device = port / PORT_KINDS, .seconds = seconds};
        if (port_is_link(port) && seconds > most) {
            most = seconds;
            bound = port;
        }
    }
    return bound;
}

/** Bytes that a link carries between the pieces of its messages. */
static uint64_t count_padding(struct arena *arena, const struct problem *problem, const struct lowered *lowered,
                              uint32_t link)
{
    const struct world_device *devices = problem->route->world->devices;
    struct ports ports;
    uint64_t padding = 0;
    uint32_t node = devices[link / PORT_KINDS].node;
    ports_init(arena, problem, &ports);
    for (uint32_t i = 0; i < lowered->transfer_count; i++) {
        if (devices[lowered->transfers[i].source].node != node && devices[lowered->transfers[i].taker].node != node)
            continue;
        const struct port_use use = use_of(problem, &lowered->transfers[i]);
        if (use.source == use.taker || use.wire == use.packed)
            continue;
        ports_add(arena, &ports, &use);
        padding += ports.bytes[link] > 0 ? use.wire - use.packed : 0;
        ports_clear(&ports);
    }
    return padding;
}

struct timing timing_compute(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                             const struct lowered *lowered)
{
    const struct route_figures *figures = &problem->route->figures;
    struct timing timing = {0};
    struct meter meter;
    meter_init(arena, problem, &meter);
    timing.sum = sum_rounds(arena, &meter, rounds, lowered);
    uint32_t link = find_busiest(&meter, timing.busiest);
    timing.padding_seconds = (double)count_padding(arena, problem, lowered, link) * seconds_per_byte(&meter, link);
    timing.predicted_seconds = timing.sum.total;
    const struct rounds_bound bound = rounds_bound_compute(arena, problem);
    double any =
        figures->lower_bound_seconds + (figures->max_missing > 0 ? problem->route->world->cluster->round_seconds : 0);
    timing.least_rounds = bound.rounds;
    timing.lower_bound_rounds_seconds = bound.seconds > any ? bound.seconds : any;
    return timing;
}
