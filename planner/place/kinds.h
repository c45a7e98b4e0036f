/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_KINDS_H
#define SHUNT_PLANNER_PLACE_KINDS_H

/**
 * Items that lie alike on both sides, intersected once: which old ranks hold which part of each new variant.
 */

#include "place/classes.h"
#include "space/pair.h"

/** Items with the same placements: of what is read on the old side, of the new side, and of what may be fresh there. */
struct kind {
    uint32_t from, to, fresh;
    uint64_t wire_bytes;       /* sum over the items, of one element */
    size_t *record_begin;      /* by new variant, one more */
    const uint32_t *holder_of; /* by old variant */
};

/** Part of a new variant that a fixed set of old variants holds. */
struct record {
    uint64_t bytes;
    uint32_t holder; /* a holder; with KINDS_SEVERAL: place of a list of them in `lists` */
    uint32_t fresh;  /* new variants of what the items are made from that cover it: place in `lists`; 0: none */
};

#define KINDS_SEVERAL UINT32_C(0x80000000)

/** Old ranks that hold a variant, and so their classes and nodes. Variants with the same ranks have one holder. */
struct holder {
    uint32_t rank_count, class_count, node_count;
    const uint32_t *ranks;
    uint32_t *classes, *nodes; /* ascending */
};

struct kinds {
    VEC(struct kind) kinds;
    VEC(struct record) records;
    VEC(struct holder) holders;
    VEC(uint32_t) lists; /* a count, and so many numbers; place 0 is not used */
};

/**
 * @param old_class    class of each old rank
 * @param node_of_old  node of each old rank
 */
void kinds_build(struct arena *arena, const struct pair *pair, const uint32_t *old_class, const uint32_t *node_of_old,
                 struct kinds *kinds_out);

#endif
