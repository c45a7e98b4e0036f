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

/** Ranks of a variant by shard: those of shard s are ranks[begin[s]] to ranks[begin[s + 1] - 1], ascending. */
struct shard_deal {
    uint32_t *begin, *ranks;
};

/** Deal the ranks of every variant of a placement; tensors with the same placement share it. */
struct shard_deal *shard_deal(struct arena *arena, const struct grid *grid, const struct shard_group *group,
                              const struct placement *base);

struct shard_input {
    enum cfg_shard_rule rule;
    const struct grid *grid;
    const struct shard_group *group;
    const struct placement *base;    /* of the tensor-parallel tensors, with ranks */
    const struct shard_deal *deals;  /* by variant of the base */
    const struct flat_place *places; /* in flat buffers; NULL under the rules that have none */
};

/** Cut every variant of a placement over a group. Where copies of a tied tensor lie unlike, each is cut in full. */
void shard_placement(struct arena *arena, const struct shard_input *input, struct placement *placement_out);

#endif
