/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/nccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define CLOSE_SECONDS 2.0
#define ABORT_SECONDS 1.0
#define ECHO_SECONDS  1.2

/* It may only echo a peer's end, of which device 0 hears, and tells the others when it has made sure. */
static enum shunt_status find_cause(struct nccl *nccl, struct shunt_err *err)
{
    struct deadline grace = deadline_after(ECHO_SECONDS);
    enum shunt_status st = SHUNT_OK;
    while (st == SHUNT_OK && !deadline_passed(&grace)) {
        st = star_poll(nccl->star, err);
        sleep_ns(NS_PER_MS);
    }
    return st;
}

enum shunt_status nccl_fail(struct nccl *nccl, const char *call, ncclResult_t result, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    const char *more = nccl->comm == NULL ? NULL : nccl->api->ncclGetLastError(nccl->comm);
    bool said = more != NULL && more[0] != '\0';
    char text[300];
    snprintf(text, sizeof(text), "%s: %s%s%.160s", call, nccl->api->ncclGetErrorString(result), said ? ": " : "",
             said ? more : "");
    nccl->broken = true;
    if (result == ncclRemoteError || result == ncclSystemError) {
        enum shunt_status st = find_cause(nccl, &cause);
        if (st != SHUNT_OK)
            return shunt_fail(err, st, "%s", cause.text);
    }
    return shunt_fail(err, SHUNT_ERR_TRANSPORT, "device %u: %s, %s", nccl->members.self, text, nccl->members.where);
}

/* ---- state ---------------------------------------------------------------------------- */

static enum shunt_status look_at_comm(struct nccl *nccl, const char *call, bool *ready_out, struct shunt_err *err)
{
    ncclResult_t state = ncclSuccess;
    *ready_out = true;
    if (nccl->comm == NULL)
        return SHUNT_OK;
    ncclResult_t result = nccl->api->ncclCommGetAsyncError(nccl->comm, &state);
    if (result != ncclSuccess)
        return nccl_fail(nccl, "ncclCommGetAsyncError", result, err);
    *ready_out = state != ncclInProgress;
    return state == ncclSuccess || state == ncclInProgress ? SHUNT_OK : nccl_fail(nccl, call, state, err);
}

enum shunt_status nccl_poll(struct transport *transport, struct shunt_err *err)
{
    struct nccl *nccl = (struct nccl *)transport;
    bool ready;
    enum shunt_status st = star_poll(nccl->star, err);
    return st == SHUNT_OK ? look_at_comm(nccl, "NCCL", &ready, err) : st;
}

enum shunt_status nccl_comm_ready(struct nccl *nccl, const char *call, struct waited *peers,
                                  const struct deadline *deadline, struct shunt_err *err)
{
    for (uint32_t turns = 0;; turns++) {
        bool ready;
        enum shunt_status st = look_at_comm(nccl, call, &ready, err);
        if (st != SHUNT_OK || ready)
            return st;
        st = star_poll(nccl->star, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline))
            return members_late(&nccl->members, peers, deadline->seconds, err);
        clock_rest(turns);
    }
}

/* ---- begin ---------------------------------------------------------------------------- */

/* Device 0 makes the id, or says that it cannot. */
struct nccl_invitation {
    ncclUniqueId id;
    uint32_t result;
};

static enum shunt_status exchange_id(struct nccl *nccl, ncclUniqueId *id_out, const struct deadline *deadline,
                                     struct shunt_err *err)
{
    struct nccl_invitation invitation = {.result = ncclSuccess};
    if (nccl->base.root)
        invitation.result = nccl->api->ncclGetUniqueId(&invitation.id);
    enum shunt_status st = star_share(nccl->star, &invitation, sizeof(invitation), "NCCL id", deadline, err);
    if (st != SHUNT_OK)
        return st;
    *id_out = invitation.id;
    if (invitation.result == ncclSuccess)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_TRANSPORT, "device 0: ncclGetUniqueId: %s",
                      nccl->api->ncclGetErrorString((ncclResult_t)invitation.result));
}

enum shunt_status nccl_comm_open(struct nccl *nccl, struct shunt_err *err)
{
    struct deadline deadline = deadline_after(nccl->timeout_seconds);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    struct waited all = {0};
    ncclUniqueId id;
    config.blocking = 0;
    enum shunt_status st = exchange_id(nccl, &id, &deadline, err);
    if (st != SHUNT_OK)
        return st;
    snprintf(nccl->members.where, sizeof(nccl->members.where), "while NCCL made its communicator");
    for (uint32_t i = 0; i < nccl->base.size; i++) {
        if (i != nccl->members.self)
            waited_add(&all, i);
    }
    CUDA_CALL(nccl->on, err, cudaSetDevice, (int)nccl->on->base.ordinal); /* which the communicator will be of */
    ncclResult_t result =
        nccl->api->ncclCommInitRankConfig(&nccl->comm, (int)nccl->base.size, id, (int)nccl->members.self, &config);
    if (result != ncclSuccess && result != ncclInProgress)
        return nccl_fail(nccl, "ncclCommInitRankConfig", result, err);
    return nccl_comm_ready(nccl, "ncclCommInitRankConfig", &all, &deadline, err);
}

/* ---- end ------------------------------------------------------------------------------ */

/*
 * Giving up happens in a thread of its own, so that a call which does not return holds nobody up. What the thread needs
 * belongs to whoever is the last to look at it.
 */
struct nccl_end {
    const struct nccl_api *api;
    const struct cuda_api *cuda;
    ncclComm_t comm;
    int ordinal;
    _Atomic bool done;
    _Atomic uint32_t users;
};

static void leave(struct nccl_end *end)
{
    if (atomic_fetch_sub(&end->users, 1) == 1)
        free(end);
}

static void *abort_comm(void *arg)
{
    struct nccl_end *end = arg;
    end->cuda->cudaSetDevice(end->ordinal);
    if (end->api->ncclCommRevoke != NULL) /* work in flight ends; what is freed below is not used any more */
        end->api->ncclCommRevoke(end->comm, 0);
    end->api->ncclCommAbort(end->comm);
    atomic_store(&end->done, true);
    leave(end);
    return NULL;
}

void nccl_comm_abort(struct nccl *nccl)
{
    struct deadline deadline = deadline_after(ABORT_SECONDS);
    pthread_t thread;
    struct nccl_end *end = nccl->comm == NULL ? NULL : malloc(sizeof(*end));
    if (end == NULL)
        return;
    *end = (struct nccl_end){.api = nccl->api,
                             .cuda = nccl->on->api,
                             .comm = nccl->comm,
                             .ordinal = (int)nccl->on->base.ordinal,
                             .users = 2};
    nccl->comm = NULL;
    if (pthread_create(&thread, NULL, abort_comm, end) != 0) {
        free(end);
        return;
    }
    while (!atomic_load(&end->done) && !deadline_passed(&deadline))
        sleep_ns(NS_PER_MS / 2);
    if (atomic_load(&end->done))
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    leave(end);
}

/* All is done everywhere: that was the last vote. */
void nccl_comm_close(struct nccl *nccl)
{
    struct deadline deadline = deadline_after(CLOSE_SECONDS);
    ncclResult_t state = ncclSuccess;
    if (nccl->comm == NULL)
        return;
    ncclResult_t result = nccl->broken ? ncclInternalError : nccl->api->ncclCommFinalize(nccl->comm);
    while (result == ncclSuccess || result == ncclInProgress) {
        result = nccl->api->ncclCommGetAsyncError(nccl->comm, &state);
        if (result != ncclSuccess || state != ncclInProgress || deadline_passed(&deadline))
            break;
        sleep_ns(NS_PER_MS / 2);
    }
    if (result == ncclSuccess && state == ncclSuccess) {
        nccl->api->ncclCommDestroy(nccl->comm);
        nccl->comm = NULL;
    }
    nccl_comm_abort(nccl);
}
