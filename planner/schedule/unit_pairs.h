/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_UNIT_PAIRS_H
#define SHUNT_PLANNER_UNIT_PAIRS_H

/** Which messages the units have a part in: pairs of a sender and a receiver, numbered. */

#include "schedule/loads.h"

/** A message that a unit has a part in. */
struct unit_pair {
    uint32_t pair; /* its number among all pairs of a sender and a receiver */
    uint32_t source, taker;
};

struct unit_pairs {
    uint32_t count;          /* of distinct pairs */
    uint32_t *begin;         /* unit_count + 1 */
    struct unit_pair *pairs; /* of unit u: [begin[u], begin[u + 1]), each once */
};

/** @param counts  by device: pairs of which neither end counts are left out */
struct unit_pairs unit_pairs_build(struct arena *arena, const struct problem *problem, const struct loads *loads,
                                   const bool *counts);

#endif
