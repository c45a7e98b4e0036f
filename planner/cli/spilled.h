/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SPILLED_H
#define SHUNT_PLANNER_SPILLED_H

/** What a plan parks in host memory: how much, and on which devices. */

#include "json.h"
#include "shunt/plan.h"

/** One line behind `head`; nothing where nothing is parked. */
void spilled_print(const char *head, const struct shunt_plan *plan);

/** Key "spilled": buffers, bytes, devices, and the device with most; null when a part of the plan does not read. */
void spilled_json(struct json *json, const struct shunt_plan *plan);

#endif
