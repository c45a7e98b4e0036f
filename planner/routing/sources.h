/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SOURCES_H
#define SHUNT_PLANNER_SOURCES_H

/**
 * Second half of routing: the source of every piece. Own memory first, then a holder in the
 * same node, then any; among equals the one with the least load so far, then the lowest device.
 * Pieces that have only one holder are counted first, the others by falling size, so that the
 * free choices fill what the forced ones leave (list scheduling by longest processing time).
 */

#include "routing/route.h"

void sources_choose(struct arena *arena, struct route *route);

#endif
