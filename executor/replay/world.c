/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verdict {
    uint32_t status;
    char text[1024];
};
_Static_assert(sizeof(struct verdict) <= TRANSPORT_SHARE_MAX, "a verdict fits a share");

enum shunt_status world_open(const struct transport_ops *ops, const struct transport_config *config,
                             struct shunt_world **world_out, struct shunt_err *err)
{
    struct shunt_world *world = calloc(1, sizeof(*world));
    if (world == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    world->meet = config->meet;
    enum shunt_status st = ops->open(config, &world->transport, err);
    if (st != SHUNT_OK) {
        free(world);
        return st;
    }
    *world_out = world;
    return SHUNT_OK;
}

enum shunt_status shunt_world_open(const struct shunt_world_config *config, struct shunt_world **world_out,
                                   struct shunt_err *err)
{
    const struct transport_ops *ops;
    enum shunt_status st = transport_find(config->transport, &ops, err);
    if (st != SHUNT_OK)
        return st;
    if (config->size == 0 || config->size > SHUNT_PLAN_MAX_DEVICES || config->rank >= config->size)
        return shunt_fail(err, SHUNT_ERR_USAGE, "rank %u of %u devices", config->rank, config->size);
    struct transport_config own = {
        .rank = config->rank, .size = config->size, .timeout_seconds = config->timeout_seconds};
    if (strcmp(ops->name, "loopback") != 0) {
        if (config->meet_dir == NULL || config->job == NULL)
            return shunt_fail(err, SHUNT_ERR_USAGE, "transport %s needs a meeting directory and a job name", ops->name);
        st = store_dir_open(config->meet_dir, config->job, config->rank, config->size, &own.meet, err);
        if (st != SHUNT_OK)
            return st;
    }
    struct shunt_err cause = {{0}};
    st = world_open(ops, &own, world_out, &cause);
    if (st == SHUNT_OK) {
        (*world_out)->owns_meet = true;
        return SHUNT_OK;
    }
    meet_report_failure(own.meet, config->rank, config->rank, st, cause.text);
    meet_close(own.meet);
    return shunt_fail(err, st, "%s", cause.text);
}

enum shunt_status shunt_world_poll(struct shunt_world *world, struct shunt_err *err)
{
    enum shunt_status st = meet_poll(world->meet, false, err);
    return st == SHUNT_OK ? world->transport->ops->poll(world->transport, err) : st;
}

void shunt_world_abandon(struct shunt_world *world, enum shunt_status status, const char *cause)
{
    if (!world->told)
        world->transport->ops->abandon(world->transport, status, cause);
    world->told = true;
}

void shunt_world_close(struct shunt_world *world)
{
    if (world == NULL)
        return;
    world->transport->ops->close(world->transport);
    shunt_device_close(world->on);
    if (world->owns_meet)
        meet_close(world->meet);
    free(world);
}

static enum shunt_status collect(struct shunt_world *world, const void *mine, size_t bytes, const char *what,
                                 world_judge judge, void *ctx, const struct deadline *deadline, struct verdict *verdict,
                                 struct shunt_err *err)
{
    struct transport *transport = world->transport;
    struct shunt_err text = {{0}};
    void *all = NULL;
    if (transport->root) {
        all = calloc(transport->size, bytes);
        if (all == NULL)
            return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for the records of %u devices", transport->size);
    }
    enum shunt_status st = transport->ops->gather(transport, mine, bytes, all, what, deadline, err);
    if (st == SHUNT_OK && transport->root) {
        verdict->status = (uint32_t)judge(ctx, all, transport->size, &text);
        memcpy(verdict->text, text.text, sizeof(verdict->text));
    }
    free(all);
    return st;
}

enum shunt_status world_vote(struct shunt_world *world, const void *mine, size_t bytes, const char *what,
                             world_judge judge, void *ctx, double timeout_seconds, struct shunt_err *err)
{
    struct deadline deadline = deadline_after(timeout_seconds);
    struct verdict verdict = {0};
    enum shunt_status st = collect(world, mine, bytes, what, judge, ctx, &deadline, &verdict, err);
    if (st != SHUNT_OK)
        return st;
    st = world->transport->ops->share(world->transport, &verdict, sizeof(verdict), what, &deadline, err);
    if (st != SHUNT_OK)
        return st;
    verdict.text[sizeof(verdict.text) - 1] = '\0';
    if (verdict.status > SHUNT_ERR_INTERNAL)
        return shunt_fail(err, SHUNT_ERR_TRANSPORT, "%s: a malformed verdict came from device 0", what);
    world->told = verdict.status != SHUNT_OK;
    if (verdict.status != SHUNT_OK)
        return shunt_fail(err, (enum shunt_status)verdict.status, "%s", verdict.text);
    return SHUNT_OK;
}

enum shunt_status world_share(struct shunt_world *world, void *bytes, size_t size, const char *what,
                              double timeout_seconds, struct shunt_err *err)
{
    struct deadline deadline = deadline_after(timeout_seconds);
    return world->transport->ops->share(world->transport, bytes, size, what, &deadline, err);
}
