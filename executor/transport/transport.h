/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_TRANSPORT_H
#define SHUNT_EXECUTOR_TRANSPORT_H

/**
 * Transports are rows of one table. A transport joins the devices of a world: `local_count` of
 * them, from `first_local`, live in this process; with loopback that is all of them.
 *
 * After any operation has failed, only abandon() and close() may follow.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "device/device.h"
#include "shunt/plan_format.h"

struct meet;
struct transport;

/** One message of a round, with its memory. */
struct transport_message {
    uint32_t peer; /* device */
    uint32_t direction;
    void *data;
    uint64_t bytes;
    uint64_t arrived; /* receives, set by wait: bytes that came in */
};

struct transport_config {
    uint32_t rank, size;
    struct meet *meet; /* borrowed; NULL with loopback */
    double timeout_seconds;
};

/** What one device needs for one plan, so that nothing is set up while it runs. */
struct transport_needs {
    const uint32_t *peers; /* ascending */
    uint32_t peer_count;
    uint32_t max_messages;   /* of one round */
    struct shunt_device *on; /* where messages lie */
};

struct transport_ops {
    const char *name;
    const char *device; /* kind of device that messages must lie on; NULL: host, or any if device_memory */
    /** Messages may lie on an asynchronous device. Without it they are in host memory. */
    bool device_memory;
    /** Takes several messages between two devices in one group: the Nth that is sent is the Nth that is received. */
    bool many_messages;

    /** Find the library behind it; NULL: there is none. Cheap after the first time. @return SHUNT_ERR_IO */
    enum shunt_status (*look)(struct shunt_err *err);
    enum shunt_status (*open)(const struct transport_config *config, struct transport **transport_out,
                              struct shunt_err *err);

    enum shunt_status (*prepare)(struct transport *transport, uint32_t device, const struct transport_needs *needs,
                                 struct shunt_err *err);

    /**
     * Start the messages of a round of a local device. They stay valid and untouched until wait() returns.
     *
     * On an asynchronous device, post() and wait() put the messages on the device's wire stream, behind the packs of
     * all local devices: wait() returns when nothing is left to be put there. Such a transport gives no notice of
     * bytes that are missing. The messages of rounds from TRANSPORT_PAIR_ROUND on are in host memory on every device,
     * and done when wait() returns.
     */
    enum shunt_status (*post)(struct transport *transport, uint32_t device, uint32_t round,
                              struct transport_message *messages, uint32_t count, struct shunt_err *err);

    /** Until every message of the round, of all local devices, is done. Up to TRANSPORT_GROUPS rounds are on the wire
        at a time; they are waited for in the order in which they were posted. */
    enum shunt_status (*wait)(struct transport *transport, uint32_t round, const struct deadline *deadline,
                              struct shunt_err *err);

    /**
     * After a deadline for messages that wait() has put on an asynchronous device: who is to be named. Sets `arrived`
     * of what has come, or may have. NULL: there is nothing to be found out.
     * @return SHUNT_ERR_TIMEOUT, or what else is the reason
     */
    enum shunt_status (*late)(struct transport *transport, uint32_t round, struct transport_message *messages,
                              uint32_t count, double seconds, struct shunt_err *err);

    /**
     * Collect one record of `bytes` bytes from every device at the root (the process of device 0).
     * mine: local_count records. all: size records at the root, else NULL. what: for messages.
     */
    enum shunt_status (*gather)(struct transport *transport, const void *mine, size_t bytes, void *all,
                                const char *what, const struct deadline *deadline, struct shunt_err *err);

    /** The root's `bytes` bytes (at most TRANSPORT_SHARE_MAX) to every process. */
    enum shunt_status (*share)(struct transport *transport, void *bytes, size_t size, const char *what,
                               const struct deadline *deadline, struct shunt_err *err);

    /** Look after peers; cheap. @return SHUNT_ERR_PEER when one is lost, SHUNT_ERR_CANCELLED */
    enum shunt_status (*poll)(struct transport *transport, struct shunt_err *err);

    /** Tell the others why this process gives up; best effort, bounded in time. */
    void (*abandon)(struct transport *transport, enum shunt_status status, const char *cause);

    void (*close)(struct transport *transport); /* cannot fail; never waits on a peer */
};

#define TRANSPORT_SHARE_MAX 2048u
#define TRANSPORT_GROUPS    4u

/** Head of every transport's own struct. */
struct transport {
    const struct transport_ops *ops;
    uint32_t size;
    uint32_t first_local, local_count;
    uint32_t sequence; /* number of the plan being run; tells late messages apart */
    bool root;
    char library[32]; /* name and version of what carries the messages; all devices must have the same */
};

/** Pseudo-round in which peers compare what they are about to exchange. */
#define TRANSPORT_PAIR_ROUND SHUNT_PLAN_MAX_ROUNDS

/** Pseudo-round of the checksums of round k: this plus k. Two rounds and their checksums have groups apart. */
#define TRANSPORT_CHECKSUM_ROUND (SHUNT_PLAN_MAX_ROUNDS + 2u)
_Static_assert(TRANSPORT_CHECKSUM_ROUND % TRANSPORT_GROUPS == 2, "rounds k, k + 1 and their checksums differ");

extern const struct transport_ops transport_loopback;
#ifdef SHUNT_HAVE_UCX
extern const struct transport_ops transport_ucx;
#endif
#ifdef SHUNT_HAVE_NCCL
extern const struct transport_ops transport_nccl;
#endif

/** One row of the list of transports that this program knows, built in or not. */
struct transport_row {
    const char *name;
    const char *summary;             /* one line for --list */
    const struct transport_ops *ops; /* NULL: not in this build */
    const char *missing;             /* why not */
};

/** NULL-terminated by a row without name. */
extern const struct transport_row transport_rows[];

/** @return SHUNT_ERR_UNSUPPORTED (not in this build), SHUNT_ERR_USAGE (no such transport) */
enum shunt_status transport_find(const char *name, const struct transport_ops **ops_out, struct shunt_err *err);

#endif
