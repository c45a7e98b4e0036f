/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PIECES_H
#define SHUNT_PLANNER_PIECES_H

/** First half of routing: types and their pieces. Fills route->types without sources. */

#include "routing/route.h"

/** Most pieces of all items together; 0: what fits the memory of the machine. A test may put another number here. */
extern uint64_t pieces_most;

/**
 * @return SHUNT_ERR_INPUT as route_build(), SHUNT_ERR_UNSUPPORTED when there are too many pieces
 */
enum shunt_status pieces_build(struct arena *arena, struct route *route, struct shunt_err *err);

#endif
