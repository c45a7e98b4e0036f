/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checks of one device's part: table bounds first, then each table in file order, so that every
 * index is followed only into a table whose records have passed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plan_internal.h"

/* What the checks of one part share. */
struct part_check {
    const struct shunt_plan *plan;
    const struct shunt_plan_part *part;
    const struct shunt_plan_part_header *header;
    uint32_t device;
    uint32_t round; /* of the op or message under check */
    struct plan_site site;
};

static const void *take_table(const unsigned char *base, uint64_t *at, uint64_t count, size_t record_bytes)
{
    const void *table = base + *at;
    *at = schema_align(*at + count * record_bytes, 8);
    return table;
}

/* Counts are 32-bit and records small, so the sum stays far below 2^64; the caller compares it with part_bytes. */
uint64_t schema_part_layout(const struct shunt_plan *plan, const unsigned char *base, struct shunt_plan_part *part_out)
{
    const struct shunt_plan_part_header *header = (const void *)base;
    uint64_t rounds = (uint64_t)plan->header->round_count + 1;
    uint64_t at = sizeof(*header);
    part_out->header = header;
    part_out->buffers = take_table(base, &at, header->buffer_count, sizeof(struct shunt_plan_buffer));
    part_out->holdings = take_table(base, &at, header->holding_count, sizeof(struct shunt_plan_holding));
    part_out->views = take_table(base, &at, header->view_count, sizeof(struct shunt_plan_view));
    part_out->corners = take_table(base, &at, header->corner_count, sizeof(struct shunt_plan_corner));
    part_out->rounds = take_table(base, &at, rounds, sizeof(struct shunt_plan_round));
    part_out->ops = take_table(base, &at, header->op_count, sizeof(struct shunt_plan_op));
    part_out->messages = take_table(base, &at, header->message_count, sizeof(struct shunt_plan_message));
    return at;
}

static void at_record(struct part_check *check, const char *record, uint64_t index)
{
    check->site.record = record;
    check->site.index = index;
}

/* ---- part header -------------------------------------------------------------- */

static bool check_part_header(struct part_check *check)
{
    const struct shunt_plan_part_header *header = check->header;
    const struct plan_site *site = &check->site;
    if (!schema_equals(site, "device", header->device, check->device) ||
        !schema_equals(site, "reserved", header->reserved, 0))
        return false;
    for (uint32_t slot = 0; slot < SHUNT_PLAN_MAX_DEPTH; slot++) {
        uint64_t most = slot < check->plan->header->overlap_depth ? SHUNT_PLAN_MAX_BUFFER_BYTES : 0;
        if (!schema_in_range(site, "staging_bytes", header->staging_bytes[slot], 0, most) ||
            !schema_multiple(site, "staging_bytes", header->staging_bytes[slot], SHUNT_PLAN_MESSAGE_ALIGN))
            return false;
    }
    return true;
}

/* The tables must fill the part but for a gap of zeros below the next multiple of SHUNT_PLAN_ALIGN. */
static bool check_part_size(struct part_check *check, uint64_t end)
{
    const struct shunt_plan_device *record = &check->plan->devices[check->device];
    uint64_t want = schema_align(end, SHUNT_PLAN_ALIGN);
    if (want != record->part_bytes)
        return schema_refuse(&check->site, "tables end at %" PRIu64 ", part_bytes is %" PRIu64, end,
                             record->part_bytes);
    return schema_zeros(&check->site, "gap", (const unsigned char *)check->header + end, want - end);
}

/* ---- views and corners ---------------------------------------------------------- */

static bool check_views(struct part_check *check)
{
    for (uint32_t i = 0; i < check->header->view_count; i++) {
        at_record(check, "view", i);
        if (!schema_check_view(&check->site, &check->part->views[i]))
            return false;
    }
    return true;
}

static bool check_corners(struct part_check *check)
{
    for (uint32_t i = 0; i < check->header->corner_count; i++) {
        at_record(check, "corner", i);
        for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++) {
            if (check->part->corners[i].lo[d] < 0)
                return schema_refuse(&check->site, "lo[%" PRIu32 "] is %" PRId64 ", expected >= 0", d,
                                     check->part->corners[i].lo[d]);
        }
    }
    return true;
}

/* ---- buffers and holdings --------------------------------------------------------- */

static bool check_index(const struct plan_site *site, const char *field, uint32_t index, uint64_t count)
{
    if (index < count)
        return true;
    return schema_refuse(site, "%s is %" PRIu32 ", the table has %" PRIu64, field, index, count);
}

/* True if a view at an offset stays inside `bytes` and its elements are aligned. */
static bool check_region(const struct plan_site *site, const char *what, const struct shunt_plan_view *view,
                         uint64_t offset, uint64_t bytes)
{
    uint64_t extent = shunt_plan_view_extent(view);
    if (offset > bytes || extent > bytes - offset)
        return schema_refuse(site, "%s is %" PRIu64 " bytes at offset %" PRIu64 ", the buffer is %" PRIu64, what,
                             extent, offset, bytes);
    return schema_multiple(site, what, offset, view->elem_bytes);
}

static bool check_holding_box(const struct plan_site *site, const struct shunt_plan_view *view,
                              const struct shunt_plan_corner *corner, const int64_t *extents)
{
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++) {
        int64_t extent = d < view->ndim ? extents[d] : 1;
        if (view->shape[d] > extent || corner->lo[d] > extent - view->shape[d])
            return schema_refuse(
                site, "dimension %" PRIu32 " is [%" PRId64 ",%" PRId64 "+%" PRId64 "), the tensor has %" PRId64, d,
                corner->lo[d], corner->lo[d], view->shape[d], extent);
    }
    return true;
}

static bool check_holding(struct part_check *check, const struct shunt_plan_buffer *buffer, uint32_t index)
{
    const struct shunt_plan_holding *holding = &check->part->holdings[index];
    const struct shunt_plan_tensor *tensor = &check->plan->tensors[buffer->tensor];
    const struct plan_site *site = &check->site;
    at_record(check, "holding", index);
    if (!check_index(site, "view", holding->view, check->header->view_count) ||
        !check_index(site, "corner", holding->corner, check->header->corner_count))
        return false;
    const struct shunt_plan_view *view = &check->part->views[holding->view];
    return schema_equals(site, "ndim of the view", view->ndim, tensor->ndim) &&
           schema_equals(site, "elem_bytes of the view", view->elem_bytes, shunt_dtype_bytes(buffer->dtype)) &&
           check_region(site, "box", view, holding->offset, buffer->bytes) &&
           check_holding_box(site, view, &check->part->corners[holding->corner], &check->plan->dims[tensor->dims]);
}

static bool check_side_round(const struct part_check *check, const char *field, uint32_t round, bool needed)
{
    if (!needed)
        return schema_equals(&check->site, field, round, SHUNT_PLAN_NONE);
    return check_index(&check->site, field, round, check->plan->header->round_count);
}

/* An origin that is the buffer's own is written 0, so that equal records are equal bytes. */
static bool check_origin_field(const struct plan_site *site, const char *field, uint8_t origin, uint8_t own,
                               uint64_t most)
{
    if (origin == own + 1)
        return schema_refuse(site, "%s is %u, the buffer's own: expected 0", field, origin);
    return schema_in_range(site, field, origin, 0, most);
}

/* Between fp32 and bf16 alone there are casts. */
static bool check_origin_pair(const struct plan_site *site, const struct shunt_plan_buffer *buffer)
{
    unsigned origin = shunt_plan_origin_dtype(buffer), own = buffer->dtype;
    if (origin == own || (origin == SHUNT_DTYPE_FP32 && own == SHUNT_DTYPE_BF16) ||
        (origin == SHUNT_DTYPE_BF16 && own == SHUNT_DTYPE_FP32))
        return true;
    return schema_refuse(site, "origin_dtype is %u for dtype %u, between which there is no cast", buffer->origin_dtype,
                         own);
}

/* Weights and masters are two forms of the same numbers, and no other two states are. */
static bool check_origin_state(const struct plan_site *site, const struct shunt_plan_buffer *buffer)
{
    unsigned origin = shunt_plan_origin_state(buffer), own = buffer->state, dtype = shunt_plan_origin_dtype(buffer);
    if (origin == own)
        return true;
    if (!(origin == SHUNT_STATE_MASTER && own == SHUNT_STATE_PARAM) &&
        !(origin == SHUNT_STATE_PARAM && own == SHUNT_STATE_MASTER))
        return schema_refuse(site, "origin_state is %u for state %u: only weights and masters are made from each other",
                             buffer->origin_state, own);
    if (dtype == SHUNT_DTYPE_FP32 || dtype == SHUNT_DTYPE_BF16)
        return true;
    return schema_refuse(site, "origin_state is %u for dtype %u, expected fp32 or bf16", buffer->origin_state, dtype);
}

/* Version 1.2, and only what the plan allocates. */
static bool check_origin(const struct part_check *check, const struct shunt_plan_buffer *buffer)
{
    bool may = check->plan->header->version_minor > 1 && shunt_plan_is_allocated(buffer);
    return check_origin_field(&check->site, "origin_state", buffer->origin_state, buffer->state,
                              may ? SHUNT_STATE_COUNT : 0) &&
           check_origin_field(&check->site, "origin_dtype", buffer->origin_dtype, buffer->dtype,
                              may ? SHUNT_DTYPE_COUNT : 0) &&
           check_origin_pair(&check->site, buffer) && check_origin_state(&check->site, buffer);
}

/* Scratch buffers came with version 1.3. */
static unsigned last_side(const struct part_check *check)
{
    return check->plan->header->version_minor > 2 ? SHUNT_SIDE_SCRATCH : SHUNT_SIDE_BOTH;
}

static bool check_lifetime(const struct part_check *check, const struct shunt_plan_buffer *buffer)
{
    return check_side_round(check, "alloc_round", buffer->alloc_round, shunt_plan_is_allocated(buffer)) &&
           check_side_round(check, "free_round", buffer->free_round, shunt_plan_is_freed(buffer)) &&
           (buffer->side != SHUNT_SIDE_SCRATCH ||
            schema_in_range(&check->site, "free_round of a scratch buffer", buffer->free_round, buffer->alloc_round,
                            check->plan->header->round_count - 1));
}

static bool check_buffer_fields(const struct part_check *check, const struct shunt_plan_buffer *buffer)
{
    const struct plan_site *site = &check->site;
    return check_index(site, "tensor", buffer->tensor, check->plan->tensor_count) &&
           schema_in_range(site, "state", buffer->state, 0, SHUNT_STATE_COUNT - 1) &&
           schema_in_range(site, "dtype", buffer->dtype, 0, SHUNT_DTYPE_COUNT - 1) &&
           schema_in_range(site, "side", buffer->side, 0, last_side(check)) &&
           schema_in_range(site, "tier", buffer->tier, 0, SHUNT_TIER_HOST) &&
           schema_in_range(site, "bytes", buffer->bytes, 0, SHUNT_PLAN_MAX_BUFFER_BYTES) &&
           check_origin(check, buffer) && schema_zeros(site, "reserved", buffer->reserved, sizeof(buffer->reserved)) &&
           check_index(site, "view", buffer->view, check->header->view_count) && check_lifetime(check, buffer);
}

static bool check_buffer_view(const struct part_check *check, const struct shunt_plan_buffer *buffer)
{
    const struct plan_site *site = &check->site;
    const struct shunt_plan_view *view = &check->part->views[buffer->view];
    if (buffer->bytes == 0)
        return schema_equals(site, "holding_count of an empty buffer", buffer->holding_count, 0);
    if (!schema_view_is_dense(view))
        return schema_refuse(site, "view %" PRIu32 " is not dense row-major", buffer->view);
    return schema_equals(site, "elem_bytes of the view", view->elem_bytes, shunt_dtype_bytes(buffer->dtype)) &&
           check_region(site, "view", view, 0, buffer->bytes);
}

/* Holdings belong to buffers in order, so each is checked once and against its own buffer. */
static bool check_buffer(struct part_check *check, uint32_t index, uint32_t *next_holding)
{
    const struct shunt_plan_buffer *buffer = &check->part->buffers[index];
    const struct plan_site *site = &check->site;
    at_record(check, "buffer", index);
    if (!check_buffer_fields(check, buffer) || !check_buffer_view(check, buffer) ||
        !schema_equals(site, "holding_begin", buffer->holding_begin, *next_holding) ||
        !schema_in_range(site, "holding_count", buffer->holding_count, 0, check->header->holding_count - *next_holding))
        return false;
    uint32_t end = *next_holding + buffer->holding_count;
    for (uint32_t h = *next_holding; h < end; h++) {
        if (!check_holding(check, buffer, h))
            return false;
    }
    *next_holding = end;
    return true;
}

static bool check_buffers(struct part_check *check)
{
    uint32_t next_holding = 0;
    for (uint32_t i = 0; i < check->header->buffer_count; i++) {
        if (!check_buffer(check, i, &next_holding))
            return false;
    }
    at_record(check, NULL, 0);
    return schema_equals(&check->site, "holding_count", check->header->holding_count, next_holding);
}

/* ---- rounds --------------------------------------------------------------------- */

static bool check_round(struct part_check *check, uint32_t index)
{
    const struct shunt_plan_round *round = &check->part->rounds[index];
    const struct plan_site *site = &check->site;
    at_record(check, "round", index);
    if (!schema_equals(site, "reserved", round->reserved, 0))
        return false;
    bool sentinel = index == check->plan->header->round_count;
    uint32_t op_end = sentinel ? check->header->op_count : round[1].op_begin;
    uint32_t message_end = sentinel ? check->header->message_count : round[1].message_begin;
    if (index == 0 && !(schema_equals(site, "op_begin", round->op_begin, 0) &&
                        schema_equals(site, "message_begin", round->message_begin, 0)))
        return false;
    if (sentinel)
        return schema_equals(site, "op_begin", round->op_begin, op_end) &&
               schema_equals(site, "unpack_begin", round->unpack_begin, op_end) &&
               schema_equals(site, "message_begin", round->message_begin, message_end);
    return schema_in_range(site, "unpack_begin", round->unpack_begin, round->op_begin, op_end) &&
           schema_in_range(site, "message_begin", round->message_begin, 0, message_end);
}

static bool check_rounds(struct part_check *check)
{
    for (uint32_t k = 0; k <= check->plan->header->round_count; k++) {
        if (!check_round(check, k))
            return false;
    }
    return true;
}

/* ---- ops ------------------------------------------------------------------------ */

static uint32_t staging_slot(const struct part_check *check)
{
    return check->round % check->plan->header->overlap_depth;
}

static bool check_staging_end(const struct part_check *check, const char *what, uint32_t buffer,
                              const struct shunt_plan_view *view, uint64_t offset)
{
    const struct plan_site *site = &check->site;
    uint32_t slot = staging_slot(check);
    if (buffer != SHUNT_PLAN_STAGING + slot)
        return schema_refuse(site, "%s buffer is %" PRIu32 ", round %" PRIu32 " uses staging slot %" PRIu32, what,
                             buffer, check->round, slot);
    if (!schema_view_is_dense(view))
        return schema_refuse(site, "%s view in staging is not dense row-major", what);
    return schema_multiple(site, what, offset, SHUNT_PLAN_MESSAGE_ALIGN) &&
           check_region(site, what, view, offset, check->header->staging_bytes[slot]);
}

static bool check_buffer_end(const struct part_check *check, const char *what, uint32_t buffer,
                             const struct shunt_plan_view *view, uint64_t offset)
{
    if (!check_index(&check->site, what, buffer, check->header->buffer_count))
        return false;
    return check_region(&check->site, what, view, offset, check->part->buffers[buffer].bytes);
}

static bool same_shape(const struct shunt_plan_view *a, const struct shunt_plan_view *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof(a->shape)) == 0;
}

/* The narrower form crosses the network: a pack only narrows, an unpack only widens, a copy does either. */
static bool check_cast(const struct part_check *check, const struct shunt_plan_op *op)
{
    static const uint8_t least[] = {[SHUNT_OP_COPY] = SHUNT_CAST_FP32_BF16,
                                    [SHUNT_OP_PACK] = SHUNT_CAST_FP32_BF16,
                                    [SHUNT_OP_FILL] = SHUNT_CAST_NONE,
                                    [SHUNT_OP_UNPACK] = SHUNT_CAST_BF16_FP32};
    static const uint8_t most[] = {[SHUNT_OP_COPY] = SHUNT_CAST_BF16_FP32,
                                   [SHUNT_OP_PACK] = SHUNT_CAST_FP32_BF16,
                                   [SHUNT_OP_FILL] = SHUNT_CAST_NONE,
                                   [SHUNT_OP_UNPACK] = SHUNT_CAST_BF16_FP32};
    if (op->cast == SHUNT_CAST_NONE)
        return true;
    if (check->plan->header->version_minor < 2)
        return schema_equals(&check->site, "cast before version 1.2", op->cast, 0);
    return schema_in_range(&check->site, "cast", op->cast, least[op->kind], most[op->kind]);
}

static bool check_elem_bytes(const struct plan_site *site, const struct shunt_plan_op *op,
                             const struct shunt_plan_view *src_view, const struct shunt_plan_view *dst_view)
{
    uint32_t want_src = dst_view->elem_bytes, want_dst = dst_view->elem_bytes;
    if (op->cast != SHUNT_CAST_NONE) {
        want_src = shunt_dtype_bytes(shunt_plan_cast_from(op->cast));
        want_dst = shunt_dtype_bytes(shunt_plan_cast_to(op->cast));
    }
    if (src_view->elem_bytes == want_src && dst_view->elem_bytes == want_dst)
        return true;
    return schema_refuse(site,
                         "views %" PRIu32 " and %" PRIu32 " have elem_bytes %" PRIu32 " and %" PRIu32
                         ", expected %" PRIu32 " and %" PRIu32 " with cast %u",
                         op->src_view, op->dst_view, src_view->elem_bytes, dst_view->elem_bytes, want_src, want_dst,
                         op->cast);
}

static bool check_op_source(const struct part_check *check, const struct shunt_plan_op *op,
                            const struct shunt_plan_view *dst_view)
{
    const struct plan_site *site = &check->site;
    if (op->kind == SHUNT_OP_FILL)
        return schema_equals(site, "src_buffer", op->src_buffer, SHUNT_PLAN_NONE) &&
               schema_equals(site, "src_view", op->src_view, 0) && schema_equals(site, "src_offset", op->src_offset, 0);
    if (!check_index(site, "src_view", op->src_view, check->header->view_count))
        return false;
    const struct shunt_plan_view *view = &check->part->views[op->src_view];
    if (!same_shape(view, dst_view))
        return schema_refuse(site, "views %" PRIu32 " and %" PRIu32 " differ in shape", op->src_view, op->dst_view);
    if (!check_elem_bytes(site, op, view, dst_view))
        return false;
    if (op->kind == SHUNT_OP_UNPACK)
        return check_staging_end(check, "source", op->src_buffer, view, op->src_offset);
    return check_buffer_end(check, "source", op->src_buffer, view, op->src_offset);
}

static bool check_op(struct part_check *check, uint32_t index)
{
    const struct shunt_plan_op *op = &check->part->ops[index];
    const struct plan_site *site = &check->site;
    bool after_group = index >= check->part->rounds[check->round].unpack_begin;
    at_record(check, "op", index);
    if (!schema_in_range(site, "kind", op->kind, SHUNT_OP_COPY, SHUNT_OP_UNPACK) ||
        !schema_zeros(site, "reserved0", op->reserved0, sizeof(op->reserved0)) ||
        !schema_equals(site, "reserved1", op->reserved1, 0) ||
        !check_index(site, "dst_view", op->dst_view, check->header->view_count))
        return false;
    if (after_group != (op->kind == SHUNT_OP_UNPACK))
        return schema_refuse(site, "kind is %u %s the group of round %" PRIu32, op->kind,
                             after_group ? "after" : "before", check->round);
    const struct shunt_plan_view *view = &check->part->views[op->dst_view];
    if (!check_cast(check, op) || !check_op_source(check, op, view))
        return false;
    if (op->kind == SHUNT_OP_PACK)
        return check_staging_end(check, "target", op->dst_buffer, view, op->dst_offset);
    return check_buffer_end(check, "target", op->dst_buffer, view, op->dst_offset);
}

/* ---- messages --------------------------------------------------------------------- */

/* Strictly ascending (direction, peer): at most one message per peer and direction. */
static bool check_message_order(const struct part_check *check, const struct shunt_plan_message *message)
{
    const struct shunt_plan_message *before = message - 1;
    if (before->direction < message->direction ||
        (before->direction == message->direction && before->peer < message->peer))
        return true;
    return schema_refuse(&check->site,
                         "direction %" PRIu32 " peer %" PRIu32 " does not ascend from direction %" PRIu32
                         " peer %" PRIu32 " in round %" PRIu32,
                         message->direction, message->peer, before->direction, before->peer, check->round);
}

static bool check_message(struct part_check *check, uint32_t index)
{
    const struct shunt_plan_message *message = &check->part->messages[index];
    const struct plan_site *site = &check->site;
    uint32_t slot = staging_slot(check);
    uint64_t slot_bytes = check->header->staging_bytes[slot];
    at_record(check, "message", index);
    if (!check_index(site, "peer", message->peer, check->plan->header->device_count))
        return false;
    if (message->peer == check->device)
        return schema_refuse(site, "peer is the device itself");
    if (!schema_in_range(site, "direction", message->direction, SHUNT_SEND, SHUNT_RECV) ||
        !schema_equals(site, "buffer", message->buffer, SHUNT_PLAN_STAGING + slot) ||
        !schema_equals(site, "reserved", message->reserved, 0) ||
        !schema_multiple(site, "offset", message->offset, SHUNT_PLAN_MESSAGE_ALIGN) ||
        !schema_multiple(site, "bytes", message->bytes, SHUNT_PLAN_MESSAGE_ALIGN) ||
        !schema_in_range(site, "bytes", message->bytes, 1, SHUNT_PLAN_MAX_BUFFER_BYTES))
        return false;
    if (message->offset > slot_bytes || message->bytes > slot_bytes - message->offset)
        return schema_refuse(site, "%" PRIu64 " bytes at offset %" PRIu64 ", the staging slot is %" PRIu64,
                             message->bytes, message->offset, slot_bytes);
    return index == check->part->rounds[check->round].message_begin || check_message_order(check, message);
}

static bool check_round_contents(struct part_check *check)
{
    const struct shunt_plan_round *rounds = check->part->rounds;
    for (check->round = 0; check->round < check->plan->header->round_count; check->round++) {
        const struct shunt_plan_round *round = &rounds[check->round];
        for (uint32_t i = round->op_begin; i < round[1].op_begin; i++) {
            if (!check_op(check, i))
                return false;
        }
        for (uint32_t i = round->message_begin; i < round[1].message_begin; i++) {
            if (!check_message(check, i))
                return false;
        }
    }
    return true;
}

enum shunt_status schema_check_part(const struct shunt_plan *plan, uint32_t device, const unsigned char *base,
                                    struct shunt_plan_part *part_out, struct shunt_err *err)
{
    char place[32];
    snprintf(place, sizeof(place), "part of device %" PRIu32, device);
    const struct shunt_plan_device *record = &plan->devices[device];
    struct part_check check = {
        .plan = plan, .device = device, .site = {.file = plan->name, .err = err, .section = place}};
    if (!schema_checksum(&check.site, base, record->part_bytes, record->part_crc32c))
        return SHUNT_ERR_PLAN;
    uint64_t end = schema_part_layout(plan, base, part_out);
    check.part = part_out;
    check.header = part_out->header;
    if (!check_part_header(&check) || !check_part_size(&check, end) || !check_views(&check) || !check_corners(&check) ||
        !check_buffers(&check) || !check_rounds(&check) || !check_round_contents(&check))
        return SHUNT_ERR_PLAN;
    return SHUNT_OK;
}
