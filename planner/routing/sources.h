/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SOURCES_H
#define SHUNT_PLANNER_SOURCES_H

/**
 * Second half of routing: the source of every piece. Own memory first, then a holder in the same node, then any: which
 * of these is left to quotas (quota.h).
 */

#include "routing/quota.h"

void sources_choose(struct arena *arena, struct route *route, const struct classes *classes);

/**
 * The holder for one piece, which has some, by the bytes that each device has sent so far inside its node and across;
 * the caller counts what it makes of it.
 */
uint32_t sources_pick(const struct world *world, const struct route_piece *piece, const uint64_t *intra,
                      const uint64_t *inter);

#endif
