/* SPDX-License-Identifier: Apache-2.0 */
/* Open, verify, bind, close: the life of one device's replay. The run itself is in replay/run.c. */
#include "replay/exec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "replay/checksum.h"
#include "replay/rounds.h"
#include "shunt/verify.h"

static const char *const state_names[] = {"opened", "verified", "bound", "running", "done", "failed"};

enum shunt_status shunt_exec_open(const struct shunt_exec_config *config, struct shunt_exec **exec_out,
                                  struct shunt_err *err)
{
    const struct shunt_plan *plan = config->plan;
    enum shunt_status st = SHUNT_OK;
    struct shunt_exec *exec = calloc(1, sizeof(*exec));
    if (exec == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    if (plan == NULL) {
        st = shunt_plan_open(config->plan_path, &exec->own_plan, err);
        if (st != SHUNT_OK)
            goto err_free;
        plan = exec->own_plan;
    }
    uint32_t devices = shunt_plan_get_header(plan)->device_count;
    if (config->device >= devices) {
        st = shunt_fail(err, SHUNT_ERR_USAGE, "device %u: the plan has %u devices", config->device, devices);
        goto err_close;
    }
    struct shunt_device *on = config->on != NULL ? config->on : device_of_host();
    if (config->stream != NULL && !on->ops->asynchronous) {
        st = shunt_fail(err, SHUNT_ERR_USAGE, "device %u: a stream is given, and %s memory has none", config->device,
                        on->ops->name);
        goto err_close;
    }
    st = engine_init(&exec->engine, plan, config->device, on, config->stream, config->track_writes != 0, err);
    if (st != SHUNT_OK)
        goto err_close;
    if (config->checksum != 0)
        st = checksum_create(&exec->engine, &exec->engine.checksum, err);
    if (st == SHUNT_OK && config->round_figures != 0)
        st = rounds_create(&exec->engine, &exec->engine.rounds, err);
    if (st == SHUNT_OK && config->journal_path != NULL)
        st = journal_open(config->journal_path, plan, config->device, &exec->journal, err);
    if (st != SHUNT_OK)
        goto err_engine;
    exec->engine.memory = config->memory;
    exec->progress = config->progress;
    *exec_out = exec;
    return SHUNT_OK;
err_engine:
    engine_finish(&exec->engine);
err_close:
    shunt_plan_close(exec->own_plan);
err_free:
    free(exec);
    return st;
}

static enum shunt_status wrong_state(const struct shunt_exec *exec, const char *call, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_USAGE, "device %u: %s called in state %s", exec->engine.device, call,
                      state_names[exec->state]);
}

static void set_verified(struct shunt_exec *exec)
{
    exec->state = exec->engine.unbound == 0 ? SHUNT_EXEC_BOUND : SHUNT_EXEC_VERIFIED;
}

enum shunt_status shunt_exec_trust(struct shunt_exec *exec, struct shunt_err *err)
{
    if (exec->state != SHUNT_EXEC_OPENED)
        return wrong_state(exec, "trust", err);
    set_verified(exec);
    return SHUNT_OK;
}

enum shunt_status shunt_exec_verify(struct shunt_exec *exec, struct shunt_err *err)
{
    if (exec->state != SHUNT_EXEC_OPENED)
        return wrong_state(exec, "verify", err);
    struct shunt_verify_report *report = calloc(1, sizeof(*report));
    if (report == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    enum shunt_status st = shunt_plan_verify(exec->engine.plan, report, err);
    free(report);
    return st == SHUNT_OK ? shunt_exec_trust(exec, err) : st;
}

static enum shunt_status check_binding(const struct shunt_exec *exec, uint32_t index, unsigned dtype, const void *data,
                                       uint64_t bytes, struct shunt_err *err)
{
    const struct shunt_plan_buffer *plan = &exec->engine.part.buffers[index];
    const char *name = exec->engine.buffers[index].name;
    if (bytes != plan->bytes)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "buffer table changed: %s has %" PRIu64 " bytes, plan says %" PRIu64,
                          name, bytes, plan->bytes);
    if (dtype != plan->dtype) {
        const char *got = shunt_dtype_name(dtype);
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "buffer table changed: %s is %s, plan says %s", name,
                          got == NULL ? "of no known dtype" : got, shunt_dtype_name(plan->dtype));
    }
    if ((data == NULL && bytes != 0) || (uintptr_t)data % shunt_dtype_bytes(plan->dtype) != 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "%s: address %p is not aligned to %u bytes", name, data,
                          shunt_dtype_bytes(plan->dtype));
    return SHUNT_OK;
}

/* The buffer that an entry names, if it fits. */
static enum shunt_status find_binding(const struct shunt_exec *exec, const struct shunt_exec_binding *entry,
                                      uint32_t *index_out, struct shunt_err *err)
{
    int64_t found = entry->side == SHUNT_SIDE_SCRATCH ? -1 : engine_find(&exec->engine, entry->name, entry->side);
    if (found < 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "buffer table changed: the plan has no %s buffer %s on device %u",
                          entry->side == SHUNT_SIDE_TO ? "new-side" : "old-side", entry->name, exec->engine.device);
    *index_out = (uint32_t)found;
    return check_binding(exec, *index_out, entry->dtype, entry->data, entry->bytes, err);
}

enum shunt_status shunt_exec_bind_all(struct shunt_exec *exec, const struct shunt_exec_binding *table, uint32_t count,
                                      struct shunt_err *err)
{
    uint32_t index;
    if (exec->state != SHUNT_EXEC_VERIFIED && exec->state != SHUNT_EXEC_BOUND)
        return wrong_state(exec, "bind", err);
    for (uint32_t i = 0; i < count; i++) {
        enum shunt_status st = find_binding(exec, &table[i], &index, err);
        if (st != SHUNT_OK)
            return st;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (find_binding(exec, &table[i], &index, NULL) == SHUNT_OK)
            engine_bind(&exec->engine, index, table[i].dtype, table[i].data, table[i].bytes);
    }
    set_verified(exec);
    return SHUNT_OK;
}

enum shunt_status shunt_exec_bind(struct shunt_exec *exec, enum shunt_plan_side side, const char *name, unsigned dtype,
                                  void *data, uint64_t bytes, struct shunt_err *err)
{
    struct shunt_exec_binding entry = {.side = side, .name = name, .dtype = dtype, .data = data, .bytes = bytes};
    return shunt_exec_bind_all(exec, &entry, 1, err);
}

enum shunt_status shunt_exec_reset(struct shunt_exec *exec, struct shunt_err *err)
{
    if (exec->state == SHUNT_EXEC_OPENED || exec->state == SHUNT_EXEC_RUNNING)
        return wrong_state(exec, "reset", err);
    engine_end(&exec->engine);
    engine_reset(&exec->engine);
    journal_reset(exec->journal);
    set_verified(exec);
    return SHUNT_OK;
}

void *shunt_exec_get_stream(const struct shunt_exec *exec)
{
    return exec->engine.stream;
}

enum shunt_exec_state shunt_exec_get_state(const struct shunt_exec *exec)
{
    return exec->state;
}

const struct shunt_plan *shunt_exec_get_plan(const struct shunt_exec *exec)
{
    return exec->engine.plan;
}

void shunt_exec_get_stats(const struct shunt_exec *exec, struct shunt_exec_stats *stats_out)
{
    *stats_out = exec->engine.stats;
}

const struct shunt_exec_round *shunt_exec_get_rounds(const struct shunt_exec *exec, uint32_t *count_out)
{
    *count_out = exec->engine.rounds == NULL ? 0 : exec->engine.header->round_count;
    return *count_out == 0 ? NULL : exec->engine.rounds->list;
}

uint32_t shunt_exec_buffer_count(const struct shunt_exec *exec)
{
    return exec->engine.part.header->buffer_count;
}

void shunt_exec_get_buffer(const struct shunt_exec *exec, uint32_t index, struct shunt_exec_buffer *buffer_out)
{
    const struct shunt_plan_buffer *plan = &exec->engine.part.buffers[index];
    const struct shunt_plan_view *view = &exec->engine.part.views[plan->view];
    const struct engine_buffer *own = &exec->engine.buffers[index];
    *buffer_out = (struct shunt_exec_buffer){.name = own->name,
                                             .state = plan->state,
                                             .dtype = plan->dtype,
                                             .side = plan->side,
                                             .tier = plan->tier,
                                             .ndim = view->ndim,
                                             .bytes = plan->bytes,
                                             .data = own->data};
    for (uint32_t d = 0; d < view->ndim; d++)
        buffer_out->shape[d] = view->shape[d];
    if (plan->bytes == 0)
        buffer_out->shape[0] = 0;
}

void shunt_exec_close(struct shunt_exec *exec)
{
    if (exec == NULL)
        return;
    engine_finish(&exec->engine);
    journal_close(exec->journal);
    shunt_plan_close(exec->own_plan);
    free(exec);
}
