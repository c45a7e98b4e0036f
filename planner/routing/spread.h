/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SPREAD_H
#define SHUNT_PLANNER_SPREAD_H

/**
 * Colours for the pieces of a type, so that it can be moved in parts that load its devices alike: pieces that
 * share a device have unlike colours, and the colours of a device's pieces are about the lowest ones. Taking
 * them modulo a number of groups deals the pieces of every device evenly. The joined pieces of a cell have one
 * colour, which none of the others on their devices has.
 */

#include "routing/route.h"

struct spreader {
    uint32_t *degree;    /* by device: pieces of the type at hand */
    uint64_t *used;      /* by device: a set of colours, `words` long */
    size_t words, space; /* space: words there in all */
    uint32_t devices;
};

void spreader_init(struct arena *arena, uint32_t devices, struct spreader *spreader_out);

/** Set the spread of all pieces of a type, whose sources need not be chosen yet. */
void spread_pieces(struct arena *arena, struct spreader *spreader, struct route_type *type);

#endif
