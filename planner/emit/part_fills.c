/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part_build.h"

#include <stdlib.h>

static int compare_fills(const void *a, const void *b)
{
    const struct part_fill *x = a, *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/** Pads of a new buffer are zeroed when it is allocated, those of a kept one in the last round. */
void part_list_fills(struct part *part)
{
    for (size_t n = 0; n < part->new_items.count; n++) {
        uint32_t i = part->new_items.items[n].item;
        if (part->new_items.items[n].variant->pad_count == 0)
            continue;
        const struct shunt_plan_buffer *buffer = &part->buffers.items[part->to_buffer[i] - 1];
        uint32_t round = buffer->side == SHUNT_SIDE_BOTH ? part->round_count - 1 : buffer->alloc_round;
        *VEC_PUSH(part->arena, &part->fills) =
            (struct part_fill){.round = round, .buffer = part->to_buffer[i] - 1, .item = i};
    }
    if (part->fills.count > 0)
        qsort(part->fills.items, part->fills.count, sizeof(*part->fills.items), compare_fills);
}

static void emit_pad(struct part *part, const struct part_fill *fill, const struct placement_variant *variant,
                     const struct box *pad)
{
    uint32_t elem_bytes = part->space->items[fill->item].elem_bytes[SPACE_TO];
    int64_t shape[SHUNT_MAX_DIMS], stride[SHUNT_MAX_DIMS], offset = 0;
    placement_dense_strides(variant->ndim, variant->shape, stride);
    for (uint32_t d = 0; d < variant->ndim; d++)
        offset += pad->lo[d] * stride[d];
    part_box_shape(pad, shape);
    struct shunt_plan_op *op = VEC_PUSH(part->arena, &part->ops);
    op->kind = SHUNT_OP_FILL;
    op->src_buffer = SHUNT_PLAN_NONE;
    op->dst_buffer = fill->buffer;
    op->dst_view = part_add_view(part, variant->ndim, shape, stride, elem_bytes);
    op->dst_offset = (uint64_t)offset * elem_bytes;
}

void part_emit_fill(struct part *part, const struct part_fill *fill)
{
    const struct placement_variant *variant = side_variant(part->input->problem->route->to, fill->item, part->to_rank);
    for (uint32_t p = 0; p < variant->pad_count; p++)
        emit_pad(part, fill, variant, &variant->pads[p]);
}
