/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_HEADS_H
#define SHUNT_PLANNER_CONFIG_HEADS_H

/** `cut.heads` of a model's tensor: which rows of a cut dimension are which attention heads. */

#include "config.h"
#include "engine.h"

extern const struct cfg_choice cfg_heads_choices[];

/** What the keys of one `cut` must satisfy beside each other; the scope's object is a struct cfg_tensor. */
void cfg_heads_check_cut(struct cfg_scope *cut_scope);

/**
 * Do the heads fill the tensor's segments?
 *
 * @param kv_heads  of the model; 0: the model does not say
 * @return false with the problem in `text`
 */
bool cfg_heads_fit(const struct cfg_tensor *tensor, int64_t kv_heads, char *text, size_t room);

#endif
