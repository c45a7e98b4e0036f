/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SHARD_H
#define SHUNT_PLANNER_SHARD_H

/** Data-parallel rules: how a rank's tensor-parallel tensor is cut further over its shard group. */

#include "space/grid.h"
#include "space/placement.h"
#include "space/registry.h"

/** The group over which a tensor is sharded. */
struct shard_group {
    bool expert;    /* expert dp instead of cp x dp */
    int64_t shards; /* ranks per complete copy */
};

/** Whether a rule cuts a state of a trainable tensor. */
bool shard_cuts_state(enum cfg_shard_rule rule, uint8_t state);

/** Index of a rank's shard in its group: groups are cut into instances of `shards` ranks each. */
int64_t shard_index(const struct shard_group *group, const struct grid_rank *rank);

/**
 * Cut every variant of a placement over a group.
 *
 * @param base   placement of the tensor-parallel tensors, with ranks
 * @param place  place in a flat buffer; used by the rules that have one
 */
void shard_placement(struct arena *arena, const struct cfg_layout *layout, const struct grid *grid,
                     const struct shard_group *group, const struct placement *base, const struct flat_place *place,
                     struct placement *placement_out);

#endif
