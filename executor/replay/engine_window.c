/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/engine.h"

static enum shunt_status move_bytes(struct engine_window *window, void *dst, const void *src, struct shunt_err *err)
{
    const struct engine *engine = window->engine;
    const struct device_ops *ops = engine->on->ops;
    struct shunt_err cause = {{0}};
    enum shunt_status st =
        ops->copy(engine->on, engine->stream, dst, src, engine->part.buffers[window->buffer].bytes, &cause);
    if (st == SHUNT_OK)
        st = ops->stream_finish(engine->on, engine->stream, engine->timeout_seconds, &cause);
    if (st == SHUNT_OK)
        return SHUNT_OK;
    window->lost = true;
    return shunt_fail(err, st, "device %u: %s: %s", engine->device, engine->buffers[window->buffer].name, cause.text);
}

enum shunt_status engine_window_open(const struct engine *engine, uint32_t buffer, bool fetch,
                                     struct engine_window *window_out, struct shunt_err *err)
{
    const struct shunt_plan_buffer *plan = &engine->part.buffers[buffer];
    struct engine_window window = {.engine = engine, .buffer = buffer, .data = engine->buffers[buffer].data};
    struct shunt_err cause = {{0}};
    enum shunt_status st = SHUNT_OK;
    window.copied = engine->on->ops->asynchronous && plan->tier == SHUNT_TIER_DEVICE && plan->bytes > 0;
    if (window.copied) {
        st = engine->on->ops->alloc_host(engine->on, plan->bytes, &window.data, &cause);
        if (st != SHUNT_OK)
            return shunt_fail(err, st, "device %u: no host memory for a copy of %s: %s", engine->device,
                              engine->buffers[buffer].name, cause.text);
    }
    if (window.copied && fetch)
        st = move_bytes(&window, window.data, engine->buffers[buffer].data, err);
    if (st == SHUNT_OK)
        *window_out = window;
    else
        engine_window_close(&window, false, NULL);
    return st;
}

enum shunt_status engine_window_close(struct engine_window *window, bool store, struct shunt_err *err)
{
    const struct engine *engine = window->engine;
    enum shunt_status st = SHUNT_OK;
    if (window->copied && store)
        st = move_bytes(window, engine->buffers[window->buffer].data, window->data, err);
    if (window->copied && !window->lost)
        engine->on->ops->free_host(engine->on, window->data, engine->part.buffers[window->buffer].bytes);
    window->data = NULL;
    return st;
}
