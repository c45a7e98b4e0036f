/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/bound.h"

#include "routing/flow.h"
#include "routing/rates.h"

/** Sums of doubles may fall short by this much: a plan at the bound must not be told to beat it. */
#define SLACK 0x1p-40

/** Bytes that must leave a set of devices at least once. */
struct holder_set {
    const uint32_t *holders;
    uint32_t holder_count;
    uint64_t leaving[2]; /* the devices; their nodes */
};

struct tally {
    const struct classes *classes;
    struct rates rates;
    uint64_t *missing, *written; /* by device */
    uint64_t *node_missing;      /* by node */
    uint32_t *nodes;             /* room for a list */
    struct holder_set *sets;
};

static void raise_to(struct bounds *bounds, double seconds, enum bound_kind kind, uint32_t first, uint64_t bytes)
{
    if (seconds <= bounds->seconds)
        return;
    bounds->seconds = seconds;
    bounds->kind = kind;
    bounds->first = first;
    bounds->count = 1;
    bounds->bytes = bytes;
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
    set->leaving[0] += class->leaving;
    set->leaving[1] += lacking > 0 ? class->leaving : 0;
}

static void tally_written(const struct route *route, uint64_t *written)
{
    for (uint32_t t = 0; t < route->type_count; t++) {
        const struct route_type *type = &route->types[t];
        for (uint32_t p = 0; p < type->piece_count; p++)
            written[type->pieces[p].taker] += (uint64_t)type->pieces[p].cell->elements * type->new_bytes;
    }
}

/** One port of a cut network: a device, or with `by_node` a node. */
static uint32_t port_of(const struct tally *tally, bool by_node, uint32_t device)
{
    return by_node ? tally->classes->route->world->devices[device].node : device;
}

/** Network of the sets (vertex 2 and on), the ports behind them, the source 0 and the sink 1. */
static void build_network(struct arena *arena, const struct tally *tally, bool by_node, struct flow *flow,
                          struct flow_scale_input *input)
{
    const struct world *world = tally->classes->route->world;
    uint32_t sets = tally->classes->set_count, ports = by_node ? world->node_count : world->device_count;
    struct flow_port *list = ARENA_NEW(arena, struct flow_port, ports);
    bool *seen = ARENA_NEW(arena, bool, ports);
    *input = (struct flow_scale_input){.source = 0, .sink = 1, .ports = list};
    flow_init(2 + sets + ports, flow);
    for (uint32_t s = 0; s < sets; s++) {
        const struct holder_set *set = &tally->sets[s];
        uint64_t bytes = set->leaving[by_node];
        uint32_t last = UINT32_MAX;
        for (uint32_t h = 0; bytes > 0 && h < set->holder_count; h++) {
            uint32_t port = port_of(tally, by_node, set->holders[h]);
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
        double weight = by_node ? rates_node(&tally->rates, p) : rates_device(&tally->rates, p);
        if (seen[p])
            list[input->port_count++] =
                (struct flow_port){.arc = flow_add(arena, flow, 2 + sets + p, 1, 0), .weight = weight};
    }
}

/** The tightest set of ports and what must leave through it. */
static void tally_leaving(struct arena *arena, const struct tally *tally, bool by_node, struct bounds *bounds)
{
    struct flow flow;
    struct flow_scale_input input;
    struct flow_cut cut;
    build_network(arena, tally, by_node, &flow, &input);
    if (!flow_least_scale(arena, &flow, &input, bounds->seconds, &cut) || cut.port_count == 0)
        return;
    uint32_t arc = 2 * input.ports[cut.first_port].arc;
    uint32_t first = flow.arcs.items[arc].from - 2 - tally->classes->set_count;
    raise_to(bounds, cut.scale, by_node ? BOUND_NODES_OUT : BOUND_DEVICES_OUT, first, (uint64_t)cut.units);
    bounds->count = cut.port_count;
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
                          .node_missing = ARENA_NEW(scratch, uint64_t, world->node_count),
                          .nodes = ARENA_NEW(scratch, uint32_t, world->device_count),
                          .sets = ARENA_NEW(scratch, struct holder_set, classes->set_count)};
    rates_init(scratch, world, &tally.rates);
    for (uint32_t c = 0; c < classes->count; c++)
        tally_class(&classes->classes[c], &tally, bounds);
    tally_written(classes->route, tally.written);
    for (uint32_t d = 0; d < world->device_count; d++) {
        uint64_t missing = tally.missing[d], written = tally.written[d];
        bounds->max_missing = missing > bounds->max_missing ? missing : bounds->max_missing;
        if (missing > 0)
            raise_to(bounds, (double)missing / rates_device(&tally.rates, d), BOUND_DEVICE_IN, d, missing);
        raise_to(bounds, (double)written / rates_write(&tally.rates, d), BOUND_COPY, d, written);
    }
    for (uint32_t n = 0; n < world->node_count; n++) {
        if (tally.node_missing[n] > 0)
            raise_to(bounds, (double)tally.node_missing[n] / rates_node(&tally.rates, n), BOUND_NODE_IN, n,
                     tally.node_missing[n]);
    }
    tally_leaving(scratch, &tally, false, bounds);
    tally_leaving(scratch, &tally, true, bounds);
    bounds->seconds *= 1 - SLACK;
}

void bounds_compute(struct arena *arena, const struct classes *classes, struct bounds *bounds_out)
{
    struct bounds_work work = {.classes = classes, .bounds = bounds_out};
    *bounds_out = (struct bounds){0};
    arena_with_scratch(arena, compute, &work);
}
