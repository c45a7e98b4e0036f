/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_MESH_H
#define SHUNT_PLANNER_MESH_H

/**
 * DTensor form: a mesh with named axes, and what each axis does to a tensor. Shard(d) cuts
 * dimension d into ceil chunks (torch.chunk), mesh axes from left to right; _StridedShard(d, k) is
 * cut behind as many of the axes to its right that cut d as make k parts. Where all sizes divide that
 * is what torch's own placements give. Source: layout-facts.md 5, bug case H18.
 */

#include "space/placement.h"
#include "space/space.h"

typedef VEC(struct placement) placement_vec;

/**
 * Place every item.
 *
 * @param item_placement_out  by item
 * @return SHUNT_ERR_INPUT when a rule does not fit its tensor; err names file, line and field
 */
enum shunt_status mesh_place(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                             placement_vec *list, uint32_t *item_placement_out, struct shunt_err *err);

#endif
