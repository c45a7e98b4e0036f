/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ROUNDS_BOUND_H
#define SHUNT_PLANNER_ROUNDS_BOUND_H

/** What no rounds of these routes can beat, whatever their order and contents. */

#include "schedule/problem.h"

struct rounds_bound {
    double seconds;  /* under this cap, this staging and these costs of rounds and messages */
    uint32_t rounds; /* fewest that the staging allows, with two slots */
};

/**
 * Every device must bring its bytes over its ports, its copies through its memory, and all it sends and receives
 * through the staging that the cap leaves beside the larger of its two sides: so many rounds, each with its cost and
 * a message at least.
 */
struct rounds_bound rounds_bound_compute(struct arena *arena, const struct problem *problem);

#endif
