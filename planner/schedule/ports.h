/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PORTS_H
#define SHUNT_PLANNER_PORTS_H

/** Bytes that units bring to the ports of their devices. A port carries bytes at a rate of its own. */

#include "schedule/rounds.h"

enum port_kind {
    PORT_NODE_OUT, /* to a device of the same node */
    PORT_NODE_IN,
    PORT_NET_OUT, /* to another node */
    PORT_NET_IN,
    PORT_PACK,   /* packs and local copies: bytes written */
    PORT_UNPACK, /* the same of unpacks */
    PORT_KINDS
};

/** A port is device * PORT_KINDS + kind. */
struct ports {
    const struct problem *problem;
    uint32_t count;
    uint64_t *bytes; /* by port */
    double seconds_per_byte[PORT_KINDS];
    VEC(uint32_t) touched; /* ports with bytes, in the order in which they got some */
};

void ports_init(struct arena *arena, const struct problem *problem, struct ports *ports_out);

/** Add what a unit sends, receives and copies. */
void ports_add_unit(struct arena *arena, struct ports *ports, const struct unit *unit);

static inline double ports_seconds(const struct ports *ports, uint32_t port)
{
    return (double)ports->bytes[port] * ports->seconds_per_byte[port % PORT_KINDS];
}

/** Whether a port takes bytes through a staging slot, over a wire. */
static inline bool port_is_wire(uint32_t port)
{
    return port % PORT_KINDS < PORT_PACK;
}

/** Back to no bytes anywhere. */
void ports_clear(struct ports *ports);

#endif
