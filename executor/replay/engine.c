/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a round that move data: packs, what has arrived, unpacks. Memory is in engine_memory.c. */
#include "replay/engine.h"

#include <inttypes.h>

#include "replay/direct.h"
#include "replay/missing.h"

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

/* So that what did not arrive cannot pass for what should have. */
static enum shunt_status poison_receives(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    uint32_t count;
    struct transport_message *messages = engine_messages(engine, round, &count);
    enum shunt_status st = SHUNT_OK;
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++) {
        if (messages[i].direction == SHUNT_RECV)
            st = engine_poison(engine, round, messages[i].data, messages[i].bytes, err);
    }
    return st;
}

static void count_packed(struct engine *engine, const struct shunt_plan_op *op)
{
    if (op->kind == SHUNT_OP_PACK) {
        engine->stats.sent_bytes += op_bytes(engine, op);
        return;
    }
    if (op->kind == SHUNT_OP_FILL)
        engine->stats.filled_bytes += op_bytes(engine, op);
    else
        engine->stats.copied_bytes += op_bytes(engine, op);
    mark_written(engine, op);
}

enum shunt_status engine_pack(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    struct shunt_err cause = {{0}};
    engine_point_messages(engine, round);
    enum shunt_status st = engine->tracking ? poison_receives(engine, round, err) : SHUNT_OK;
    if (st != SHUNT_OK)
        return st;
    st = engine_program_run(engine, r->op_begin, r->unpack_begin, &cause);
    if (st == SHUNT_OK)
        st = engine->on->ops->event_record(engine->on, engine->packed, engine->stream, &cause);
    for (uint32_t i = r->op_begin; i < r->unpack_begin; i++)
        count_packed(engine, &engine->part.ops[i]);
    return engine_in_round(engine, round, st, &cause, err);
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

static const char *memory_at(const struct engine *engine, uint32_t buffer, uint64_t offset)
{
    const void *base =
        buffer >= SHUNT_PLAN_STAGING ? engine->staging[buffer - SHUNT_PLAN_STAGING] : engine->buffers[buffer].data;
    return (const char *)base + offset;
}

/* When tracking, an unpack from what did not arrive is left out, so that the check names its target. */
static bool source_arrived(struct engine *engine, uint32_t round, uint32_t index)
{
    uint32_t count;
    const struct shunt_plan_op *op = &engine->part.ops[index];
    const struct device_work *work = &engine->work[index]; /* skipped: it came to where it belongs */
    const struct transport_message *messages = engine_messages(engine, round, &count);
    const char *begin = work->skipped ? memory_at(engine, op->dst_buffer, op->dst_offset)
                                      : memory_at(engine, op->src_buffer, op->src_offset);
    uint64_t bytes = op_bytes(engine, op);
    for (uint32_t i = 0; i < count; i++) {
        const struct transport_message *m = &messages[i];
        const char *data = m->data;
        if (m->direction == SHUNT_RECV && begin >= data && begin < data + m->bytes)
            return begin + bytes <= data + m->arrived;
    }
    return false;
}

enum shunt_status engine_unpack(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    struct shunt_err cause = {{0}};
    enum shunt_status st = SHUNT_OK;
    uint32_t from = r->unpack_begin, end = r[1].op_begin;
    for (uint32_t i = from; i < end && st == SHUNT_OK; i++) {
        const struct shunt_plan_op *op = &engine->part.ops[i];
        if (engine->tracking && !source_arrived(engine, round, i)) {
            st = engine_program_run(engine, from, i, &cause);
            from = i + 1;
            continue;
        }
        engine->stats.received_bytes += op_bytes(engine, op);
        mark_written(engine, op);
    }
    if (st == SHUNT_OK)
        st = engine_program_run(engine, from, end, &cause);
    return engine_in_round(engine, round, st, &cause, err);
}
