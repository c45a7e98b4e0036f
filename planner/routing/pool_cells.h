/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_POOL_CELLS_H
#define SHUNT_PLANNER_POOL_CELLS_H

/**
 * Cells cut into parts, each of which goes its own way over neighbours.
 *
 * Pieces of one cell that come from each other are cut alike, since what is sent on is what has come; others one by one.
 * A cell is dealt in units; those that go the same ways become one part.
 */

#include "routing/pool_shares.h"

struct pool_cells {
    const struct world *world;
    const struct space *space;
    struct pool_shares shares;
};

/** Whether what one device sends another may go over a neighbour of either. */
bool pool_cells_shared(const struct pool_cells *cells, uint32_t source, uint32_t taker);

/** Replace the pieces and sources of a type, all of whose items have the same sources. Spreads are without meaning then. */
void pool_cells_deal(struct arena *arena, struct pool_cells *cells, struct route_type *type);

#endif
