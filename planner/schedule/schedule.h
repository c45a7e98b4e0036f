/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SCHEDULE_H
#define SHUNT_PLANNER_SCHEDULE_H

/**
 * Scheduling: a problem in, rounds out. One table lists the strategies, cheapest in time first;
 * the first one that fits under the cap wins. The last ones run one job after the other with the
 * smallest chunks. The least cap is what these need, or the lowest peak that any strategy has without a cap:
 * every cap from there on is met, every lower one refused.
 *
 * The same move may be given with several routes: the fastest one that fits wins. The least cap is that of the first.
 * Where the problem may spill, a lower cap is met with old buffers parked in host memory, down to the least cap that all
 * of them together make possible.
 */

#include "schedule/rounds.h"

struct schedule {
    const struct problem *problem; /* of those given, the one that the rounds solve, perhaps with parked buffers */
    struct rounds rounds;
    const char *method;                 /* name of the strategy */
    uint64_t least_cap;                 /* bytes per device */
    const char *solver, *solver_status; /* of the program whose pace or order the rounds keep; NULL: none */
};

enum schedule_method {
    METHOD_AUTO,  /* the fastest that the strategies find */
    METHOD_EXACT, /* here as AUTO: exact.h goes on from there */
    METHOD_GREEDY /* the first strategy that fits; the least cap is sought where the cap is below what orders ask for */
};

/** Staging that is used when the user names none: enough for a few rounds on the busiest device. */
uint64_t schedule_default_staging(const struct problem *problem);

/**
 * @param relayed  the same move with another route, and behind it, in `other`, with more of them; NULL: none
 * @return SHUNT_ERR_INFEASIBLE when the cap or the staging is too small; err names the rank, the bytes
 *         missing and the least figure that would do
 */
enum shunt_status schedule_build(struct arena *arena, const struct problem *problem, const struct problem *relayed,
                                 enum schedule_method method, struct schedule *schedule_out, struct shunt_err *err);

#endif
