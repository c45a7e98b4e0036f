/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_WORLD_H
#define SHUNT_EXECUTOR_WORLD_H

/** A world: a transport, where its processes meet, and how far it has come. */

#include "launch/meet.h"
#include "shunt/exec.h"
#include "transport/transport.h"

struct shunt_world {
    struct transport *transport;
    struct meet *meet; /* NULL with loopback */
    bool owns_meet;
    struct shunt_device *on; /* NULL, or a device that is closed behind the transport */
    bool told;               /* the others know already that the run has ended, and why */
};

/**
 * Open a world over a given transport and meeting.
 *
 * @param meet  borrowed; NULL with loopback
 */
enum shunt_status world_open(const struct transport_ops *ops, const struct transport_config *config,
                             struct shunt_world **world_out, struct shunt_err *err);

/**
 * Everybody contributes a record, the root judges them all, everybody gets the verdict.
 *
 * @param mine   one record of `bytes` bytes per local device
 * @param judge  called at the root with size records; its status and text are everybody's result
 */
typedef enum shunt_status (*world_judge)(void *ctx, const void *all, uint32_t size, struct shunt_err *err);
enum shunt_status world_vote(struct shunt_world *world, const void *mine, size_t bytes, const char *what,
                             world_judge judge, void *ctx, double timeout_seconds, struct shunt_err *err);

/** The root's bytes, at most TRANSPORT_SHARE_MAX, to everybody. */
enum shunt_status world_share(struct shunt_world *world, void *bytes, size_t size, const char *what,
                              double timeout_seconds, struct shunt_err *err);

#endif
