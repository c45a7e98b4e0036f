/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_POLISH_H
#define SHUNT_PLANNER_POLISH_H

/**
 * A counted search beside finished rounds, for small moves, where one round more or less, or one tensor in another
 * round, is a large share of the time: whole rounds are joined, units go to other rounds or change places, as long as
 * that makes the move faster and keeps it under its cap and within its staging.
 */

#include "schedule/rounds.h"

/**
 * Put faster rounds in place of `rounds` where some are found; depth and hold_old stay. Large moves, jobs that wait for
 * others and parked buffers are left as they are.
 *
 * @param least_peak   rounds with a smaller peak are not taken
 * @param seconds      what the rounds take (estimate.h), NAN where that is not known yet; lowered with them
 */
void polish_rounds(struct arena *arena, const struct problem *problem, uint64_t least_peak, struct rounds *rounds,
                   double *seconds);

#endif
