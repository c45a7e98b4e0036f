/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXACT_ROWS_H
#define SHUNT_PLANNER_EXACT_ROWS_H

/**
 * What a round's units and messages ask for, as rows over the round's columns: one column for each part, and behind
 * them one for each family of messages, which are there as soon as one unit brings them. Rows that others outweigh in
 * every column are left out, so that of devices that are alike only one is left.
 */

#include "schedule/exact_kinds.h"

struct exact_term {
    uint32_t column;
    double value;
};

struct exact_row {
    uint32_t count;
    struct exact_term *terms; /* ascending column */
};

typedef VEC(struct exact_row) exact_row_vec;

/** Pairs of devices to which the same parts bring messages: if the round has one of them, it has all. */
struct exact_family {
    uint32_t part_count;
    uint32_t *parts; /* ascending */
};

/** Memory of a device, and of those like it. */
struct exact_device {
    uint32_t device;
    uint64_t room;           /* for its slots beside what is fixed and all old and new buffers; 0 if there is none */
    struct exact_row staged; /* bytes */
};

struct exact_rows {
    exact_row_vec wire, before, behind; /* seconds */
    bool messages;                      /* cost something by themselves: families have columns */
    uint32_t family_count;
    struct exact_family *families;
    VEC(struct exact_device) slots;  /* devices whose staging may bind, their memory not */
    VEC(struct exact_device) memory; /* devices whose memory may bind as well */
};

/** @param hold_old  memory never binds beyond what both sides and the slots take */
struct exact_rows *exact_rows_build(struct arena *arena, const struct problem *problem, const struct exact_kinds *kinds,
                                    bool hold_old);

/** Columns of a round. */
static inline uint32_t exact_round_columns(const struct exact_kinds *kinds, const struct exact_rows *rows)
{
    return kinds->part_count + (rows->messages ? rows->family_count : 0);
}

#endif
