/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_TEAMS_H
#define SHUNT_PLANNER_PLACE_TEAMS_H

/**
 * Teams: new ranks that must share a node, because they talk within every layer. They are the tensor-parallel
 * groups, those of experts where they are larger; of a group that is larger than a node, parts as large as
 * possible. In a mesh they run along the axis `tp`; where axes are not known, each rank is alone.
 */

#include "space/side.h"

struct teams {
    uint32_t size, count;
    uint32_t *ranks; /* those of team t are ranks[t * size, (t + 1) * size), by tensor-parallel index */
};

struct teams teams_build(struct arena *arena, const struct side *to, uint32_t devices_per_node);

/** Each rank alone. */
struct teams teams_of_one(struct arena *arena, const struct side *to);

#endif
