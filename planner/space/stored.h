/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_STORED_H
#define SHUNT_PLANNER_STORED_H

/**
 * Tensors whose dimensions lie in memory in another order than the model's, such as the transposed
 * expert weights of Megatron's first grouped experts. Cutting and sharding go by memory, so they are
 * done in stored coordinates, where such a tensor is an ordinary row-major one; at the end every
 * holding is brought back to the tensor's own coordinates, and its strides with it:
 *
 *     tensor [2, 3], dims [1, 0]      stored [3, 2]    a d
 *       a b c                                          b e        elements [0, 3) in memory: a d b
 *       d e f                                          c f        boxes of the tensor: column 0, then (0, 1)
 *
 * Source: layout-facts.md 3.5.
 */

#include "space/cut.h"

/** @return SHUNT_ERR_INPUT or SHUNT_ERR_UNSUPPORTED when an entry of `storage` does not fit a tensor of the model */
enum shunt_status stored_check(const struct space *space, const struct cfg_layout *layout, struct shunt_err *err);

/** The tensor's dimensions as they lie in memory, the outermost first; NULL: as in the model. */
const int64_t *stored_dims(const struct cfg_layout *layout, const struct space_family *family);

/** Bring a cut that cut_build() made into stored coordinates. */
void stored_permute(struct arena *arena, const int64_t *dims, struct cut *cut);

/** Bring the holdings of a placement that was made from such a cut back; shapes and pads stay those of the memory. */
void stored_unpermute(struct arena *arena, const int64_t *dims, struct placement *placement);

#endif
