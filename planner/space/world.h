/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_WORLD_H
#define SHUNT_PLANNER_WORLD_H

/** The devices of a move: the union of the old and the new ones, numbered densely by ascending cluster number. */

#include "space/side.h"

#define WORLD_NO_RANK UINT32_MAX

struct world_device {
    uint32_t id;                 /* number in the cluster */
    uint32_t node;               /* devices are numbered node by node */
    uint32_t from_rank, to_rank; /* WORLD_NO_RANK: none */
    uint32_t first;              /* the first device of its node */
    uint32_t machine;            /* what it is like */
};

struct world {
    const struct cfg_cluster *cluster;
    struct cfg_machine *machines;
    uint32_t device_count, node_count; /* node_count: highest node used + 1 */
    struct world_device *devices;
    uint32_t *from_device; /* dense device of each old rank */
    uint32_t *to_device;   /* dense device of each new rank */
};

/** Rates and memory of a device: the one place where stages ask for them. */
static inline const struct cfg_machine *world_machine(const struct world *world, uint32_t device)
{
    return &world->machines[world->devices[device].machine];
}

/** The most that a device of the move has. */
uint64_t world_most_memory(const struct world *world);

/** Devices of a cluster, ascending, that no rank is said of; the caller has seen that the cluster has them. */
struct world *world_list(struct arena *arena, const struct cfg_cluster *cluster, const uint32_t *ids, uint32_t count);

/** Devices of all nodes of a cluster; 0 when there are as many as needed. */
uint64_t world_count_devices(const struct cfg_cluster *cluster);

/** @return SHUNT_ERR_INPUT when a layout names a device that the cluster does not have */
enum shunt_status world_build(struct arena *arena, const struct cfg_cluster *cluster, const struct side *from,
                              const struct side *to, struct world **world_out, struct shunt_err *err);

#endif
