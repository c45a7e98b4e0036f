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
 * Every device must bring its bytes over its ports, what it sends to one device of another node over one message's
 * share of them, its copies through its memory or its host's link, and all it sends and receives through the staging
 * that the cap leaves beside the larger of its two sides: so many rounds, each with its cost and a message at least.
 * What comes before groups and what comes behind them never run beside each other's own kind (clock.h): the device with
 * most of the one and that with most of the other add up.
 */
struct rounds_bound rounds_bound_compute(struct arena *arena, const struct problem *problem);

#endif
