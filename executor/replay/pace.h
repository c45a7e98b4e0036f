/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_PACE_H
#define SHUNT_EXECUTOR_PACE_H

/**
 * Order between the streams of a run, and how far the host runs ahead of them.
 *
 * The host puts rounds on the streams without waiting for any, but no more than PACE_WINDOW of them: before it
 * goes on it waits, with the run's deadline, for the round that many before. So a device that stands still is
 * noticed, and finished rounds are told of, while the streams always have work. On the host all is done when
 * it is asked for, and there is nothing to wait for.
 */

#include "replay/engine.h"
#include "replay/world.h"

#define PACE_WINDOW 8u

struct pace {
    struct shunt_world *world;
    struct engine **engines;
    uint32_t count;
    struct shunt_device *on; /* of all engines */
    double timeout_seconds;
    enum shunt_status (*done)(void *ctx, uint32_t round, struct shunt_err *err);
    void *ctx;
    struct device_event *wired;   /* the group of the round at hand */
    struct device_event **events; /* PACE_WINDOW for each engine: round is drained */
    uint32_t drained, finished;   /* rounds */
};

/** done: called for each round, in order, when all local devices have finished it. */
enum shunt_status pace_init(struct pace *pace, struct shunt_world *world, struct engine **engines, uint32_t count,
                            double timeout_seconds,
                            enum shunt_status (*done)(void *ctx, uint32_t round, struct shunt_err *err), void *ctx,
                            struct shunt_err *err);
/** What is put on the wire from now on comes after the packs of this round. */
enum shunt_status pace_packed(struct pace *pace, uint32_t round, struct shunt_err *err);
/** What engines do from now on comes after the messages of this round. */
enum shunt_status pace_wired(struct pace *pace, uint32_t round, struct shunt_err *err);
/** Wait for what pace_wired() has seen on the wire, looking after peers. */
enum shunt_status pace_arrived(struct pace *pace, uint32_t round, struct shunt_err *err);
/** Unpacks and frees of this round are on the streams. */
enum shunt_status pace_drained(struct pace *pace, uint32_t round, struct shunt_err *err);
/** Wait for all rounds. */
enum shunt_status pace_finish(struct pace *pace, struct shunt_err *err);
void pace_destroy(struct pace *pace);

#endif
