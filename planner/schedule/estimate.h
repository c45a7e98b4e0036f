/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ESTIMATE_H
#define SHUNT_PLANNER_ESTIMATE_H

/** How long rounds would take, to compare schedules before any of them is lowered. */

#include "schedule/rounds.h"

/** Seconds of all rounds on the cluster: ports, copies beside them, and the costs of rounds and messages. */
double estimate_seconds(struct arena *arena, const struct problem *problem, const struct rounds *rounds);

/** Seconds that the busiest wire port needs for these routes, whatever the rounds. */
double estimate_least_seconds(struct arena *arena, const struct problem *problem);

#endif
