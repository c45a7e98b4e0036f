/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_TIMING_H
#define SHUNT_PLANNER_TIMING_H

/** Time of a plan on the cluster's ports, by the rule of schedule/clock.h. */

#include "emit/lower.h"
#include "schedule/ports.h"

struct timing_port {
    uint32_t device;
    double seconds; /* over all rounds */
};

struct timing {
    double predicted_seconds;
    double lower_bound_rounds_seconds; /* of any rounds of these routes, under this cap and staging */
    uint64_t least_rounds;             /* that the staging asks for */
    struct clock_sum sum;              /* where the prediction comes from */
    struct timing_port busiest[PORT_KINDS];
    double padding_seconds; /* what the busiest link carries between the pieces of messages */
};

struct timing timing_compute(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                             const struct lowered *lowered);

#endif
