/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/relay_ports.h"

void relay_ports_init(struct arena *arena, uint32_t devices, struct relay_ports *ports_out)
{
    *ports_out = (struct relay_ports){.node_out = ARENA_NEW(arena, uint64_t, devices),
                                      .node_in = ARENA_NEW(arena, uint64_t, devices),
                                      .net_out = ARENA_NEW(arena, uint64_t, devices),
                                      .net_in = ARENA_NEW(arena, uint64_t, devices)};
}

void relay_ports_add(struct relay_ports *ports, const struct world *world, uint32_t source, uint32_t taker,
                     uint64_t bytes)
{
    if (source == taker)
        return;
    bool inside = world->devices[source].node == world->devices[taker].node;
    (inside ? ports->node_out : ports->net_out)[source] += bytes;
    (inside ? ports->node_in : ports->net_in)[taker] += bytes;
}

uint64_t relay_ports_most(const uint64_t *bytes, uint32_t devices)
{
    uint64_t most = 0;
    for (uint32_t d = 0; d < devices; d++)
        most = bytes[d] > most ? bytes[d] : most;
    return most;
}

/** Ports are full duplex. */
static double busier(uint64_t out, uint64_t in)
{
    return (double)(out > in ? out : in);
}

double relay_ports_seconds(const struct relay_ports *ports, const struct world *world)
{
    double most = 0;
    for (uint32_t d = 0; d < world->device_count; d++) {
        const struct cfg_machine *machine = world_machine(world, d);
        double node = busier(ports->node_out[d], ports->node_in[d]) / machine->intra_node;
        double net = busier(ports->net_out[d], ports->net_in[d]) / machine->inter_node;
        most = node > most ? node : most;
        most = net > most ? net : most;
    }
    return most;
}

void relay_ports_sum(struct arena *arena, const struct route *route, struct relay_ports *ports_out)
{
    relay_ports_init(arena, route->world->device_count, ports_out);
    for (uint32_t t = 0; t < route->type_count; t++) {
        const struct route_type *type = &route->types[t];
        for (uint32_t i = 0; i < type->item_count; i++) {
            uint32_t elem_bytes = route->space->items[type->items[i]].wire_bytes;
            for (uint32_t p = 0; p < type->piece_count; p++)
                relay_ports_add(ports_out, route->world, route_source(type, i, p), type->pieces[p].taker,
                                (uint64_t)type->pieces[p].cell->elements * elem_bytes);
        }
    }
}

struct seconds_work {
    const struct route *route;
    double seconds;
};

static void sum_route(struct arena *scratch, void *context)
{
    struct seconds_work *work = context;
    struct relay_ports ports;
    relay_ports_sum(scratch, work->route, &ports);
    work->seconds = relay_ports_seconds(&ports, work->route->world);
}

double relay_route_seconds(struct arena *arena, const struct route *route)
{
    struct seconds_work work = {.route = route};
    arena_with_scratch(arena, sum_route, &work);
    return work.seconds;
}
