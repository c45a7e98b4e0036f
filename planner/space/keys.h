/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_KEYS_H
#define SHUNT_PLANNER_KEYS_H

/**
 * Entries beside the tensors whose copies differ along some axes: one row for each place on those
 * axes, the axes in the order of enum cfg_key, the first one slowest. A rank holds the row of its
 * place; ranks that differ along other axes only are replicas. Source: layout-facts.md section 6.
 *
 * Sizes are those of `parallel`; of mesh axes named tp, cp, dp, pp, ep, etp, where dp_replicate, dp_shard
 * and fsdp together count as dp; or of `axes` beside holdings. Without such names they are unknown.
 */

#include "config/config.h"
#include "space/grid.h"
#include "space/placement.h"
#include "space/space.h"

/** Size of an axis in a layout; 0: unknown. */
int64_t keys_size(const struct cfg_layout *layout, enum cfg_key key);

/** Rows of an entry: the product of the sizes of its axes; 0: unknown, or more than 2^40. */
int64_t keys_rows(const struct cfg_layout *layout, const bool *per);

/**
 * Place the rows of a family over the ranks. Its rows are those of `layout`, which has a parallel or a mesh form.
 *
 * @param grid  with expert coordinates where the model has experts; not looked at in a mesh
 */
struct placement keys_place(struct arena *arena, const struct space_family *family, const struct cfg_layout *layout,
                            const struct grid *grid);

#endif
