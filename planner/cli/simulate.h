/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SIMULATE_H
#define SHUNT_PLANNER_SIMULATE_H

/** The time of a plan on any cluster: its own operations, counted by the rule that predicted it. */

#include "emit/timing.h"
#include "shunt/plan.h"

/** The device that comes nearest to what it has. */
struct simulated_memory {
    uint32_t device; /* index */
    uint64_t peak, memory;
};

struct simulation {
    struct timing timing; /* without bounds and padding: routes are not in a plan */
    struct simulated_memory memory;
};

/**
 * Parts are read one after the other.
 *
 * @return SHUNT_ERR_INPUT (the cluster has not all of the devices; err names one), SHUNT_ERR_PLAN, SHUNT_ERR_IO,
 *         SHUNT_ERR_NOMEM
 */
enum shunt_status simulate(struct arena *arena, const struct shunt_plan *plan, const struct cfg_cluster *cluster,
                           struct simulation *simulation_out, struct shunt_err *err);

#endif
