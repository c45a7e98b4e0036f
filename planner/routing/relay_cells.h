/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_RELAY_CELLS_H
#define SHUNT_PLANNER_RELAY_CELLS_H

/** What the takers of one cell are to each other, node by node; and cells cut so small that they can be dealt evenly. */

#include "routing/cells.h"

enum relay_run_kind {
    RELAY_HELD,  /* some device of the node holds the cell */
    RELAY_MADE,  /* none does, but some taker makes it from the new side of another item */
    RELAY_NEEDY, /* it must enter the node */
};

/** The pieces of a cell in one node. */
struct relay_run {
    enum relay_run_kind kind;
    const uint32_t *pieces; /* ascending taker */
    uint32_t count;
};

/**
 * List the runs of a cell.
 *
 * @param pieces    all of the cell, as in struct cells
 * @param runs_out  room for `count` runs
 * @return their number
 */
uint32_t relay_list_runs(const struct world *world, const struct route_type *type, const uint32_t *pieces,
                         uint32_t count, struct relay_run *runs_out);

/** Whether takers of an item may send it on: what they have is what goes over the network, and in device memory. */
bool relay_can_forward(const struct route *route, uint32_t item);

/**
 * Replace the pieces of the types of `route`, which are those of another one, by parts of at most `part_bytes` where
 * their cell may be relayed, and join and spread them; `sources` is without meaning then.
 */
void relay_cut_cells(struct arena *arena, struct route *route, uint64_t part_bytes);

#endif
