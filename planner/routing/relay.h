/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_RELAY_H
#define SHUNT_PLANNER_RELAY_H

/**
 * Takers that send on what they have received, so that bytes enter a node once:
 *
 *     direct    holder ======> 8 takers of a node          8 crossings of the network
 *     relayed   holder ------> gateway ======> 7 others    1 crossing, then 7 inside the node
 *
 * Every item of a cell has a gateway of its own in each node without a holder, dealt so that the network ports of
 * the node's takers are loaded alike; a cell that is too large for that is split first. Holders that must reach many
 * nodes are the bottleneck in turn: then gateways send on to other gateways. No byte crosses between devices more
 * often than on a direct route, as all of them need it: who sends it differs.
 *
 * Where a device makes a cell of a derived item itself, the others of its node get it from there, too.
 */

#include "routing/route.h"

/** The same pieces, or parts of them, with sources that relay; NULL where that lowers the busiest port by too little. */
struct route *relay_build(struct arena *arena, const struct route *direct);

#endif
