/* SPDX-License-Identifier: Apache-2.0 */
/* A part's ops as the device is told them, and the messages that need no staging slot. */
#include <stdlib.h>

#include "device/walk.h"
#include "replay/checksum.h"
#include "replay/direct.h"
#include "replay/engine.h"

/* Places in the program's table: staging slots, the old side, and the rest in the order in which it is allocated. */
static uint32_t base_of(const struct engine *engine, uint32_t buffer)
{
    return buffer >= SHUNT_PLAN_STAGING ? buffer - SHUNT_PLAN_STAGING : engine->bases[buffer];
}

uint32_t engine_program_base_count(const struct engine *engine)
{
    return SHUNT_PLAN_MAX_DEPTH + engine->part.header->buffer_count;
}

static bool index_bases(struct engine *engine)
{
    uint32_t count = engine->part.header->buffer_count, next = SHUNT_PLAN_MAX_DEPTH;
    engine->bases = calloc((size_t)count + 1, sizeof(uint32_t));
    if (engine->bases == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!shunt_plan_is_allocated(&engine->part.buffers[i]))
            engine->bases[i] = next++;
    }
    for (uint32_t n = 0; n < engine->allocs.begin[engine->header->round_count]; n++)
        engine->bases[engine->allocs.list[n]] = next++;
    return true;
}

struct device_end engine_program_end_of(const struct engine *engine, uint32_t buffer, uint64_t offset, uint32_t view)
{
    return (struct device_end){.base = base_of(engine, buffer), .offset = offset, .view = &engine->part.views[view]};
}

bool engine_program_index(struct engine *engine)
{
    uint32_t count = engine->part.header->op_count, messages = engine->part.header->message_count;
    engine->work = calloc((size_t)count + 1, sizeof(*engine->work));
    engine->whole = calloc((size_t)messages + 1, sizeof(uint32_t));
    if (engine->work == NULL || engine->whole == NULL || !index_bases(engine))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct shunt_plan_op *op = &engine->part.ops[i];
        struct device_work *work = &engine->work[i];
        work->dst = engine_program_end_of(engine, op->dst_buffer, op->dst_offset, op->dst_view);
        work->cast = op->cast;
        work->zero = op->kind == SHUNT_OP_FILL;
        if (!work->zero)
            work->src = engine_program_end_of(engine, op->src_buffer, op->src_offset, op->src_view);
    }
    for (uint32_t m = 0; m < messages; m++)
        engine->whole[m] = SHUNT_PLAN_NONE;
    return true;
}

/* ---- messages without staging --------------------------------------------------------- */

/*
 * Where messages are cut, replay/direct.h says which ops are left out. Where a message must stay one, as in groups of
 * NCCL, a device with streams still leaves out the op whose bytes are all of a message.
 */

static bool is_contiguous(const struct device_work *work)
{
    const struct shunt_plan_view *view = work->dst.view;
    struct walk walk;
    if (work->cast != SHUNT_CAST_NONE || work->zero)
        return false;
    walk_init(&walk, view->ndim, view->elem_bytes, view->shape, view->stride, work->src.view->stride);
    return walk.outer == 0 && walk.count == 1;
}

/* Memory of a buffer is aligned: what will be allocated is, by contract; what is bound may not be. */
static bool is_aligned(const struct engine *engine, uint32_t buffer, uint64_t offset)
{
    uintptr_t bound = (uintptr_t)engine->buffers[buffer].data;
    return engine->part.buffers[buffer].tier == SHUNT_TIER_DEVICE && (bound + offset) % SHUNT_PLAN_MESSAGE_ALIGN == 0;
}

/* The message that is this op's bytes and nothing else. */
static uint32_t message_of(const struct engine *engine, uint32_t round, uint64_t offset, uint64_t bytes, bool out)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    for (uint32_t m = r->message_begin; m < r[1].message_begin; m++) {
        const struct shunt_plan_message *message = &engine->part.messages[m];
        if (message->offset == offset && message->bytes == bytes && (message->direction == SHUNT_SEND) == out)
            return m;
    }
    return SHUNT_PLAN_NONE;
}

static void try_whole(struct engine *engine, uint32_t round, uint32_t index)
{
    const struct shunt_plan_op *op = &engine->part.ops[index];
    bool out = op->kind == SHUNT_OP_PACK;
    struct device_work *work = &engine->work[index];
    if ((!out && op->kind != SHUNT_OP_UNPACK) || !is_contiguous(work) ||
        !is_aligned(engine, out ? op->src_buffer : op->dst_buffer, out ? op->src_offset : op->dst_offset))
        return;
    uint64_t bytes = shunt_plan_view_elements(work->dst.view) * work->dst.view->elem_bytes;
    uint32_t message = message_of(engine, round, out ? op->dst_offset : op->src_offset, bytes, out);
    if (message == SHUNT_PLAN_NONE)
        return;
    engine->whole[message] = index;
    work->skipped = true;
}

static void choose_skipped(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->part.header->op_count; i++)
        engine->work[i].skipped = engine->segments != NULL && engine->segments->left_out[i];
    for (uint32_t m = 0; m < engine->part.header->message_count; m++)
        engine->whole[m] = SHUNT_PLAN_NONE;
    if (engine->segments != NULL || !engine->on->ops->asynchronous)
        return;
    for (uint32_t k = 0; k < engine->header->round_count; k++) {
        for (uint32_t i = engine->part.rounds[k].op_begin; i < engine->part.rounds[k + 1].op_begin; i++)
            try_whole(engine, k, i);
    }
}

static char *memory_of(const struct engine *engine, uint32_t buffer)
{
    return buffer >= SHUNT_PLAN_STAGING ? engine->staging[buffer - SHUNT_PLAN_STAGING] : engine->buffers[buffer].data;
}

void engine_point_messages(struct engine *engine, uint32_t round)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    if (engine->segments != NULL)
        direct_point(engine, round);
    for (uint32_t m = r->message_begin; m < r[1].message_begin && engine->segments == NULL; m++) {
        const struct shunt_plan_message *message = &engine->part.messages[m];
        uint32_t buffer = message->buffer;
        uint64_t offset = message->offset;
        if (engine->whole[m] != SHUNT_PLAN_NONE) {
            const struct shunt_plan_op *op = &engine->part.ops[engine->whole[m]];
            buffer = op->kind == SHUNT_OP_PACK ? op->src_buffer : op->dst_buffer;
            offset = op->kind == SHUNT_OP_PACK ? op->src_offset : op->dst_offset;
        }
        engine->messages[m].data = memory_of(engine, buffer) + offset;
        engine->messages[m].arrived = 0;
    }
}

/* ---- running -------------------------------------------------------------------------- */

enum shunt_status engine_program_begin(struct engine *engine, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    choose_skipped(engine);
    enum shunt_status st =
        engine->on->ops->program_create(engine->on, engine->stream, engine->work, engine->part.header->op_count,
                                        engine_program_base_count(engine), &engine->program, &cause);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "device %u: %s", engine->device, cause.text);
    engine->stats.table_bytes = engine->on->ops->program_bytes(engine->program);
    return checksum_begin(engine, err);
}

void engine_program_end(struct engine *engine)
{
    checksum_end(engine);
    if (engine->program != NULL && !engine->stuck)
        engine->on->ops->program_destroy(engine->on, engine->program);
    engine->program = NULL;
}

void engine_program_bind(struct engine *engine, uint32_t buffer, void *data)
{
    engine->on->ops->program_bind(engine->program, base_of(engine, buffer), data);
    checksum_bind(engine, base_of(engine, buffer), data);
}

enum shunt_status engine_program_run(struct engine *engine, uint32_t begin, uint32_t end, struct shunt_err *err)
{
    if (begin == end)
        return SHUNT_OK;
    return engine->on->ops->program_run(engine->on, engine->program, begin, end, err);
}
