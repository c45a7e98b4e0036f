/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_TWINS_H
#define SHUNT_PLANNER_TWINS_H

/**
 * Twins are devices of which every unit asks the same. Whatever round units go to, their ports have the same loads
 * in it, so that rounds that are balanced for one of them are balanced for all: thousands of replicas cost no more
 * than one does.
 */

#include "schedule/loads.h"

/** Keep the loads of the first of all twins alone. Totals stay those of all devices. */
void twins_drop(struct arena *arena, const struct problem *problem, struct loads *loads);

#endif
