/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_RATES_H
#define SHUNT_PLANNER_RATES_H

/** Bytes per second, one direction, of the ports of a world: all that bounds and quotas know of a cluster. */

#include "space/world.h"

struct rates {
    const struct world *world;
    uint32_t *node_begin; /* by node: its first device; devices of a node follow each other */
    double *nodes;        /* by node: its devices' network ports together, as far as the node has them */
    uint32_t used_nodes;  /* that have a device */
};

void rates_init(struct arena *arena, const struct world *world, struct rates *rates_out);

/** Towards devices of the same node. */
static inline double rates_inside(const struct rates *rates, uint32_t device)
{
    return world_machine(rates->world, device)->intra_node;
}

/** Towards other nodes. */
static inline double rates_network(const struct rates *rates, uint32_t device)
{
    return world_machine(rates->world, device)->inter_node;
}

/** All ports of a device that lead to some other one. */
double rates_device(const struct rates *rates, uint32_t device);

/** From the device to the memory of its host. */
static inline double rates_host(const struct rates *rates, uint32_t device)
{
    return world_machine(rates->world, device)->device_to_host;
}

/** The other way. */
static inline double rates_from_host(const struct rates *rates, uint32_t device)
{
    return world_machine(rates->world, device)->host_to_device;
}

/** No byte of a new buffer is written faster. */
double rates_write(const struct rates *rates, uint32_t device);

static inline double rates_node(const struct rates *rates, uint32_t node)
{
    return rates->nodes[node];
}

#endif
