/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/rates.h"

void rates_init(struct arena *arena, const struct world *world, struct rates *rates_out)
{
    *rates_out = (struct rates){.world = world,
                                .node_begin = ARENA_NEW(arena, uint32_t, (size_t)world->node_count + 1),
                                .nodes = ARENA_NEW(arena, double, world->node_count)};
    for (uint32_t d = 0; d < world->device_count; d++) {
        uint32_t node = world->devices[d].node;
        rates_out->used_nodes += rates_out->node_begin[node + 1]++ == 0;
        rates_out->nodes[node] += rates_network(rates_out, d);
    }
    for (uint32_t d = 0; d < world->device_count; d++) {
        double *node = &rates_out->nodes[world->devices[d].node], most = world_machine(world, d)->node_inter_node;
        *node = *node < most ? *node : most;
    }
    for (uint32_t n = 0; n < world->node_count; n++)
        rates_out->node_begin[n + 1] += rates_out->node_begin[n];
}

double rates_device(const struct rates *rates, uint32_t device)
{
    uint32_t node = rates->world->devices[device].node;
    bool has_neighbours = rates->node_begin[node + 1] - rates->node_begin[node] > 1;
    return (has_neighbours ? rates_inside(rates, device) : 0) +
           (rates->used_nodes > 1 ? rates_network(rates, device) : 0);
}

double rates_write(const struct rates *rates, uint32_t device)
{
    const struct cfg_machine *machine = world_machine(rates->world, device);
    return machine->copy > machine->unpack ? machine->copy : machine->unpack;
}
