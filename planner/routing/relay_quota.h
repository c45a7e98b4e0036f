/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_RELAY_QUOTA_H
#define SHUNT_PLANNER_RELAY_QUOTA_H

/**
 * What each device should send over the network, so that the busiest port sends no more than it must when takers may
 * send on. Of a class, holders send each byte once at least; the copies behind the first may come from its takers, too:
 *
 *     source --> first copy ---------> holders --> ports --> sink     what is the least T at which all copies leave?
 *       +------> the other copies ---> holders, takers --+
 *
 * It is a least-scale flow (flow.h). Takers that are gateways for other classes have ports of their own to mind: that
 * is what taking turns does not see.
 */

#include "space/world.h"
#include "util/arena.h"

/** All that the same devices hold and the same ones lack, in nodes without a holder. */
struct relay_class {
    uint64_t bytes; /* one copy */
    uint32_t needy; /* nodes that lack it: copies that must be sent */
    uint32_t holder_count, sender_count;
    const uint32_t *senders; /* devices: the holders, then takers of the nodes that lack it */
    int64_t *quota;          /* by sender */
};

/**
 * Fill the quotas of all classes.
 *
 * @param forced  by device: bytes that it sends anyway
 * @param start   seconds that no routes are faster than
 * @return seconds that the busiest port needs
 */
double relay_quota_find(struct arena *arena, const struct world *world, struct relay_class *classes, uint32_t count,
                        const uint64_t *forced, double start);

#endif
