/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CURRENT_H
#define SHUNT_PLANNER_CURRENT_H

/**
 * `current: owner`: between an optimizer step and a deferred all-gather of the weights, each rank has
 * written only the part of its weights that its own optimizer shard covers; the rest is a step old.
 * On the old side of a move a weight's buffer then counts as holding that part alone, at the places
 * where it lies in the whole buffer:
 *
 *     weight of a rank   | a b c d e f g h |
 *     its master shard           | d e f |
 *     counts as holding  | . . . d e f . . |
 *
 * The new side is written in full. Source: layout-facts.md 4.4.
 */

#include "space/side.h"

/** @return SHUNT_ERR_INPUT when the layout says `owner`, and no optimizer state tells owners apart */
enum shunt_status current_check(const struct side *side, struct shunt_err *err);

/** side_build() for the old side of a move: only what is current counts as held. */
enum shunt_status current_side_build(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                                     struct side **side_out, struct shunt_err *err);

#endif
