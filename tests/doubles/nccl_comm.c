/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: how they come to be, and how they end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nccl_internal.h"

#define MS INT64_C(1000000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *living;

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 * MS + time.tv_nsec;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

__attribute__((destructor)) static void stop(void)
{
    for (const struct ncclComm *comm = living; comm != NULL; comm = comm->next)
        double_note("exit", "a communicator of %u ranks is neither destroyed nor aborted", comm->ranks);
}

/* ---- waiting -------------------------------------------------------------------------- */

void patience_begin(struct patience *patience)
{
    *patience = (struct patience){.since_ns = now_ns()};
}

bool patience_wait(struct patience *patience)
{
    patience->turns++;
    if (patience->turns < 50) {
        sched_yield();
        return false;
    }
    usleep(patience->turns < 500 ? 50 : 500);
    if (patience->said || now_ns() - patience->since_ns < (int64_t)number_from("SHUNT_DOUBLE_STALL", 20) * 1000 * MS)
        return false;
    patience->said = true;
    return true;
}

void comm_look_for_dead(ncclComm_t comm, uint32_t rank)
{
    const char *how = getenv("SHUNT_DOUBLE_DEAD");
    if (how != NULL && strcmp(how, "error") == 0 && segment_is_dead(comm->segment, rank))
        comm_fail(comm, ncclRemoteError, "a connection was closed by the other end");
}

/* ---- state ------------------------------------------------------------------------------ */

void comm_fail(ncclComm_t comm, ncclResult_t result, const char *text)
{
    if (atomic_load(&comm->state) != ncclSuccess && atomic_load(&comm->state) != ncclInProgress)
        return;
    snprintf(comm->error, sizeof(comm->error), "%s", text);
    atomic_store(&comm->state, result);
}

static void check_lives(const char *call, ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    const struct ncclComm *one = living;
    while (one != NULL && one != comm)
        one = one->next;
    pthread_mutex_unlock(&lock);
    if (one == NULL)
        double_fail(call, "uses a communicator that there is not, or is no more");
}

void comm_check(const char *call, ncclComm_t comm)
{
    check_lives(call, comm);
    int state = atomic_load(&comm->state);
    if (state == ncclInProgress)
        double_fail(call, "uses a communicator on which a call is in progress");
    if (state != ncclSuccess)
        double_fail(call, "uses a communicator that has failed: it can only be aborted");
    if (atomic_load(&comm->finalizing))
        double_fail(call, "uses a communicator that has been finalized");
}

ncclResult_t comm_run(ncclComm_t comm, void *(*run)(void *), void *arg)
{
    pthread_t thread;
    atomic_store(&comm->state, ncclInProgress);
    atomic_fetch_add(&comm->pending, 1);
    if (comm->blocking) {
        run(arg);
        return (ncclResult_t)atomic_load(&comm->state);
    }
    if (pthread_create(&thread, NULL, run, arg) != 0)
        double_fail("NCCL", "no thread");
    pthread_detach(thread);
    return ncclInProgress;
}

/* ---- begin ------------------------------------------------------------------------------ */

DOUBLE_EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = (int)number_from("SHUNT_DOUBLE_NCCL", NCCL_VERSION_CODE);
    return ncclSuccess;
}

DOUBLE_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    return !double_must_fail("ncclGetUniqueId") && segment_create(id) ? ncclSuccess : ncclSystemError;
}

static uint64_t machine_id(void)
{
    const char *text = getenv("NCCL_HOSTID");
    uint64_t hash = 14695981039346656037u;
    for (; text != NULL && *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* All others on the same machine have other devices: the real one refuses what cannot work. */
static void check_devices(ncclComm_t comm)
{
    const struct seat *own = &comm->segment->seats[comm->rank];
    for (uint32_t i = 0; i < comm->ranks; i++) {
        const struct seat *seat = &comm->segment->seats[i];
        char text[120];
        if (i == comm->rank || atomic_load(&seat->machine) != atomic_load(&own->machine) ||
            atomic_load(&seat->device) != atomic_load(&own->device))
            continue;
        snprintf(text, sizeof(text), "Duplicate GPU detected : rank %u and rank %u both on CUDA device %d", comm->rank,
                 i, comm->device);
        comm_fail(comm, ncclInvalidUsage, text);
    }
}

static void *meet(void *arg)
{
    ncclComm_t comm = arg;
    struct patience patience;
    patience_begin(&patience);
    while (atomic_load(&comm->segment->seated) < comm->ranks && !atomic_load(&comm->aborted)) {
        if (patience_wait(&patience))
            double_note("ncclCommInitRankConfig", "waits: %u of %u ranks are there",
                        atomic_load(&comm->segment->seated), comm->ranks);
    }
    if (!atomic_load(&comm->aborted))
        check_devices(comm);
    int waiting = ncclInProgress;
    if (double_must_fail("init"))
        comm_fail(comm, ncclSystemError, "made to fail");
    atomic_compare_exchange_strong(&comm->state, &waiting, ncclSuccess);
    atomic_fetch_sub(&comm->pending, 1);
    return NULL;
}

static void sit_down(ncclComm_t comm)
{
    struct seat *seat = &comm->segment->seats[comm->rank];
    if (atomic_exchange(&seat->taken, 1) != 0)
        double_fail("ncclCommInitRankConfig", "rank %u is there already: an id serves one communicator", comm->rank);
    atomic_store(&seat->pid, getpid());
    atomic_store(&seat->machine, machine_id());
    atomic_store(&seat->device, comm->device);
    atomic_fetch_add(&comm->segment->seated, 1);
}

DOUBLE_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm_out, int ranks, ncclUniqueId id, int rank,
                                                  ncclConfig_t *config)
{
    *comm_out = NULL;
    if (double_must_fail("ncclCommInitRankConfig"))
        return ncclSystemError;
    if (ranks <= 0 || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    ncclComm_t comm = calloc(1, sizeof(*comm));
    if (comm == NULL)
        return ncclSystemError;
    comm->rank = (uint32_t)rank;
    comm->ranks = (uint32_t)ranks;
    comm->blocking = config == NULL || config->blocking != 0;
    comm->connected = calloc(3 * (size_t)ranks, sizeof(*comm->connected));
    cudaGetDevice(&comm->device);
    comm->cut_off = comm->connected + 2 * (size_t)ranks;
    comm->segment = comm->connected == NULL ? NULL : segment_join(&id, comm->ranks);
    if (comm->segment == NULL) {
        free(comm->connected);
        free(comm);
        return ncclSystemError;
    }
    sit_down(comm);
    pthread_mutex_lock(&lock);
    comm->next = living;
    living = comm;
    pthread_mutex_unlock(&lock);
    *comm_out = comm;
    return comm_run(comm, meet, comm);
}

DOUBLE_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

/* ---- questions ---------------------------------------------------------------------------- */

DOUBLE_EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error",
        [ncclSystemError] = "unhandled system error",
        [ncclInternalError] = "internal error",
        [ncclInvalidArgument] = "invalid argument",
        [ncclInvalidUsage] = "invalid usage",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

DOUBLE_EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
    check_lives("ncclGetLastError", comm);
    return comm->error;
}

DOUBLE_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    check_lives("ncclCommGetAsyncError", comm);
    if (double_must_fail("ncclCommGetAsyncError"))
        return ncclInternalError;
    *state = (ncclResult_t)atomic_load(&comm->state);
    if (*state != ncclSuccess || !atomic_load(&comm->finalizing))
        return ncclSuccess;
    if (atomic_load(&comm->pending) != 0)
        *state = ncclInProgress;
    else
        atomic_store(&comm->finalized, true);
    return ncclSuccess;
}

DOUBLE_EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
    check_lives("ncclCommCount", comm);
    *count = (int)comm->ranks;
    return ncclSuccess;
}

/* ---- end ------------------------------------------------------------------------------------ */

static void let_go(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    struct ncclComm **at = &living;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < comm->connections; i++)
        double_give_memory(comm->device, number_from("SHUNT_DOUBLE_CONNECTION", 65536));
    segment_leave(comm->segment);
    free(comm->connected);
    free(comm);
}

DOUBLE_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm_check("ncclCommFinalize", comm);
    if (double_must_fail("ncclCommFinalize"))
        return ncclSystemError;
    atomic_store(&comm->finalizing, true);
    return comm->blocking ? ncclSuccess : ncclInProgress;
}

DOUBLE_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    check_lives("ncclCommDestroy", comm);
    if (!comm->blocking && !atomic_load(&comm->finalized))
        double_fail("ncclCommDestroy", "the communicator has not been finalized");
    if (atomic_load(&comm->pending) != 0)
        double_fail("ncclCommDestroy", "messages are still under way");
    let_go(comm);
    return ncclSuccess;
}

/* What runs ends, and the communicator stays. */
DOUBLE_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    check_lives("ncclCommRevoke", comm);
    if (flags != 0)
        return ncclInvalidArgument;
    atomic_store(&comm->aborted, true);
    while (atomic_load(&comm->pending) != 0)
        usleep(100);
    return ncclSuccess;
}

DOUBLE_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    const char *how = getenv("SHUNT_DOUBLE_ABORT");
    check_lives("ncclCommAbort", comm);
    atomic_store(&comm->aborted, true);
    while (how != NULL && strcmp(how, "hang") == 0)
        pause();
    while (atomic_load(&comm->pending) != 0)
        usleep(100);
    let_go(comm);
    return ncclSuccess;
}
