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
 */

#include "routing/route.h"

typedef VEC(struct route_cell) cell_list;

/** Append the cells of holding `to_holding` of variant `to_variant`; their numbers stay 0. */
void overlay_holding(struct arena *arena, const struct placement *from, const struct placement *to, uint32_t to_variant,
                     uint32_t to_holding, cell_list *cells);

#endif
