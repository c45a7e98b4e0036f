/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PEAK_H
#define SHUNT_PLANNER_PEAK_H

#include "schedule/rounds.h"

/**
 * Peak of finished rounds: the most bytes live on any device at any moment, reserve, transport and
 * staging included, with every buffer allocated at its first write and released after its last
 * read. It is what the plan will say, and never more than what scheduling accounted for. Where a device has not the
 * memory for it, whatever the cap, PEAK_OVER is added.
 */
#define PEAK_OVER (UINT64_C(1) << 61)
uint64_t peak_of_rounds(struct arena *arena, const struct problem *problem, const struct rounds *rounds);

/** The same, and the most bytes that the staging slots of one device take. */
uint64_t peak_and_staging_of_rounds(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                                    uint64_t *staging_out);

#endif
