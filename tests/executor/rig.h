/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_RIG_H
#define SHUNT_TESTS_RIG_H

/**
 * A plan from the builder and all its devices over one loopback world, with old sides of the test's
 * own. Included by a test as it is: checks count in that test. SHUNT_TEST_DEVICE says where buffers are:
 * "host", or "cuda", which tests with the double of CUDA set.
 */

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io/contents.h"
#include "plan_builder.h"
#include "replay/exec.h"
#include "replay/world.h"

#define RIG_MAX_DEVICES 8
#define RIG_MAX_BUFFERS 64

struct rig_event {
    char what; /* 'a' alloc, 'r' release */
    char name[64];
    uint64_t bytes;
};

struct rig {
    struct shunt_device *on;
    struct device_stream *stream;
    struct image image;
    struct shunt_plan *plan;
    struct shunt_world *world;
    struct shunt_exec *execs[RIG_MAX_DEVICES];
    uint32_t count;
    void *memory[RIG_MAX_DEVICES][RIG_MAX_BUFFERS]; /* old sides */
    bool host_tier[RIG_MAX_DEVICES][RIG_MAX_BUFFERS];
    uint32_t shift;
    struct rig_event events[RIG_MAX_BUFFERS]; /* of the device whose memory calls are watched */
    uint32_t event_count;
    const char *refuse_alloc; /* allocating this buffer fails */
    struct shunt_err err;
};

/** How to open; zero is the usual way. */
struct rig_options {
    const struct transport_ops *transport; /* NULL: loopback */
    bool track;
    uint32_t shift; /* old-side memory is aligned to no more than this, a multiple of 8 */
    bool checksum;
    bool figures; /* of rounds */
    bool stream;  /* all devices work on one stream, which is the rig's; on the host there is none */
    int watched;  /* device whose allocator and release are the rig's; -1: none */
};

/** Loopback that does something wrong with one receive. */
enum fault_kind {
    FAULT_NONE = 0,
    FAULT_SKIP,     /* nothing arrives, and the transport says so */
    FAULT_LIE,      /* nothing arrives, and the transport says it did */
    FAULT_TRUNCATE, /* half of it arrives */
    FAULT_CORRUPT,  /* one bit is flipped */
    FAULT_SHORT,    /* this end expects less than the other sends */
    FAULT_LATE,     /* the round times out, its messages stay with the transport until it is abandoned */
};
struct fault {
    enum fault_kind kind;
    uint32_t round, device, peer;
};

/* ---- memory of the device under test ----------------------------------------------- */

static struct shunt_device *rig_device;

/* All that was put on the wire stream, and what it waits for. */
static void rig_settle(void)
{
    struct shunt_err err = {{0}};
    CHECK_MSG(rig_device->ops->stream_finish(rig_device, rig_device->ops->wire(rig_device), 10, &err) == SHUNT_OK, "%s",
              err.text);
}

/** Memory that is there at once, for callers who do not know of streams. */
static void *rig_take(uint64_t bytes)
{
    void *data = NULL;
    struct shunt_err err = {{0}};
    CHECK_MSG(rig_device->ops->alloc(rig_device, rig_device->ops->wire(rig_device), bytes, &data, &err) == SHUNT_OK,
              "%s", err.text);
    rig_settle();
    return data;
}

__attribute__((unused)) static void rig_give(void *data, uint64_t bytes)
{
    rig_device->ops->free(rig_device, rig_device->ops->wire(rig_device), data, bytes);
}

/* To or from the device, in the order of the wire. */
static void rig_move(void *dst, const void *src, void *host, uint64_t bytes)
{
    void *pinned;
    CHECK_EQ_U64(rig_device->ops->alloc_host(rig_device, bytes, &pinned, NULL), SHUNT_OK);
    if (src == host)
        memcpy(pinned, host, bytes);
    CHECK_EQ_U64(rig_device->ops->copy(rig_device, rig_device->ops->wire(rig_device), dst == host ? pinned : dst,
                                       src == host ? pinned : src, bytes, NULL),
                 SHUNT_OK);
    rig_settle();
    if (dst == host)
        memcpy(host, pinned, bytes);
    rig_device->ops->free_host(rig_device, pinned, bytes);
}

__attribute__((unused)) static void rig_peek(void *host, const void *data, uint64_t bytes)
{
    rig_move(host, data, host, bytes);
}

__attribute__((unused)) static void rig_poke(void *data, void *host, uint64_t bytes)
{
    rig_move(data, host, host, bytes);
}

/* ---- faults ---------------------------------------------------------------------- */

static struct fault fault;

static const struct transport_ops transport_faulty;

static struct transport_message *victim;
static unsigned char before[256];

static struct transport_message *late; /* of FAULT_LATE */
static uint32_t abandoned;

static enum shunt_status faulty_open(const struct transport_config *config, struct transport **transport_out,
                                     struct shunt_err *err)
{
    enum shunt_status st = transport_loopback.open(config, transport_out, err);
    if (st == SHUNT_OK)
        (*transport_out)->ops = &transport_faulty;
    return st;
}

static enum shunt_status faulty_prepare(struct transport *transport, uint32_t device,
                                        const struct transport_needs *needs, struct shunt_err *err)
{
    return transport_loopback.prepare(transport, device, needs, err);
}

static enum shunt_status faulty_post(struct transport *transport, uint32_t device, uint32_t round,
                                     struct transport_message *messages, uint32_t count, struct shunt_err *err)
{
    if (fault.kind == FAULT_LATE && round == fault.round && device == fault.device && count > 0)
        late = &messages[0];
    for (uint32_t i = 0; i < count && round == fault.round && device == fault.device; i++) {
        if (fault.kind == FAULT_NONE || fault.kind == FAULT_LATE || messages[i].direction != SHUNT_RECV ||
            messages[i].peer != fault.peer)
            continue;
        victim = &messages[i];
        rig_peek(before, victim->data, victim->bytes);
        if (fault.kind == FAULT_SHORT)
            victim->bytes -= 16;
    }
    return transport_loopback.post(transport, device, round, messages, count, err);
}

static void spoil(void)
{
    unsigned char byte;
    switch (fault.kind) {
    case FAULT_SKIP:
        rig_poke(victim->data, before, victim->bytes);
        victim->arrived = 0;
        break;
    case FAULT_LIE:
        rig_poke(victim->data, before, victim->bytes);
        break;
    case FAULT_TRUNCATE:
        victim->arrived = victim->bytes / 2;
        rig_poke((char *)victim->data + victim->arrived, before + victim->arrived, victim->bytes - victim->arrived);
        break;
    case FAULT_CORRUPT:
        rig_peek(&byte, victim->data, 1);
        byte ^= 0x10;
        rig_poke(victim->data, &byte, 1);
        break;
    default:
        break;
    }
}

static enum shunt_status faulty_wait(struct transport *transport, uint32_t round, const struct deadline *deadline,
                                     struct shunt_err *err)
{
    enum shunt_status st = transport_loopback.wait(transport, round, deadline, err);
    if (st == SHUNT_OK && victim != NULL && round == fault.round)
        spoil();
    if (round == fault.round)
        victim = NULL;
    if (late != NULL && round == fault.round)
        return shunt_fail(err, SHUNT_ERR_TIMEOUT, "timed out by the test");
    return st;
}

static enum shunt_status faulty_gather(struct transport *transport, const void *mine, size_t bytes, void *all,
                                       const char *what, const struct deadline *deadline, struct shunt_err *err)
{
    return transport_loopback.gather(transport, mine, bytes, all, what, deadline, err);
}

static enum shunt_status faulty_share(struct transport *transport, void *bytes, size_t size, const char *what,
                                      const struct deadline *deadline, struct shunt_err *err)
{
    return transport_loopback.share(transport, bytes, size, what, deadline, err);
}

static enum shunt_status faulty_poll(struct transport *transport, struct shunt_err *err)
{
    return transport_loopback.poll(transport, err);
}

static void faulty_abandon(struct transport *transport, enum shunt_status status, const char *cause)
{
    abandoned++;
    unsigned char byte = 0;
    if (late != NULL && fault.round == TRANSPORT_PAIR_ROUND) /* what a transport does with what it still holds */
        late->arrived = *(const unsigned char *)late->data;
    else if (late != NULL)
        rig_peek(&byte, late->data, 1);
    late = NULL;
    transport_loopback.abandon(transport, status, cause);
}

static void faulty_close(struct transport *transport)
{
    victim = NULL;
    transport_loopback.close(transport);
}

static const struct transport_ops transport_faulty = {
    .name = "faulty loopback",
    .device_memory = true,
    .many_messages = true,
    .open = faulty_open,
    .prepare = faulty_prepare,
    .post = faulty_post,
    .wait = faulty_wait,
    .gather = faulty_gather,
    .share = faulty_share,
    .poll = faulty_poll,
    .abandon = faulty_abandon,
    .close = faulty_close,
};

/* ---- rig ------------------------------------------------------------------------- */

static void note(struct rig *rig, char what, const char *name, uint64_t bytes)
{
    struct rig_event *event = &rig->events[rig->event_count++ % RIG_MAX_BUFFERS];
    event->what = what;
    event->bytes = bytes;
    snprintf(event->name, sizeof(event->name), "%s", name);
}

static void *watched_alloc(void *ctx, const char *name, uint64_t bytes)
{
    struct rig *rig = ctx;
    note(rig, 'a', name, bytes);
    if (rig->refuse_alloc != NULL && strcmp(name, rig->refuse_alloc) == 0)
        return NULL;
    return rig_take(bytes);
}

static void watched_release(void *ctx, const char *name, void *ptr, uint64_t bytes)
{
    (void)ptr;
    note(ctx, 'r', name, bytes);
}

/** Encodes and destroys the build, then opens and trusts all devices. */
__attribute__((unused)) static void rig_open(struct rig *rig, struct build *build, const struct rig_options *options)
{
    *rig = (struct rig){.image = build_encode(build), .count = build->header.device_count, .shift = options->shift};
    build_destroy(build);
    const char *name = getenv("SHUNT_TEST_DEVICE");
    CHECK_MSG(shunt_device_open(name != NULL ? name : "host", &rig->on, &rig->err) == SHUNT_OK, "%s", rig->err.text);
    rig_device = rig->on;
    if (options->stream)
        CHECK_EQ_U64(rig->on->ops->stream_create(rig->on, &rig->stream, &rig->err), SHUNT_OK);
    CHECK_MSG(shunt_plan_open_memory(rig->image.bytes, rig->image.size, &rig->plan, &rig->err) == SHUNT_OK, "%s",
              rig->err.text);
    const struct transport_ops *ops = options->transport != NULL ? options->transport : &transport_loopback;
    struct transport_config world = {.size = rig->count};
    CHECK_EQ_U64(world_open(ops, &world, &rig->world, &rig->err), SHUNT_OK);
    for (uint32_t i = 0; i < rig->count; i++) {
        struct shunt_exec_config config = {
            .plan = rig->plan, .device = i, .on = rig->on, .track_writes = options->track};
        config.checksum = options->checksum;
        config.round_figures = options->figures;
        config.stream = rig->stream;
        if (options->watched == (int)i)
            config.memory = (struct shunt_exec_memory){rig, watched_alloc, watched_release};
        CHECK_MSG(shunt_exec_open(&config, &rig->execs[i], &rig->err) == SHUNT_OK, "%s", rig->err.text);
        CHECK_EQ_U64(shunt_exec_trust(rig->execs[i], &rig->err), SHUNT_OK);
    }
}

static void rig_clear(void *data, uint64_t bytes)
{
    struct shunt_device *on = rig_device;
    CHECK_EQ_U64(on->ops->fill(on, on->ops->wire(on), data, 0, bytes, NULL), SHUNT_OK);
    rig_settle();
}

static void rig_give_old_side(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->count; d++) {
        for (uint32_t i = 0; i < RIG_MAX_BUFFERS; i++) {
            struct shunt_exec_buffer buffer;
            if (rig->memory[d][i] != NULL && rig->host_tier[d][i])
                free(rig->memory[d][i]);
            else if (rig->memory[d][i] != NULL) {
                shunt_exec_get_buffer(rig->execs[d], i, &buffer);
                rig_give(rig->memory[d][i], buffer.bytes + 64);
            }
            rig->memory[d][i] = NULL;
        }
    }
}

/** Gives every device fresh old-side memory, filled from the seed, or with zeros. */
__attribute__((unused)) static void rig_bind(struct rig *rig, uint64_t seed, bool zeros)
{
    for (uint32_t d = 0; d < rig->count; d++) {
        for (uint32_t i = 0; i < shunt_exec_buffer_count(rig->execs[d]); i++) {
            struct shunt_exec_buffer buffer;
            shunt_exec_get_buffer(rig->execs[d], i, &buffer);
            if (buffer.side == SHUNT_SIDE_TO || buffer.side == SHUNT_SIDE_SCRATCH)
                continue;
            rig->host_tier[d][i] = buffer.tier == SHUNT_TIER_HOST;
            rig->memory[d][i] = rig->host_tier[d][i] ? calloc(1, buffer.bytes + 64) : rig_take(buffer.bytes + 64);
            if (zeros && !rig->host_tier[d][i])
                rig_clear((char *)rig->memory[d][i] + rig->shift, buffer.bytes);
            CHECK_MSG(shunt_exec_bind(rig->execs[d], SHUNT_SIDE_FROM, buffer.name, buffer.dtype,
                                      (char *)rig->memory[d][i] + rig->shift, buffer.bytes, &rig->err) == SHUNT_OK,
                      "%s", rig->err.text);
        }
        if (!zeros)
            CHECK_EQ_U64(contents_fill(rig->execs[d], seed, NULL, &rig->err), SHUNT_OK);
    }
}

/** Forget all bindings and free the old-side memory. */
__attribute__((unused)) static void rig_unbind(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->count; d++) {
        CHECK_EQ_U64(shunt_exec_reset(rig->execs[d], &rig->err), SHUNT_OK);
    }
    rig_give_old_side(rig);
}

__attribute__((unused)) static enum shunt_status rig_run(struct rig *rig)
{
    return shunt_exec_run(rig->world, rig->execs, rig->count, 10, &rig->err);
}

/** Sum over the devices. */
__attribute__((unused)) static struct contents_report rig_check(struct rig *rig, uint64_t seed, bool zeros)
{
    struct contents_expect expect = {.seed = seed, .zeros = zeros};
    struct contents_report sum = {0};
    for (uint32_t d = 0; d < rig->count; d++) {
        struct contents_report report;
        CHECK_EQ_U64(contents_check(rig->execs[d], &expect, NULL, &report, &rig->err), SHUNT_OK);
        sum.checked_bytes += report.checked_bytes;
        sum.wrong_bytes += report.wrong_bytes;
        sum.never_bytes += report.never_bytes;
        if (sum.first[0] == '\0')
            memcpy(sum.first, report.first, sizeof(sum.first));
    }
    return sum;
}

__attribute__((unused)) static void rig_close(struct rig *rig)
{
    shunt_world_close(rig->world);
    for (uint32_t d = 0; d < rig->count; d++) { /* reads the sizes of old-side memory before they are gone */
        engine_end(&rig->execs[d]->engine);
        engine_settle(&rig->execs[d]->engine);
    }
    rig_give_old_side(rig);
    for (uint32_t d = 0; d < rig->count; d++)
        shunt_exec_close(rig->execs[d]);
    rig->on->ops->stream_destroy(rig->on, rig->stream);
    shunt_device_close(rig->on);
    shunt_plan_close(rig->plan);
    image_finish(&rig->image);
}

#endif
