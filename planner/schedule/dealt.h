/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_DEALT_H
#define SHUNT_PLANNER_DEALT_H

/** What dealing units to rounds has in common, however the rounds are chosen. */

#include "schedule/loads.h"

#define NO_ROUND UINT32_MAX

/** Rounds that a unit may go to, or that a job has: half-open. */
struct window {
    uint32_t begin, end;
};

/** Units of jobs that are dealt to rounds. */
struct dealt {
    const struct problem *problem;
    const struct loads *loads;
    uint32_t rounds, depth;
    uint32_t *round;      /* by unit; NO_ROUND */
    uint32_t *first_unit; /* by job; those of a job follow each other */
    uint32_t *follower;   /* by job: the job that comes after it; JOB_NONE */
};

/** Size of a unit: the seconds of its slowest port. Units of jobs that come after others are placed after those. */
struct rank {
    double seconds;
    uint32_t unit, stage;
    bool follows;
};

/** x to the power of 2^squarings. Inlined with a constant everywhere: it is what the time goes into. */
static inline double raised(double x, int squarings)
{
    for (int i = 0; i < squarings; i++)
        x *= x;
    return x;
}

/** `first_unit` and `follower`. */
void dealt_list_order(struct arena *arena, struct dealt *dealt);

/** No unit is in any round. */
void dealt_clear(struct arena *arena, struct dealt *dealt);

/** From the first to the last round of what is placed of a job; begin is NO_ROUND and end 0 when nothing is. */
struct window dealt_span(const struct dealt *dealt, uint32_t job);

/** Rounds between the last one of a job and the first one of the job that comes after it. */
uint32_t dealt_wait(const struct dealt *dealt, uint32_t job);

/** Behind the job that a job comes after, and before the one that comes after it. */
struct window dealt_order_window(const struct dealt *dealt, uint32_t job);

/** Where a unit may go: by the order of jobs, behind what brings what it sends on, and before what sends it on. */
struct window dealt_window(const struct dealt *dealt, uint32_t unit);

/** The largest first, but those of later stages, and of jobs that come after others, behind the rest. */
struct rank *dealt_largest_first(struct arena *arena, const struct dealt *dealt);

uint32_t dealt_most_stages(const struct problem *problem);

/** Add the units by round behind the idle ones; rounds without any are left out, unless a job waits for them to pass. */
void dealt_list_rounds(struct arena *arena, const struct dealt *dealt, struct rounds *rounds);

#endif
