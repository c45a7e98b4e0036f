/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/bound.h"

#include <math.h>

#include "routing/flow.h"
#include "routing/rates.h"

/** Sums of doubles may fall short by this much: a plan at the bound must not be told to beat it. */
#define SLACK 0x1p-40

/** What bytes leave, and over which ports. */
enum leave_kind { LEAVE_DEVICES, LEAVE_NODES, LEAVE_HOSTS, LEAVE_KINDS };

/** Bytes that must leave a set of devices at least once. */
struct holder_set {
    const uint32_t *holders;
    uint32_t holder_count;
    uint64_t leaving[LEAVE_KINDS];
};

struct tally {
    const struct classes *classes;
    struct rates rates;
    uint64_t *missing, *written, *hosted,
        *got;               /* by device; hosted: of what is written, to host memory; got: of that, missing */
    uint64_t *node_missing; /* by node */
    uint32_t *nodes;        /* room for a list */
    struct holder_set *sets;
};

static void raise_to(struct bounds *bounds, double seconds, const struct route_reason *reason)
{
    if (seconds <= bounds->seconds)
        return;
    bounds->seconds = seconds;
    bounds->reason = *reason;
}

/** The ports of one device or node. */
static void raise_by_one(struct bounds *bounds, uint64_t bytes, double rate, enum route_limit limit, uint32_t place)
{
    const struct route_reason reason = {.limit = limit, .first = place, .count = 1, .bytes = bytes};
    if (bytes > 0)
        raise_to(bounds, (double)bytes / rate, &reason);
}

static void tally_class(const struct route_class *class, struct tally *tally, struct bounds *bounds)
{
    struct holder_set *set = &tally->sets[class->holder_set];
    for (uint32_t t = 0; t < class->taker_count; t++)
        tally->missing[class->takers[t]] += class->bytes;
    uint32_t lacking = classes_lacking(tally->classes->route->world, class, true, tally->nodes);
    for (uint32_t n = 0; n < lacking; n++)
        tally->node_missing[tally->nodes[n]] += class->bytes;
    bounds->inter_node += lacking * class->bytes;
    set->holders = class->holders;
    set->holder_count = class->holder_count;
    set->leaving[LEAVE_DEVICES] += class->leaving;
    set->leaving[LEAVE_NODES] += lacking > 0 ? class->leaving : 0;
    set->leaving[LEAVE_HOSTS] += class->hosted;
}

/** Bytes of one element on the new side, over the items of a type that lie in host memory there. */
static uint64_t hosted_bytes(const struct route *route, const struct route_type *type)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < type->item_count; i++) {
        if (side_tier(route->to, type->items[i]) == CFG_TIER_HOST)
            bytes += route->space->items[type->items[i]].elem_bytes[SPACE_TO];
    }
    return bytes;
}

static void tally_written(const struct route *route, struct tally *tally)
{
    for (uint32_t t = 0; t < route->type_count; t++) {
        const struct route_type *type = &route->types[t];
        uint64_t hosted = type->piece_count > 0 ? hosted_bytes(route, type) : 0;
        for (uint32_t p = 0; p < type->piece_count; p++) {
            uint64_t elements = (uint64_t)type->pieces[p].cell->elements;
            tally->written[type->pieces[p].taker] += elements * type->new_bytes;
            tally->hosted[type->pieces[p].taker] += elements * hosted;
            tally->got[type->pieces[p].taker] += type->pieces[p].candidate_count > 0 ? elements * hosted : 0;
        }
    }
}

/** One port of a cut network: a device, or a node. */
static uint32_t port_of(const struct tally *tally, enum leave_kind kind, uint32_t device)
{
    return kind == LEAVE_NODES ? tally->classes->route->world->devices[device].node : device;
}

static double port_rate(const struct tally *tally, enum leave_kind kind, uint32_t port)
{
    if (kind == LEAVE_NODES)
        return rates_node(&tally->rates, port);
    return kind == LEAVE_HOSTS ? rates_from_host(&tally->rates, port) : rates_device(&tally->rates, port);
}

/** Network of the sets (vertex 2 and on), the ports behind them, the source 0 and the sink 1. */
static void build_network(struct arena *arena, const struct tally *tally, enum leave_kind kind, struct flow *flow,
                          struct flow_scale_input *input)
{
    const struct world *world = tally->classes->route->world;
    uint32_t sets = tally->classes->set_count, ports = kind == LEAVE_NODES ? world->node_count : world->device_count;
    struct flow_port *list = ARENA_NEW(arena, struct flow_port, ports);
    bool *seen = ARENA_NEW(arena, bool, ports);
    *input = (struct flow_scale_input){.source = 0, .sink = 1, .ports = list};
    flow_init(2 + sets + ports, flow);
    for (uint32_t s = 0; s < sets; s++) {
        const struct holder_set *set = &tally->sets[s];
        uint64_t bytes = set->leaving[kind];
        uint32_t last = UINT32_MAX;
        for (uint32_t h = 0; bytes > 0 && h < set->holder_count; h++) {
            uint32_t port = port_of(tally, kind, set->holders[h]);
            if (port != last)
                flow_add(arena, flow, 2 + s, 2 + sets + port, (int64_t)bytes);
            last = port;
            seen[port] = true;
        }
        if (bytes > 0)
            flow_add(arena, flow, 0, 2 + s, (int64_t)bytes);
        input->wanted += (int64_t)bytes;
    }
    for (uint32_t p = 0; p < ports; p++) {
        if (seen[p])
            list[input->port_count++] = (struct flow_port){.arc = flow_add(arena, flow, 2 + sets + p, 1, 0),
                                                           .weight = port_rate(tally, kind, p)};
    }
}

/** The tightest set of ports and what must leave through it, where that takes more than `start` seconds. */
static bool find_tightest(struct arena *arena, const struct tally *tally, enum leave_kind kind, double start,
                          struct bounds *found_out)
{
    static const enum route_limit limits[] = {LIMIT_DEVICE_OUT, LIMIT_NODE_OUT, LIMIT_HOST};
    struct flow flow;
    struct flow_scale_input input;
    struct flow_cut cut;
    build_network(arena, tally, kind, &flow, &input);
    for (uint32_t p = 0; p < input.port_count; p++) {
        if (isinf(input.ports[p].weight))
            return false; /* a way out that takes no time */
    }
    if (!flow_least_scale(arena, &flow, &input, start, &cut) || cut.port_count == 0)
        return false;
    uint32_t arc = 2 * input.ports[cut.first_port].arc;
    *found_out = (struct bounds){.seconds = cut.scale,
                                 .reason = {.limit = limits[kind],
                                            .first = flow.arcs.items[arc].from - 2 - tally->classes->set_count,
                                            .count = cut.port_count,
                                            .bytes = (uint64_t)cut.units}};
    return true;
}

static void tally_leaving(struct arena *arena, const struct tally *tally, enum leave_kind kind, struct bounds *bounds)
{
    struct bounds found;
    if (find_tightest(arena, tally, kind, bounds->seconds, &found))
        raise_to(bounds, found.seconds, &found.reason);
}

/** Reads from host memory and, behind them, writes of what is received. */
static void tally_hosts(struct arena *arena, const struct tally *tally, struct bounds *bounds)
{
    struct bounds reads = {0}, writes = {0};
    find_tightest(arena, tally, LEAVE_HOSTS, 0, &reads);
    for (uint32_t d = 0; d < tally->classes->route->world->device_count; d++)
        raise_by_one(&writes, tally->got[d], rates_host(&tally->rates, d), LIMIT_HOST, d);
    raise_to(bounds, reads.seconds + writes.seconds, reads.seconds > 0 ? &reads.reason : &writes.reason);
}

struct bounds_work {
    const struct classes *classes;
    struct bounds *bounds;
};

static void compute(struct arena *scratch, void *context)
{
    const struct bounds_work *work = context;
    struct classes apart;
    classes_build_apart(scratch, work->classes, &apart);
    const struct classes *classes = &apart;
    const struct world *world = classes->route->world;
    struct bounds *bounds = work->bounds;
    struct tally tally = {.classes = classes,
                          .missing = ARENA_NEW(scratch, uint64_t, world->device_count),
                          .written = ARENA_NEW(scratch, uint64_t, world->device_count),
                          .hosted = ARENA_NEW(scratch, uint64_t, world->device_count),
                          .got = ARENA_NEW(scratch, uint64_t, world->device_count),
                          .node_missing = ARENA_NEW(scratch, uint64_t, world->node_count),
                          .nodes = ARENA_NEW(scratch, uint32_t, world->device_count),
                          .sets = ARENA_NEW(scratch, struct holder_set, classes->set_count)};
    rates_init(scratch, world, &tally.rates);
    for (uint32_t c = 0; c < classes->count; c++)
        tally_class(&classes->classes[c], &tally, bounds);
    tally_written(classes->route, &tally);
    for (uint32_t d = 0; d < world->device_count; d++) {
        uint64_t missing = tally.missing[d];
        bounds->max_missing = missing > bounds->max_missing ? missing : bounds->max_missing;
        raise_by_one(bounds, missing, rates_device(&tally.rates, d), LIMIT_DEVICE_IN, d);
        raise_by_one(bounds, tally.written[d], rates_write(&tally.rates, d), LIMIT_COPY, d);
        raise_by_one(bounds, tally.hosted[d], rates_host(&tally.rates, d), LIMIT_HOST, d);
    }
    for (uint32_t n = 0; n < world->node_count; n++)
        raise_by_one(bounds, tally.node_missing[n], rates_node(&tally.rates, n), LIMIT_NODE_IN, n);
    tally_leaving(scratch, &tally, LEAVE_DEVICES, bounds);
    tally_leaving(scratch, &tally, LEAVE_NODES, bounds);
    tally_hosts(scratch, &tally, bounds);
    bounds->seconds *= 1 - SLACK;
}

void bounds_compute(struct arena *arena, const struct classes *classes, struct bounds *bounds_out)
{
    struct bounds_work work = {.classes = classes, .bounds = bounds_out};
    *bounds_out = (struct bounds){0};
    arena_with_scratch(arena, compute, &work);
}
