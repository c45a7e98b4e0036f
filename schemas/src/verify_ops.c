/* SPDX-License-Identifier: Apache-2.0 */
/** Ops of one device: what each reads and writes, in coordinates of the space. */
#include <inttypes.h>
#include <string.h>

#include "verify_internal.h"

static const char *const op_names[] = {
    [SHUNT_OP_COPY] = "copy", [SHUNT_OP_PACK] = "pack", [SHUNT_OP_FILL] = "fill", [SHUNT_OP_UNPACK] = "unpack"};

static const struct shunt_plan_buffer *buffer_of(const struct vreplay *replay, uint32_t index)
{
    return &replay->part->buffers[index];
}

/* Report where an op goes wrong at one end: "pack reads from:param/w, ...". */
static void report_end(struct vreplay *replay, enum shunt_verify_rule rule, uint32_t round,
                       const struct shunt_plan_op *op, const char *what)
{
    bool reads = rule == SHUNT_RULE_SOURCE;
    uint32_t buffer = reads ? op->src_buffer : op->dst_buffer;
    const struct shunt_plan_view *view = &replay->part->views[reads ? op->src_view : op->dst_view];
    static const int64_t origin[SHUNT_MAX_DIMS];
    vproblem(replay->v, rule, replay->device, round,
             "%s %s %s of %" PRIu32 "-byte elements at offset %" PRIu64 " of %s, %s", op_names[op->kind],
             reads ? "reads" : "writes", vtext_box(origin, view->shape, view->ndim).text, view->elem_bytes,
             reads ? op->src_offset : op->dst_offset, vtext_buffer(replay->v, replay->device, buffer).text, what);
}

static bool check_read(struct vreplay *replay, uint32_t round, const struct shunt_plan_op *op, struct vend *end_out)
{
    const struct shunt_plan_buffer *buffer = buffer_of(replay, op->src_buffer);
    const char *fault = NULL;
    if (shunt_plan_is_allocated(buffer) && buffer->alloc_round > round)
        fault = "which a later round allocates";
    else if (shunt_plan_is_freed(buffer) && buffer->free_round < round)
        fault = "which an earlier round has freed";
    else if (!vindex_resolve(replay->v, replay->device, op->src_buffer, &replay->part->views[op->src_view],
                             op->src_offset, end_out))
        fault = "which is not inside one of its holdings";
    if (fault != NULL)
        report_end(replay, SHUNT_RULE_SOURCE, round, op, fault);
    return fault == NULL;
}

static bool check_write(struct vreplay *replay, uint32_t round, const struct shunt_plan_op *op, struct vend *end_out)
{
    const struct shunt_plan_buffer *buffer = buffer_of(replay, op->dst_buffer);
    const char *fault = NULL;
    if (shunt_plan_on_old_side(buffer))
        fault = "which the old side still needs";
    else if (buffer->alloc_round > round)
        fault = "which a later round allocates";
    else if (shunt_plan_is_freed(buffer) && buffer->free_round < round)
        fault = "which an earlier round has freed";
    else if (!vindex_resolve(replay->v, replay->device, op->dst_buffer, &replay->part->views[op->dst_view],
                             op->dst_offset, end_out))
        fault = "which is not inside one of its holdings";
    if (fault != NULL)
        report_end(replay, SHUNT_RULE_TARGET, round, op, fault);
    return fault == NULL;
}

static bool check_fill(struct vreplay *replay, uint32_t round, const struct shunt_plan_op *op)
{
    const struct shunt_plan_buffer *buffer = buffer_of(replay, op->dst_buffer);
    const char *fault = NULL;
    if (buffer->side == SHUNT_SIDE_FROM)
        fault = "which the old side still needs";
    else if (buffer->side == SHUNT_SIDE_SCRATCH)
        fault = "which has no pads";
    else if (buffer->side == SHUNT_SIDE_TO && buffer->alloc_round > round)
        fault = "which a later round allocates";
    else if (replay->part->views[op->dst_view].elem_bytes != shunt_dtype_bytes(buffer->dtype))
        fault = "whose elements have another size";
    if (fault != NULL)
        report_end(replay, SHUNT_RULE_TARGET, round, op, fault);
    return fault == NULL;
}

/* What an op may read for a target: what the target is made from, or a new or scratch buffer made from the same. */
static bool same_origin(const struct shunt_plan_buffer *from, const struct shunt_plan_buffer *to)
{
    unsigned state = shunt_plan_origin_state(to), dtype = shunt_plan_origin_dtype(to);
    if (from->tensor != to->tensor)
        return false;
    return shunt_plan_origin_state(from) == state && shunt_plan_origin_dtype(from) == dtype;
}

/* Each cast begins with the dtype that is there, the last one ends with the target's, and there is one at most,
   counting the one that a new or scratch buffer has behind it. */
static bool cast_rightly(const struct shunt_plan_buffer *from, const struct shunt_plan_buffer *to, unsigned first,
                         unsigned second)
{
    const unsigned casts[] = {first, second};
    unsigned dtype = from->dtype, count = shunt_plan_origin_dtype(from) != from->dtype;
    for (int i = 0; i < 2; i++) {
        if (casts[i] == SHUNT_CAST_NONE)
            continue;
        if (dtype != shunt_plan_cast_from(casts[i]))
            return false;
        dtype = shunt_plan_cast_to(casts[i]);
        count++;
    }
    return dtype == to->dtype && count <= 1;
}

static const char *cast_name(unsigned cast)
{
    static const char *const names[] = {"no cast", "fp32 to bf16", "bf16 to fp32"};
    return names[cast];
}

static void report_cast(struct vreplay *replay, uint32_t round, const struct shunt_plan_op *op,
                        const struct vsource *source)
{
    struct verifier *v = replay->v;
    const struct shunt_plan_buffer *from = &v->parts[source->device].part.buffers[source->buffer];
    bool unpack = op->kind == SHUNT_OP_UNPACK;
    vproblem(v, SHUNT_RULE_COORDINATE, replay->device, round,
             "%s into %s: %s of device %" PRIu32 " is %s, the target %s made from %s %s; found %s%s%s",
             op_names[op->kind], vtext_buffer(v, replay->device, op->dst_buffer).text,
             vtext_buffer(v, source->device, source->buffer).text, source->device, shunt_dtype_name(from->dtype),
             shunt_dtype_name(buffer_of(replay, op->dst_buffer)->dtype),
             shunt_state_name(shunt_plan_origin_state(buffer_of(replay, op->dst_buffer))),
             shunt_dtype_name(shunt_plan_origin_dtype(buffer_of(replay, op->dst_buffer))),
             unpack ? cast_name(source->cast) : cast_name(op->cast), unpack ? " in the pack and " : "",
             unpack ? cast_name(op->cast) : "");
}

static void report_other_box(struct vreplay *replay, uint32_t round, uint32_t op, const struct vsource *source)
{
    struct verifier *v = replay->v;
    const struct shunt_plan_op *record = &replay->part->ops[op];
    const struct shunt_plan_buffer *from = &v->parts[source->device].part.buffers[source->buffer];
    const struct shunt_plan_buffer *to = buffer_of(replay, record->dst_buffer);
    const struct shunt_plan_view *view = &replay->part->views[record->dst_view];
    vproblem(v, SHUNT_RULE_COORDINATE, replay->device, round,
             "%s into %s writes %s of %s but device %" PRIu32 " %s %s of %s from %s (%s; source: %s)",
             op_names[record->kind], vtext_buffer(v, replay->device, record->dst_buffer).text,
             vtext_box(replay->targets[op].lo, view->shape, view->ndim).text, shunt_dtype_name(to->dtype),
             source->device, record->kind == SHUNT_OP_UNPACK ? "packed" : "reads",
             vtext_box(source->end.lo, view->shape, view->ndim).text, shunt_dtype_name(from->dtype),
             vtext_buffer(v, source->device, source->buffer).text, vtext_ranks(v, replay->device).text,
             vtext_ranks(v, source->device).text);
}

void vops_compare(struct vreplay *replay, uint32_t round, uint32_t op, const struct vsource *source)
{
    const struct shunt_plan_op *record = &replay->part->ops[op];
    const struct shunt_plan_buffer *from = &replay->v->parts[source->device].part.buffers[source->buffer];
    const struct shunt_plan_buffer *to = buffer_of(replay, record->dst_buffer);
    if (!same_origin(from, to) || memcmp(source->end.lo, replay->targets[op].lo, sizeof(source->end.lo)) != 0)
        report_other_box(replay, round, op, source);
    else if (!cast_rightly(from, to, source->cast, record->cast))
        report_cast(replay, round, record, source);
}

static void check_copy(struct vreplay *replay, uint32_t round, uint32_t index, uint64_t bytes)
{
    const struct shunt_plan_op *op = &replay->part->ops[index];
    struct vsource source = {.device = replay->device, .buffer = op->src_buffer};
    struct vend target;
    bool readable = check_read(replay, round, op, &source.end);
    vadd(&replay->v->figures.copied, bytes);
    if (buffer_of(replay, op->dst_buffer)->side == SHUNT_SIDE_SCRATCH)
        vadd(&replay->v->figures.parked, bytes);
    if (!check_write(replay, round, op, &target))
        return;
    replay->targets[index] = target;
    if (readable)
        vops_compare(replay, round, index, &source);
}

/* What the fill costs; where it lies is checked with the pads. */
static void replay_fill(struct vreplay *replay, uint32_t round, uint32_t index, uint64_t bytes)
{
    const struct shunt_plan_op *op = &replay->part->ops[index];
    struct vfigures *figures = &replay->v->figures;
    vadd(&figures->filled, bytes);
    if (buffer_of(replay, op->dst_buffer)->side == SHUNT_SIDE_BOTH && round < figures->rollback_until_round)
        figures->rollback_until_round = round;
    if (check_fill(replay, round, op))
        replay->targets[index].holding = 0; /* any but VNONE: counts */
}

static void replay_unpack(struct vreplay *replay, uint32_t round, uint32_t index)
{
    const struct shunt_plan_op *op = &replay->part->ops[index];
    uint64_t bytes = vview_bytes(&replay->part->views[op->src_view]);
    struct vend end;
    vadd(&replay->received, bytes);
    if (buffer_of(replay, op->dst_buffer)->side == SHUNT_SIDE_SCRATCH)
        vadd(&replay->v->figures.relayed, bytes); /* it is for another device */
    if (check_write(replay, round, op, &end))
        replay->targets[index] = end;
}

static void replay_op(struct vreplay *replay, uint32_t round, uint32_t index)
{
    const struct shunt_plan_op *op = &replay->part->ops[index];
    uint64_t bytes = vview_bytes(&replay->part->views[op->dst_view]);
    struct vend end;
    replay->targets[index].holding = VNONE;
    switch (op->kind) {
    case SHUNT_OP_COPY:
        check_copy(replay, round, index, bytes);
        break;
    case SHUNT_OP_PACK:
        check_read(replay, round, op, &end);
        vadd(&replay->sent, bytes);
        if (buffer_of(replay, op->src_buffer)->side == SHUNT_SIDE_TO)
            vadd(&replay->v->figures.forwarded, bytes); /* it was received, or made, before */
        break;
    case SHUNT_OP_FILL:
        replay_fill(replay, round, index, bytes);
        break;
    default: /* SHUNT_OP_UNPACK, as the reader allows no other */
        replay_unpack(replay, round, index);
        break;
    }
}

enum shunt_status vops_check(struct vreplay *replay)
{
    const struct shunt_plan_round *rounds = replay->part->rounds;
    for (uint32_t k = 0; k < replay->v->header->round_count; k++) {
        for (uint32_t i = rounds[k].op_begin; i < rounds[k + 1].op_begin; i++)
            replay_op(replay, k, i);
    }
    struct vfigures *figures = &replay->v->figures;
    figures->ops += replay->part->header->op_count;
    vadd(&figures->moved, replay->sent);
    vmax(&figures->max_send, replay->sent);
    vmax(&figures->max_recv, replay->received);
    return SHUNT_OK;
}
