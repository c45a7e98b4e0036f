/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/nccl.h"

#include <stdio.h>
#include <stdlib.h>

static bool progress(void *ctx)
{
    return star_progress(((struct nccl *)ctx)->star);
}

static bool take_last_words(void *ctx, struct meet_lost *lost_out)
{
    return star_take_last_words(((struct nccl *)ctx)->star, lost_out);
}

static void close_all(struct transport *transport)
{
    struct nccl *nccl = (struct nccl *)transport;
    nccl_comm_close(nccl);
    nccl_bounce_free(nccl);
    star_close(nccl->star);
    free(nccl->members.list);
    free(nccl);
}

static enum shunt_status meet_all(struct nccl *nccl, const struct deadline *deadline, struct shunt_err *err)
{
    struct member_hello *hellos = calloc(nccl->base.size, sizeof(*hellos));
    if (hellos == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u devices", nccl->base.size);
    meet_beat(nccl->members.meet, MEET_MEETING, 0);
    enum shunt_status st = members_meet(&nccl->members, hellos, deadline, err);
    uint32_t crc = shunt_crc32c(0, hellos, nccl->base.size * sizeof(*hellos));
    free(hellos);
    return st == SHUNT_OK ? star_open(&nccl->members, crc, deadline, &nccl->star, err) : st;
}

static enum shunt_status look(struct shunt_err *err)
{
    const struct nccl_api *api;
    struct shunt_err cause = {{0}};
    enum shunt_status st = nccl_api_get(&api, &cause);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "transport nccl: %s", cause.text);
}

static enum shunt_status open_transport(const struct transport_config *config, struct transport **transport_out,
                                        struct shunt_err *err)
{
    struct deadline deadline = deadline_after(config->timeout_seconds);
    const struct nccl_api *api;
    struct shunt_err cause = {{0}};
    enum shunt_status st = nccl_api_get(&api, &cause);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "transport nccl: %s", cause.text);
    struct nccl *nccl = calloc(1, sizeof(*nccl));
    struct member *list = calloc(config->size, sizeof(*list));
    if (nccl == NULL || list == NULL) {
        free(nccl);
        free(list);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u devices", config->size);
    }
    *nccl = (struct nccl){.base = {.ops = &transport_nccl,
                                   .size = config->size,
                                   .first_local = config->rank,
                                   .local_count = 1,
                                   .root = config->rank == 0},
                          .api = api,
                          .members = {.meet = config->meet,
                                      .size = config->size,
                                      .self = config->rank,
                                      .list = list,
                                      .lost_device = config->rank, /* until an error names another one */
                                      .patience_seconds = 1.4,     /* a group is waited for as a whole */
                                      .ctx = nccl,
                                      .progress = progress,
                                      .take_last_words = take_last_words},
                          .timeout_seconds = config->timeout_seconds};
    snprintf(nccl->base.library, sizeof(nccl->base.library), "NCCL %d", api->version);
    snprintf(nccl->members.where, sizeof(nccl->members.where), "at the meeting");
    st = meet_all(nccl, &deadline, err);
    if (st != SHUNT_OK)
        close_all(&nccl->base);
    else
        *transport_out = &nccl->base;
    return st;
}

static enum shunt_status prepare(struct transport *transport, uint32_t device, const struct transport_needs *needs,
                                 struct shunt_err *err)
{
    struct nccl *nccl = (struct nccl *)transport;
    if (needs->on->ops != &device_cuda || (nccl->on != NULL && &nccl->on->base != needs->on))
        return shunt_fail(err, SHUNT_ERR_USAGE, "device %u: transport nccl moves the memory of one CUDA device",
                          device);
    nccl->on = (struct cuda_device *)needs->on;
    return nccl->comm == NULL ? nccl_comm_open(nccl, err) : SHUNT_OK;
}

static enum shunt_status gather(struct transport *transport, const void *mine, size_t bytes, void *all,
                                const char *what, const struct deadline *deadline, struct shunt_err *err)
{
    return star_gather(((struct nccl *)transport)->star, mine, bytes, all, what, deadline, err);
}

static enum shunt_status share(struct transport *transport, void *bytes, size_t size, const char *what,
                               const struct deadline *deadline, struct shunt_err *err)
{
    return star_share(((struct nccl *)transport)->star, bytes, size, what, deadline, err);
}

/* Others first: they wait for a word, and NCCL may take its time. */
static void abandon(struct transport *transport, enum shunt_status status, const char *cause)
{
    struct nccl *nccl = (struct nccl *)transport;
    struct members *members = &nccl->members;
    if (status != SHUNT_ERR_PEER && status != SHUNT_ERR_TIMEOUT)
        members->lost_device = members->self;
    meet_report_failure(members->meet, members->self, members->lost_device, status, cause);
    star_last_words(nccl->star, status, members->meet->seen_lost ? members->meet->lost.text : cause);
    nccl_comm_abort(nccl);
}

const struct transport_ops transport_nccl = {
    .name = "nccl",
    .device = "cuda",
    .device_memory = true,
    .look = look,
    .open = open_transport,
    .prepare = prepare,
    .post = nccl_post,
    .wait = nccl_wait,
    .late = nccl_late,
    .gather = gather,
    .share = share,
    .poll = nccl_poll,
    .abandon = abandon,
    .close = close_all,
};
