/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_UCX_H
#define SHUNT_EXECUTOR_UCX_H

/**
 * UCX transport: one process per device.
 *
 * UCX cannot give fast shared memory and notice of a dead peer on one endpoint, so there are
 * several workers per process:
 *
 *     control   tcp, error mode peer; a star around device 0; small records, deaths, last words
 *     local     posix and cma, error mode none; data between processes of one machine
 *     remote    whatever reaches other machines, error mode peer; data; absent on one machine
 *
 * A death is seen by the control worker (or told by the meeting); pending data requests are then
 * cancelled and the run ends with an error that names the device.
 */

#include "transport/members.h"
#include "transport/segments.h"
#include "transport/transport.h"
#include "transport/ucx_api.h"

/** Second record: how to reach it. Three addresses follow. */
struct ucx_address_head {
    uint32_t magic;
    uint32_t hellos_crc; /* over all hello records as this process saw them */
    uint32_t control_bytes, local_bytes, remote_bytes;
    uint32_t unused;
};

struct ucx_worker {
    ucp_context_h context;
    ucp_worker_h worker; /* NULL: not there */
};

struct ucx;
struct ucx_group;
struct ucx_batch; /* in ucx_control.c */

struct ucx_peer {
    struct ucx *owner;
    uint32_t device;
    bool here;             /* on this machine */
    unsigned char *record; /* its second record, with the addresses inside */
    ucp_ep_h control_ep;   /* at the root: all; elsewhere: device 0's */
    ucp_ep_h data_ep;
};

/** One data request in flight. */
struct ucx_request {
    struct ucx_group *group;
    struct transport_message *message;
    void *handle; /* NULL when done */
    bool done;
};

/** The messages of one round, from post to wait. */
struct ucx_group {
    struct ucx *owner;
    bool posted;
    uint32_t round;
    struct ucx_request *requests; /* room as ucx->request_room */
    uint32_t count, pending;
};

struct ucx {
    struct transport base;
    struct members members;
    struct ucx_peer *peers; /* size */
    struct ucx_worker control, local, remote;
    struct segments segments;
    bool cma;

    struct ucx_group groups[TRANSPORT_GROUPS];
    uint32_t request_room; /* of each group */
    uint32_t votes;        /* gathers and shares so far: tells records apart */

    /* the first failure that a callback saw */
    bool failed;
    uint32_t failed_device;
    ucs_status_t failed_status;
    bool closing;
    bool stuck;                /* given up with data on the way */
    struct ucx_batch *orphans; /* control records that UCX still points at */
};

/* ---- ucx_worker.c: contexts and workers, and what UCX has to say -------------------- */

/** NULL: UCX's own choice, or the user's environment. */
struct ucx_choice {
    const char *tls, *devices;
    const char *segment_dir; /* where shared-memory files are made */
};

enum shunt_status ucx_worker_open(struct ucx_worker *worker, const char *what, const struct ucx_choice *choice,
                                  struct shunt_err *err);
void ucx_worker_close(struct ucx_worker *worker);
/**
 * Instead of closing it, with transfers by cma under way that cannot be taken back: UCX asserts that there are none when a
 * worker is destroyed. Nobody drives them any more, and the system frees the memory at the end of the process.
 */
void ucx_worker_leave(struct ucx_worker *worker);
/** Copies the worker's address to `bytes`; fails if it does not fit. */
enum shunt_status ucx_worker_address(const struct ucx_worker *worker, void *bytes, size_t capacity, uint32_t *size_out,
                                     struct shunt_err *err);
/** UCX's log goes to stderr when the user has set UCX_LOG_LEVEL, else nowhere; never to stdout. */
void ucx_log_divert(void);

/* ---- ucx_meet.c --------------------------------------------------------------------- */

/** Exchange hellos and addresses, choose transports, open all workers. */
enum shunt_status ucx_meet_all(struct ucx *ucx, const struct deadline *deadline, struct shunt_err *err);
const void *ucx_peer_address(const struct ucx_peer *peer, const struct ucx_worker *worker);

/* ---- ucx_control.c ------------------------------------------------------------------ */

enum shunt_status ucx_control_connect(struct ucx *ucx, const struct deadline *deadline, struct shunt_err *err);
enum shunt_status ucx_gather(struct transport *transport, const void *mine, size_t bytes, void *all, const char *what,
                             const struct deadline *deadline, struct shunt_err *err);
enum shunt_status ucx_share(struct transport *transport, void *bytes, size_t size, const char *what,
                            const struct deadline *deadline, struct shunt_err *err);
/** Progress everything, then look for lost peers, last words, the meeting's cause and signals. */
enum shunt_status ucx_poll(struct transport *transport, struct shunt_err *err);
void ucx_last_words(struct ucx *ucx, enum shunt_status status, const char *text);
/** Note a failure that a callback has seen; the first one counts. */
void ucx_note_failure(struct ucx *ucx, uint32_t device, ucs_status_t status);
/** An error of UCX may only echo a peer's end: if the cause is known, it takes the place of `status` and the text. */
enum shunt_status ucx_explain(struct ucx *ucx, enum shunt_status status, struct shunt_err *err);
void ucx_control_close(struct ucx *ucx);
/** After the control worker is gone. */
void ucx_orphans_free(struct ucx *ucx);
bool ucx_progress(struct ucx *ucx); /* true if something moved */
bool ucx_progress_any(void *ucx);
bool ucx_take_last_words(void *ucx, struct meet_lost *lost_out); /* of somebody, if any have come */

/* ---- ucx_data.c --------------------------------------------------------------------- */

enum shunt_status ucx_prepare(struct transport *transport, uint32_t device, const struct transport_needs *needs,
                              struct shunt_err *err);
enum shunt_status ucx_post(struct transport *transport, uint32_t device, uint32_t round,
                           struct transport_message *messages, uint32_t count, struct shunt_err *err);
enum shunt_status ucx_wait(struct transport *transport, uint32_t round, const struct deadline *deadline,
                           struct shunt_err *err);
/** Cancel what is pending; bounded in time. */
void ucx_data_cancel(struct ucx *ucx);
void ucx_data_close(struct ucx *ucx);

/** Create an endpoint; peer failures are noted under peer->device when `notices` is set. */
enum shunt_status ucx_endpoint(struct ucx_peer *peer, const struct ucx_worker *worker, bool notices, ucp_ep_h *ep_out,
                               struct shunt_err *err);
/** Close an endpoint, gently or by force; bounded in time. */
void ucx_endpoint_close(struct ucx *ucx, ucp_ep_h ep, bool force);

/** Pause between looks when nothing moves: spin, then yield, then sleep. */
void ucx_idle(uint32_t *turns);

#endif
