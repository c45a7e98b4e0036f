/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_DROPPED_H
#define SHUNT_PLANNER_DROPPED_H

/**
 * States that the old side of a plan has and its new side does not keep: their bytes are gone after the move. NULL in
 * place of a plan: there are none.
 */

#include "json.h"
#include "shunt/plan.h"

/** One line behind `head`, with the bytes on all devices, copies and padding included; nothing when all are kept. */
void dropped_print(const char *head, const struct shunt_plan *plan);

/** Key "dropped_states": state and bytes of each; null when a part of the plan does not read. */
void dropped_json(struct json *json, const struct shunt_plan *plan);

#endif
