/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_NCCL_INTERNAL_H
#define SHUNT_TESTS_NCCL_INTERNAL_H

/**
 * Inside the double of NCCL: communicators over several processes, each with devices of the double of the CUDA Runtime.
 * It is stricter than the real one, which would hang, or be slow, where this one reports (see cuda_double.h):
 *
 *     a send and a receive of unlike size; more than one message per peer and direction in a group; a message outside of
 *     a group, to oneself, or not aligned to 16 bytes; memory or a stream of another device; a call while another is in
 *     progress, or on a communicator that has failed or is no more; work put on the stream before the group is there.
 *
 * What waits for a peer says after a while whom it waits for, and waits on: in the end of a group for first contact, in
 * a job of the stream for a message. Nothing but aborting the communicator ends that, as with the real one.
 *
 * Environment, with that of cuda_double.h:
 *     SHUNT_DOUBLE_STALL       seconds after which who waits says so, 20 by default
 *     SHUNT_DOUBLE_CONNECTION  bytes of device memory of each connection in each direction, 64 KiB by default
 *     SHUNT_DOUBLE_DEAD        "error": a dead peer is an asynchronous error, as over a network; else nothing tells
 *     SHUNT_DOUBLE_ABORT       "hang": aborting does not return
 *     SHUNT_DOUBLE_NCCL        version, 22809 by default
 *     SHUNT_DOUBLE_FAIL        also "group:N": the N-th group of messages becomes an asynchronous error
 *     SHUNT_SPOIL              "corrupt:N:POSITION" or "drop:N": what happens to the N-th message of 128 bytes or more that is
 *                              sent, from 1; drop cuts off all later ones to the same rank
 *     NCCL_HOSTID              processes with unlike ones are on different machines
 */

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cuda_double.h"

#define RING_BYTES 65536u
#define RING_SLOTS 64u /* messages under way between two ranks in one direction */

/* ---- what the processes of a communicator share (nccl_segment.c) ------------------------ */

struct ring {
    _Atomic uint64_t pushed, pulled; /* bytes */
    _Atomic uint64_t sent, taken;    /* messages: announced by the sender, begun by the receiver */
    _Atomic uint64_t sizes[RING_SLOTS];
    _Atomic uint32_t contact[2]; /* sender and receiver have met the other one in a group */
    char bytes[RING_BYTES];
};

struct seat {
    _Atomic uint32_t taken; /* a rank sits here */
    _Atomic int64_t pid;
    _Atomic uint64_t machine;
    _Atomic int32_t device;
};

struct segment {
    _Atomic uint32_t ranks;
    _Atomic uint32_t seated;
    struct seat seats[];
};

/** Makes a segment without a name, of this process; fills in the id. */
bool segment_create(ncclUniqueId *id);
/** NULL: there is none any more. */
struct segment *segment_join(const ncclUniqueId *id, uint32_t ranks);
void segment_leave(struct segment *segment);
struct ring *segment_ring(struct segment *segment, uint32_t from, uint32_t to);
bool segment_is_dead(const struct segment *segment, uint32_t rank);

/* ---- communicators (nccl_comm.c) ------------------------------------------------------------ */

struct ncclComm {
    struct ncclComm *next; /* among those that live */
    struct segment *segment;
    uint32_t rank, ranks;
    int device;
    bool blocking;
    bool *connected; /* to each rank, then from each */
    bool *cut_off;   /* what is sent to a rank is dropped: what comes later must not take its place */
    uint32_t connections;

    _Atomic int state; /* ncclResult_t: success, in progress, or how it has failed */
    _Atomic bool aborted, finalizing, finalized;
    _Atomic uint32_t pending; /* threads and jobs that use it */
    char error[200];
};

/** Lives, is idle and well; reports and ends the process if not. */
void comm_check(const char *call, ncclComm_t comm);
void comm_fail(ncclComm_t comm, ncclResult_t result, const char *text);
/** A pause of who waits for `rank`. @return false when the communicator is aborted */
struct patience {
    int64_t since_ns, last_look_ns;
    uint32_t turns;
    bool said;
};
void patience_begin(struct patience *patience);
/** @return true when it is time to say whom one waits for: once */
bool patience_wait(struct patience *patience);
void comm_look_for_dead(ncclComm_t comm, uint32_t rank);
ncclResult_t comm_run(ncclComm_t comm, void *(*run)(void *), void *arg);

#endif
