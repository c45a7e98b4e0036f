/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ROUTE_FIGURES_H
#define SHUNT_PLANNER_ROUTE_FIGURES_H

/** Bytes by path of a finished route, and the bounds that no route with this placement can beat. */

#include "routing/classes.h"

void route_figures_compute(struct arena *arena, struct route *route, const struct classes *classes);

/** The same with other sources: the bounds stay what they are. */
void route_figures_recount(struct arena *arena, struct route *route);

#endif
