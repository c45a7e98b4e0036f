/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_TIMING_H
#define SHUNT_PLANNER_TIMING_H

/**
 * Time of a plan on the cluster's ports. A round costs its fixed time, a fixed time per message
 * of its busiest device, and the bytes of its busiest port (node port and network port, each
 * direction on its own). At depth 2 the unpacks of round k-1 and the packs of round k+1 run
 * beside the wire of round k; at depth 1 they follow each other.
 */

#include "emit/lower.h"

struct timing {
    double predicted_seconds;
    double lower_bound_rounds_seconds; /* the route's bound plus the least number of rounds that the staging allows */
};

struct timing timing_compute(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                             const struct lowered *lowered);

#endif
