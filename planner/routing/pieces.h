/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PIECES_H
#define SHUNT_PLANNER_PIECES_H

/** First half of routing: types and their pieces. Fills route->types without sources. */

#include "routing/route.h"

enum shunt_status pieces_build(struct arena *arena, struct route *route, struct shunt_err *err);

#endif
