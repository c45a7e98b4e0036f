/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_BOUND_H
#define SHUNT_PLANNER_BOUND_H

/**
 * What no plan with this placement can beat, whatever its routes: bytes may be relayed by any device, in any cuts.
 * The seconds are the largest of
 *   - per device: bytes it must get, over all its ports together;
 *   - per node: bytes it lacks, each once, over its network ports together;
 *   - per set of devices: bytes that only they hold and others must get, each once, likewise;
 *   - per set of nodes: bytes that only they hold and other nodes lack, each once, likewise;
 *   - per device: bytes of new buffers it must write, over its copies, and those in host memory over its link to that;
 *   - per set of devices: bytes that only they hold, in host memory, and must be read once, over their links to it; then
 *     per device bytes it must get and write to host memory, since reads come before a group and writes behind it.
 * The sets are those of the least cuts (flow.h). All network ports together are no bound of their own: each takes as
 * many bytes as it sends, so that the node with the most to get is always later.
 *
 * What is derived from another item may leave its holders in the form of that one, and be made where both arrive: it
 * counts where it arrives alone.
 */

#include "routing/classes.h"

struct bounds {
    uint64_t inter_node;  /* bytes: each enters each node that lacks it once */
    uint64_t max_missing; /* most bytes that one device must get */
    double seconds;
    struct route_reason reason;
};

void bounds_compute(struct arena *arena, const struct classes *classes, struct bounds *bounds_out);

#endif
