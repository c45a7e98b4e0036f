/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_GRID_H
#define SHUNT_PLANNER_GRID_H

/**
 * Rank grids: two mixed-radix numberings of the same ranks, leftmost axis of the order fastest.
 *
 *     dense   tp, cp, dp, pp      (ep counts as 1)      dp = world / (tp cp pp)
 *     expert  etp, ep, edp, pp    (cp counts as 1)      edp = world / (etp ep pp)
 *
 * Both must agree on pp. The index inside the group that shards dense state runs over cp and dp
 * by ascending rank; the one for expert state is edp. Source: layout-facts.md section 1.
 */

#include "config/config.h"
#include "util/arena.h"

struct grid_rank {
    uint32_t device;            /* number in the cluster */
    int64_t at[CFG_AXIS_COUNT]; /* dense grid; at[CFG_AXIS_EP] is the expert grid's */
    int64_t etp, edp;           /* expert grid */
    int64_t dp_cp;              /* index in the dense shard group */
};

struct grid {
    uint32_t rank_count;
    struct grid_rank *ranks;
    int64_t etp, edp; /* sizes */
    int64_t dp_cp;    /* size of the dense shard group */
};

/**
 * @param experts  whether the model has experts: without them there is no expert grid, and its fields are 0
 * @return SHUNT_ERR_INPUT when the sizes do not make two grids that agree on pp
 */
enum shunt_status grid_build(struct arena *arena, const struct cfg_layout *layout, bool experts, struct grid *grid_out,
                             struct shunt_err *err);

#endif
