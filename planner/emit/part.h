/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PART_H
#define SHUNT_PLANNER_PART_H

/** One device's part of the plan: its buffers, and its operations round by round. */

#include "emit/lower.h"
#include "shunt/plan_format.h"

/** What the summary and the device table need to know of a part. */
struct part_figures {
    uint64_t from_bytes, to_bytes, peak_bytes, staging_bytes;
    uint64_t host_peak_bytes, parked_bytes; /* of scratch in host memory; payload that is copied there */
    uint64_t ops;                           /* records, allocs and frees */
    uint32_t max_group_messages, peers;
    uint32_t first_destructive_round; /* round_count if none */
};

struct part_input {
    const struct problem *problem;
    const struct rounds *rounds;
    const struct lowered *lowered;
    /* scratch that all parts of a worker share, as one for each would make the whole grow with the square of the devices */
    uint64_t *message_bytes;           /* by device, zero */
    uint64_t *send_base, *recv_base;   /* by peer: start of its message of the open round in the slot */
    uint32_t *peers;                   /* of the message group at hand */
    uint32_t *from_buffer, *to_buffer; /* by item, zero: buffer + 1 */
    uint32_t *parked_buffer;           /* the same of what is parked: where the old buffer is read */
};

/** Give an input scratch of its own. */
void part_add_scratch(struct arena *arena, struct part_input *input);

/** Parts behind each other, for one after the other to be added; the caller frees `bytes`. */
struct part_bytes {
    unsigned char *bytes;
    size_t size, capacity;
};

/**
 * Add the part of `device`, padded to the alignment.
 *
 * @param scratch  emptied by the caller between parts; fails when there is no memory for the bytes
 */
void part_emit(struct arena *scratch, struct part_bytes *bytes, const struct part_input *input, uint32_t device,
               struct part_figures *figures_out);

#endif
