/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part_build.h"

/** Where a box of the space lies in a buffer: offset in bytes and view. */
static void locate(struct part *part, const struct placement_holding *holding, const struct box *box,
                   uint32_t elem_bytes, uint64_t *offset_out, uint32_t *view_out)
{
    int64_t shape[SHUNT_MAX_DIMS];
    part_box_shape(box, shape);
    *offset_out = (uint64_t)placement_offset(holding, box->lo) * elem_bytes;
    *view_out = part_add_view(part, box->ndim, shape, holding->stride, elem_bytes);
}

/** The holding of a side's placement on this device that contains a cell. */
static const struct placement_holding *own_holding(const struct side *side, uint32_t item, uint32_t rank,
                                                   const struct route_holding *holdings, uint32_t count)
{
    const struct placement *placement = side_placement(side, item);
    uint32_t variant = placement_variant_of(placement, rank);
    return &placement->variants[variant].holdings[route_find_holding(holdings, count, variant)->index];
}

/** The new buffer of a transfer's item, where all takers of its cell have it alike. */
static void locate_new(struct part *part, const struct transfer *transfer, const struct box *box, uint64_t *offset_out,
                       uint32_t *view_out)
{
    const struct placement *placement = side_placement(part->input->problem->route->to, transfer->item);
    const struct placement_variant *variant = &placement->variants[transfer->cell->to_variant];
    locate(part, &variant->holdings[transfer->cell->to_holding], box,
           part->space->items[transfer->item].elem_bytes[SPACE_TO], offset_out, view_out);
}

static uint32_t staging_view(struct part *part, const struct transfer *transfer, const struct box *box)
{
    int64_t shape[SHUNT_MAX_DIMS];
    part_box_shape(box, shape);
    return part_add_dense_view(part, box->ndim, shape, part->space->items[transfer->item].wire_bytes);
}

/** The scratch buffer of a transfer that is sent on: all of it, as it is sent. */
static void locate_passing(struct part *part, const struct transfer *transfer, uint32_t *buffer_out, uint32_t *view_out)
{
    struct box box = transfer_box(transfer);
    *buffer_out = part_passing_buffer(part, transfer);
    *view_out = staging_view(part, transfer, &box);
}

static void locate_source(struct part *part, const struct transfer *transfer, const struct box *box,
                          struct shunt_plan_op *op)
{
    if (transfer->passed) {
        locate_passing(part, transfer, &op->src_buffer, &op->src_view);
        return;
    }
    if (transfer->forwarded) {
        locate_new(part, transfer, box, &op->src_offset, &op->src_view);
        op->src_buffer = part->to_buffer[transfer->item] - 1;
        return;
    }
    const struct route *route = part->input->problem->route;
    const struct route_cell *cell = transfer->cell;
    uint32_t read = part->space->items[transfer->item].derived_from;
    enum space_side which = transfer->fresh ? SPACE_TO : SPACE_FROM;
    const struct placement_holding *holding =
        transfer->fresh ? own_holding(route->to, read, part->to_rank, cell->fresh, cell->fresh_count)
                        : own_holding(route->from, read, part->from_rank, cell->holdings, cell->holding_count);
    locate(part, holding, box, part->space->items[read].elem_bytes[which], &op->src_offset, &op->src_view);
    op->src_buffer = transfer->fresh ? part->to_buffer[read] - 1 : part_read_buffer(part, read);
}

static void locate_target(struct part *part, const struct transfer *transfer, const struct box *box,
                          struct shunt_plan_op *op)
{
    if (transfer->passing) {
        locate_passing(part, transfer, &op->dst_buffer, &op->dst_view);
        return;
    }
    locate_new(part, transfer, box, &op->dst_offset, &op->dst_view);
    op->dst_buffer = part->to_buffer[transfer->item] - 1;
}

/** The cast from one form of an element to another; there are two such pairs of sizes only. */
static uint8_t cast_between(uint32_t from_bytes, uint32_t to_bytes)
{
    if (from_bytes == to_bytes)
        return SHUNT_CAST_NONE;
    return from_bytes > to_bytes ? SHUNT_CAST_FP32_BF16 : SHUNT_CAST_BF16_FP32;
}

static void set_cast(const struct part *part, const struct transfer *transfer, struct shunt_plan_op *op)
{
    const struct space_item *item = &part->space->items[transfer->item];
    uint32_t written = transfer->passing ? item->wire_bytes : item->elem_bytes[SPACE_TO];
    uint32_t read = transfer->passed      ? item->wire_bytes
                    : transfer->forwarded ? written
                                          : shunt_dtype_bytes(item->read_dtype);
    if (op->kind == SHUNT_OP_COPY)
        op->cast = cast_between(read, written);
    else
        op->cast =
            op->kind == SHUNT_OP_PACK ? cast_between(read, item->wire_bytes) : cast_between(item->wire_bytes, written);
}

void part_emit_read(struct part *part, const struct transfer *transfer, uint32_t slot)
{
    struct box box = transfer_box(transfer);
    struct shunt_plan_op *op = VEC_PUSH(part->arena, &part->ops);
    locate_source(part, transfer, &box, op);
    if (transfer->source == transfer->taker) {
        op->kind = SHUNT_OP_COPY;
        locate_target(part, transfer, &box, op);
        set_cast(part, transfer, op);
        return;
    }
    op->kind = SHUNT_OP_PACK;
    op->dst_buffer = SHUNT_PLAN_STAGING + slot;
    op->dst_offset = part->input->send_base[transfer->taker] + transfer->message_offset;
    op->dst_view = staging_view(part, transfer, &box);
    set_cast(part, transfer, op);
}

void part_emit_unpack(struct part *part, const struct transfer *transfer, uint32_t slot)
{
    struct box box = transfer_box(transfer);
    struct shunt_plan_op *op = VEC_PUSH(part->arena, &part->ops);
    op->kind = SHUNT_OP_UNPACK;
    op->src_buffer = SHUNT_PLAN_STAGING + slot;
    op->src_offset = part->input->recv_base[transfer->source] + transfer->message_offset;
    op->src_view = staging_view(part, transfer, &box);
    locate_target(part, transfer, &box, op);
    set_cast(part, transfer, op);
}
