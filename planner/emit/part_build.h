/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PART_BUILD_H
#define SHUNT_PLANNER_PART_BUILD_H

/** A part while it is made, between the files that make it: buffers, then operations round by round, then figures. */

#include "emit/intern.h"
#include "emit/part.h"

/** Pads of one new buffer, zeroed in one round. */
struct part_fill {
    uint32_t round, buffer, item;
};

struct part_passing;

/** A part under construction. */
struct part {
    struct arena *arena;
    const struct part_input *input;
    const struct space *space;
    uint32_t device, from_rank, to_rank, round_count;
    side_items old_items, new_items;
    uint32_t *from_buffer, *to_buffer; /* by item: buffer + 1; 0: none */
    uint32_t *parked_buffer;           /* by item: the scratch buffer, which stands behind the old one */
    struct intern views, corners;
    VEC(struct shunt_plan_buffer) buffers;
    VEC(struct shunt_plan_holding) holdings;
    VEC(struct shunt_plan_op) ops;
    VEC(struct shunt_plan_message) messages;
    struct shunt_plan_round *rounds;
    uint64_t staging[SHUNT_PLAN_MAX_DEPTH];
    VEC(struct part_fill) fills; /* by round, then buffer */
    size_t next_fill;
    size_t passing_count;
    const struct part_passing *passing; /* by item, cell and slice */
};

/** View of a box of `shape` with strides in elements. */
uint32_t part_add_view(struct part *part, uint32_t ndim, const int64_t *shape, const int64_t *stride,
                       uint32_t elem_bytes);
uint32_t part_add_dense_view(struct part *part, uint32_t ndim, const int64_t *shape, uint32_t elem_bytes);

static inline void part_box_shape(const struct box *box, int64_t *shape_out)
{
    for (uint32_t d = 0; d < box->ndim; d++)
        shape_out[d] = box->hi[d] - box->lo[d];
}

/** One walk over what the device has before and afterwards, both by ascending item. */
void part_list_buffers(struct part *part);

/** Alloc in the round of the first write (or of the job, when there are only pads); free after the last read. */
void part_set_lifetimes(struct part *part);

/** The buffer in which an item's old elements are read: where they are parked, else where they were. */
static inline uint32_t part_read_buffer(const struct part *part, uint32_t item)
{
    return (part->parked_buffer[item] != 0 ? part->parked_buffer[item] : part->from_buffer[item]) - 1;
}

/** Scratch buffers for what the device only sends on, each from the round that brings it to the last that sends it. */
void part_list_passing(struct part *part);

/** The one from which a transfer is sent on, or into which it is received. */
uint32_t part_passing_buffer(const struct part *part, const struct transfer *transfer);

/** Copy what is parked, in the first round. */
void part_emit_parks(struct part *part);

/** Leave the tables by item as they were found, for the next part. */
void part_forget_buffers(struct part *part);

/** Pads of a new buffer are zeroed when it is allocated, those of a kept one in the last round. */
void part_list_fills(struct part *part);

/** Zero the pads of one buffer. */
void part_emit_fill(struct part *part, const struct part_fill *fill);

/** Copy a transfer on the device, or pack it into a slot. */
void part_emit_read(struct part *part, const struct transfer *transfer, uint32_t slot);

/** Unpack a transfer that has arrived in a slot. */
void part_emit_unpack(struct part *part, const struct transfer *transfer, uint32_t slot);

/** Messages and operations of all rounds; sizes of the slots. */
void part_emit_rounds(struct part *part);

/** Figures of a part that is complete but for the live_bytes of its rounds, which are set here. */
void part_count_figures(struct part *part, struct part_figures *figures_out);

#endif
