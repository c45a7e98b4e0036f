/* SPDX-License-Identifier: Apache-2.0 */
/**
 * `shunt inspect PLAN --buffers` and `--ops`: JSON lines, design.md 10.3.
 *
 * Names of buffers are unique on a device: "from:STATE/TENSOR" and "to:STATE/TENSOR"; a kept
 * buffer serves both sides under its "from:" name. Staging slots are "staging:K", scratch buffers
 * "scratch:N" with the buffer's index on its device.
 *
 * Operations come in an order that replays: round by round, and in a round all devices' allocs,
 * copies, packs and fills, then all sends, all receives, all unpacks, all frees.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect.h"
#include "json.h"

/* A buffer that appears or disappears in a round. */
struct event {
    uint32_t round, buffer;
};

struct device_lines {
    const struct shunt_plan_device *device;
    struct shunt_plan_part part;
    struct event *events;             /* allocs in order of their rounds, then frees */
    uint32_t alloc_count, alloc_next; /* events [alloc_next, alloc_count) are to come */
    uint32_t free_end, free_next;     /* events [free_next, free_end) are to come */
};

struct lines {
    const struct shunt_plan *plan;
    struct json json;
    uint32_t device_count;
    struct device_lines *devices;
};

static void close_lines(struct lines *lines)
{
    for (uint32_t i = 0; lines->devices != NULL && i < lines->device_count; i++)
        free(lines->devices[i].events);
    free(lines->devices);
}

/* Take all parts before the first line, so that a bad part prints nothing; and keep them, as lines go round by round. */
static enum shunt_status open_lines(const struct shunt_plan *plan, struct inspect_range range, struct lines *lines,
                                    struct shunt_err *err)
{
    *lines = (struct lines){.plan = plan, .device_count = range.end - range.begin};
    json_init(&lines->json, stdout, false);
    lines->devices = calloc(lines->device_count + (size_t)1, sizeof(*lines->devices));
    if (lines->devices == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "inspect: out of memory for %" PRIu32 " devices", lines->device_count);
    for (uint32_t i = 0; i < lines->device_count; i++) {
        struct device_lines *device = &lines->devices[i];
        enum shunt_status status = shunt_plan_get_part(plan, range.begin + i, &device->part, err);
        if (status != SHUNT_OK) {
            close_lines(lines);
            return status;
        }
        device->device = shunt_plan_get_device(plan, range.begin + i);
    }
    return SHUNT_OK;
}

/* ---- parts of a line ----------------------------------------------------------------- */

static void key_i64s(struct json *json, const char *key, const int64_t *values, uint32_t count)
{
    json_key(json, key);
    json_array_begin(json);
    for (uint32_t i = 0; i < count; i++)
        json_i64(json, values[i]);
    json_array_end(json);
}

static const char *tensor_name(const struct lines *lines, const struct shunt_plan_buffer *buffer)
{
    return shunt_plan_string(lines->plan, shunt_plan_get_tensor(lines->plan, buffer->tensor)->name);
}

static void key_binding(struct lines *lines, const char *key, const char *prefix,
                        const struct shunt_plan_buffer *buffer)
{
    const char *const parts[] = {prefix, shunt_state_name(buffer->state), "/", tensor_name(lines, buffer)};

    json_key(&lines->json, key);
    json_strings(&lines->json, parts, 4);
}

/* `index` is a buffer of the part or a staging slot */
static void key_buffer(struct lines *lines, const struct device_lines *device, uint32_t index)
{
    char text[32];

    if (index >= SHUNT_PLAN_STAGING) {
        snprintf(text, sizeof(text), "staging:%" PRIu32, index - SHUNT_PLAN_STAGING);
        json_key_string(&lines->json, "buffer", text);
    } else if (device->part.buffers[index].side == SHUNT_SIDE_SCRATCH) {
        snprintf(text, sizeof(text), "scratch:%" PRIu32, index);
        json_key_string(&lines->json, "buffer", text);
    } else {
        const struct shunt_plan_buffer *buffer = &device->part.buffers[index];
        key_binding(lines, "buffer", buffer->side == SHUNT_SIDE_TO ? "to:" : "from:", buffer);
    }
}

static void put_region(struct json *json, uint64_t offset, const struct shunt_plan_view *view)
{
    json_key_u64(json, "offset", offset);
    key_i64s(json, "shape", view->shape, view->ndim);
    key_i64s(json, "strides", view->stride, view->ndim);
}

/* ---- --buffers -------------------------------------------------------------------------- */

static void put_box(struct json *json, const struct shunt_plan_corner *corner, const struct shunt_plan_view *view)
{
    json_array_begin(json);
    for (uint32_t d = 0; d < view->ndim; d++) {
        json_array_begin(json);
        json_i64(json, corner->lo[d]);
        json_i64(json, corner->lo[d] + view->shape[d]);
        json_array_end(json);
    }
    json_array_end(json);
}

/* region and box; null for a buffer that holds no box: an empty shard, or pads only */
static void put_holding(struct json *json, const struct shunt_plan_part *part, const struct shunt_plan_holding *holding)
{
    json_key(json, "region");
    if (holding == NULL) {
        json_null(json);
        json_key(json, "box");
        json_null(json);
        return;
    }
    json_object_begin(json);
    put_region(json, holding->offset, &part->views[holding->view]);
    json_object_end(json);
    json_key(json, "box");
    put_box(json, &part->corners[holding->corner], &part->views[holding->view]);
}

static const char *tier_name(const struct shunt_plan_buffer *buffer)
{
    return buffer->tier == SHUNT_TIER_HOST ? "host" : "device";
}

/* A kept buffer has a line on both sides, a scratch one a line of its own. */
static void put_buffer_line(struct lines *lines, const struct device_lines *device, uint32_t index,
                            enum shunt_plan_side side, const struct shunt_plan_holding *holding)
{
    static const char *const names[] = {
        [SHUNT_SIDE_FROM] = "from", [SHUNT_SIDE_TO] = "to", [SHUNT_SIDE_SCRATCH] = "scratch"};
    const uint32_t ranks[] = {[SHUNT_SIDE_FROM] = device->device->from_rank,
                              [SHUNT_SIDE_TO] = device->device->to_rank,
                              [SHUNT_SIDE_SCRATCH] = SHUNT_PLAN_NONE};
    const struct shunt_plan_buffer *buffer = &device->part.buffers[index];
    const struct shunt_plan_view *local = &device->part.views[buffer->view];
    const bool empty = buffer->bytes == 0; /* no view has an extent of 0 */
    int64_t shape[SHUNT_MAX_DIMS];
    struct json *json = &lines->json;

    json_object_begin(json);
    json_key_u64(json, "device", device->device->id);
    json_key_string(json, "side", names[side]);
    key_buffer(lines, device, index);
    json_key_string(json, "tier", tier_name(buffer));
    json_key_u64(json, "bytes", buffer->bytes);
    json_key_string(json, "tensor", tensor_name(lines, buffer));
    json_key_string(json, "state", shunt_state_name(buffer->state));
    json_key_string(json, "dtype", shunt_dtype_name(buffer->dtype));
    if (buffer->origin_state != 0)
        json_key_string(json, "from_state", shunt_state_name(shunt_plan_origin_state(buffer)));
    if (buffer->origin_dtype != 0)
        json_key_string(json, "from_dtype", shunt_dtype_name(shunt_plan_origin_dtype(buffer)));
    put_holding(json, &device->part, holding);
    inspect_key_rank(json, "rank", ranks[side]);
    key_binding(lines, "name", "", buffer);
    memcpy(shape, local->shape, sizeof(shape));
    shape[0] = empty ? 0 : shape[0];
    key_i64s(json, "local_shape", shape, local->ndim);
    json_key_bool(json, "kept", buffer->side == SHUNT_SIDE_BOTH);
    json_object_end(json);
    json_end_line(json);
}

static void put_device_side(struct lines *lines, const struct device_lines *device, enum shunt_plan_side side)
{
    for (uint32_t i = 0; i < device->part.header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &device->part.buffers[i];
        if (buffer->side != side && (side == SHUNT_SIDE_SCRATCH || buffer->side != SHUNT_SIDE_BOTH))
            continue;
        for (uint32_t h = 0; h < buffer->holding_count; h++)
            put_buffer_line(lines, device, i, side, &device->part.holdings[buffer->holding_begin + h]);
        if (buffer->holding_count == 0)
            put_buffer_line(lines, device, i, side, NULL);
    }
}

/* Part by part: none of them stays in memory. Without `put` they are only checked. */
static enum shunt_status visit_parts(struct lines *lines, struct inspect_range range, bool put, struct shunt_err *err)
{
    for (uint32_t i = range.begin; i < range.end; i++) {
        struct device_lines device = {.device = shunt_plan_get_device(lines->plan, i)};
        enum shunt_status status = shunt_plan_get_part(lines->plan, i, &device.part, err);
        if (status != SHUNT_OK)
            return status;
        if (put) {
            put_device_side(lines, &device, SHUNT_SIDE_FROM);
            put_device_side(lines, &device, SHUNT_SIDE_TO);
            put_device_side(lines, &device, SHUNT_SIDE_SCRATCH);
        }
        shunt_plan_drop_part(lines->plan, i);
    }
    return SHUNT_OK;
}

/* A bad part prints nothing. */
enum shunt_status inspect_buffers(const struct shunt_plan *plan, struct inspect_range range, struct shunt_err *err)
{
    struct lines lines = {.plan = plan};
    json_init(&lines.json, stdout, false);
    enum shunt_status status = visit_parts(&lines, range, false, err);
    return status == SHUNT_OK ? visit_parts(&lines, range, true, err) : status;
}

/* ---- --ops: events ------------------------------------------------------------------------ */

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static enum shunt_status sort_events(struct device_lines *device, struct shunt_err *err)
{
    uint32_t count = device->part.header->buffer_count, frees = 0;

    device->events = malloc((2 * (size_t)count + 1) * sizeof(*device->events));
    if (device->events == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "inspect: out of memory for %" PRIu32 " buffers", count);
    for (uint32_t i = 0; i < count; i++) {
        if (device->part.buffers[i].alloc_round != SHUNT_PLAN_NONE)
            device->events[device->alloc_count++] = (struct event){device->part.buffers[i].alloc_round, i};
    }
    for (uint32_t i = 0; i < count; i++) {
        if (device->part.buffers[i].free_round != SHUNT_PLAN_NONE)
            device->events[device->alloc_count + frees++] = (struct event){device->part.buffers[i].free_round, i};
    }
    qsort(device->events, device->alloc_count, sizeof(*device->events), compare_events);
    qsort(device->events + device->alloc_count, frees, sizeof(*device->events), compare_events);
    device->free_next = device->alloc_count;
    device->free_end = device->alloc_count + frees;
    return SHUNT_OK;
}

/* ---- --ops: lines -------------------------------------------------------------------------- */

static void begin_line(struct lines *lines, const struct device_lines *device, uint32_t round, const char *op)
{
    json_object_begin(&lines->json);
    json_key_u64(&lines->json, "device", device->device->id);
    json_key_u64(&lines->json, "round", round);
    json_key_string(&lines->json, "op", op);
}

static void end_line(struct lines *lines)
{
    json_object_end(&lines->json);
    json_end_line(&lines->json);
}

static void put_event(struct lines *lines, const struct device_lines *device, const struct event *event, const char *op)
{
    const struct shunt_plan_buffer *buffer = &device->part.buffers[event->buffer];

    begin_line(lines, device, event->round, op);
    key_buffer(lines, device, event->buffer);
    json_key_u64(&lines->json, "bytes", buffer->bytes);
    if (buffer->side == SHUNT_SIDE_SCRATCH)
        json_key_string(&lines->json, "tier", tier_name(buffer));
    end_line(lines);
}

static void put_place(struct lines *lines, const struct device_lines *device, const char *key, uint32_t buffer,
                      uint64_t offset, uint32_t view)
{
    json_key(&lines->json, key);
    json_object_begin(&lines->json);
    key_buffer(lines, device, buffer);
    put_region(&lines->json, offset, &device->part.views[view]);
    json_object_end(&lines->json);
}

static void put_op(struct lines *lines, const struct device_lines *device, uint32_t round,
                   const struct shunt_plan_op *op)
{
    static const char *const names[] = {
        [SHUNT_OP_COPY] = "copy", [SHUNT_OP_PACK] = "pack", [SHUNT_OP_FILL] = "fill", [SHUNT_OP_UNPACK] = "unpack"};
    uint32_t named = op->kind == SHUNT_OP_PACK ? op->src_buffer : op->dst_buffer; /* the one that is no slot */
    const struct shunt_plan_buffer *buffer = &device->part.buffers[named];

    begin_line(lines, device, round, names[op->kind]);
    if (op->kind != SHUNT_OP_FILL)
        put_place(lines, device, "src", op->src_buffer, op->src_offset, op->src_view);
    put_place(lines, device, "dst", op->dst_buffer, op->dst_offset, op->dst_view);
    json_key_u64(&lines->json, "elem_bytes", device->part.views[op->dst_view].elem_bytes);
    if (op->cast != SHUNT_CAST_NONE) {
        const char *const cast[] = {shunt_dtype_name(shunt_plan_cast_from(op->cast)), "->",
                                    shunt_dtype_name(shunt_plan_cast_to(op->cast))};
        json_key(&lines->json, "cast");
        json_strings(&lines->json, cast, 3);
    }
    json_key_string(&lines->json, "tensor", tensor_name(lines, buffer));
    json_key_string(&lines->json, "state", shunt_state_name(buffer->state));
    end_line(lines);
}

static void put_message(struct lines *lines, const struct device_lines *device, uint32_t round,
                        const struct shunt_plan_message *message)
{
    bool send = message->direction == SHUNT_SEND;
    struct json *json = &lines->json;
    const int64_t bytes = (int64_t)message->bytes, stride = 1;

    begin_line(lines, device, round, send ? "send" : "recv");
    json_key_u64(json, "peer", shunt_plan_get_device(lines->plan, message->peer)->id);
    json_key_u64(json, "bytes", message->bytes);
    json_key(json, send ? "src" : "dst");
    json_object_begin(json);
    key_buffer(lines, device, message->buffer);
    json_key_u64(json, "offset", message->offset);
    key_i64s(json, "shape", &bytes, 1);
    key_i64s(json, "strides", &stride, 1);
    json_object_end(json);
    json_key_u64(json, "elem_bytes", 1);
    end_line(lines);
}

/* ---- --ops: phases of a round ------------------------------------------------------------- */

static void put_ops(struct lines *lines, const struct device_lines *device, uint32_t round, uint32_t begin,
                    uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        put_op(lines, device, round, &device->part.ops[i]);
}

static void phase_before(struct lines *lines, struct device_lines *device, uint32_t round)
{
    const struct shunt_plan_round *r = &device->part.rounds[round];

    while (device->alloc_next < device->alloc_count && device->events[device->alloc_next].round == round)
        put_event(lines, device, &device->events[device->alloc_next++], "alloc");
    put_ops(lines, device, round, r->op_begin, r->unpack_begin);
}

static void put_messages(struct lines *lines, const struct device_lines *device, uint32_t round,
                         enum shunt_plan_direction direction)
{
    const struct shunt_plan_round *r = &device->part.rounds[round];

    for (uint32_t i = r[0].message_begin; i < r[1].message_begin; i++) {
        if (device->part.messages[i].direction == direction)
            put_message(lines, device, round, &device->part.messages[i]);
    }
}

static void phase_send(struct lines *lines, struct device_lines *device, uint32_t round)
{
    put_messages(lines, device, round, SHUNT_SEND);
}

static void phase_recv(struct lines *lines, struct device_lines *device, uint32_t round)
{
    put_messages(lines, device, round, SHUNT_RECV);
}

static void phase_unpack(struct lines *lines, struct device_lines *device, uint32_t round)
{
    const struct shunt_plan_round *r = &device->part.rounds[round];

    put_ops(lines, device, round, r[0].unpack_begin, r[1].op_begin);
}

static void phase_free(struct lines *lines, struct device_lines *device, uint32_t round)
{
    while (device->free_next < device->free_end && device->events[device->free_next].round == round)
        put_event(lines, device, &device->events[device->free_next++], "free");
}

static void (*const phases[])(struct lines *lines, struct device_lines *device,
                              uint32_t round) = {phase_before, phase_send, phase_recv, phase_unpack, phase_free};

enum shunt_status inspect_ops(const struct shunt_plan *plan, struct inspect_range range, struct shunt_err *err)
{
    uint32_t round_count = shunt_plan_get_header(plan)->round_count;
    struct lines lines;
    enum shunt_status status = open_lines(plan, range, &lines, err);

    if (status != SHUNT_OK)
        return status;
    for (uint32_t i = 0; status == SHUNT_OK && i < lines.device_count; i++)
        status = sort_events(&lines.devices[i], err);
    for (uint32_t round = 0; status == SHUNT_OK && round < round_count; round++) {
        for (size_t p = 0; p < sizeof(phases) / sizeof(phases[0]); p++) {
            for (uint32_t i = 0; i < lines.device_count; i++)
                phases[p](&lines, &lines.devices[i], round);
        }
    }
    close_lines(&lines);
    return status;
}
