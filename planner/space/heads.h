/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_HEADS_H
#define SHUNT_PLANNER_HEADS_H

/**
 * Attention by heads: with more tensor-parallel ranks than key/value heads, each rank has its query
 * heads and a copy of the one key/value head that they belong to. With Q query and K key/value
 * heads, rank t of T has query heads [t Q / T, (t + 1) Q / T) and key/value head floor(t K / T), in
 * the order q, (gates,) k, v:
 *
 *     global  | q0 q1 q2 q3 k0 v0 | q4 q5 q6 q7 k1 v1 |      Q = 8, K = 2, T = 4
 *     rank 0  | q0 q1 k0 v0 |   rank 1  | q2 q3 k0 v0 |   rank 2  | q4 q5 k1 v1 |  ...
 *
 * The copies are declared replicas that are cut unlike. Source: layout-facts.md 3.3, bug case H19.
 */

#include "space/cut.h"

/** Refuse a layout that replicates heads of a model which does not say what they are. */
enum shunt_status heads_check(const struct cfg_model *model, const struct cfg_layout *layout, struct shunt_err *err);

/** Whether a family is cut by heads, so that heads_cut() takes the place of the plain rule. */
bool heads_apply(const struct cfg_layout *layout, const struct space_family *family, int64_t parts);

/** @return SHUNT_ERR_INPUT when the heads do not go round */
enum shunt_status heads_cut(struct arena *arena, const struct space *space, const struct space_family *family,
                            const struct cfg_layout *layout, int64_t parts, struct cut *cut_out, struct shunt_err *err);

#endif
