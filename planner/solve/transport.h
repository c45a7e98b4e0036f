/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_TRANSPORT_H
#define SHUNT_PLANNER_TRANSPORT_H

/**
 * Transportation: units of rows go to places of columns so that the sum of gains is greatest. A unit may
 * stay where it is, which gains nothing. Only pairs that gain something are given; what no pair links
 * is solved apart, so that a large problem with structure costs no more than its parts.
 */

#include <stdbool.h>

#include "util/arena.h"

/** A pair that gains something, or the units that go that way. */
struct transport_link {
    uint32_t row, column;
    uint32_t units;
    int64_t gain; /* of one unit, > 0 */
};

typedef VEC(struct transport_link) transport_links;

struct transport {
    uint32_t row_count, column_count;
    const uint32_t *supply, *capacity; /* units of each row; places of each column */
    size_t link_count;
    const struct transport_link *links; /* by ascending row, distinct columns; units are not looked at */
    double most_work;                   /* steps to spend at most, by a formula and not by the clock; 0: no limit */
};

/**
 * @param flow_out  links with units > 0, by ascending row and column
 * @param gain_out  the greatest sum
 * @return false when the work would be more than most_work; nothing is done then
 */
bool transport_solve(struct arena *arena, const struct transport *transport, transport_links *flow_out,
                     int64_t *gain_out);

#endif
