/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of messages: checked when they are closed, connected, and then moved by a job of the stream. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_internal.h"

#define SPOILT_BYTES 128u /* at least */

struct message {
    bool send, begun, done, dropped;
    uint32_t peer;
    void *ptr;
    size_t bytes, moved;
    char *home; /* of the job */
};

struct group {
    ncclComm_t comm;
    cudaStream_t stream;
    uint32_t jobs_before; /* of the stream, when the group was closed */
    uint32_t count, room;
    struct message *list;
};

/* NVIDIA's header does not say that they take nothing. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

static _Thread_local uint32_t depth;
static _Thread_local struct group *open_group;

static const char *call_of(const struct message *m)
{
    return m->send ? "ncclSend" : "ncclRecv";
}

static void free_group(struct group *group)
{
    free(group->list);
    free(group);
}

/* ---- spoiling --------------------------------------------------------------------------- */

/* What is to happen to this message. */
static bool spoils(const char *how, uint64_t number, uint64_t *position_out)
{
    const char *text = getenv("SHUNT_SPOIL");
    size_t length = strlen(how);
    char *end;
    if (text == NULL || strncmp(text, how, length) != 0 || text[length] != ':')
        return false;
    bool hit = strtoull(text + length + 1, &end, 10) == number;
    *position_out = *end == ':' ? strtoull(end + 1, NULL, 10) : 0;
    return hit;
}

static uint64_t count_sent(void)
{
    static _Atomic uint64_t sent;
    return atomic_fetch_add(&sent, 1) + 1;
}

/* ---- moving ------------------------------------------------------------------------------- */

static struct ring *ring_of(const struct group *group, const struct message *m)
{
    uint32_t self = group->comm->rank;
    return segment_ring(group->comm->segment, m->send ? self : m->peer, m->send ? m->peer : self);
}

/* Announce a message, or see that it is announced. */
static bool begin_message(struct message *m, struct ring *ring)
{
    uint64_t sent = atomic_load_explicit(&ring->sent, memory_order_acquire);
    uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
    if (m->send) {
        if (sent - taken == RING_SLOTS)
            return false;
        atomic_store(&ring->sizes[sent % RING_SLOTS], m->bytes);
        atomic_store_explicit(&ring->sent, sent + 1, memory_order_release);
        return true;
    }
    if (sent == taken)
        return false;
    uint64_t bytes = atomic_load(&ring->sizes[taken % RING_SLOTS]);
    if (bytes != m->bytes)
        double_fail("ncclRecv", "%zu bytes from rank %u, which sends %" PRIu64, m->bytes, m->peer, bytes);
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
    return true;
}

static bool copy_some(struct message *m, struct ring *ring)
{
    uint64_t pushed = atomic_load_explicit(&ring->pushed, memory_order_acquire);
    uint64_t pulled = atomic_load_explicit(&ring->pulled, memory_order_acquire);
    uint64_t at = m->send ? pushed : pulled, some = m->send ? RING_BYTES - (pushed - pulled) : pushed - pulled;
    if (some > m->bytes - m->moved)
        some = m->bytes - m->moved;
    if (some > RING_BYTES - at % RING_BYTES)
        some = RING_BYTES - at % RING_BYTES;
    if (some == 0)
        return false;
    if (m->send)
        memcpy(ring->bytes + at % RING_BYTES, m->home + m->moved, some);
    else
        memcpy(m->home + m->moved, ring->bytes + at % RING_BYTES, some);
    atomic_store_explicit(m->send ? &ring->pushed : &ring->pulled, at + some, memory_order_release);
    m->moved += some;
    return true;
}

static bool step(struct group *group, struct message *m)
{
    struct ring *ring = ring_of(group, m);
    if (m->done)
        return false;
    bool moved = false;
    if (!m->begun)
        moved = m->begun = m->dropped || begin_message(m, ring);
    if (m->begun && !m->dropped)
        moved = copy_some(m, ring) || moved;
    m->done = m->begun && (m->dropped || m->moved == m->bytes);
    return moved;
}

/* Where the bytes are; what is spoilt is sent from a copy. */
static void resolve(struct double_job *job, ncclComm_t comm, struct message *m, char **spoilt)
{
    uint64_t position;
    if (!m->send) {
        m->home = double_write(job, m->ptr, m->bytes);
        return;
    }
    const char *home = double_read(job, m->ptr, m->bytes);
    uint64_t number = m->bytes < SPOILT_BYTES ? 0 : count_sent();
    m->home = (char *)home;
    comm->cut_off[m->peer] = comm->cut_off[m->peer] || spoils("drop", number, &position);
    m->dropped = comm->cut_off[m->peer];
    if (m->bytes == 0 || *spoilt != NULL || !spoils("corrupt", number, &position))
        return;
    *spoilt = malloc(m->bytes);
    if (*spoilt == NULL)
        abort();
    memcpy(*spoilt, home, m->bytes);
    (*spoilt)[position % m->bytes] ^= 1;
    m->home = *spoilt;
}

static void say_what_waits(const struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        const struct message *m = &group->list[i];
        if (!m->done)
            double_note(call_of(m), "%zu of %zu bytes %s rank %u: %s", m->moved, m->bytes, m->send ? "to" : "from",
                        m->peer, m->begun ? "it is stuck" : "it has no such message, or is not there yet");
    }
}

static void move(struct double_job *job, void *arg)
{
    struct group *group = arg;
    ncclComm_t comm = group->comm;
    struct patience patience;
    char *spoilt = NULL;
    bool stuck = double_must_fail("group");
    if (stuck)
        comm_fail(comm, ncclSystemError, "made to fail");
    for (uint32_t i = 0; i < group->count && !stuck; i++)
        resolve(job, comm, &group->list[i], &spoilt);
    patience_begin(&patience);
    for (bool all = false; !all && !atomic_load(&comm->aborted);) {
        bool moved = false;
        all = !stuck;
        for (uint32_t i = 0; i < group->count && !stuck; i++) {
            moved = step(group, &group->list[i]) || moved;
            all = all && group->list[i].done;
        }
        if (moved)
            patience_begin(&patience);
        else if (!all && patience_wait(&patience))
            say_what_waits(group);
        for (uint32_t i = 0; i < group->count && !moved && !all && patience.turns % 64 == 63; i++) {
            if (!group->list[i].done)
                comm_look_for_dead(comm, group->list[i].peer);
        }
    }
    free(spoilt);
    free_group(group);
    atomic_fetch_sub(&comm->pending, 1);
}

/* ---- first contact -------------------------------------------------------------------------- */

static bool *connection(const struct group *group, const struct message *m)
{
    return &group->comm->connected[(m->send ? 0 : group->comm->ranks) + m->peer];
}

static bool contact(struct group *group, const struct message *m)
{
    struct ring *ring = ring_of(group, m);
    struct patience patience;
    patience_begin(&patience);
    while (atomic_load(&ring->contact[m->send]) == 0) { /* the other end's */
        if (atomic_load(&group->comm->aborted))
            return false;
        if (patience_wait(&patience))
            double_note("ncclGroupEnd", "waits in first contact with rank %u, which has made none", m->peer);
        if (patience.turns % 64 == 63)
            comm_look_for_dead(group->comm, m->peer);
    }
    return true;
}

static bool connect_all(struct group *group)
{
    const char *text = getenv("SHUNT_DOUBLE_CONNECTION");
    size_t bytes = text == NULL ? 65536 : strtoull(text, NULL, 10);
    for (uint32_t i = 0; i < group->count; i++) {
        const struct message *m = &group->list[i];
        if (!*connection(group, m))
            atomic_store(&ring_of(group, m)->contact[!m->send], 1);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        const struct message *m = &group->list[i];
        if (*connection(group, m))
            continue;
        if (!contact(group, m))
            return false;
        if (!double_take_memory(group->comm->device, bytes)) {
            comm_fail(group->comm, ncclUnhandledCudaError, "out of memory for a connection");
            return false;
        }
        group->comm->connections++;
        *connection(group, m) = true;
    }
    return true;
}

static void *enqueue(void *arg)
{
    struct group *group = arg;
    ncclComm_t comm = group->comm;
    int waiting = ncclInProgress;
    if (connect_all(group) && !atomic_load(&comm->aborted)) {
        if (double_stream_jobs(group->stream) != group->jobs_before)
            double_fail("ncclGroupEnd", "the stream was given other work before the group was there");
        atomic_fetch_add(&comm->pending, 1);
        double_enqueue(group->stream, "ncclGroupEnd", move, group);
    } else {
        free_group(group);
    }
    atomic_compare_exchange_strong(&comm->state, &waiting, ncclSuccess);
    atomic_fetch_sub(&comm->pending, 1);
    return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------ */

static void check_message(const struct group *group, const struct message *m, cudaStream_t stream)
{
    const char *call = call_of(m);
    int device = double_stream_device(stream), own = group->comm->device;
    if (device != own)
        double_fail(call, "uses a stream of device %d, the communicator is of device %d", device, own);
    if (stream != group->stream)
        double_fail(call, "uses another stream than the group's first message");
    device = double_pointer_device(m->ptr);
    if (device >= 0 && device != own)
        double_fail(call, "uses memory of device %d, the communicator is of device %d", device, own);
    if (m->peer == group->comm->rank)
        double_fail(call, "a message to oneself");
    if ((uintptr_t)m->ptr % 16 != 0)
        double_fail(call, "memory at %p is not aligned to 16 bytes: it would be copied byte by byte", m->ptr);
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->list[i].peer == m->peer && group->list[i].send == m->send)
            double_fail(call, "a second message %s rank %u in one group", m->send ? "to" : "from", m->peer);
    }
}

static ncclResult_t add(bool send, void *ptr, size_t bytes, ncclDataType_t type, int peer, ncclComm_t comm,
                        cudaStream_t stream)
{
    struct message m = {.send = send, .peer = (uint32_t)peer, .ptr = ptr, .bytes = bytes};
    const char *call = call_of(&m);
    comm_check(call, comm);
    if (double_must_fail(call))
        return ncclInternalError;
    if (type != ncclUint8 || peer < 0 || (uint32_t)peer >= comm->ranks)
        return ncclInvalidArgument;
    if (depth == 0)
        double_fail(call, "a message outside of a group");
    struct group *group = open_group;
    if (group->comm == NULL) {
        group->comm = comm;
        group->stream = stream;
    }
    if (group->comm != comm)
        double_fail(call, "uses another communicator than the group's first message");
    check_message(group, &m, stream);
    if (group->count == group->room) {
        group->room = 2 * group->room + 8;
        group->list = realloc(group->list, group->room * sizeof(*group->list));
        if (group->list == NULL)
            abort();
    }
    group->list[group->count++] = m;
    return ncclSuccess;
}

DOUBLE_EXPORT ncclResult_t ncclSend(const void *ptr, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream)
{
    return add(true, (void *)ptr, count, type, peer, comm, stream);
}

DOUBLE_EXPORT ncclResult_t ncclRecv(void *ptr, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream)
{
    return add(false, ptr, count, type, peer, comm, stream);
}

DOUBLE_EXPORT ncclResult_t ncclGroupStart(void)
{
    if (double_must_fail("ncclGroupStart"))
        return ncclInternalError;
    if (depth++ == 0)
        open_group = calloc(1, sizeof(*open_group));
    if (open_group == NULL)
        abort();
    return ncclSuccess;
}

DOUBLE_EXPORT ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0)
        double_fail("ncclGroupEnd", "there is no group");
    if (--depth > 0)
        return ncclSuccess;
    struct group *group = open_group;
    open_group = NULL;
    bool fails = double_must_fail("ncclGroupEnd");
    if (group->count == 0 || fails) {
        free_group(group);
        return fails ? ncclInternalError : ncclSuccess;
    }
    comm_check("ncclGroupEnd", group->comm);
    group->jobs_before = double_stream_jobs(group->stream);
    return comm_run(group->comm, enqueue, group);
}
