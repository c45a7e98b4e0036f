/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_PLAIN_H
#define SHUNT_PLANNER_PLACE_PLAIN_H

/** Placement without teams: each rank takes any device. Exact for ranks that are alone, else a bound. */

#include "place/seats.h"

/**
 * @param device_out  device of the world of each new rank; NULL: only the bound is wanted
 * @param gain_out    the greatest sum of gains
 * @return false when the work would be too much; nothing is set then
 */
bool plain_solve(struct arena *arena, const struct seats *seats, uint32_t *device_out, int64_t *gain_out);

#endif
