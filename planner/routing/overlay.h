/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_OVERLAY_H
#define SHUNT_PLANNER_OVERLAY_H

/**
 * Intersection of one new holding with all old ones. Where old variants overlap (copies of a
 * tensor that are cut unlike), the new holding is cut along all their edges, so that every cell
 * lies in a fixed set of old holdings:
 *
 *     copy A  |----a----|---b---|        cells  |--a,c--|a,d|--b,d--|
 *     copy B  |---c---|----d----|
 *
 * Where the items are derived from others, cells are cut along the new holdings of those as well.
 */

#include "routing/route.h"

typedef VEC(struct route_cell) cell_list;

/** A placement, ready to be asked; made once for all new holdings of a type. Most often it is the old side. */
struct overlay {
    const struct placement *from;
    uint32_t dim, count; /* its holdings, in the order of their lower bounds along `dim` */
    struct overlay_entry *entries;
    bool apart;                        /* known to be disjoint: there are no copies that are cut unlike */
    VEC(struct overlay_entry *) found; /* those that may meet the box at hand */
};

void overlay_init(struct arena *arena, const struct placement *from, struct overlay *overlay_out);

/**
 * Cut cells[begin, ...), which lie in the new holding `want`, along the holdings of a placement of the new side, of
 * which `fresh` is the overlay, and say which contain them.
 */
void overlay_fresh(struct arena *arena, struct overlay *fresh, const struct box *want, size_t begin, cell_list *cells);

/** Append the cells of holding `to_holding` of variant `to_variant`; their numbers stay 0. */
void overlay_holding(struct arena *arena, struct overlay *overlay, const struct placement *to, uint32_t to_variant,
                     uint32_t to_holding, cell_list *cells);

#endif
