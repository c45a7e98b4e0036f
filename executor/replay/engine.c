/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/engine.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "replay/direct.h"
#include "replay/missing.h"

#define POISON 0xA5 /* in memory that nobody has written yet, when tracking */

static bool is_staging(uint32_t buffer)
{
    return buffer >= SHUNT_PLAN_STAGING && buffer != SHUNT_PLAN_NONE;
}

static struct device_box op_box(const struct engine *engine, uint32_t buffer, uint64_t offset, uint32_t view)
{
    char *base = is_staging(buffer) ? engine->staging[buffer - SHUNT_PLAN_STAGING] : engine->buffers[buffer].data;
    return (struct device_box){.data = base + offset, .view = &engine->part.views[view]};
}

/* Bytes of a buffer that the plan counts: it caps the memory of the device, not that of the host. */
static uint64_t counted_bytes(const struct engine *engine, uint32_t index)
{
    const struct shunt_plan_buffer *buffer = &engine->part.buffers[index];
    return buffer->tier == SHUNT_TIER_HOST ? 0 : buffer->bytes;
}

static bool is_scratch(const struct engine *engine, uint32_t index)
{
    return engine->part.buffers[index].side == SHUNT_SIDE_SCRATCH;
}

static uint64_t host_bytes(const struct engine *engine, uint32_t index)
{
    return is_scratch(engine, index) ? engine->part.buffers[index].bytes - counted_bytes(engine, index) : 0;
}

static void add_live(struct engine *engine, uint32_t index)
{
    engine->buffers[index].live = true;
    engine->live_bytes += counted_bytes(engine, index);
    engine->host_live_bytes += host_bytes(engine, index);
    if (engine->live_bytes > engine->stats.peak_bytes)
        engine->stats.peak_bytes = engine->live_bytes;
    if (engine->host_live_bytes > engine->stats.host_peak_bytes)
        engine->stats.host_peak_bytes = engine->host_live_bytes;
}

void engine_reset(struct engine *engine)
{
    uint32_t unbound = 0;
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        struct engine_buffer *own = &engine->buffers[i];
        if (own->owner == ENGINE_OWNER_ENGINE)
            engine->device_ops->free(own->data, engine->part.buffers[i].bytes);
        own->data = NULL;
        own->owner = ENGINE_OWNER_NONE;
        own->live = own->bound = false;
        unbound += shunt_plan_on_old_side(&engine->part.buffers[i]);
    }
    engine->unbound = unbound;
    engine->live_bytes = engine->host_live_bytes = 0;
}

void engine_bind(struct engine *engine, uint32_t index, unsigned dtype, void *data, uint64_t bytes)
{
    struct engine_buffer *own = &engine->buffers[index];
    if (!own->bound && shunt_plan_on_old_side(&engine->part.buffers[index]))
        engine->unbound--;
    own->data = data;
    own->owner = ENGINE_OWNER_CALLER;
    own->bound = true;
    own->dtype = (uint8_t)dtype;
    own->bytes = bytes;
}

const char *engine_first_unbound(const struct engine *engine)
{
    for (uint32_t i = 0; engine->unbound > 0 && i < engine->part.header->buffer_count; i++) {
        if (shunt_plan_on_old_side(&engine->part.buffers[i]) && !engine->buffers[i].bound)
            return engine->buffers[i].name;
    }
    return NULL;
}

static void point_messages(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->part.header->message_count; i++) {
        const struct shunt_plan_message *m = &engine->part.messages[i];
        engine->messages[i].data = (char *)engine->staging[m->buffer - SHUNT_PLAN_STAGING] + m->offset;
        engine->messages[i].arrived = 0;
    }
}

enum shunt_status engine_begin(struct engine *engine, struct shunt_err *err)
{
    engine->stats =
        (struct shunt_exec_stats){.device = engine->device,
                                  .rounds = engine->header->round_count,
                                  .plan_peak_bytes = shunt_plan_get_device(engine->plan, engine->device)->peak_bytes};
    engine->live_bytes = engine->host_live_bytes = 0;
    for (uint32_t slot = 0; slot < SHUNT_PLAN_MAX_DEPTH; slot++) {
        uint64_t bytes = engine->part.header->staging_bytes[slot];
        if (bytes == 0)
            continue;
        engine->staging[slot] = engine->device_ops->alloc(bytes);
        if (engine->staging[slot] == NULL) {
            engine_end(engine);
            return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: no memory for staging slot %u of %" PRIu64 " bytes",
                              engine->device, slot, bytes);
        }
        engine->live_bytes += bytes;
    }
    engine->stats.peak_bytes = engine->live_bytes;
    point_messages(engine);
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        engine->buffers[i].live = false;
        if (shunt_plan_on_old_side(&engine->part.buffers[i]))
            add_live(engine, i);
        else if (engine->tracking && engine->part.buffers[i].side == SHUNT_SIDE_TO)
            track_clear(&engine->buffers[i].written);
    }
    return SHUNT_OK;
}

void engine_end(struct engine *engine)
{
    for (uint32_t slot = 0; slot < SHUNT_PLAN_MAX_DEPTH; slot++) {
        engine->device_ops->free(engine->staging[slot], engine->part.header->staging_bytes[slot]);
        engine->staging[slot] = NULL;
    }
}

enum shunt_status engine_alloc(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    for (uint32_t n = engine->allocs.begin[round]; n < engine->allocs.begin[round + 1]; n++) {
        uint32_t i = engine->allocs.list[n];
        struct engine_buffer *own = &engine->buffers[i];
        uint64_t bytes = engine->part.buffers[i].bytes;
        if (!own->bound && engine->memory.alloc != NULL && !is_scratch(engine, i)) {
            own->data = engine->memory.alloc(engine->memory.ctx, own->name, bytes);
            own->owner = ENGINE_OWNER_CALLER;
        } else if (!own->bound) { /* scratch never is */
            own->data = engine->device_ops->alloc(bytes);
            own->owner = ENGINE_OWNER_ENGINE;
        }
        if (own->data == NULL && bytes != 0) {
            own->owner = ENGINE_OWNER_NONE;
            return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: round %u: no memory for %s of %" PRIu64 " bytes",
                              engine->device, round, own->name, bytes);
        }
        if (engine->tracking && bytes != 0)
            memset(own->data, POISON, bytes);
        add_live(engine, i);
    }
    return SHUNT_OK;
}

static void mark_written(struct engine *engine, const struct shunt_plan_op *op)
{
    if (engine->tracking && engine->part.buffers[op->dst_buffer].side == SHUNT_SIDE_TO)
        track_mark_box(&engine->buffers[op->dst_buffer].written, op->dst_offset, &engine->part.views[op->dst_view]);
}

/* What an op writes; of an unpack, what it reads of the message. */
static uint64_t op_bytes(const struct engine *engine, const struct shunt_plan_op *op)
{
    const struct shunt_plan_view *view = &engine->part.views[op->kind == SHUNT_OP_UNPACK ? op->src_view : op->dst_view];
    return shunt_plan_view_elements(view) * view->elem_bytes;
}

static void do_copy(struct engine *engine, const struct shunt_plan_op *op)
{
    struct device_box src = op_box(engine, op->src_buffer, op->src_offset, op->src_view);
    struct device_box dst = op_box(engine, op->dst_buffer, op->dst_offset, op->dst_view);
    if (op->cast != SHUNT_CAST_NONE)
        engine->device_ops->cast(&dst, &src, op->cast);
    else
        engine->device_ops->copy(&dst, &src);
}

/* So that what did not arrive cannot pass for what should have. */
static void poison_receives(struct engine *engine, uint32_t round)
{
    uint32_t count;
    struct transport_message *messages = engine_messages(engine, round, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (messages[i].direction == SHUNT_RECV)
            memset(messages[i].data, POISON, messages[i].bytes);
    }
}

static bool is_left_out(const struct engine *engine, uint32_t op)
{
    return engine->segments != NULL && engine->segments->left_out[op];
}

void engine_pack(struct engine *engine, uint32_t round)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    if (engine->segments != NULL)
        direct_point(engine, round);
    if (engine->tracking)
        poison_receives(engine, round);
    for (uint32_t i = r->op_begin; i < r->unpack_begin; i++) {
        const struct shunt_plan_op *op = &engine->part.ops[i];
        if (op->kind == SHUNT_OP_FILL) {
            struct device_box dst = op_box(engine, op->dst_buffer, op->dst_offset, op->dst_view);
            engine->device_ops->fill_zero(&dst);
            engine->stats.filled_bytes += op_bytes(engine, op);
        } else if (!is_left_out(engine, i)) {
            do_copy(engine, op);
        }
        if (op->kind == SHUNT_OP_PACK) {
            engine->stats.sent_bytes += op_bytes(engine, op);
            continue;
        }
        if (op->kind == SHUNT_OP_COPY)
            engine->stats.copied_bytes += op_bytes(engine, op);
        mark_written(engine, op);
    }
}

struct transport_message *engine_messages(struct engine *engine, uint32_t round, uint32_t *count_out)
{
    if (engine->segments != NULL) {
        *count_out = engine->segments->round_begin[round + 1] - engine->segments->round_begin[round];
        return &engine->segments->messages[engine->segments->round_begin[round]];
    }
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    *count_out = r[1].message_begin - r->message_begin;
    return &engine->messages[r->message_begin];
}

enum shunt_status engine_arrived(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    uint32_t count;
    const struct transport_message *messages = engine_messages(engine, round, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct transport_message *m = &messages[i];
        if (m->direction == SHUNT_SEND) {
            engine->stats.wire_sent_bytes += m->bytes;
            continue;
        }
        engine->stats.wire_received_bytes += m->arrived;
        if (m->arrived != m->bytes && !engine->tracking)
            return shunt_fail(err, SHUNT_ERR_TRANSPORT,
                              "device %u: round %u: %" PRIu64 " of %" PRIu64 " bytes came from device %u, for %s",
                              engine->device, round, m->arrived, m->bytes, m->peer, missing_name(engine, round, m));
    }
    return SHUNT_OK;
}

/* When tracking, an unpack from what did not arrive is left out, so that the check names its target. */
static bool source_arrived(struct engine *engine, uint32_t round, uint32_t index)
{
    uint32_t count;
    const struct transport_message *messages = engine_messages(engine, round, &count);
    const struct shunt_plan_op *op = &engine->part.ops[index];
    struct device_box end = is_left_out(engine, index) ? op_box(engine, op->dst_buffer, op->dst_offset, op->dst_view)
                                                       : op_box(engine, op->src_buffer, op->src_offset, op->src_view);
    const char *begin = end.data;
    uint64_t bytes = op_bytes(engine, op);
    for (uint32_t i = 0; i < count; i++) {
        const struct transport_message *m = &messages[i];
        const char *data = m->data;
        if (m->direction == SHUNT_RECV && begin >= data && begin < data + m->bytes)
            return begin + bytes <= data + m->arrived;
    }
    return false;
}

void engine_unpack(struct engine *engine, uint32_t round)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    for (uint32_t i = r->unpack_begin; i < r[1].op_begin; i++) {
        const struct shunt_plan_op *op = &engine->part.ops[i];
        if (engine->tracking && !source_arrived(engine, round, i))
            continue;
        if (!is_left_out(engine, i))
            do_copy(engine, op);
        engine->stats.received_bytes += op_bytes(engine, op);
        mark_written(engine, op);
    }
}

void engine_free(struct engine *engine, uint32_t round)
{
    for (uint32_t n = engine->frees.begin[round]; n < engine->frees.begin[round + 1]; n++) {
        uint32_t i = engine->frees.list[n];
        struct engine_buffer *own = &engine->buffers[i];
        uint64_t bytes = engine->part.buffers[i].bytes;
        assert(own->live && own->owner == (is_scratch(engine, i) ? ENGINE_OWNER_ENGINE : ENGINE_OWNER_CALLER));
        own->live = false;
        engine->live_bytes -= counted_bytes(engine, i);
        engine->host_live_bytes -= host_bytes(engine, i);
        if (own->owner == ENGINE_OWNER_ENGINE)
            engine->device_ops->free(own->data, bytes);
        else if (engine->memory.release != NULL)
            engine->memory.release(engine->memory.ctx, own->name, own->data, bytes);
        own->data = NULL;
        own->owner = ENGINE_OWNER_NONE;
    }
}
