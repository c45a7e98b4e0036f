/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_REGISTRY_H
#define SHUNT_PLANNER_REGISTRY_H

/**
 * Flat buffers: where every trainable tensor starts in the buffer of its chunk or group, so that
 * the buffer's equal cuts can be found. Offsets are counted in elements of the tensor-parallel
 * local tensors and are the same for every tp index.
 *
 * Tensors stand in registration order (listing.h). Source: layout-facts.md 4 and 5.
 */

#include "space/pipeline.h"
#include "space/space.h"

/**
 * Place of a tensor: [start, start + elements) of a bucket that is cut into equal shards. A tied tensor has a
 * place on each of its stages, and its copies may lie unlike there.
 */
struct flat_place {
    int64_t start;
    int64_t bucket; /* elements of the bucket, pads included; 0: the tensor is in no flat buffer */
    int64_t stage;
    struct flat_place *next; /* on the next stage that has one */
};

struct registry_input {
    const struct cfg_layout *layout;
    const struct space *space;
    const struct pipeline *pipeline;
    const int64_t *family_elements; /* by family: elements of a local tensor, vocabulary pads included */
    int64_t local_experts;          /* experts per ep index */
    bool expert_buffer;             /* experts have buffers of their own */
    int64_t shards, expert_shards;  /* ranks that share a dense and an expert buffer */
};

/**
 * @param places_out  by tensor; for experts those of ep index 0, which every ep index repeats
 * @return SHUNT_ERR_INPUT (shard.order names no family, or leaves one out),
 *         SHUNT_ERR_UNSUPPORTED (tensors of several dtypes in one flat group)
 */
enum shunt_status registry_build(struct arena *arena, const struct registry_input *input,
                                 struct flat_place **places_out, struct shunt_err *err);

#endif
