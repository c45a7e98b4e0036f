/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_BESIDE_PRINT_H
#define SHUNT_PLANNER_BESIDE_PRINT_H

/** The state beside the tensors, for people and as JSON: as a plan states it, and as a model document has it. */

#include "config/config.h"
#include "json.h"
#include "shunt/plan.h"

/** A section of `inspect`; nothing when the plan has no statement. */
void beside_print_plan(const struct shunt_plan *plan);

/** Key "beside_tensors" of `inspect --json`: name, action and reason of each entry. */
void beside_json_plan(struct json *json, const struct shunt_plan *plan);

/** One line for `plan`: how many entries are not copied; nothing when all are. */
void beside_print_count(const struct shunt_plan *plan);

/** A section of `layout`; nothing when the model has no such state. */
void beside_print_model(const struct cfg_model *model);

/** Key "beside_tensors" of `layout --json`: each entry with its size, its axes and its policy. */
void beside_json_model(struct json *json, const struct cfg_model *model);

#endif
