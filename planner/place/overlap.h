/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_OVERLAP_H
#define SHUNT_PLANNER_PLACE_OVERLAP_H

/**
 * What new ranks find where: for each class of new ranks, the bytes that they need, those that each class of old
 * ranks holds of them, and those that each node holds. Placements of the old and the new side are intersected variant
 * by variant, once for all items that lie alike; ranks appear as classes only.
 *
 *     new class a needs 100 |  old classes  0: 40   7: 25     what one device would have
 *                           |  nodes        0: 40   3: 60     what some device of the node has, each byte once
 */

#include "place/classes.h"
#include "space/pair.h"

struct overlap_entry {
    uint32_t key; /* old class, or node */
    uint64_t bytes;
};

struct overlap_row {
    uint64_t need; /* bytes on the wire if nothing is found; without what is made from the new side on the device */
    uint32_t class_count, node_count;
    struct overlap_entry *classes, *nodes; /* by ascending key; not 0 */
};

struct overlap {
    uint32_t old_class_count, new_class_count;
    uint32_t *old_class, *new_class; /* by rank */
    struct overlap_row *rows;        /* by new class */
};

/** @param node_of_old  node of each old rank's device, below node_count */
struct overlap *overlap_build(struct arena *arena, const struct pair *pair, const uint32_t *node_of_old,
                              uint32_t node_count);

/** Bytes of an entry; 0: there is none. */
uint64_t overlap_find(const struct overlap_entry *entries, uint32_t count, uint32_t key);

#endif
