/* SPDX-License-Identifier: Apache-2.0 */
/* How a run begins and ends: who may call it, agreement, memory, and what becomes of it. */
#include "replay/run.h"

#include <stdlib.h>
#include <string.h>

#include "replay/agree.h"
#include "replay/direct.h"

static enum shunt_status run_begin(struct run *run, struct shunt_err *err)
{
    for (uint32_t i = 0; i < run->count; i++) {
        run->engines[i]->timeout_seconds = run->timeout_seconds;
        enum shunt_status st = engine_begin(run->engines[i], err);
        if (st != SHUNT_OK) {
            while (i-- > 0)
                engine_end(run->engines[i]);
            return st;
        }
    }
    return SHUNT_OK;
}

static void set_state(struct run *run, enum shunt_exec_state state)
{
    for (uint32_t i = 0; i < run->count; i++)
        run->execs[i]->state = state;
}

/* Both ends must cut their messages alike, so all devices of a world do, or none. */
static enum shunt_status run_cut_messages(struct run *run, struct shunt_err *err)
{
    for (uint32_t i = 0; i < run->count; i++) {
        struct engine *engine = run->engines[i];
        if (!run->world->transport->ops->many_messages) {
            direct_destroy(engine->segments);
            engine->segments = NULL;
        } else if (engine->segments == NULL && !direct_create(engine, DIRECT_BYTES, &engine->segments)) {
            return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: out of memory for its messages", engine->device);
        }
    }
    return SHUNT_OK;
}

/* All that comes before the first round. */
static enum shunt_status run_prepare(struct run *run, struct shunt_err *err)
{
    enum shunt_status st = run_cut_messages(run, err);
    if (st == SHUNT_OK)
        st = agree_all(run->world, run->engines, run->count, run->timeout_seconds, err);
    return st == SHUNT_OK ? run_begin(run, err) : st;
}

static enum shunt_status run_all(struct run *run, struct shunt_err *err)
{
    enum shunt_status st = run_prepare(run, err);
    if (st != SHUNT_OK)
        return st;
    set_state(run, SHUNT_EXEC_RUNNING);
    st = pace_init(&run->pace, run->world, run->engines, run->count, run->timeout_seconds, run_say_done, run, err);
    if (st == SHUNT_OK)
        st = run_rounds(run, err);
    set_state(run, st == SHUNT_OK ? SHUNT_EXEC_DONE : SHUNT_EXEC_FAILED);
    /* a transport that failed may still write into the slots until it is closed: those stay until then */
    for (uint32_t i = 0; i < run->count && st == SHUNT_OK; i++)
        engine_end(run->engines[i]);
    pace_destroy(&run->pace);
    run->world->transport->sequence++;
    return st;
}

static enum shunt_status check_callers(const struct run *run, struct shunt_err *err)
{
    const struct transport *transport = run->world->transport;
    if (run->count != transport->local_count)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%u devices given, %u live in this process", run->count,
                          transport->local_count);
    for (uint32_t i = 0; i < run->count; i++) {
        const struct shunt_exec *exec = run->execs[i];
        const char *unbound = engine_first_unbound(&exec->engine);
        if (exec->engine.device != transport->first_local + i || exec->engine.header->device_count != transport->size)
            return shunt_fail(err, SHUNT_ERR_USAGE, "device %u of %u given where device %u of %u lives",
                              exec->engine.device, exec->engine.header->device_count, transport->first_local + i,
                              transport->size);
        if (exec->engine.on->ops->asynchronous && !transport->ops->device_memory)
            return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                              "not supported: transport %s with device %s: it moves host memory only",
                              transport->ops->name, exec->engine.on->ops->name);
        if (transport->ops->device != NULL && strcmp(exec->engine.on->ops->name, transport->ops->device) != 0)
            return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                              "not supported: transport %s with device %s: it moves %s memory only",
                              transport->ops->name, exec->engine.on->ops->name, transport->ops->device);
        if (exec->state != SHUNT_EXEC_BOUND && unbound != NULL)
            return shunt_fail(err, SHUNT_ERR_USAGE, "device %u: %s is not bound", exec->engine.device, unbound);
        if (exec->state != SHUNT_EXEC_BOUND)
            return shunt_fail(err, SHUNT_ERR_USAGE, "device %u is not in state bound", exec->engine.device);
    }
    return SHUNT_OK;
}

/* Memory that a run takes for itself is there, and so are all devices; then it is given back. */
static enum shunt_status run_dry(struct run *run, struct shunt_err *err)
{
    enum shunt_status st = run_prepare(run, err);
    if (st != SHUNT_OK)
        return st;
    st = run_barrier(run, "end of the dry run", err);
    for (uint32_t i = 0; i < run->count; i++)
        engine_end(run->engines[i]);
    run->world->transport->sequence++;
    return st;
}

static enum shunt_status run_journalled(struct run *run, struct shunt_err *err)
{
    for (uint32_t i = 0; i < run->count; i++)
        journal_reset(run->execs[i]->journal);
    enum shunt_status st = run_all(run, err);
    for (uint32_t i = 0; i < run->count; i++)
        journal_end(run->execs[i]->journal, st);
    return st;
}

static enum shunt_status run_execs(struct run *run, struct shunt_err *err)
{
    if (run->count == 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "no devices given");
    enum shunt_status st = check_callers(run, err);
    if (st != SHUNT_OK)
        return st;
    run->engines = calloc(run->count, sizeof(*run->engines));
    if (run->engines == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < run->count; i++) {
        run->engines[i] = &run->execs[i]->engine;
        run->engines[i]->dry = run->dry;
    }
    run->rounds = run->engines[0]->header->round_count;
    run->depth = run->engines[0]->header->overlap_depth;
    run->checksum = run->engines[0]->checksum != NULL;
    for (uint32_t i = 0; i < run->count; i++)
        run->lockstep = run->lockstep || (run->execs[i]->journal != NULL && run->engines[i]->on->ops->asynchronous);
    struct shunt_err cause = {{0}};
    st = run->dry ? run_dry(run, &cause) : run_journalled(run, &cause);
    if (st != SHUNT_OK) {
        shunt_world_abandon(run->world, st, cause.text);
        shunt_fail(err, st, "%s", cause.text);
    }
    free(run->engines);
    return st;
}

enum shunt_status shunt_exec_run(struct shunt_world *world, struct shunt_exec *const *execs, uint32_t count,
                                 double timeout_seconds, struct shunt_err *err)
{
    struct run run = {.world = world, .execs = execs, .count = count, .timeout_seconds = timeout_seconds};
    return run_execs(&run, err);
}

enum shunt_status shunt_exec_dry_run(struct shunt_world *world, struct shunt_exec *const *execs, uint32_t count,
                                     double timeout_seconds, struct shunt_err *err)
{
    struct run run = {.world = world, .execs = execs, .count = count, .timeout_seconds = timeout_seconds, .dry = true};
    return run_execs(&run, err);
}
