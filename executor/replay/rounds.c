/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/rounds.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "replay/pace.h"

_Static_assert(ROUNDS_WINDOW >= PACE_WINDOW + 2, "events are read before they are recorded again");

static bool streams(const struct engine *engine)
{
    return engine->on->ops->asynchronous;
}

/* All rounds are numbered, also those of a run that never begins. */
static void clear_figures(const struct engine *engine, struct rounds *rounds)
{
    for (uint32_t k = 0; k < engine->header->round_count; k++)
        rounds->list[k] = (struct shunt_exec_round){.device = engine->device, .round = k};
}

static struct device_event *event_of(const struct rounds *rounds, uint32_t round, enum rounds_moment moment)
{
    return rounds->events[round % ROUNDS_WINDOW * ROUNDS_MOMENTS + moment];
}

enum shunt_status rounds_create(const struct engine *engine, struct rounds **rounds_out, struct shunt_err *err)
{
    struct rounds *rounds = calloc(1, sizeof(*rounds));
    enum shunt_status st = SHUNT_OK;
    struct shunt_err cause = {{0}};
    uint32_t events = streams(engine) ? ROUNDS_WINDOW * ROUNDS_MOMENTS : 0;
    if (rounds == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    *rounds_out = rounds; /* the engine's from here on */
    rounds->list = calloc((size_t)engine->header->round_count + 1, sizeof(*rounds->list));
    rounds->events = calloc((size_t)events + 1, sizeof(struct device_event *));
    if (rounds->list == NULL || rounds->events == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: out of memory for figures of %u rounds", engine->device,
                          engine->header->round_count);
    clear_figures(engine, rounds);
    for (uint32_t i = 0; i < events && st == SHUNT_OK; i++)
        st = engine->on->ops->event_create(engine->on, true, &rounds->events[i], &cause);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "device %u: %s", engine->device, cause.text);
}

void rounds_destroy(struct engine *engine)
{
    struct rounds *rounds = engine->rounds;
    if (rounds == NULL)
        return;
    for (uint32_t i = 0; streams(engine) && rounds->events != NULL && i < ROUNDS_WINDOW * ROUNDS_MOMENTS; i++)
        engine->on->ops->event_destroy(engine->on, rounds->events[i]);
    free(rounds->events);
    free(rounds->list);
    free(rounds);
    engine->rounds = NULL;
}

void rounds_reset(struct engine *engine)
{
    if (engine->rounds != NULL)
        clear_figures(engine, engine->rounds);
}

enum shunt_status rounds_mark(struct engine *engine, uint32_t round, enum rounds_moment moment, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    if (engine->rounds == NULL)
        return SHUNT_OK;
    if (!streams(engine)) {
        engine->rounds->at_ns[round % ROUNDS_WINDOW][moment] = clock_now_ns();
        return SHUNT_OK;
    }
    bool wire = moment == ROUNDS_WIRE || moment == ROUNDS_WIRED;
    enum shunt_status st =
        engine->on->ops->event_record(engine->on, event_of(engine->rounds, round, moment),
                                      wire ? engine->on->ops->wire(engine->on) : engine->stream, &cause);
    if (st == SHUNT_OK)
        return st;
    return shunt_fail(err, st, "device %u: round %u: %s", engine->device, round, cause.text);
}

void rounds_count(struct engine *engine, uint32_t round, const struct shunt_exec_stats *before)
{
    if (engine->rounds == NULL)
        return;
    const struct shunt_exec_stats *now = &engine->stats;
    struct shunt_exec_round *own = &engine->rounds->list[round];
    own->sent_bytes += now->sent_bytes - before->sent_bytes;
    own->received_bytes += now->received_bytes - before->received_bytes;
    own->wire_sent_bytes += now->wire_sent_bytes - before->wire_sent_bytes;
    own->wire_received_bytes += now->wire_received_bytes - before->wire_received_bytes;
    own->copied_bytes += now->copied_bytes - before->copied_bytes;
    own->filled_bytes += now->filled_bytes - before->filled_bytes;
}

/* From a moment to the one behind it. */
static enum shunt_status measure(struct engine *engine, uint32_t round, enum rounds_moment from, double *seconds_out,
                                 struct shunt_err *err)
{
    const struct rounds *rounds = engine->rounds;
    if (streams(engine))
        return engine->on->ops->event_seconds(engine->on, event_of(rounds, round, from),
                                              event_of(rounds, round, from + 1), seconds_out, err);
    const int64_t *at_ns = rounds->at_ns[round % ROUNDS_WINDOW];
    *seconds_out = (double)(at_ns[from + 1] - at_ns[from]) / 1e9;
    return SHUNT_OK;
}

enum shunt_status rounds_finish(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    if (engine->rounds == NULL)
        return SHUNT_OK;
    struct shunt_exec_round *own = &engine->rounds->list[round];
    enum shunt_status st = measure(engine, round, ROUNDS_PACK, &own->pack_seconds, &cause);
    if (st == SHUNT_OK)
        st = measure(engine, round, ROUNDS_WIRE, &own->wire_seconds, &cause);
    if (st == SHUNT_OK)
        st = measure(engine, round, ROUNDS_WAIT, &own->wait_seconds, &cause);
    if (st == SHUNT_OK)
        st = measure(engine, round, ROUNDS_UNPACK, &own->unpack_seconds, &cause);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "device %u: round %u: %s", engine->device, round, cause.text);
    own->finished = 1;
    return SHUNT_OK;
}
