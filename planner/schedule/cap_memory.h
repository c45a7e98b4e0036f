/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CAP_MEMORY_H
#define SHUNT_PLANNER_CAP_MEMORY_H

/**
 * What buffers take on each device, round by round, while jobs are put into rounds and taken out again, and what it
 * costs to put a unit somewhere in bytes over the cap. A job holds its new buffers from its first round on, and its
 * old ones until `depth` rounds behind its last one: on no device is that less than the plan holds. A job that is
 * nowhere yet has its old buffers alone.
 */

#include "schedule/rounds.h"

/** Of a device that could not hold both sides; of several that all jobs treat alike, of the first. */
struct cap_device {
    double room;  /* for buffers */
    double *live; /* by round: bytes of buffers */
};

/** What a job does to a device. */
struct cap_share {
    uint32_t device; /* in `devices` */
    double alloc, release;
};

struct cap_memory {
    uint32_t rounds, depth;
    uint32_t device_count;
    struct cap_device *devices;
    uint32_t *begin; /* job_count + 1: shares of job j are [begin[j], begin[j + 1]) */
    struct cap_share *shares;
    uint32_t *first, *last; /* by job: its rounds; `rounds`: it is nowhere */
    double *spare;          /* by round and two more: sums of one job on one device */
};

/** @param slots  bytes of all staging slots of a device */
struct cap_memory *cap_memory_build(struct arena *arena, const struct problem *problem, uint32_t rounds, uint32_t depth,
                                    uint64_t slots);

/** A job is from now on in rounds first to last; both `rounds`: nowhere. */
void cap_memory_move(struct cap_memory *memory, uint32_t job, uint32_t first, uint32_t last);

/** Add to score[t], begin <= t < end, `price` for each byte-round over the cap that a unit of the job would add there. */
void cap_memory_score(struct cap_memory *memory, uint32_t job, uint32_t begin, uint32_t end, double price,
                      double *score);

/** The most bytes by which any device is over its room in any round; 0: it all fits. */
double cap_memory_over(const struct cap_memory *memory);

#endif
