/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/journals.h"
#include "cli/memory.h"
#include "cli/neighbours.h"
#include "cli/statistics.h"
#include "cli/storing.h"
#include "io/replicas.h"
#include "io/safetensors.h"

struct local {
    uint32_t device;
    struct memory memory;
    struct shunt_exec *exec; /* of the plan at hand */
    struct worker *worker;
};

struct worker {
    const struct options *options;
    const struct chain *chain;
    struct shunt_world *world;
    const struct worker_sink *sink;
    uint32_t plan; /* index in the chain */
    struct local *locals;
    uint32_t count;
    struct shunt_exec **execs;   /* one per local device: of the plan that runs */
    struct plan_result *results; /* one per local device */
    struct storing storing;
    struct lineage lineage; /* of what the plan at hand finds */
    struct shunt_device *on;
};

static bool is_host_tier(const struct shunt_exec *exec, const char *name)
{
    int64_t index = engine_find(&exec->engine, name, SHUNT_SIDE_TO);
    return index >= 0 && exec->engine.part.buffers[index].tier == SHUNT_TIER_HOST;
}

static void *alloc_new(void *ctx, const char *name, uint64_t bytes)
{
    struct local *local = ctx;
    return memory_alloc(&local->memory, name, is_host_tier(local->exec, name), bytes);
}

static void release_old(void *ctx, const char *name, void *ptr, uint64_t bytes)
{
    (void)ptr, (void)bytes;
    memory_release(&((struct local *)ctx)->memory, name);
}

static void round_done(void *ctx, uint32_t device, uint32_t round, uint32_t round_count)
{
    const struct worker *worker = ((struct local *)ctx)->worker;
    if (worker->sink->progress != NULL)
        worker->sink->progress(worker->sink->ctx, worker->plan, device, round, round_count);
}

/* ---- opening -------------------------------------------------------------------- */

static enum shunt_status open_exec(struct local *local, struct shunt_err *err)
{
    const struct worker *worker = local->worker;
    char journal[4096];
    struct shunt_exec_config config = {
        .plan = worker->chain->plans[worker->plan],
        .device = local->device,
        .on = worker->on,
        .track_writes = worker->options->check,
        .memory = {.ctx = local, .alloc = alloc_new, .release = release_old, .stream_ordered = true},
        .progress = {.ctx = local, .round_done = round_done},
        .checksum = worker->options->checksum,
        .round_figures = worker->options->statistics != NULL,
    };
    enum shunt_status st = SHUNT_OK;
    if (worker->options->journal != NULL) {
        st = journals_path(worker->options->journal, local->device, journal, sizeof(journal), err);
        config.journal_path = journal;
    }
    if (st == SHUNT_OK)
        st = shunt_exec_open(&config, &local->exec, err);
    if (st != SHUNT_OK)
        return st;
    local->memory.stream = shunt_exec_get_stream(local->exec);
    return shunt_exec_trust(local->exec, err); /* main.c has verified the chain */
}

/* Memory stays, and is freed in the order of a stream that is still there. */
static void close_exec(struct local *local)
{
    shunt_exec_close(local->exec);
    local->exec = NULL;
    if (local->memory.on != NULL)
        local->memory.stream = local->memory.on->ops->wire(local->memory.on);
}

static bool is_old(const struct shunt_exec_buffer *buffer)
{
    return buffer->side == SHUNT_SIDE_FROM || buffer->side == SHUNT_SIDE_BOTH;
}

/* The first plan's old side comes from nowhere; memory_turn() files it as old. */
static enum shunt_status make_old_side(struct local *local, struct shunt_err *err)
{
    for (uint32_t i = 0; i < shunt_exec_buffer_count(local->exec); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(local->exec, i, &buffer);
        if (is_old(&buffer) &&
            memory_alloc(&local->memory, buffer.name, buffer.tier == SHUNT_TIER_HOST, buffer.bytes) == NULL &&
            buffer.bytes != 0)
            return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: no memory for %s of %" PRIu64 " bytes", local->device,
                              buffer.name, buffer.bytes);
    }
    if (!memory_turn(&local->memory))
        return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: out of memory", local->device);
    return SHUNT_OK;
}

static enum shunt_status bind_old_side(struct local *local, struct shunt_err *err)
{
    for (uint32_t i = 0; i < shunt_exec_buffer_count(local->exec); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(local->exec, i, &buffer);
        if (!is_old(&buffer))
            continue;
        const struct memory_item *item = memory_find(&local->memory, buffer.name);
        if (item == NULL)
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "device %u: the plan before left no buffer %s", local->device,
                              buffer.name);
        enum shunt_status st = shunt_exec_bind(local->exec, SHUNT_SIDE_FROM, buffer.name, buffer.dtype,
                                               item->block.data, item->block.bytes, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

static enum shunt_status give_contents(struct worker *worker, struct local *local, struct shunt_err *err)
{
    struct contents_poll poll = contents_poll_world(worker->world);
    if (worker->options->fill) {
        meet_beat(worker->world->meet, MEET_FILLING, 0);
        return contents_fill(local->exec, worker->options->seed, &poll, err);
    }
    if (worker->options->load != NULL) {
        meet_beat(worker->world->meet, MEET_LOADING, 0);
        return safetensors_load(local->exec, &worker->storing.set, &poll, err);
    }
    return SHUNT_OK;
}

/* Fetch the pages by which this plan will grow before it starts, and keep no more than those. */
static void reserve_growth(struct local *local)
{
    if (local->memory.on->ops->asynchronous)
        return;
    uint64_t bytes = engine_growth(&local->exec->engine);
    for (uint32_t i = 0; i < shunt_exec_buffer_count(local->exec); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(local->exec, i, &buffer);
        uint64_t footprint = pool_footprint(buffer.bytes);
        if (buffer.side == SHUNT_SIDE_TO && footprint > 0)
            bytes += footprint - buffer.bytes;
    }
    pool_reserve(&local->memory.pool, bytes);
}

static enum shunt_status open_plan(struct worker *worker, struct shunt_err *err)
{
    for (uint32_t i = 0; i < worker->count; i++) {
        struct local *local = &worker->locals[i];
        enum shunt_status st = open_exec(local, err);
        if (st == SHUNT_OK && worker->plan == 0)
            st = make_old_side(local, err);
        if (st == SHUNT_OK)
            st = bind_old_side(local, err);
        if (st == SHUNT_OK && worker->plan == 0)
            st = give_contents(worker, local, err);
        if (st != SHUNT_OK)
            return st;
        reserve_growth(local);
    }
    return SHUNT_OK;
}

/* ---- running -------------------------------------------------------------------- */

static enum shunt_status compare_replicas(struct worker *worker, struct shunt_err *err)
{
    struct contents_poll poll = contents_poll_world(worker->world);
    meet_beat(worker->world->meet, MEET_CHECKING, 0);
    return replicas_compare(worker->world, worker->execs, worker->count, &poll, worker->options->timeout_seconds, err);
}

/* What has moved has moved, and what comes behind it goes on: figures that cannot be written are no reason to stop. */
static void write_statistics(const struct worker *worker)
{
    for (uint32_t i = 0; i < worker->count; i++) {
        struct shunt_err cause = {{0}};
        if (statistics_write(worker->options->statistics, worker->execs[i], worker->locals[i].device, worker->plan,
                             &cause) != SHUNT_OK)
            fprintf(stderr, "shunt-exec: the figures of device %u are not whole: %s\n", worker->locals[i].device,
                    cause.text);
    }
}

static enum shunt_status move(struct worker *worker, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    for (uint32_t i = 0; i < worker->count; i++)
        worker->execs[i] = worker->locals[i].exec;
    if (worker->options->replicas && worker->plan == 0)
        st = compare_replicas(worker, err);
    if (st != SHUNT_OK)
        return st;
    st = worker->options->dry_run
             ? shunt_exec_dry_run(worker->world, worker->execs, worker->count, worker->options->timeout_seconds, err)
             : shunt_exec_run(worker->world, worker->execs, worker->count, worker->options->timeout_seconds, err);
    if (worker->options->statistics != NULL)
        write_statistics(worker);
    return st;
}

static enum shunt_status check_locals(struct worker *worker, struct shunt_err *err)
{
    struct contents_poll poll = contents_poll_world(worker->world);
    struct contents_expect expect = {.seed = worker->options->seed, .lineage = &worker->lineage};
    enum shunt_status st = SHUNT_OK;
    for (uint32_t i = 0; i < worker->count && st == SHUNT_OK; i++) {
        struct plan_result *result = &worker->results[i];
        memset(result, 0, sizeof(*result));
        result->device = worker->locals[i].device;
        shunt_exec_get_stats(worker->locals[i].exec, &result->stats);
        if (worker->options->check) {
            meet_beat(worker->world->meet, MEET_CHECKING, 0);
            st = contents_check(worker->locals[i].exec, &expect, &poll, &result->report, err);
        }
        result->done = 1;
    }
    return st;
}

static enum shunt_status judge_result(const struct worker *worker, const struct plan_result *result,
                                      struct shunt_err *err)
{
    const struct contents_report *report = &result->report;
    const char *path = worker->chain->paths[worker->plan];
    if (!worker->options->check)
        return SHUNT_OK;
    if (report->wrong_bytes != 0 || report->never_bytes != 0)
        return shunt_fail(err, SHUNT_ERR_CHECK,
                          "%s: check failed: device %u: %" PRIu64 " bytes wrong, %" PRIu64 " never written; %s", path,
                          result->device, report->wrong_bytes, report->never_bytes, report->first);
    if (result->stats.peak_bytes > result->stats.plan_peak_bytes)
        return shunt_fail(err, SHUNT_ERR_CHECK,
                          "%s: check failed: device %u had %" PRIu64 " bytes live, plan says at most %" PRIu64, path,
                          result->device, result->stats.peak_bytes, result->stats.plan_peak_bytes);
    return SHUNT_OK;
}

/* At the root: passes every result on, and finds the first bad one. */
static enum shunt_status judge_results(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    const struct worker *worker = ctx;
    const struct plan_result *results = all;
    enum shunt_status worst = SHUNT_OK;
    for (uint32_t i = 0; i < size; i++) {
        struct plan_result result = results[i];
        result.device = i;
        result.report.first[sizeof(result.report.first) - 1] = '\0';
        worker->sink->result(worker->sink->ctx, worker->plan, &result);
        if (worst == SHUNT_OK)
            worst = judge_result(worker, &result, err);
    }
    return worst;
}

static void pass_on(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->count; i++)
        worker->sink->result(worker->sink->ctx, worker->plan, &worker->results[i]);
}

static enum shunt_status run_plan(struct worker *worker, struct shunt_err *err)
{
    enum shunt_status st = open_plan(worker, err);
    if (st == SHUNT_OK)
        st = move(worker, err);
    if (st == SHUNT_OK)
        st = check_locals(worker, err);
    if (st != SHUNT_OK)
        return st;
    pass_on(worker);
    return world_vote(worker->world, worker->results, sizeof(*worker->results), "report", judge_results, worker,
                      worker->options->timeout_seconds, err);
}

static enum shunt_status close_plan(struct worker *worker, struct shunt_err *err)
{
    for (uint32_t i = 0; i < worker->count; i++) {
        close_exec(&worker->locals[i]);
        if (!memory_turn(&worker->locals[i].memory))
            return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: out of memory", worker->locals[i].device);
    }
    if (!worker->options->check)
        return SHUNT_OK;
    return lineage_advance(&worker->lineage, worker->chain->plans[worker->plan], err);
}

static enum shunt_status run_chain(struct worker *worker, struct shunt_err *err)
{
    for (worker->plan = 0;; worker->plan++) {
        enum shunt_status st = run_plan(worker, err);
        if (st != SHUNT_OK)
            return st;
        if (worker->plan + 1 == worker->chain->count)
            return worker->options->store == NULL ? SHUNT_OK : storing_write(&worker->storing, worker->execs, err);
        st = close_plan(worker, err);
        if (st != SHUNT_OK)
            return st;
    }
}

enum shunt_status worker_run(const struct options *options, const struct chain *chain, struct shunt_world *world,
                             const struct worker_sink *sink, struct shunt_err *err)
{
    struct worker worker = {
        .options = options, .chain = chain, .world = world, .sink = sink, .count = world->transport->local_count};
    struct shunt_err cause = {{0}};
    worker.locals = calloc(worker.count, sizeof(*worker.locals));
    worker.execs = calloc(worker.count, sizeof(*worker.execs));
    worker.results = calloc(worker.count, sizeof(*worker.results));
    enum shunt_status st = SHUNT_OK;
    if (worker.locals == NULL || worker.execs == NULL || worker.results == NULL)
        st = shunt_fail(&cause, SHUNT_ERR_NOMEM, "out of memory");
    if (st == SHUNT_OK)
        st = shunt_device_open(options->on != NULL ? options->on : device_host.name, &worker.on, &cause);
    for (uint32_t i = 0; i < worker.count && st == SHUNT_OK; i++) {
        worker.locals[i].device = world->transport->first_local + i;
        worker.locals[i].worker = &worker;
        worker.locals[i].memory.on = worker.on;
    }
    if (st == SHUNT_OK && options->journal != NULL)
        st = journals_make(options->journal, &cause);
    if (st == SHUNT_OK && options->statistics != NULL)
        st = statistics_make(options->statistics, world->transport->first_local, worker.count, world->transport->size,
                             &cause);
    if (st == SHUNT_OK)
        st = neighbours_check(chain, world, options->timeout_seconds, &cause);
    if (st == SHUNT_OK)
        st = storing_begin(&worker.storing, options, world, chain->plans[0], chain->plans[chain->count - 1], &cause);
    if (st == SHUNT_OK)
        st = run_chain(&worker, &cause);
    if (st != SHUNT_OK) {
        shunt_world_abandon(world, st, cause.text);
        shunt_fail(err, st, "%s", cause.text);
    }
    for (uint32_t i = 0; i < worker.count && worker.locals != NULL; i++) {
        close_exec(&worker.locals[i]);
        memory_finish(&worker.locals[i].memory);
    }
    world->on = worker.on; /* the transport may still hold on to it */
    storing_end(&worker.storing);
    lineage_finish(&worker.lineage);
    free(worker.locals);
    free(worker.execs);
    free(worker.results);
    return st;
}
