/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one device's replay: what callers bind and get back, what the engine takes, and the count of what is live. */
#include "replay/engine.h"

#include <assert.h>
#include <inttypes.h>

#include "replay/rounds.h"

#define POISON 0xA5 /* in memory that nobody has written yet, when tracking */

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

/* Memory that the engine took itself. What a stuck device may still write must not become somebody else's. */
static void give_back(struct engine *engine, uint32_t index)
{
    struct engine_buffer *own = &engine->buffers[index];
    const struct shunt_plan_buffer *buffer = &engine->part.buffers[index];
    if (engine->stuck)
        return;
    if (buffer->tier == SHUNT_TIER_HOST)
        engine->on->ops->free_host(engine->on, own->data, buffer->bytes);
    else
        engine->on->ops->free(engine->on, engine->stream, own->data, buffer->bytes);
}

static void return_lent(struct engine *engine, uint32_t index)
{
    if (engine->buffers[index].lent && !engine->stuck)
        engine->on->ops->return_host(engine->on, engine->buffers[index].data);
    engine->buffers[index].lent = false;
}

void engine_reset(struct engine *engine)
{
    uint32_t unbound = 0;
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        struct engine_buffer *own = &engine->buffers[i];
        return_lent(engine, i);
        if (own->owner == ENGINE_OWNER_ENGINE)
            give_back(engine, i);
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

/* Host memory of the caller is made known to the device, which otherwise could not reach it. */
static enum shunt_status lend(struct engine *engine, uint32_t index, struct shunt_err *err)
{
    struct engine_buffer *own = &engine->buffers[index];
    const struct shunt_plan_buffer *buffer = &engine->part.buffers[index];
    struct shunt_err cause = {{0}};
    if (buffer->tier != SHUNT_TIER_HOST || own->lent || own->owner != ENGINE_OWNER_CALLER)
        return SHUNT_OK;
    enum shunt_status st = engine->on->ops->lend_host(engine->on, own->data, buffer->bytes, &own->lent, &cause);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "device %u: %s: %s", engine->device, own->name, cause.text);
    return SHUNT_OK;
}

static enum shunt_status take_staging(struct engine *engine, uint32_t slot, struct shunt_err *err)
{
    uint64_t bytes = engine->part.header->staging_bytes[slot];
    struct shunt_err cause = {{0}};
    if (bytes == 0)
        return SHUNT_OK;
    enum shunt_status st = engine->on->ops->alloc(engine->on, engine->stream, bytes, &engine->staging[slot], &cause);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "device %u: no memory for staging slot %u of %" PRIu64 " bytes: %s", engine->device,
                          slot, bytes, cause.text);
    engine->live_bytes += bytes;
    engine_program_bind(engine, SHUNT_PLAN_STAGING + slot, engine->staging[slot]);
    return SHUNT_OK;
}

/* What is there before the first round. */
static enum shunt_status begin_buffers(struct engine *engine, struct shunt_err *err)
{
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        engine->buffers[i].live = false;
        if (shunt_plan_on_old_side(&engine->part.buffers[i])) {
            add_live(engine, i);
            engine_program_bind(engine, i, engine->buffers[i].data);
        } else if (engine->tracking && engine->part.buffers[i].side == SHUNT_SIDE_TO) {
            track_clear(&engine->buffers[i].written);
        }
        enum shunt_status st = engine->buffers[i].data != NULL ? lend(engine, i, err) : SHUNT_OK;
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

enum shunt_status engine_begin(struct engine *engine, struct shunt_err *err)
{
    engine->stats =
        (struct shunt_exec_stats){.device = engine->device,
                                  .rounds = engine->header->round_count,
                                  .plan_peak_bytes = shunt_plan_get_device(engine->plan, engine->device)->peak_bytes};
    engine->live_bytes = engine->host_live_bytes = 0;
    rounds_reset(engine);
    enum shunt_status st = engine_program_begin(engine, err);
    for (uint32_t slot = 0; slot < SHUNT_PLAN_MAX_DEPTH && st == SHUNT_OK; slot++)
        st = take_staging(engine, slot, err);
    engine->stats.peak_bytes = engine->live_bytes;
    if (st == SHUNT_OK)
        st = begin_buffers(engine, err);
    if (st != SHUNT_OK)
        engine_end(engine);
    return st;
}

void engine_settle(struct engine *engine)
{
    const struct device_ops *ops = engine->on->ops;
    struct device_stream *wire = ops->wire(engine->on);
    engine->stuck = ops->stream_finish(engine->on, wire, engine->timeout_seconds, NULL) != SHUNT_OK ||
                    ops->stream_finish(engine->on, engine->stream, engine->timeout_seconds, NULL) != SHUNT_OK;
}

void engine_end(struct engine *engine)
{
    if (engine->program == NULL)
        return;
    engine_settle(engine);
    for (uint32_t slot = 0; slot < SHUNT_PLAN_MAX_DEPTH; slot++) {
        if (!engine->stuck)
            engine->on->ops->free(engine->on, engine->stream, engine->staging[slot],
                                  engine->part.header->staging_bytes[slot]);
        engine->staging[slot] = NULL;
    }
    engine_program_end(engine);
}

static enum shunt_status no_memory(const struct engine *engine, uint32_t round, uint32_t index, enum shunt_status st,
                                   const char *cause, struct shunt_err *err)
{
    return shunt_fail(err, st, "device %u: round %u: no memory for %s of %" PRIu64 " bytes%s%s", engine->device, round,
                      engine->buffers[index].name, engine->part.buffers[index].bytes, cause[0] == '\0' ? "" : ": ",
                      cause);
}

/* Memory for a buffer of this round, unless the caller has bound some; scratch is the engine's own. */
static enum shunt_status give_memory(struct engine *engine, uint32_t round, uint32_t index, struct shunt_err *err)
{
    struct engine_buffer *own = &engine->buffers[index];
    const struct shunt_plan_buffer *buffer = &engine->part.buffers[index];
    const struct device_ops *ops = engine->on->ops;
    struct shunt_err cause = {{0}};
    if (own->bound)
        return SHUNT_OK;
    if (engine->memory.alloc != NULL && !is_scratch(engine, index)) {
        own->data = engine->memory.alloc(engine->memory.ctx, own->name, buffer->bytes);
        own->owner = ENGINE_OWNER_CALLER;
        if (own->data != NULL || buffer->bytes == 0)
            return SHUNT_OK;
        own->owner = ENGINE_OWNER_NONE;
        return no_memory(engine, round, index, SHUNT_ERR_NOMEM, "", err);
    }
    enum shunt_status st = buffer->tier == SHUNT_TIER_HOST
                               ? ops->alloc_host(engine->on, buffer->bytes, &own->data, &cause)
                               : ops->alloc(engine->on, engine->stream, buffer->bytes, &own->data, &cause);
    if (st != SHUNT_OK)
        return no_memory(engine, round, index, st, cause.text, err);
    own->owner = ENGINE_OWNER_ENGINE;
    return SHUNT_OK;
}

enum shunt_status engine_in_round(const struct engine *engine, uint32_t round, enum shunt_status st,
                                  const struct shunt_err *cause, struct shunt_err *err)
{
    return st == SHUNT_OK ? st : shunt_fail(err, st, "device %u: round %u: %s", engine->device, round, cause->text);
}

enum shunt_status engine_poison(struct engine *engine, uint32_t round, void *data, uint64_t bytes,
                                struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    enum shunt_status st = engine->on->ops->fill(engine->on, engine->stream, data, POISON, bytes, &cause);
    return engine_in_round(engine, round, st, &cause, err);
}

enum shunt_status engine_alloc(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    for (uint32_t n = engine->allocs.begin[round]; n < engine->allocs.begin[round + 1]; n++) {
        uint32_t i = engine->allocs.list[n];
        uint64_t bytes = engine->part.buffers[i].bytes;
        enum shunt_status st = give_memory(engine, round, i, err);
        if (st == SHUNT_OK)
            st = lend(engine, i, err);
        if (st == SHUNT_OK && engine->tracking && bytes != 0)
            st = engine_poison(engine, round, engine->buffers[i].data, bytes, err);
        if (st != SHUNT_OK)
            return st;
        engine_program_bind(engine, i, engine->buffers[i].data);
        add_live(engine, i);
    }
    return SHUNT_OK;
}

/* Host memory, and memory of a caller who does not know of streams, is given back when nothing uses it any more. */
static bool must_be_idle(const struct engine *engine, uint32_t index)
{
    const struct engine_buffer *own = &engine->buffers[index];
    if (engine->part.buffers[index].tier == SHUNT_TIER_HOST)
        return true;
    return own->owner == ENGINE_OWNER_CALLER && engine->memory.release != NULL && !engine->memory.stream_ordered;
}

enum shunt_status engine_finish_round(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    enum shunt_status st = engine->on->ops->stream_finish(engine->on, engine->stream, engine->timeout_seconds, &cause);
    return engine_in_round(engine, round, st, &cause, err);
}

bool engine_frees_wait(const struct engine *engine, uint32_t round)
{
    bool idle = false;
    for (uint32_t n = engine->frees.begin[round]; n < engine->frees.begin[round + 1] && !idle; n++)
        idle = must_be_idle(engine, engine->frees.list[n]);
    return idle;
}

enum shunt_status engine_free(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    enum shunt_status st = engine_frees_wait(engine, round) ? engine_finish_round(engine, round, err) : SHUNT_OK;
    for (uint32_t n = engine->frees.begin[round]; n < engine->frees.begin[round + 1] && st == SHUNT_OK; n++) {
        uint32_t i = engine->frees.list[n];
        struct engine_buffer *own = &engine->buffers[i];
        uint64_t bytes = engine->part.buffers[i].bytes;
        assert(own->live && own->owner == (is_scratch(engine, i) ? ENGINE_OWNER_ENGINE : ENGINE_OWNER_CALLER));
        own->live = false;
        engine->live_bytes -= counted_bytes(engine, i);
        engine->host_live_bytes -= host_bytes(engine, i);
        return_lent(engine, i);
        if (own->owner == ENGINE_OWNER_ENGINE)
            give_back(engine, i);
        else if (engine->memory.release != NULL)
            engine->memory.release(engine->memory.ctx, own->name, own->data, bytes);
        own->data = NULL;
        own->owner = ENGINE_OWNER_NONE;
    }
    return st;
}
