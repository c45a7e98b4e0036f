/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_NCCL_H
#define SHUNT_EXECUTOR_NCCL_H

/**
 * NCCL transport: one process and one CUDA device per device of the plan, and one communicator over all of them.
 *
 * A round is one group with at most one message per peer and direction: more can hang some versions. NCCL connects two
 * processes when they first speak, inside the end of a group, and waits there for the other one: so the pair round goes
 * in slices, in which nobody meets more than a few, and connects all who will meet later.
 *
 * The communicator does not block: every wait is a look at its state, at the control channel and at a deadline. Nothing
 * in NCCL tells who is missing; that is found out over the meeting, as for other transports.
 */

#include "device/cuda.h"
#include "transport/nccl_api.h"
#include "transport/star.h"
#include "transport/transport.h"

/** Messages that were posted. Those in host memory are sent from `bounce` when they are waited for. */
struct nccl_group {
    struct transport_message *messages; /* NULL: nothing posted */
    uint32_t count, round;
};

struct nccl {
    struct transport base;
    const struct nccl_api *api;
    struct members members;
    struct star *star;
    double timeout_seconds;

    struct cuda_device *on; /* where messages lie; NULL before the first plan */
    ncclComm_t comm;        /* NULL: none, or given up */
    bool broken;            /* it has failed: nothing but aborting it may follow */
    struct nccl_group groups[TRANSPORT_GROUPS];
    char *bounce; /* pinned */
    size_t bounce_bytes;
    struct device_event *bounced;
};

/* ---- nccl_comm.c: the communicator's life --------------------------------------------- */

/** "ncclSend: unhandled system error: ..."; or who is lost, if that is the reason. */
enum shunt_status nccl_fail(struct nccl *nccl, const char *call, ncclResult_t result, struct shunt_err *err);
enum shunt_status nccl_comm_open(struct nccl *nccl, struct shunt_err *err);
/** Until nothing is in progress. `peers` are named if the deadline passes. */
enum shunt_status nccl_comm_ready(struct nccl *nccl, const char *call, struct waited *peers,
                                  const struct deadline *deadline, struct shunt_err *err);
/** The control channel, and what the communicator has noticed. */
enum shunt_status nccl_poll(struct transport *transport, struct shunt_err *err);
void nccl_comm_close(struct nccl *nccl);
/** Bounded in time: what NCCL does not let go of is left to the end of the process. */
void nccl_comm_abort(struct nccl *nccl);

/* ---- nccl_group.c: messages ------------------------------------------------------------ */

enum shunt_status nccl_post(struct transport *transport, uint32_t device, uint32_t round,
                            struct transport_message *messages, uint32_t count, struct shunt_err *err);
enum shunt_status nccl_wait(struct transport *transport, uint32_t round, const struct deadline *deadline,
                            struct shunt_err *err);
enum shunt_status nccl_late(struct transport *transport, uint32_t round, struct transport_message *messages,
                            uint32_t count, double seconds, struct shunt_err *err);
void nccl_bounce_free(struct nccl *nccl);

#endif
