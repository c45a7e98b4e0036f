/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CAP_PLAN_H
#define SHUNT_PLANNER_CAP_PLAN_H

/**
 * Rounds under a cap, lane by lane: all lanes of lanes.h advance side by side through the whole move, each with its
 * jobs one behind the other. A device then holds both sides of one job per lane at a time, and every port has its
 * even share in every round; cap_rounds.h makes the rounds.
 */

#include "schedule/lanes.h"

struct cap_plan_options {
    uint64_t cap;
    uint64_t least_chunk; /* smaller ones are not made */
    uint64_t least_slot;  /* a smaller one cannot take every chunk */
};

/** @return false when nothing that was tried fits under the cap */
bool cap_plan_build(struct arena *arena, const struct problem *problem, const struct cap_plan_options *options,
                    struct rounds *rounds_out, double *seconds_out);

#endif
