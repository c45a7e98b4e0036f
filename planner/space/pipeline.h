/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PIPELINE_H
#define SHUNT_PLANNER_PIPELINE_H

/**
 * Pipeline rule: which layers, and which other modules, sit on which stage.
 *
 * A stage holds vpp chunks. Chunk s = v * pp + p is chunk v of stage p; layers fill the chunks in
 * the order of s. Their numbers come from an even split, from given sizes of the first and the
 * last stage, from counting the embedding and the loss as layers, or from a layout string:
 *
 *     E embedding   t layer   m MTP block   L loss   | next chunk   c*n and (...)*n repeat   , ignored
 *
 * Source: layout-facts.md section 2.
 */

#include "config/config.h"
#include "util/arena.h"

struct pipeline {
    int64_t stages, chunks; /* chunks: stages * vpp */
    int64_t *chunk_begin;   /* chunks + 1: chunk s holds layers [chunk_begin[s], chunk_begin[s + 1]) */
    int64_t embedding_chunk, loss_chunk, mtp_chunk, final_chunk;
};

/** @return SHUNT_ERR_INPUT when the layout does not fit the number of layers; err says why */
enum shunt_status pipeline_build(struct arena *arena, const struct cfg_layout *layout, const struct cfg_model *model,
                                 struct pipeline *pipeline_out, struct shunt_err *err);

/** Chunk that holds a layer. */
int64_t pipeline_chunk_of(const struct pipeline *pipeline, int64_t layer);

#endif
