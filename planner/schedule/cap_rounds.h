/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CAP_ROUNDS_H
#define SHUNT_PLANNER_CAP_ROUNDS_H

/**
 * Rounds from a span of time for every job: its chunks go to the rounds of its span, each where the busiest port of
 * the round rises least, messages counted. What a job holds it holds for its span, so the spans alone decide the
 * memory, and within them any chunk may move. What is sent on goes later than what brings it, by
 * depth rounds for each stage.
 */

#include "schedule/loads.h"

/** Time from 0 to 1, all rounds together. */
struct span {
    double begin, end;
};

struct cap_rounds_options {
    uint32_t depth;            /* staging slots */
    uint32_t rounds;           /* wanted; as many more as the staging needs */
    uint32_t reach;            /* rounds by which a chunk may leave its job's span */
    uint64_t slot_bytes;       /* size of a staging slot; a device's own largest chunk may exceed it */
    const struct loads *loads; /* of the chunks */
    const struct span *spans;  /* by job */
    const bool *weighed;       /* by device: those that stand for all; NULL: each for itself */
};

/** @return false when some round would need more staging than its slot */
bool cap_rounds_build(struct arena *arena, const struct problem *problem, const struct cap_rounds_options *options,
                      struct rounds *rounds_out);

#endif
