/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/relay_quota.h"

#include "routing/flow.h"
#include "routing/rates.h"

enum { SOURCE, SINK, FIRST_CLASS };

struct network {
    const struct world *world;
    struct relay_class *classes;
    uint32_t count;
    struct flow flow;
    struct flow_scale_input input;
};

static uint32_t device_vertex(const struct network *network, uint32_t device)
{
    return FIRST_CLASS + 2 * network->count + device;
}

/** `bytes` that the first `senders` of a class may send: arcs from the source, and to each sender. */
static void add_copies(struct arena *arena, struct network *network, uint32_t vertex, const struct relay_class *class,
                       uint32_t senders, int64_t bytes)
{
    flow_add(arena, &network->flow, SOURCE, vertex, bytes);
    for (uint32_t s = 0; s < senders; s++)
        flow_add(arena, &network->flow, vertex, device_vertex(network, class->senders[s]), bytes);
    network->input.wanted += bytes;
}

static void build_network(struct arena *arena, struct network *network, const uint64_t *forced)
{
    uint32_t devices = network->world->device_count;
    struct rates rates;
    struct flow_port *ports = ARENA_NEW(arena, struct flow_port, devices);
    rates_init(arena, network->world, &rates);
    flow_init(FIRST_CLASS + 2 * network->count + devices, &network->flow);
    for (uint32_t c = 0; c < network->count; c++) {
        const struct relay_class *class = &network->classes[c];
        uint32_t vertex = FIRST_CLASS + 2 * c;
        int64_t bytes = (int64_t) class->bytes;
        add_copies(arena, network, vertex, class, class->holder_count, bytes);
        add_copies(arena, network, vertex + 1, class, class->sender_count, bytes * (class->needy - 1));
    }
    for (uint32_t d = 0; d < devices; d++) {
        flow_add(arena, &network->flow, SOURCE, device_vertex(network, d), (int64_t)forced[d]);
        network->input.wanted += (int64_t)forced[d];
    }
    for (uint32_t d = 0; d < devices; d++)
        ports[d] = (struct flow_port){.arc = flow_add(arena, &network->flow, device_vertex(network, d), SINK, 0),
                                      .weight = rates_network(&rates, d)};
    network->input.source = SOURCE;
    network->input.sink = SINK;
    network->input.ports = ports;
    network->input.port_count = devices;
}

/** Arcs of a class: one from the source and one to each holder, then one from the source and one to each sender. */
static void read_quotas(struct network *network)
{
    uint32_t arc = 0;
    for (uint32_t c = 0; c < network->count; c++) {
        struct relay_class *class = &network->classes[c];
        arc++;
        for (uint32_t s = 0; s < class->holder_count; s++)
            class->quota[s] = flow_used(&network->flow, arc++);
        arc++;
        for (uint32_t s = 0; s < class->sender_count; s++)
            class->quota[s] += flow_used(&network->flow, arc++);
    }
}

struct find_work {
    struct network network;
    const uint64_t *forced;
    double seconds; /* where to start; then what was found */
};

static void find(struct arena *scratch, void *context)
{
    struct find_work *work = context;
    struct flow_cut cut = {.scale = work->seconds};
    build_network(scratch, &work->network, work->forced);
    flow_least_scale(scratch, &work->network.flow, &work->network.input, work->seconds, &cut);
    work->seconds = cut.scale;
    read_quotas(&work->network);
}

double relay_quota_find(struct arena *arena, const struct world *world, struct relay_class *classes, uint32_t count,
                        const uint64_t *forced, double start)
{
    struct find_work work = {
        .network = {.world = world, .classes = classes, .count = count}, .forced = forced, .seconds = start};
    arena_with_scratch(arena, find, &work);
    return work.seconds;
}
