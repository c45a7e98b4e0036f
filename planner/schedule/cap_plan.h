/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CAP_PLAN_H
#define SHUNT_PLANNER_CAP_PLAN_H

/**
 * Rounds under a cap, lane by lane: all lanes of lanes.h advance side by side through the whole move, each with its
 * jobs one behind the other. A device then holds both sides of one job per lane at a time, and every port has its
 * even share in every round; cap_rounds.h makes the rounds. Where that does not fit, the pace of each lane is that of a
 * linear program (cap_lp.h), unless some of it is sent on.
 */

#include "schedule/lanes.h"
#include "solve/lp.h"

struct cap_plan_options {
    uint64_t cap;
    uint64_t least_slot; /* a smaller one cannot take every chunk */
    bool hold_old;       /* every old buffer lives to the end */
    double seconds;      /* stop solvers by the clock; 0: do not */
};

struct cap_plan_result {
    struct rounds rounds;
    double seconds;        /* estimated */
    bool solved;           /* at the pace of a linear program; else lanes keep even pace */
    enum lp_status status; /* of the last program that was asked; LP_ABSENT: none was */
};

/** @return false when nothing that was tried fits under the cap */
bool cap_plan_build(struct arena *arena, const struct problem *problem, const struct cap_plan_options *options,
                    struct cap_plan_result *result_out);

/**
 * Jobs in the order in which a program that seeks the least room begins them, with so many slices.
 *
 * @return NULL when the program is too large or has no answer
 */
uint32_t *cap_plan_order(struct arena *arena, const struct problem *problem, uint32_t slices);

#endif
