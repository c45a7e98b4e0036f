/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PORTS_H
#define SHUNT_PLANNER_PORTS_H

/** Bytes that units bring to the ports of their devices. A port carries bytes at a rate of its own. */

#include "schedule/clock.h"
#include "schedule/walk.h"

/** A port is device * PORT_KINDS + kind. */
struct ports {
    const struct problem *problem;
    const struct world *world;
    uint32_t count;
    uint64_t *bytes;           /* by port */
    struct clock_rates *rates; /* by machine */
    VEC(uint32_t) touched;     /* ports with bytes, in the order in which they got some */
};

void ports_init(struct arena *arena, const struct problem *problem, struct ports *ports_out);

/** What a piece asks of the ports of its devices. */
struct port_use {
    uint32_t source, taker;  /* equal: a local copy */
    uint64_t wire;           /* bytes in the message, with the padding behind them; of a local copy 0 */
    uint64_t packed;         /* bytes that a pack writes */
    uint64_t read, written;  /* bytes of the buffers at both ends */
    bool from_host, to_host; /* where those lie */
};

/** Where the buffer that a piece is read from lies, and the one that it goes to. */
bool ports_read_host(const struct problem *problem, uint32_t device, uint32_t item, bool fresh);
bool ports_write_host(const struct route *route, uint32_t item);

/** What a piece of the unit at hand asks for. @return whether it has any bytes there */
bool ports_piece(struct walk *walk, uint32_t piece_index, struct port_use *use_out);

void ports_add(struct arena *arena, struct ports *ports, const struct port_use *use);

/** Add what a unit sends, receives and copies. */
void ports_add_unit(struct arena *arena, struct ports *ports, struct walk *walk, const struct unit *unit);

static inline const struct clock_rates *ports_rates(const struct ports *ports, uint32_t device)
{
    return &ports->rates[ports->world->devices[device].machine];
}

static inline double ports_seconds(const struct ports *ports, uint32_t port)
{
    return (double)ports->bytes[port] * ports_rates(ports, port / PORT_KINDS)->seconds_per_byte[port % PORT_KINDS];
}

/** Whether a port takes bytes through a staging slot, over a wire. */
static inline bool port_is_wire(uint32_t port)
{
    return port % PORT_KINDS < PORT_POOL_OUT;
}

/** Whether a port works while the group is under way: a wire, or what the wires of a node share. */
static inline bool port_is_link(uint32_t port)
{
    return port % PORT_KINDS < PORT_PACK;
}

/** Back to no bytes anywhere. */
void ports_clear(struct ports *ports);

#endif
