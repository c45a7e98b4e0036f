/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_STATES_H
#define SHUNT_PLANNER_STATES_H

/**
 * What dtypes mean together. An i16 master is the low half of an fp32 one, whose high half is the
 * bf16 weight: one without the other says nothing. A state with scales is no plain array: its
 * values are those of the array times the scale of its shard. Source: layout-facts.md section 4.4.
 */

#include "space/side.h"

/**
 * Rules that the layouts and the model decide before anything is placed.
 *
 * @return SHUNT_ERR_INPUT, SHUNT_ERR_UNSUPPORTED; err names file, line and state
 */
enum shunt_status states_check(const struct cfg_model *model, const struct cfg_layout *from,
                               const struct cfg_layout *to, struct shunt_err *err);

/** Whoever holds an i16 master holds its weights too. @return SHUNT_ERR_INPUT; err names tensor, box and rank */
enum shunt_status states_check_remainders(struct arena *arena, const struct side *side, struct shunt_err *err);

#endif
