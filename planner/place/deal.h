/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_DEAL_H
#define SHUNT_PLANNER_PLACE_DEAL_H

/** From units of classes back to things and places: who goes where, when only how many go is decided. */

#include "place/classes.h"
#include "solve/transport.h"

struct deal {
    uint32_t item_count, place_count, item_classes, place_classes;
    const uint32_t *item_class, *place_class;
    const uint32_t *wished; /* place that an item is to have if that costs nothing; UINT32_MAX: none */
    uint32_t *room;         /* of each place; used up */
    transport_links *flow;  /* by classes; units are used up */
};

/** Every item gets a place: those of the flow, then those without, at their wishes or from the first place on. */
void deal_places(struct arena *arena, const struct deal *deal, uint32_t *place_out);

#endif
