/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/nccl.h"

#include <string.h>

#define WARM_PEERS   16u  /* of one slice of the pair round */
#define BOUNCE_ALIGN 128u /* NCCL copies byte by byte what is not aligned to 16 */
#define FREE_SECONDS 0.5

static size_t aligned(uint64_t bytes)
{
    return (bytes + BOUNCE_ALIGN - 1) / BOUNCE_ALIGN * BOUNCE_ALIGN;
}

static struct nccl_group *find_group(struct nccl *nccl, bool posted, uint32_t round)
{
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++) {
        struct nccl_group *group = &nccl->groups[i];
        if ((group->messages != NULL) == posted && (!posted || group->round == round))
            return group;
    }
    return NULL;
}

static void add_peers(const struct transport_message *messages, uint32_t count, struct waited *peers)
{
    for (uint32_t i = 0; i < count; i++)
        waited_add(peers, messages[i].peer);
}

/* ---- groups ----------------------------------------------------------------------------- */

static ncclResult_t put(const struct nccl *nccl, const struct transport_message *m, void *data)
{
    cudaStream_t stream = nccl->on->wire;
    if (m->direction == SHUNT_SEND)
        return nccl->api->ncclSend(data, m->bytes, ncclUint8, (int)m->peer, nccl->comm, stream);
    return nccl->api->ncclRecv(data, m->bytes, ncclUint8, (int)m->peer, nccl->comm, stream);
}

/* Two processes meet in the same slice, and in each one a process meets no more than WARM_PEERS others. */
static uint32_t slice_of(const struct nccl *nccl, uint32_t peer)
{
    return (nccl->members.self + peer) % nccl->base.size / WARM_PEERS;
}

static bool in_slice(const struct nccl *nccl, const struct transport_message *m, uint32_t slice)
{
    return m->bytes > 0 && (slice == UINT32_MAX || slice_of(nccl, m->peer) == slice);
}

/* @param bounce  where host messages lie, one after the other; NULL: device messages, where they are */
static enum shunt_status start_group(struct nccl *nccl, const struct nccl_group *group, uint32_t slice, char *bounce,
                                     struct shunt_err *err)
{
    ncclResult_t result = nccl->api->ncclGroupStart();
    if (result != ncclSuccess)
        return nccl_fail(nccl, "ncclGroupStart", result, err);
    for (uint32_t i = 0; i < group->count && (result == ncclSuccess || result == ncclInProgress); i++) {
        const struct transport_message *m = &group->messages[i];
        if (in_slice(nccl, m, slice))
            result = put(nccl, m, bounce != NULL ? bounce : m->data);
        bounce = bounce != NULL ? bounce + aligned(m->bytes) : NULL;
    }
    ncclResult_t end = nccl->api->ncclGroupEnd();
    if (result != ncclSuccess && result != ncclInProgress)
        return nccl_fail(nccl, "ncclSend or ncclRecv", result, err);
    if (end != ncclSuccess && end != ncclInProgress)
        return nccl_fail(nccl, "ncclGroupEnd", end, err);
    return SHUNT_OK;
}

/* Until all of the group is on the stream: the first time, a peer may keep us waiting. */
static enum shunt_status finish_group(struct nccl *nccl, const struct nccl_group *group,
                                      const struct deadline *deadline, struct shunt_err *err)
{
    struct waited peers = {0};
    add_peers(group->messages, group->count, &peers);
    return nccl_comm_ready(nccl, "ncclGroupEnd", &peers, deadline, err);
}

/* ---- host memory ------------------------------------------------------------------------ */

void nccl_bounce_free(struct nccl *nccl)
{
    if (nccl->on == NULL)
        return;
    const struct device_ops *ops = nccl->on->base.ops;
    if (nccl->bounce != NULL &&
        ops->stream_finish(&nccl->on->base, ops->wire(&nccl->on->base), FREE_SECONDS, NULL) != SHUNT_OK)
        return; /* what the stream may still use is left to the end of the process */
    ops->event_destroy(&nccl->on->base, nccl->bounced);
    ops->free_host(&nccl->on->base, nccl->bounce, nccl->bounce_bytes);
    nccl->bounced = NULL;
    nccl->bounce = NULL;
    nccl->bounce_bytes = 0;
}

static enum shunt_status make_bounce(struct nccl *nccl, size_t bytes, struct shunt_err *err)
{
    struct shunt_device *on = &nccl->on->base;
    void *fresh;
    if (bytes > nccl->bounce_bytes) {
        enum shunt_status st = on->ops->alloc_host(on, bytes, &fresh, err);
        if (st != SHUNT_OK)
            return st;
        on->ops->free_host(on, nccl->bounce, nccl->bounce_bytes);
        nccl->bounce = fresh;
        nccl->bounce_bytes = bytes;
    }
    return nccl->bounced != NULL ? SHUNT_OK : on->ops->event_create(on, false, &nccl->bounced, err);
}

static void copy_bounce(struct nccl *nccl, const struct nccl_group *group, bool out)
{
    char *at = nccl->bounce;
    for (uint32_t i = 0; i < group->count; i++) {
        struct transport_message *m = &group->messages[i];
        if (out && m->direction == SHUNT_SEND)
            memcpy(at, m->data, m->bytes);
        if (!out && m->direction == SHUNT_RECV)
            memcpy(m->data, at, m->bytes);
        at += aligned(m->bytes);
    }
}

/* Until the stream has done it. */
static enum shunt_status wait_for_bounce(struct nccl *nccl, const struct nccl_group *group,
                                         const struct deadline *deadline, struct shunt_err *err)
{
    struct shunt_device *on = &nccl->on->base;
    struct waited peers = {0};
    enum shunt_status st = on->ops->event_record(on, nccl->bounced, on->ops->wire(on), err);
    add_peers(group->messages, group->count, &peers);
    for (uint32_t turns = 0; st == SHUNT_OK; turns++) {
        bool done;
        st = on->ops->event_poll(on, nccl->bounced, &done, err);
        if (st != SHUNT_OK || done)
            return st;
        st = nccl_poll(&nccl->base, err);
        if (st == SHUNT_OK && deadline_passed(deadline))
            return members_late(&nccl->members, &peers, deadline->seconds, err);
        clock_rest(turns);
    }
    return st;
}

static bool slice_is_empty(const struct nccl *nccl, const struct nccl_group *group, uint32_t slice)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (in_slice(nccl, &group->messages[i], slice))
            return false;
    }
    return true;
}

static enum shunt_status exchange_host(struct nccl *nccl, const struct nccl_group *group,
                                       const struct deadline *deadline, struct shunt_err *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < group->count; i++)
        bytes += aligned(group->messages[i].bytes);
    if (bytes == 0)
        return SHUNT_OK;
    enum shunt_status st = make_bounce(nccl, bytes, err);
    if (st != SHUNT_OK)
        return st;
    copy_bounce(nccl, group, true);
    for (uint32_t slice = 0; slice <= (nccl->base.size - 1) / WARM_PEERS && st == SHUNT_OK; slice++) {
        if (slice_is_empty(nccl, group, slice))
            continue;
        st = start_group(nccl, group, slice, nccl->bounce, err);
        if (st == SHUNT_OK)
            st = finish_group(nccl, group, deadline, err);
    }
    if (st == SHUNT_OK)
        st = wait_for_bounce(nccl, group, deadline, err);
    if (st == SHUNT_OK)
        copy_bounce(nccl, group, false);
    return st;
}

/* ---- rounds ------------------------------------------------------------------------------- */

enum shunt_status nccl_post(struct transport *transport, uint32_t device, uint32_t round,
                            struct transport_message *messages, uint32_t count, struct shunt_err *err)
{
    struct nccl *nccl = (struct nccl *)transport;
    struct nccl_group *group = find_group(nccl, false, 0);
    (void)device;
    if (count == 0)
        return SHUNT_OK;
    if (group == NULL)
        return shunt_fail(err, SHUNT_ERR_INTERNAL, "round %u: posted before others were waited for", round);
    *group = (struct nccl_group){.messages = messages, .count = count, .round = round};
    members_enter(&nccl->members, round);
    return round >= TRANSPORT_PAIR_ROUND ? SHUNT_OK : start_group(nccl, group, UINT32_MAX, NULL, err);
}

enum shunt_status nccl_wait(struct transport *transport, uint32_t round, const struct deadline *deadline,
                            struct shunt_err *err)
{
    struct nccl *nccl = (struct nccl *)transport;
    struct nccl_group *group = find_group(nccl, true, round);
    members_enter(&nccl->members, round);
    if (group == NULL)
        return nccl_poll(transport, err);
    enum shunt_status st = round >= TRANSPORT_PAIR_ROUND ? exchange_host(nccl, group, deadline, err)
                                                         : finish_group(nccl, group, deadline, err);
    for (uint32_t i = 0; i < group->count && st == SHUNT_OK; i++)
        group->messages[i].arrived = group->messages[i].bytes;
    group->messages = NULL;
    return st;
}

enum shunt_status nccl_late(struct transport *transport, uint32_t round, struct transport_message *messages,
                            uint32_t count, double seconds, struct shunt_err *err)
{
    struct nccl *nccl = (struct nccl *)transport;
    struct waited peers = {0};
    members_enter(&nccl->members, round);
    add_peers(messages, count, &peers);
    enum shunt_status st = members_late(&nccl->members, &peers, seconds, err);
    for (uint32_t i = 0; i < count; i++)
        messages[i].arrived = waited_names(&peers, messages[i].peer) ? 0 : messages[i].bytes;
    return st;
}
