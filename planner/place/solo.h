/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_SOLO_H
#define SHUNT_PLANNER_PLACE_SOLO_H

/**
 * Teams to nodes, as if each team were alone in its node. What a team gains in a node that it has for itself is an
 * assignment of its ranks to the node's devices. Nodes have room for so many teams; the best choice is a
 * transportation problem. It is exact where a node has room for one team, and a bound where teams share nodes, as
 * there they may want the same device.
 */

#include "place/seats.h"
#include "solve/transport.h"

#define SOLO_NO_NODE UINT32_MAX

struct solo {
    uint32_t *node_of; /* by team */
    int64_t gain;      /* greatest sum of gains of teams alone */
    /* what teams gain alone, by class of team, then by ascending class of node; those that gain nothing are left out */
    uint32_t *team_class, *node_class;
    struct class_index nodes; /* by class of node */
    size_t *value_begin;      /* by class of team */
    const struct transport_link *values;
};

void solo_build(struct arena *arena, const struct seats *seats, struct solo *solo_out);

/** What a team gains when it has a node for itself. */
int64_t solo_value(const struct solo *solo, uint32_t team, uint32_t node);

#endif
