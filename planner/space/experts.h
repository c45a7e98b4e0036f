/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXPERTS_H
#define SHUNT_PLANNER_EXPERTS_H

/**
 * How the experts of a rank stand in registration order, here two experts with weights fc1 and fc2:
 *
 *     grouped     fc1 of 0, fc1 of 1, fc2 of 0, fc2 of 1      (a weight and its bias are one module)
 *     sequential  fc1 of 0, fc2 of 0, fc1 of 1, fc2 of 1
 *     stacked     fc1 of 0 and 1 as one tensor, fc2 of 0 and 1 as one
 *
 * Source: layout-facts.md 3.2 and 3.5.
 */

#include "space/space.h"

/** Whether two families that follow each other are registered together, expert by expert. */
bool experts_together(enum cfg_experts how, const struct space_family *a, const struct space_family *b);

/** Tensors of a family that are registered as one: the rank's experts, or 1. */
int64_t experts_in_stack(enum cfg_experts how, const struct space_family *family, int64_t local_experts);

#endif
