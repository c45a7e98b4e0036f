/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_GROUPS_H
#define SHUNT_PLANNER_GROUPS_H

/** Groups of ranks over which state is sharded: one for dense tensors, one for experts. */

#include "space/shard.h"

struct groups {
    bool expert_buffer; /* experts have flat buffers of their own */
    struct shard_group dense, expert;
};

/**
 * @param experts  whether the model has experts
 * @return SHUNT_ERR_INPUT (the instances do not divide a group), SHUNT_ERR_UNSUPPORTED
 */
enum shunt_status groups_build(struct arena *arena, const struct cfg_layout *layout, const struct grid *grid,
                               bool experts, struct groups *groups_out, struct shunt_err *err);

#endif
