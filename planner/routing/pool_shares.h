/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_POOL_SHARES_H
#define SHUNT_PLANNER_POOL_SHARES_H

/**
 * Shares of what a device has to send over the network, or to get from it, by the ports of its node through which it
 * goes: its own first, then those of its neighbours.
 *
 * All ports are to be done after the same time. A device that its own port would take longer gives what is too much to
 * those of its node that are done earlier, in their order. The time is the least at which the ports of every node
 * suffice for it, and at which the links inside the node, which carry what is given away as well, are not busy longer.
 */

#include "routing/relay_ports.h"

struct pool_share {
    uint32_t device;
    uint64_t bytes; /* of all that goes over the network, about */
    uint64_t dealt; /* so far; see pool_deal() */
};

enum pool_direction { POOL_OUT, POOL_IN, POOL_DIRECTIONS };

struct pool_shares {
    uint32_t *begin[POOL_DIRECTIONS]; /* by device, and one more: its shares, its own first */
    struct pool_share *shares[POOL_DIRECTIONS];
    double seconds;  /* that the ports take */
    uint64_t parcel; /* bytes that count for little on any port */
};

/** @param ports  what each port carries when none is shared */
void pool_shares_build(struct arena *arena, const struct world *world, const struct relay_ports *ports,
                       struct pool_shares *shares_out);

/** Whether a device gives something away. */
static inline bool pool_is_shared(const struct pool_shares *shares, enum pool_direction direction, uint32_t device)
{
    return shares->begin[direction][device + 1] - shares->begin[direction][device] > 1;
}

/**
 * The port for the next bytes of a device: the one that is furthest behind its share. What was dealt to it counts from
 * then on.
 *
 * @param own  it must be the device's own
 */
uint32_t pool_deal(struct pool_shares *shares, enum pool_direction direction, uint32_t device, uint64_t bytes,
                   bool own);

#endif
