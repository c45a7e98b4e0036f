/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_LISTING_H
#define SHUNT_PLANNER_LISTING_H

/**
 * Registration order: the trainable tensors of a chunk as its trainer lists them, which is the order
 * of flat buffers. Families stand as the layout's `shard.order` lists them, else as the model document
 * does; a run of per-layer families is repeated layer by layer; experts stand as experts.h says.
 *
 * Copies of a tied tensor stand at its own place, but for the head: under the rules whose trainers
 * build the last stage's copy as an output layer it stands behind all others. Megatron builds that
 * output layer even where the prediction block beside it has the copy already, and leaves it unused.
 * DeepSpeed registers tied modules in front, on every stage. Source: layout-facts.md 2, 4 and 5.
 */

#include "space/registry.h"
#include "util/arena.h"

#define LISTING_UNUSED UINT32_MAX

/** One tensor in registration order, or a stack of several. */
struct entry {
    uint32_t family;
    uint32_t tensor; /* LISTING_UNUSED: takes room in the buffer and is no state */
    int64_t elements;
    int64_t stack; /* tensors from `tensor` on that it is made of, one behind the other */
    uint8_t dtype; /* of the weight: each has buffers of its own */
    bool expert;   /* goes to the expert buffer */
    bool shared;   /* an embedding that stages keep equal */
};

typedef VEC(struct entry) entry_list;

struct listing {
    struct arena *arena;
    const struct registry_input *input;
    uint32_t *order; /* trainable families */
    uint32_t order_count;
};

/** @return SHUNT_ERR_INPUT (shard.order names no family, or leaves one out) */
enum shunt_status listing_init(struct listing *listing, struct arena *arena, const struct registry_input *input,
                               struct shunt_err *err);

entry_list listing_chunk(const struct listing *listing, int64_t chunk);

#endif
