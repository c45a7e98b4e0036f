/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CELLS_H
#define SHUNT_PLANNER_CELLS_H

/** The pieces of a type by their cells. Those of a cell ascend by taker, and so by node. */

#include "routing/route.h"

struct cells {
    uint32_t *begin;  /* cell_count + 1: pieces of cell c are pieces[begin[c]] to pieces[begin[c + 1] - 1] */
    uint32_t *pieces; /* numbers of pieces */
};

struct cells cells_index(struct arena *arena, const struct route_type *type);

#endif
