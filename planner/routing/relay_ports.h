/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_RELAY_PORTS_H
#define SHUNT_PLANNER_RELAY_PORTS_H

/** Bytes by device and direction, while sources are chosen. */

#include "routing/route.h"

struct relay_ports {
    uint64_t *node_out, *node_in; /* by device: inside its node */
    uint64_t *net_out, *net_in;   /* by device: across */
};

void relay_ports_init(struct arena *arena, uint32_t devices, struct relay_ports *ports_out);

/** Add what a taker gets from a source; nothing when they are one. */
void relay_ports_add(struct relay_ports *ports, const struct world *world, uint32_t source, uint32_t taker,
                     uint64_t bytes);

/** Those of all pieces of a finished route. */
void relay_ports_sum(struct arena *arena, const struct route *route, struct relay_ports *ports_out);

/** Seconds of the busiest of all ports. */
double relay_ports_seconds(const struct relay_ports *ports, const struct world *world);

/** Seconds of the busiest of all ports of a finished route. */
double relay_route_seconds(struct arena *arena, const struct route *route);

/** The largest of some bytes by device. */
uint64_t relay_ports_most(const uint64_t *bytes, uint32_t devices);

#endif
