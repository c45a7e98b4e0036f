/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXACT_KINDS_H
#define SHUNT_PLANNER_EXACT_KINDS_H

/**
 * Units that ask the same of the same devices are counted, not named: how many of them a round takes is one whole
 * number. Jobs whose buffers and chunks are all alike are one kind; its chunks that are alike, stage by stage, are one
 * part. Of a kind the first job gets the first units of each part, then the second, and so on: no other order has
 * fewer jobs begun and more of them finished.
 *
 * Example: 8 layers of 9 tensors in 2 states, all layers of a stage on the same devices, no job cut: 18 kinds of one
 * part each for every pair of an old and a new stage, and not 144 jobs.
 */

#include "schedule/loads.h"

#define EXACT_NONE UINT32_MAX

/** Bytes of a message that a unit brings to a pair of a sender and a receiver. */
struct exact_message {
    uint32_t source, taker;
    uint64_t bytes;
};

/** Chunks of a kind's jobs that are alike: of one stage. */
struct exact_part {
    uint32_t kind, stage;
    uint32_t before; /* the part that brings what this one sends on; EXACT_NONE in stage 0 */
    uint32_t chunk_count;
    uint32_t *chunks; /* of a job, ascending */
    uint32_t load_count, message_count;
    struct load *loads; /* of one unit, ascending port */
    struct exact_message *messages;
    bool sends; /* over any link: a round with it costs something */
};

struct exact_memory {
    uint32_t device;
    uint64_t alloc, release;
    uint32_t stage; /* of the first piece that it receives */
};

struct exact_kind {
    uint32_t job_count;
    uint32_t *jobs; /* ascending */
    struct chunking chunking;
    uint32_t after; /* the kind whose jobs are finished before; EXACT_NONE */
    bool reads_new;
    bool followed; /* another kind comes after it */
    uint32_t part_begin, part_end;
    uint32_t memory_count;
    struct exact_memory *memory; /* of one job */
};

struct exact_kinds {
    uint32_t kind_count, part_count;
    struct exact_kind *kinds;
    struct exact_part *parts; /* by kind, then stage */
    uint32_t *kind_of_job;
    uint32_t port_count;
};

/** Units of a part over all jobs. */
static inline uint32_t exact_part_units(const struct exact_kinds *kinds, const struct exact_part *part)
{
    return kinds->kinds[part->kind].job_count * part->chunk_count;
}

/**
 * Sort the units of jobs that are cut in these ways.
 *
 * @param chunkings   by job
 * @param most_parts  with more, or with too many pieces to look at, there is no answer
 * @return NULL: none
 */
struct exact_kinds *exact_kinds_build(struct arena *arena, const struct problem *problem,
                                      const struct chunking *chunkings, uint32_t most_parts);

#endif
