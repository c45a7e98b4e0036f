/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_FRUGAL_H
#define SHUNT_PLANNER_FRUGAL_H

/**
 * Orders of the jobs that need little memory, by a counted search. Jobs of the same memory on the same devices are of
 * one kind, so that a state is how many of each kind have run. A job that fits and leaves no device fuller than before
 * runs at once: nothing is lost by it. Of the others those are tried first that leave the devices least full, deepest
 * state first. The end is sought from the start, and the start from the end, where what was given back is taken; the cap
 * is halved towards the larger side of the fullest device.
 */

#include "schedule/problem.h"

struct frugal_options {
    const uint64_t *slot; /* by device: staging that is there throughout */
    uint64_t least;       /* no order has a lower peak */
    uint64_t most;        /* one of this peak is known */
};

/** @return an order with a lower peak than options->most; NULL: none was found */
uint32_t *frugal_order(struct arena *arena, const struct problem *problem, const struct frugal_options *options);

#endif
