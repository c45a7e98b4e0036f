/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CLASSES_H
#define SHUNT_PLANNER_CLASSES_H

/**
 * Classes of cells: all that the same devices hold and the same devices must get. Neither a bound nor a
 * balance of ports can tell the cells of a class apart, so that it suffices to know the bytes of each class.
 *
 * Where copies of the new side are cut unlike, cells of different takers overlap. Sources are chosen for each of
 * these cells; bounds need to count each byte once, and cut them further, into parts with a fixed set of takers.
 */

#include "routing/route.h"

struct class_cell {
    uint32_t type;
    const uint32_t *pieces; /* of the type: one for each taker of the class, in their order */
};

struct route_class {
    uint32_t holder_count, taker_count, made_count, cell_count;
    uint32_t holder_set;            /* number of the set of holders, below that of all sets */
    const uint32_t *holders;        /* devices, ascending, and so are their nodes */
    const uint32_t *takers;         /* devices that must get it from another one, ascending */
    const uint32_t *made;           /* nodes, ascending, where the new side of what it is derived from arrives too */
    const struct class_cell *cells; /* without those that were cut further */
    uint64_t bytes;                 /* that one taker gets, over all items */
    uint64_t leaving;               /* of these: cannot leave their holders in the form of what they are derived from */
    uint64_t hosted; /* of the leaving ones that their holders keep in host memory, in the form in which they do */
};

struct classes {
    const struct route *route;
    bool overlap; /* some byte is in several classes: cells of different takers share it */
    uint32_t count, set_count;
    struct route_class *classes; /* in the order in which their first cells come */
};

/** Sort the pieces of all types that must be sent by their cells. Sources need not be chosen. */
void classes_build(struct arena *arena, const struct route *route, struct classes *classes_out);

/** Sort their bytes, so that each is in one class. `cells` may be handed on, when it does not overlap. */
void classes_build_apart(struct arena *arena, const struct classes *cells, struct classes *classes_out);

/**
 * Nodes of takers that have no holder; with `unless_made`, without those where it need not arrive because it can be
 * made there. @return their number; nodes_out has room for all takers
 */
uint32_t classes_lacking(const struct world *world, const struct route_class *class, bool unless_made,
                         uint32_t *nodes_out);

#endif
