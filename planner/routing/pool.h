/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_POOL_H
#define SHUNT_PLANNER_POOL_H

/**
 * Network ports of a node that are used as one. Where some devices of a node have more to send over the network than
 * others, part of it goes to neighbours inside the node first, and leaves through their ports; and so at the other end:
 *
 *     direct   a =============> c      a and c are busy, b and d idle
 *     pooled   a -------------> c      half of it on the direct way,
 *              a ~~> b -------> c      the rest over b, where it lies in scratch memory for a while,
 *              a -------> d ~~> c      or, where c is the bottleneck, over d
 *
 * How much goes which way is a matter of devices and bytes alone (pool_shares.h). A cell is cut into so many parts that
 * every one of its transfers is dealt in these shares, so that each chunk of it loads the ports alike.
 *
 * Unlike what takers send on, this adds crossings, inside of nodes.
 */

#include "routing/route.h"

/** The same route with neighbours in between; NULL where that lowers the busiest port by too little. */
struct route *pool_build(struct arena *arena, const struct route *base);

#endif
