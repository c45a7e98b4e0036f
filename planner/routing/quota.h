/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_QUOTA_H
#define SHUNT_PLANNER_QUOTA_H

/**
 * The source of every piece, so that the busiest port sends no more than it must. A piece comes from the taker's own
 * node when some device there holds it, else over the network.
 *
 *     group     all that the same devices may send, within a node or over the network; its takers want bytes
 *     quota     bytes of a group that each of its holders sends: a least-scale flow (flow.h) from groups to ports
 *     pairs     takers and holders in order, laid side by side: few holders for a taker
 *
 *               taker 4     taker 6     taker 9
 *             |-----------|-----------|-----------|
 *             |----------------|------------------|
 *               holder 0          holder 1             4 gets all from 0, 9 from 1, 6 from both
 *
 * Then whole pieces are dealt, the largest first, each to the holder that is furthest behind its quota.
 */

#include "routing/classes.h"

/** Choose the sources of all pieces that must be sent. Fills type->sources. */
void quota_choose(struct arena *arena, const struct classes *classes, struct route_quotas *figures_out);

#endif
