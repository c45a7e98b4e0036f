/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_OTHER_H
#define SHUNT_PLANNER_CONFIG_OTHER_H

/** State beside the tensors: entries of a model document, its parameter groups, and built-in sets of entries. */

#include "engine.h"
#include "shunt/types.h"

struct cfg_model;

extern const struct cfg_table cfg_other_table; /* of struct cfg_other, an entry of `other_state` */
extern const struct cfg_table cfg_group_table; /* of struct cfg_other, an entry of `param_groups` */
extern const struct cfg_choice cfg_includes[]; /* what `include` may say */

/** Take the entries of the built-in set that the model names, but for those whose name it gives to an entry itself. */
void cfg_include_others(struct cfg_model *model);

/** What entries and groups must satisfy beside the rest of the model. */
void cfg_others_check(struct cfg_scope *model_scope);

#endif
