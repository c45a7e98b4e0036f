/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine works out once, at open: names, alloc and free lists per round, messages, peers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/checksum.h"
#include "replay/direct.h"
#include "replay/engine.h"
#include "replay/rounds.h"

static char *buffer_name(const struct engine *engine, const struct shunt_plan_buffer *buffer)
{
    const struct shunt_plan_tensor *tensor = shunt_plan_get_tensor(engine->plan, buffer->tensor);
    char *name;
    if (buffer->side == SHUNT_SIDE_SCRATCH) { /* of which there may be many; nobody binds them */
        if (asprintf(&name, "scratch:%u", (unsigned)(buffer - engine->part.buffers)) < 0)
            return NULL;
        return name;
    }
    if (asprintf(&name, "%s/%s", shunt_state_name(buffer->state), shunt_plan_string(engine->plan, tensor->name)) < 0)
        return NULL;
    return name;
}

static bool init_buffers(struct engine *engine)
{
    engine->buffers = calloc((size_t)engine->part.header->buffer_count + 1, sizeof(*engine->buffers));
    if (engine->buffers == NULL)
        return false;
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &engine->part.buffers[i];
        struct engine_buffer *own = &engine->buffers[i];
        own->name = buffer_name(engine, buffer);
        if (own->name == NULL)
            return false;
        engine->unbound += shunt_plan_on_old_side(buffer);
        uint32_t elem_bytes = shunt_dtype_bytes(buffer->dtype);
        if (engine->tracking && buffer->side == SHUNT_SIDE_TO &&
            !track_init(&own->written, buffer->bytes / elem_bytes, elem_bytes))
            return false;
    }
    return true;
}

static int compare_names(const void *a, const void *b, void *arg)
{
    const struct engine *engine = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int order = strcmp(engine->buffers[i].name, engine->buffers[j].name);
    return order != 0 ? order : (int)engine->part.buffers[i].side - (int)engine->part.buffers[j].side;
}

/* Binding is by name, so a name may occur once per side, and a kept one once in all. */
static enum shunt_status init_names(struct engine *engine, struct shunt_err *err)
{
    uint32_t count = engine->part.header->buffer_count;
    engine->by_name = calloc((size_t)count + 1, sizeof(uint32_t));
    if (engine->by_name == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: out of memory for %u buffers", engine->device, count);
    for (uint32_t i = 0; i < count; i++)
        engine->by_name[i] = i;
    qsort_r(engine->by_name, count, sizeof(uint32_t), compare_names, engine);
    for (uint32_t n = 1; n < count; n++) {
        uint32_t i = engine->by_name[n - 1], j = engine->by_name[n];
        uint8_t a = engine->part.buffers[i].side, b = engine->part.buffers[j].side;
        if (strcmp(engine->buffers[i].name, engine->buffers[j].name) == 0 && (a == b || b == SHUNT_SIDE_BOTH))
            return shunt_fail(err, SHUNT_ERR_PLAN, "device %u: buffers %u and %u are both called %s", engine->device, i,
                              j, engine->buffers[i].name);
    }
    return SHUNT_OK;
}

/* Counting sort of the buffers by their round. */
static bool init_schedule(struct engine *engine, struct engine_schedule *schedule, bool frees)
{
    uint32_t rounds = engine->header->round_count, count = engine->part.header->buffer_count;
    schedule->list = calloc((size_t)count + 1, sizeof(uint32_t));
    schedule->begin = calloc((size_t)rounds + 2, sizeof(uint32_t));
    if (schedule->list == NULL || schedule->begin == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct shunt_plan_buffer *buffer = &engine->part.buffers[i];
        uint32_t round = frees ? buffer->free_round : buffer->alloc_round;
        if (round < rounds)
            schedule->begin[round + 2]++;
    }
    for (uint32_t k = 1; k < rounds + 2; k++)
        schedule->begin[k] += schedule->begin[k - 1];
    for (uint32_t i = 0; i < count; i++) {
        const struct shunt_plan_buffer *buffer = &engine->part.buffers[i];
        uint32_t round = frees ? buffer->free_round : buffer->alloc_round;
        if (round < rounds)
            schedule->list[schedule->begin[round + 1]++] = i;
    }
    return true;
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool init_messages(struct engine *engine)
{
    uint32_t count = engine->part.header->message_count;
    engine->messages = calloc((size_t)count + 1, sizeof(*engine->messages));
    engine->peers = calloc((size_t)count + 1, sizeof(uint32_t));
    if (engine->messages == NULL || engine->peers == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct shunt_plan_message *m = &engine->part.messages[i];
        engine->messages[i] = (struct transport_message){.peer = m->peer, .direction = m->direction, .bytes = m->bytes};
        engine->peers[i] = m->peer;
    }
    qsort(engine->peers, count, sizeof(uint32_t), compare_u32);
    for (uint32_t i = 0; i < count; i++) {
        if (engine->peer_count == 0 || engine->peers[engine->peer_count - 1] != engine->peers[i])
            engine->peers[engine->peer_count++] = engine->peers[i];
    }
    for (uint32_t k = 0; k < engine->header->round_count; k++) {
        uint32_t n = engine->part.rounds[k + 1].message_begin - engine->part.rounds[k].message_begin;
        if (n > engine->max_messages)
            engine->max_messages = n;
    }
    return true;
}

/* The buffer of an op's end exists throughout the round. Staging always does. */
static bool lives_in(const struct engine *engine, uint32_t buffer, uint32_t round)
{
    if (buffer >= SHUNT_PLAN_STAGING)
        return true;
    const struct shunt_plan_buffer *b = &engine->part.buffers[buffer];
    return (!shunt_plan_is_allocated(b) || b->alloc_round <= round) &&
           (!shunt_plan_is_freed(b) || b->free_round >= round);
}

/* The verifier proves this too; here it keeps an unverified plan from touching memory that is not there. */
static enum shunt_status check_lifetimes(const struct engine *engine, struct shunt_err *err)
{
    for (uint32_t k = 0; k < engine->header->round_count; k++) {
        for (uint32_t i = engine->part.rounds[k].op_begin; i < engine->part.rounds[k + 1].op_begin; i++) {
            const struct shunt_plan_op *op = &engine->part.ops[i];
            bool reads = lives_in(engine, op->src_buffer, k);
            if (!reads || !lives_in(engine, op->dst_buffer, k))
                return shunt_fail(err, SHUNT_ERR_PLAN, "device %u: round %u: op %u %s %s, which has no memory then",
                                  engine->device, k, i, reads ? "writes" : "reads",
                                  engine->buffers[reads ? op->dst_buffer : op->src_buffer].name);
        }
    }
    return SHUNT_OK;
}

static enum shunt_status init_streams(struct engine *engine, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    enum shunt_status st = SHUNT_OK;
    if (!engine->borrowed)
        st = engine->on->ops->stream_create(engine->on, &engine->stream, &cause);
    if (st == SHUNT_OK)
        st = engine->on->ops->event_create(engine->on, false, &engine->packed, &cause);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "device %u: %s", engine->device, cause.text);
}

enum shunt_status engine_init(struct engine *engine, const struct shunt_plan *plan, uint32_t device,
                              struct shunt_device *on, struct device_stream *stream, bool tracking,
                              struct shunt_err *err)
{
    *engine = (struct engine){.plan = plan,
                              .header = shunt_plan_get_header(plan),
                              .on = on,
                              .stream = stream,
                              .borrowed = stream != NULL,
                              .device = device,
                              .tracking = tracking,
                              .timeout_seconds = ENGINE_DEFAULT_TIMEOUT};
    enum shunt_status st = shunt_plan_get_part(plan, device, &engine->part, err);
    if (st != SHUNT_OK)
        return st;
    if (!init_buffers(engine) || !init_schedule(engine, &engine->allocs, false) ||
        !init_schedule(engine, &engine->frees, true) || !init_messages(engine) || !engine_program_index(engine)) {
        engine_finish(engine);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: out of memory for the plan's tables", device);
    }
    st = init_names(engine, err);
    if (st == SHUNT_OK)
        st = check_lifetimes(engine, err);
    if (st == SHUNT_OK)
        st = init_streams(engine, err);
    if (st != SHUNT_OK)
        engine_finish(engine);
    return st;
}

void engine_finish(struct engine *engine)
{
    if (engine->buffers != NULL) {
        engine_end(engine);
        engine_settle(engine);
        engine_reset(engine);
        for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
            free(engine->buffers[i].name);
            track_finish(&engine->buffers[i].written);
        }
    }
    free(engine->buffers);
    free(engine->by_name);
    free(engine->allocs.list);
    free(engine->allocs.begin);
    free(engine->frees.list);
    free(engine->frees.begin);
    free(engine->messages);
    free(engine->peers);
    free(engine->work);
    free(engine->bases);
    free(engine->whole);
    rounds_destroy(engine);
    if (engine->on != NULL) {
        engine->on->ops->event_destroy(engine->on, engine->packed);
        if (!engine->borrowed)
            engine->on->ops->stream_destroy(engine->on, engine->stream);
    }
    checksum_destroy(engine->checksum);
    direct_destroy(engine->segments);
    *engine = (struct engine){0};
}

int64_t engine_find(const struct engine *engine, const char *name, enum shunt_plan_side side)
{
    uint32_t low = 0, high = engine->part.header->buffer_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (strcmp(engine->buffers[engine->by_name[mid]].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < engine->part.header->buffer_count; low++) {
        uint32_t i = engine->by_name[low];
        if (strcmp(engine->buffers[i].name, name) != 0)
            break;
        uint8_t own = engine->part.buffers[i].side;
        if (own == side || own == SHUNT_SIDE_BOTH || side == SHUNT_SIDE_BOTH)
            return i;
    }
    return -1;
}

uint32_t engine_table_crc(const struct engine *engine, bool as_bound)
{
    uint32_t crc = 0;
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        const struct shunt_plan_buffer *plan = &engine->part.buffers[i];
        const struct engine_buffer *own = &engine->buffers[i];
        bool bound = as_bound && own->bound;
        uint64_t fields[3] = {plan->side, bound ? own->dtype : plan->dtype, bound ? own->bytes : plan->bytes};
        crc = shunt_crc32c(crc, own->name, strlen(own->name) + 1);
        crc = shunt_crc32c(crc, fields, sizeof(fields));
    }
    return crc;
}

/* Without scratch, whose memory is the engine's own. */
static uint64_t round_bytes(const struct engine *engine, const struct engine_schedule *schedule, uint32_t round)
{
    uint64_t bytes = 0;
    for (uint32_t n = schedule->begin[round]; n < schedule->begin[round + 1]; n++) {
        const struct shunt_plan_buffer *buffer = &engine->part.buffers[schedule->list[n]];
        bytes += buffer->side == SHUNT_SIDE_SCRATCH ? 0 : buffer->bytes;
    }
    return bytes;
}

/* At the alloc of round k, the frees of rounds up to k - depth are done. */
uint64_t engine_growth(const struct engine *engine)
{
    uint32_t depth = engine->header->overlap_depth;
    uint64_t allocated = 0, freed = 0, growth = 0;
    for (uint32_t k = 0; k < engine->header->round_count; k++) {
        if (k >= depth)
            freed += round_bytes(engine, &engine->frees, k - depth);
        allocated += round_bytes(engine, &engine->allocs, k);
        if (allocated > freed && allocated - freed > growth)
            growth = allocated - freed;
    }
    return growth;
}
