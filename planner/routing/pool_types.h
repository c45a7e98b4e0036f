/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_POOL_TYPES_H
#define SHUNT_PLANNER_POOL_TYPES_H

/** Types cut into ones of which every item has the same sources, so that what becomes of a piece is a matter of the type. */

#include "routing/route.h"

struct pool_types {
    uint32_t count;
    struct route_type *types; /* in the order of their first items; pieces are those of the whole */
};

struct pool_types pool_types_split(struct arena *arena, const struct space *space, const struct route_type *type);

#endif
