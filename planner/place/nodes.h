/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_NODES_H
#define SHUNT_PLANNER_PLACE_NODES_H

/**
 * Inside the nodes: which device of its node each rank takes, and a search that moves and swaps teams between nodes
 * where teams stand in each other's way. Inside a node the choice is an assignment and exact.
 */

#include "place/solo.h"

/**
 * @param device_out  device of the world of each new rank
 * @return the sum of gains: at most solo->gain
 */
int64_t nodes_fill(struct arena *arena, const struct seats *seats, const struct solo *solo, uint32_t *device_out);

#endif
