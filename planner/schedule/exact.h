/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXACT_H
#define SHUNT_PLANNER_EXACT_H

/**
 * Schedules by programs over whole numbers (exact_lp.h): which units go to which round, so that the predicted time is
 * the least of all rounds with the same chunks, one slot or two, old buffers held to the end where that is possible.
 * A program sees nothing but what is faster than the schedule that is there already, and what it finds is measured
 * like any other: the better one is kept. Programs beyond EXACT_MOST_COLUMNS are not tried.
 */

#include "schedule/schedule.h"

#define EXACT_MOST_COLUMNS 600 /* that are whole: with more of them there is seldom an answer */

struct exact_options {
    int nodes;      /* of each search; 0: as many as its size allows */
    double seconds; /* of each search; 0: as many as it takes. With some, the plan depends on the machine */
};

/**
 * Put the rounds of a program in place of those of the schedule where they are faster; method, solver and solver_status
 * say what was proved: "optimal", how far the best may be, or why there was no program.
 */
void exact_improve(struct arena *arena, const struct exact_options *options, struct schedule *schedule);

/** The better one of METHOD_AUTO and METHOD_GREEDY, and improved; otherwise as schedule_build(). */
enum shunt_status exact_build(struct arena *arena, const struct problem *problem, const struct problem *relayed,
                              const struct exact_options *options, struct schedule *schedule_out,
                              struct shunt_err *err);

#endif
