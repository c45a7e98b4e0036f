/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PART_H
#define SHUNT_PLANNER_PART_H

/** One device's part of the plan: its buffers, and its operations round by round. */

#include "emit/lower.h"
#include "shunt/plan_format.h"

/** Growing output. */
typedef VEC(unsigned char) byte_vec;

void bytes_append(struct arena *arena, byte_vec *bytes, const void *data, size_t size);
/** Append zeros up to a multiple of `align`. */
void bytes_align(struct arena *arena, byte_vec *bytes, size_t align);

/** What the summary and the device table need to know of a part. */
struct part_figures {
    uint64_t from_bytes, to_bytes, peak_bytes, staging_bytes;
    uint64_t ops; /* records, allocs and frees */
    uint32_t max_group_messages, peers;
    uint32_t first_destructive_round; /* round_count if none */
};

struct part_input {
    const struct problem *problem;
    const struct rounds *rounds;
    const struct lowered *lowered;
    uint64_t *message_bytes; /* scratch by device, zero */
};

/** Append the part of `device` to out, aligned and padded. `scratch` is emptied by the caller between parts. */
void part_emit(struct arena *scratch, struct arena *out_arena, const struct part_input *input, uint32_t device,
               byte_vec *out, struct part_figures *figures_out);

#endif
