/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CAP_ROUNDS_H
#define SHUNT_PLANNER_CAP_ROUNDS_H

/**
 * Rounds from a span of time for every job: its chunks go to the rounds of its span, each where the busiest port of
 * the round rises least, messages counted. Then jobs, and single chunks, are taken out and put where they fit better,
 * which for a job may be outside its span: each byte over the cap costs more than any unevenness. Where all that is old
 * is held to the end, there are no spans, and any chunk may go anywhere. What is sent on goes later than what brings
 * it, by depth rounds for each stage.
 */

#include "schedule/loads.h"

/** Time from 0 to 1, all rounds together. */
struct span {
    double begin, end;
};

struct cap_rounds_options {
    uint32_t depth;            /* staging slots */
    uint32_t rounds;           /* wanted; as many more as the staging needs */
    bool hold_old;             /* every old buffer lives to the end of the last round */
    uint64_t slot_bytes;       /* size of a staging slot; a device's own largest chunk may exceed it */
    const struct loads *loads; /* of the chunks; those of devices that are like others may be missing */
    const struct span *spans;  /* by job; not with hold_old */
};

enum cap_rounds_status {
    CAP_ROUNDS_DONE,
    CAP_ROUNDS_OVER_SLOT, /* some round needs more staging than its slot: more rounds may mend it */
    CAP_ROUNDS_OVER_CAP   /* some device needs more than the cap */
};

/** @param over_out  the most bytes that a device is over the cap in any round */
enum cap_rounds_status cap_rounds_build(struct arena *arena, const struct problem *problem,
                                        const struct cap_rounds_options *options, struct rounds *rounds_out,
                                        uint64_t *over_out);

#endif
