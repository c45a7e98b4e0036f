/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SCALE_H
#define SHUNT_PLANNER_SCALE_H

/**
 * Scales of narrow states. A rank multiplies what it owns of a tensor by one fp32 number, so the
 * shards of such a state are cut the same before and after, box for box; which ranks hold them may
 * change. Then the scales of a tensor are a tensor of their own, with one element for each shard in
 * the order of the shards' first elements, row-major:
 *
 *     exp_avg/layer.0.w         | shard 0    | shard 1    | shard 2    |
 *     exp_avg/layer.0.w/scale   | 0 | 1 | 2 |     a rank holds the elements of its shards
 *
 * No tensor of a model has such a name: there is no `/` in those.
 */

#include "space/side.h"

#define SCALE_SUFFIX "/scale"

/**
 * Add the scales to the space and to both sides; nothing when no state has any.
 *
 * @param to  may be `from`
 * @return SHUNT_ERR_UNSUPPORTED when a state with scales is cut anew; err names tensor, box and rank
 */
enum shunt_status scale_extend(struct arena *arena, struct space *space, struct side *from, struct side *to,
                               struct shunt_err *err);

/** Whether a family was added so. */
bool scale_is_family(const struct space_family *family);

#endif
