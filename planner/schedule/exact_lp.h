/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXACT_LP_H
#define SHUNT_PLANNER_EXACT_LP_H

/**
 * Rounds as a program over whole numbers: x[q][t] units of part q go to round t. A round takes as long as its busiest
 * port with the messages of that device, and no less than what is packed for the next one and unpacked of the last one
 * beside it; with one slot they follow each other:
 *
 *     wire[t] >= sum of seconds x[q][t]                       every port that no other outweighs
 *     wire[t] >= behind[t - 1] + before[t + 1]                two slots
 *     x[q][t] <= units y[t]                                   rounds with y[t] = 0 cost nothing and send nothing
 *     min sum wire[t] + round y[t] + before[0] + behind[K - 1]
 *
 * Slots of even and of odd rounds are as large as the largest of them; both are under the staging, and with the
 * buffers of each round under the cap. Of jobs that are cut, begun and finished ones are counted by whole numbers of
 * their own. The clock of the plan is the same, so that what is least here is least there, of all rounds with these
 * chunks.
 */

#include "schedule/exact_rows.h"
#include "solve/lp.h"

struct exact_lp_input {
    const struct problem *problem;
    const struct exact_kinds *kinds;
    const struct exact_rows *rows;
    uint32_t rounds, depth;
    bool hold_old;
    bool whole;             /* false: columns may be broken, for a bound */
    const uint32_t *counts; /* by round and part: units to start from; NULL: none */
    double cutoff;          /* only less than that is of interest, seconds */
    int nodes;
    double seconds; /* stop by the clock; 0: do not */
};

struct exact_lp_result {
    enum lp_status status;
    double seconds, bound;
    uint32_t *counts; /* by round and part; NULL: none */
    int nodes;
};

/** Whether jobs wait for others in a way that the program can say. */
bool exact_lp_applies(const struct exact_kinds *kinds);

/** Whether some jobs, or stages, wait for rounds to pass: those without units may be of use between others. */
bool exact_waits(const struct exact_kinds *kinds);

/** Whole columns that so many rounds take. */
uint64_t exact_lp_columns(const struct exact_kinds *kinds, const struct exact_rows *rows, uint32_t rounds);

struct exact_lp_result exact_lp_solve(struct arena *arena, const struct exact_lp_input *input);

#endif
