/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a round: tag sends and receives, all posted at once, then waited for together. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ucx.h"

#define CANCEL_SECONDS 0.25
#define DRAIN_TURNS    1000u
#define CONTROL_TURNS  64u /* look after the control worker at least this often */

/* 16 bits of sequence, 22 of round, 20 of sender. */
static uint64_t data_tag(const struct ucx *ucx, uint32_t round, uint32_t sender)
{
    return (uint64_t)(ucx->base.sequence & 0xFFFF) << 42 | (uint64_t)round << 20 | sender;
}

static bool make_room(struct ucx *ucx, uint32_t room)
{
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++) {
        struct ucx_request *requests = realloc(ucx->groups[i].requests, room * sizeof(*requests));
        if (requests == NULL)
            return false;
        ucx->groups[i].requests = requests;
    }
    ucx->request_room = room;
    return true;
}

enum shunt_status ucx_prepare(struct transport *transport, uint32_t device, const struct transport_needs *needs,
                              struct shunt_err *err)
{
    (void)device;
    struct ucx *ucx = (struct ucx *)transport;
    if (needs->max_messages > ucx->request_room && !make_room(ucx, needs->max_messages))
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u requests", needs->max_messages);
    for (uint32_t i = 0; i < needs->peer_count; i++) {
        struct ucx_peer *peer = &ucx->peers[needs->peers[i]];
        if (peer->data_ep != NULL)
            continue;
        const struct ucx_worker *worker = peer->here ? &ucx->local : &ucx->remote;
        enum shunt_status st = ucx_endpoint(peer, worker, !peer->here, &peer->data_ep, err);
        if (st != SHUNT_OK)
            return ucx_explain(ucx, st, err);
    }
    return SHUNT_OK;
}

/* ---- requests ------------------------------------------------------------------- */

static void request_done(struct ucx_request *request, ucs_status_t status)
{
    struct ucx_group *group = request->group;
    request->handle = NULL;
    request->done = true;
    group->pending--;
    if (status != UCS_OK && status != UCS_ERR_CANCELED)
        ucx_note_failure(group->owner, request->message->peer, status);
}

static void on_sent(void *handle, ucs_status_t status, void *user_data)
{
    request_done(user_data, status);
    ucx_api.ucp_request_free(handle);
}

static void on_received(void *handle, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct ucx_request *request = user_data;
    if (status == UCS_OK)
        request->message->arrived = info->length;
    request_done(request, status);
    ucx_api.ucp_request_free(handle);
}

static void start(struct ucx_group *group, struct transport_message *message)
{
    struct ucx *ucx = group->owner;
    struct ucx_request *request = &group->requests[group->count++];
    struct ucx_peer *peer = &ucx->peers[message->peer];
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .user_data = request};
    ucs_status_ptr_t handle;
    *request = (struct ucx_request){.group = group, .message = message};
    group->pending++;
    if (message->direction == SHUNT_SEND) {
        param.cb.send = on_sent;
        handle = ucx_api.ucp_tag_send_nbx(peer->data_ep, message->data, message->bytes,
                                          data_tag(ucx, group->round, ucx->base.first_local), &param);
    } else {
        param.cb.recv = on_received;
        message->arrived = 0;
        handle =
            ucx_api.ucp_tag_recv_nbx(peer->here ? ucx->local.worker : ucx->remote.worker, message->data, message->bytes,
                                     data_tag(ucx, group->round, message->peer), UINT64_MAX, &param);
    }
    if (!UCS_PTR_IS_PTR(handle))
        request_done(request, UCS_PTR_STATUS(handle));
    else if (!request->done) /* the callback may have run inside the call, and freed it */
        request->handle = handle;
}

static struct ucx_group *find_group(struct ucx *ucx, bool posted, uint32_t round)
{
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++) {
        if (ucx->groups[i].posted == posted && (!posted || ucx->groups[i].round == round))
            return &ucx->groups[i];
    }
    return NULL;
}

enum shunt_status ucx_post(struct transport *transport, uint32_t device, uint32_t round,
                           struct transport_message *messages, uint32_t count, struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    struct ucx_group *group = find_group(ucx, false, 0);
    (void)device;
    if (group == NULL || count > ucx->request_room)
        return shunt_fail(err, SHUNT_ERR_INTERNAL, "round %u: %u messages posted%s, room for %u", round, count,
                          group == NULL ? " before others were waited for" : "", ucx->request_room);
    group->posted = true;
    group->round = round;
    group->count = 0;
    for (uint32_t i = 0; i < count; i++) { /* receives first, so that data finds its place */
        if (messages[i].direction == SHUNT_RECV)
            start(group, &messages[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (messages[i].direction == SHUNT_SEND)
            start(group, &messages[i]);
    }
    return SHUNT_OK;
}

/* ---- wait ----------------------------------------------------------------------- */

static enum shunt_status time_out(struct ucx *ucx, const struct ucx_group *group, double seconds, struct shunt_err *err)
{
    char names[400] = "", silent[400];
    size_t used = 0;
    uint64_t bytes = 0;
    struct waited waited = {0};
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->requests[i].handle != NULL) {
            waited_add(&waited, group->requests[i].message->peer);
            bytes += group->requests[i].message->bytes;
        }
    }
    enum shunt_status st = members_hear_waiters(&ucx->members, &waited, err);
    if (st != SHUNT_OK)
        return st;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct ucx_request *request = &group->requests[i];
        char who[160];
        if (request->handle == NULL || !waited_names(&waited, request->message->peer))
            continue;
        members_print(&ucx->members, request->message->peer, who, sizeof(who));
        if (used + 200 < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s %s", used == 0 ? "" : ", ",
                                     request->message->direction == SHUNT_SEND ? "sending to" : "receiving from", who);
    }
    members_print_silent(&ucx->members, seconds, silent, sizeof(silent));
    return shunt_fail(
        err, SHUNT_ERR_TIMEOUT, "timed out after %g s %s%s; %u of %u messages (%" PRIu64 " bytes) open: %s%s", seconds,
        ucx->members.where, silent, waited.all, group->count, bytes, names, used + 200 < sizeof(names) ? "" : ", ...");
}

enum shunt_status ucx_wait(struct transport *transport, uint32_t round, const struct deadline *deadline,
                           struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    struct ucx_group *group = find_group(ucx, true, round);
    uint32_t idle = 0;
    if (group == NULL)
        return shunt_fail(err, SHUNT_ERR_INTERNAL, "round %u: waited for, and not posted", round);
    members_enter(&ucx->members, round);
    for (uint32_t turn = 1; group->pending != 0; turn++) {
        unsigned moved = ucx_api.ucp_worker_progress(ucx->local.worker);
        if (ucx->remote.worker != NULL)
            moved += ucx_api.ucp_worker_progress(ucx->remote.worker);
        if (moved != 0 && turn % CONTROL_TURNS != 0) {
            idle = 0;
            continue;
        }
        enum shunt_status st = ucx_poll(transport, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline))
            return time_out(ucx, group, deadline->seconds, err);
        if (moved == 0)
            ucx_idle(&idle);
    }
    group->posted = false;
    return ucx->failed ? ucx_poll(transport, err) : SHUNT_OK;
}

/* ---- end ------------------------------------------------------------------------ */

static uint32_t pending(const struct ucx *ucx)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++)
        count += ucx->groups[i].posted ? ucx->groups[i].pending : 0;
    return count;
}

static void cancel_group(struct ucx *ucx, struct ucx_group *group)
{
    for (uint32_t i = 0; group->posted && i < group->count; i++) {
        struct ucx_request *request = &group->requests[i];
        if (request->handle == NULL)
            continue;
        const struct ucx_peer *peer = &ucx->peers[request->message->peer];
        ucx_api.ucp_request_cancel(peer->here ? ucx->local.worker : ucx->remote.worker, request->handle);
    }
}

/* What is sent by cma, the other end reads; what is received, this one does. */
static bool still_receives(const struct ucx *ucx)
{
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++) {
        const struct ucx_group *group = &ucx->groups[i];
        for (uint32_t k = 0; group->posted && k < group->count; k++) {
            if (group->requests[k].handle != NULL && group->requests[k].message->direction == SHUNT_RECV)
                return true;
        }
    }
    return false;
}

void ucx_data_cancel(struct ucx *ucx)
{
    struct deadline deadline = deadline_after(CANCEL_SECONDS);
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++)
        cancel_group(ucx, &ucx->groups[i]);
    while (pending(ucx) != 0 && !deadline_passed(&deadline))
        ucx_progress(ucx);
    /* of a request that has failed, parts may still be queued */
    for (uint32_t idle = 0; idle < DRAIN_TURNS && !deadline_passed(&deadline);)
        idle = ucx_progress(ucx) ? 0 : idle + 1;
    ucx->stuck = ucx->stuck || still_receives(ucx);
}

void ucx_data_close(struct ucx *ucx)
{
    bool force = pending(ucx) != 0 || ucx->failed;
    for (uint32_t i = 0; i < ucx->base.size; i++) {
        struct ucx_peer *peer = &ucx->peers[i];
        if (peer->data_ep != NULL && (!force || !peer->here)) /* force needs error mode peer */
            ucx_endpoint_close(ucx, peer->data_ep, force);
        peer->data_ep = NULL;
    }
    if (ucx->stuck)
        ucx_worker_leave(&ucx->local);
    ucx_worker_close(&ucx->local);
    ucx_worker_close(&ucx->remote);
}
