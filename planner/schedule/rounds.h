/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ROUNDS_H
#define SHUNT_PLANNER_ROUNDS_H

/**
 * List scheduling of jobs into rounds. Jobs are taken in a given order; each round takes, from
 * the first `window` unfinished jobs, every chunk that still fits the staging slots of all its
 * devices and, for a job's first chunk, their memory under the cap. A job that comes after another
 * one starts when that is finished; if it reads what that one brings, `depth` rounds later. Orders put
 * it behind the other one. So it is with the stages of a job, chunk by chunk. Old buffers are released when all
 * chunks of the first stage have been taken: the later ones do not read them.
 */

#include "schedule/problem.h"

/**
 * How a job is cut: a chunk takes one slice of every piece of one group and one stage, counted in this order. What a
 * chunk sends on, the one of the same slice and group of the stage before has brought, `depth` rounds earlier.
 */
struct chunking {
    uint32_t groups, slices, stages;
};

#define ROUNDS_MAX_SLICES 4096u

/** One chunk of one job, in one round. */
struct unit {
    uint32_t job, chunk;
    struct chunking chunking;
};

struct rounds {
    uint32_t depth;        /* staging slots; frees of round k are done before the allocs of round k + depth */
    bool hold_old;         /* every old buffer lives to the end of the last round */
    uint32_t idle_rounds;  /* leading rounds without units, in which unread old buffers are freed */
    uint32_t round_count;  /* idle ones included */
    uint32_t *round_begin; /* round_count + 1; units [round_begin[k], round_begin[k + 1]) */
    uint32_t unit_count;
    struct unit *units;
};

struct rounds_options {
    uint32_t depth;
    bool hold_old;
    uint64_t slot_bytes;  /* wanted size of a staging slot; a device's own largest chunk may exceed it */
    uint64_t chunk_bytes; /* most bytes that a chunk sends and receives on one device, where it can be cut so */
    uint32_t window;      /* unfinished jobs that a round looks at; 1: strict order */
    const uint32_t *order;
};

/**
 * Largest slot that any device needs for one chunk alone, by device.
 *
 * @param need_out  by device, zeroed by the caller
 * @return the largest entry
 */
uint64_t rounds_least_slots(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes,
                            uint64_t *need_out);

/** @return false when some job never fits under the cap; rounds_out is then unspecified */
bool rounds_build(struct arena *arena, const struct problem *problem, const struct rounds_options *options,
                  struct rounds *rounds_out);

/** How to cut a job so that no device sends and receives more than about chunk_bytes (>= 1) in a chunk. */
struct chunking rounds_cut_job(const struct problem *problem, const struct job *job, uint64_t chunk_bytes);

/** Chunks of each stage: chunk c comes from chunk c - chunk_stride. */
static inline uint32_t chunk_stride(const struct chunking *chunking)
{
    return chunking->groups * chunking->slices;
}

static inline uint32_t chunk_count(const struct chunking *chunking)
{
    return chunk_stride(chunking) * chunking->stages;
}

static inline uint32_t chunk_stage(const struct chunking *chunking, uint32_t chunk)
{
    return chunking->stages == 1 ? 0 : chunk / chunk_stride(chunking);
}

/** A chunk at hand, with what would else be divided anew for every piece. */
struct chunk {
    const struct problem *problem;
    const struct job *job;
    const struct route_type *type;
    uint32_t groups, slices, stages, group, slice, stage;
    uint64_t inverse; /* 2^64 / groups, rounded up */
};

struct chunk rounds_chunk(const struct problem *problem, const struct job *job, const struct chunking *chunking,
                          uint32_t chunk);

/**
 * The group of a piece: the remainder of a division by the number of groups, by multiplication (Lemire, Kaser, Kurz
 * 2019).
 */
static inline uint32_t chunk_group(const struct chunk *chunk, uint32_t piece)
{
    if (chunk->groups == 1)
        return 0;
    uint64_t fraction = chunk->inverse * chunk->type->spreads[piece];
    __extension__ typedef unsigned __int128 product;
    return (uint32_t)((product)fraction * chunk->groups >> 64);
}

/** Whether a piece takes part in a chunk; walk.h where it is asked for one chunk after the other. */
static inline bool chunk_has_piece(const struct chunk *chunk, uint32_t piece)
{
    if (chunk->groups > 1 && chunk_group(chunk, piece) != chunk->group)
        return false;
    return chunk->stages == 1 || route_stage(chunk->type, chunk->job->index, piece) == chunk->stage;
}

/** Aligned bytes of a piece that takes part in a chunk; 0 when its slice is empty or the copy is local. */
uint64_t rounds_piece_bytes(const struct chunk *chunk, uint32_t piece_index, uint32_t *source_out);

#endif
