/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/pace.h"

#include <stdlib.h>

#include "replay/missing.h"

static const struct device_ops *ops_of(const struct pace *pace)
{
    return pace->on->ops;
}

static enum shunt_status fail(const struct pace *pace, uint32_t engine, uint32_t round, enum shunt_status st,
                              const struct shunt_err *cause, struct shunt_err *err)
{
    return shunt_fail(err, st, "device %u: round %u: %s", pace->engines[engine]->device, round, cause->text);
}

enum shunt_status pace_init(struct pace *pace, struct shunt_world *world, struct engine **engines, uint32_t count,
                            double timeout_seconds,
                            enum shunt_status (*done)(void *ctx, uint32_t round, struct shunt_err *err), void *ctx,
                            struct shunt_err *err)
{
    *pace = (struct pace){.world = world,
                          .engines = engines,
                          .count = count,
                          .on = engines[0]->on,
                          .timeout_seconds = timeout_seconds,
                          .done = done,
                          .ctx = ctx};
    enum shunt_status st = SHUNT_OK;
    if (!ops_of(pace)->asynchronous)
        return SHUNT_OK;
    pace->events = calloc((size_t)count * PACE_WINDOW, sizeof(struct device_event *));
    if (pace->events == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    struct shunt_err cause = {{0}};
    st = ops_of(pace)->event_create(pace->on, false, &pace->wired, &cause);
    for (uint32_t i = 0; i < count * PACE_WINDOW && st == SHUNT_OK; i++)
        st = ops_of(pace)->event_create(pace->on, false, &pace->events[i], &cause);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "device %u: %s", engines[0]->device, cause.text);
}

void pace_destroy(struct pace *pace)
{
    for (uint32_t i = 0; i < pace->count * PACE_WINDOW && pace->events != NULL; i++)
        ops_of(pace)->event_destroy(pace->on, pace->events[i]);
    if (pace->on != NULL)
        ops_of(pace)->event_destroy(pace->on, pace->wired);
    free(pace->events);
    *pace = (struct pace){0};
}

enum shunt_status pace_packed(struct pace *pace, uint32_t round, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    for (uint32_t i = 0; i < pace->count; i++) {
        struct engine *engine = pace->engines[i];
        enum shunt_status st = ops_of(pace)->event_join(pace->on, engine->packed, ops_of(pace)->wire(pace->on), &cause);
        if (st != SHUNT_OK)
            return fail(pace, i, round, st, &cause, err);
    }
    return SHUNT_OK;
}

enum shunt_status pace_wired(struct pace *pace, uint32_t round, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    enum shunt_status st = ops_of(pace)->event_record(pace->on, pace->wired, ops_of(pace)->wire(pace->on), &cause);
    if (st != SHUNT_OK)
        return fail(pace, 0, round, st, &cause, err);
    for (uint32_t i = 0; i < pace->count; i++) {
        st = ops_of(pace)->event_join(pace->on, pace->wired, pace->engines[i]->stream, &cause);
        if (st != SHUNT_OK)
            return fail(pace, i, round, st, &cause, err);
    }
    return SHUNT_OK;
}

static struct device_event *event_of(const struct pace *pace, uint32_t engine, uint32_t round)
{
    return pace->events == NULL ? NULL : pace->events[engine * PACE_WINDOW + round % PACE_WINDOW];
}

static enum shunt_status too_late(struct pace *pace, uint32_t engine, uint32_t round, struct shunt_err *err)
{
    struct transport *transport = pace->world->transport;
    if (transport->ops->late == NULL)
        return shunt_fail(err, SHUNT_ERR_TIMEOUT, "device %u: round %u: not done after %g seconds",
                          pace->engines[engine]->device, round, pace->timeout_seconds);
    uint32_t count;
    struct transport_message *messages = engine_messages(pace->engines[engine], round, &count);
    enum shunt_status st = transport->ops->late(transport, round, messages, count, pace->timeout_seconds, err);
    if (st == SHUNT_ERR_TIMEOUT)
        missing_explain(&pace->engines[engine], 1, round, err);
    return st;
}

/* Peers are looked after meanwhile. */
static enum shunt_status wait_for(struct pace *pace, struct device_event *event, uint32_t engine, uint32_t round,
                                  const struct deadline *deadline, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    for (uint32_t turns = 0;; turns++) {
        bool done;
        enum shunt_status st = ops_of(pace)->event_poll(pace->on, event, &done, &cause);
        if (st != SHUNT_OK)
            return fail(pace, engine, round, st, &cause, err);
        if (done)
            return SHUNT_OK;
        st = shunt_world_poll(pace->world, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline))
            return too_late(pace, engine, round, err);
        clock_rest(turns);
    }
}

enum shunt_status pace_arrived(struct pace *pace, uint32_t round, struct shunt_err *err)
{
    struct deadline deadline = deadline_after(pace->timeout_seconds);
    return ops_of(pace)->asynchronous ? wait_for(pace, pace->wired, 0, round, &deadline, err) : SHUNT_OK;
}

static enum shunt_status finish_round(struct pace *pace, struct shunt_err *err)
{
    uint32_t round = pace->finished;
    if (ops_of(pace)->asynchronous) {
        struct deadline deadline = deadline_after(pace->timeout_seconds);
        for (uint32_t i = 0; i < pace->count; i++) {
            enum shunt_status st = wait_for(pace, event_of(pace, i, round), i, round, &deadline, err);
            if (st != SHUNT_OK)
                return st;
        }
    }
    pace->finished++;
    return pace->done(pace->ctx, round, err);
}

enum shunt_status pace_drained(struct pace *pace, uint32_t round, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    for (uint32_t i = 0; i < pace->count; i++) {
        enum shunt_status st =
            ops_of(pace)->event_record(pace->on, event_of(pace, i, round), pace->engines[i]->stream, &cause);
        if (st != SHUNT_OK)
            return fail(pace, i, round, st, &cause, err);
    }
    pace->drained++;
    uint32_t ahead = ops_of(pace)->asynchronous ? PACE_WINDOW - 1 : 0;
    while (pace->drained - pace->finished > ahead) {
        enum shunt_status st = finish_round(pace, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

enum shunt_status pace_finish(struct pace *pace, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    while (pace->finished < pace->drained && st == SHUNT_OK)
        st = finish_round(pace, err);
    return st;
}
