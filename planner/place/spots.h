/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_SPOTS_H
#define SHUNT_PLANNER_PLACE_SPOTS_H

/**
 * The devices of a placement: all that have an old rank, a new one as the layout says, or may take one. Those may
 * that were asked for; else those that the new layout names; else, where it names none, all.
 */

#include "space/pair.h"
#include "space/world.h"

/** Devices that may take a new rank, by their numbers in the cluster; count 0: as the layouts say. */
struct spots_asked {
    uint32_t count;
    const uint32_t *ids; /* distinct */
};

struct spots {
    const struct world *world; /* its new ranks mean nothing */
    bool *free;                /* by device: it may take a new rank */
    uint32_t *fixed;           /* by new rank: its device as the layout says; it need not be free */
};

/** @return SHUNT_ERR_INPUT when a device is not in the cluster, or fewer were asked for than there are ranks */
enum shunt_status spots_find(struct arena *arena, const struct pair *pair, const struct cfg_cluster *cluster,
                             const struct spots_asked *asked, struct spots *spots_out, struct shunt_err *err);

#endif
