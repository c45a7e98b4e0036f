/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SOURCES_H
#define SHUNT_PLANNER_SOURCES_H

/**
 * Second half of routing: the source of every piece. Own memory first, then a holder in the same node, then any: which
 * of these is left to quotas (quota.h).
 */

#include "routing/quota.h"

void sources_choose(struct arena *arena, struct route *route, const struct classes *classes);

#endif
