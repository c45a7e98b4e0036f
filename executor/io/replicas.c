/* SPDX-License-Identifier: Apache-2.0 */
#include "io/replicas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/digest.h"

#define MAX_GATHERED (UINT64_C(4) << 30) /* bytes of records at the root */

/* One box that a device holds. The fields in front say which it is. */
struct replica {
    uint32_t tensor, state;
    int64_t lo[SHUNT_MAX_DIMS], shape[SHUNT_MAX_DIMS];
    uint64_t xxh3;
    uint32_t device; /* UINT32_MAX: no record */
    uint32_t unused;
};
#define WHICH_BYTES offsetof(struct replica, xxh3)

static uint32_t held_boxes(const struct engine *engine)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        if (shunt_plan_on_old_side(&engine->part.buffers[i]))
            count += engine->part.buffers[i].holding_count;
    }
    return count;
}

static void describe(const struct engine *engine, const struct engine_window *window, uint32_t holding,
                     struct replica *replica)
{
    uint32_t buffer = window->buffer;
    const struct shunt_plan_part *part = &engine->part;
    const struct shunt_plan_holding *held = &part->holdings[holding];
    const struct shunt_plan_view *view = &part->views[held->view];
    *replica = (struct replica){
        .tensor = part->buffers[buffer].tensor, .state = part->buffers[buffer].state, .device = engine->device};
    memcpy(replica->lo, part->corners[held->corner].lo, sizeof(replica->lo));
    memcpy(replica->shape, view->shape, sizeof(replica->shape));
    replica->xxh3 = digest_box((const char *)window->data + held->offset, view);
}

static enum shunt_status describe_all(const struct engine *engine, struct replica *replicas,
                                      const struct contents_poll *poll, struct shunt_err *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->part.header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &engine->part.buffers[i];
        if (!shunt_plan_on_old_side(buffer))
            continue;
        struct engine_window window;
        enum shunt_status st = engine_window_open(engine, i, true, &window, err);
        if (st != SHUNT_OK)
            return st;
        for (uint32_t h = 0; h < buffer->holding_count; h++)
            describe(engine, &window, buffer->holding_begin + h, &replicas[count++]);
        engine_window_close(&window, false, NULL);
        st = poll == NULL ? SHUNT_OK : poll->poll(poll->ctx, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

/* ---- at the root ----------------------------------------------------------------------- */

static enum shunt_status find_most(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    uint32_t *most = ctx;
    const uint32_t *counts = all;
    for (uint32_t i = 0; i < size; i++)
        *most = counts[i] > *most ? counts[i] : *most;
    if ((uint64_t)*most * size * sizeof(struct replica) > MAX_GATHERED)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "comparing replicas of %u devices with up to %u boxes each is not supported", size, *most);
    return SHUNT_OK;
}

static int compare_replicas(const void *a, const void *b)
{
    const struct replica *x = *(const struct replica *const *)a, *y = *(const struct replica *const *)b;
    int order = memcmp(x, y, WHICH_BYTES);
    if (order != 0)
        return order;
    return (x->device > y->device) - (x->device < y->device);
}

static void print_box(const struct replica *replica, uint32_t ndim, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t d = 0; d < ndim && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s[%" PRId64 ",%" PRId64 ")", d == 0 ? "" : " x ",
                                 replica->lo[d], replica->lo[d] + replica->shape[d]);
}

static enum shunt_status refuse(const struct shunt_plan *plan, const struct replica *one, const struct replica *other,
                                uint32_t differ, struct shunt_err *err)
{
    char box[300];
    const struct shunt_plan_tensor *tensor =
        shunt_plan_get_tensor(plan, one->tensor < shunt_plan_tensor_count(plan) ? one->tensor : 0);
    print_box(one, tensor->ndim, box, sizeof(box));
    return shunt_fail(err, SHUNT_ERR_CHECK,
                      "replicas differ, nothing was moved: %s/%s %s has other bytes on device %u (old rank %u) than on "
                      "device %u (old rank %u); %u boxes differ in all",
                      shunt_state_name(one->state), shunt_plan_string(plan, tensor->name), box, one->device,
                      shunt_plan_get_device(plan, one->device)->from_rank, other->device,
                      shunt_plan_get_device(plan, other->device)->from_rank, differ);
}

struct comparison {
    const struct shunt_plan *plan;
    uint32_t most; /* records of each device */
};

/* Boxes side by side: each against the first of its kind. */
static enum shunt_status compare_all(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    const struct comparison *comparison = ctx;
    const struct replica *records = all, *bad = NULL, *good = NULL;
    uint64_t count = 0;
    uint32_t differ = 0;
    const struct replica **order = calloc((size_t)size * comparison->most + 1, sizeof(const struct replica *));
    if (order == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory to compare replicas");
    for (uint64_t i = 0; i < (uint64_t)size * comparison->most; i++) {
        if (records[i].device < size && records[i].state < SHUNT_STATE_COUNT)
            order[count++] = &records[i];
    }
    if (count > 1)
        qsort(order, count, sizeof(const struct replica *), compare_replicas);
    for (uint64_t i = 1, first = 0; i < count; i++) {
        if (memcmp(order[first], order[i], WHICH_BYTES) != 0)
            first = i;
        if (order[first]->xxh3 == order[i]->xxh3)
            continue;
        if (differ++ == 0) {
            bad = order[i];
            good = order[first];
        }
    }
    free(order);
    return differ == 0 ? SHUNT_OK : refuse(comparison->plan, bad, good, differ, err);
}

/* ---- everybody ------------------------------------------------------------------------- */

static enum shunt_status agree_on_most(struct shunt_world *world, struct shunt_exec *const *execs, uint32_t count,
                                       double timeout_seconds, uint32_t *most, struct shunt_err *err)
{
    uint32_t *counts = calloc(count, sizeof(*counts));
    if (counts == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < count; i++)
        counts[i] = held_boxes(&execs[i]->engine);
    enum shunt_status st =
        world_vote(world, counts, sizeof(*counts), "number of replicas", find_most, most, timeout_seconds, err);
    free(counts);
    return st == SHUNT_OK ? world_share(world, most, sizeof(*most), "number of replicas", timeout_seconds, err) : st;
}

enum shunt_status replicas_compare(struct shunt_world *world, struct shunt_exec *const *execs, uint32_t count,
                                   const struct contents_poll *poll, double timeout_seconds, struct shunt_err *err)
{
    struct comparison comparison = {.plan = execs[0]->engine.plan};
    if (!digest_available())
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED, "comparing replicas is not supported: built without xxhash");
    enum shunt_status st = agree_on_most(world, execs, count, timeout_seconds, &comparison.most, err);
    if (st != SHUNT_OK)
        return st;
    size_t each = (size_t)comparison.most * sizeof(struct replica);
    struct replica *replicas = malloc(count * each + 1);
    if (replicas == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for the checksums of %u boxes", comparison.most);
    memset(replicas, 0xFF, count * each);
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++)
        st = describe_all(&execs[i]->engine, replicas + (size_t)i * comparison.most, poll, err);
    if (st == SHUNT_OK)
        st =
            world_vote(world, replicas, each, "comparison of replicas", compare_all, &comparison, timeout_seconds, err);
    free(replicas);
    return st;
}
