/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_ROUNDS_H
#define SHUNT_EXECUTOR_ROUNDS_H

/**
 * Figures of each round of one device, as struct shunt_exec_round has them.
 *
 * Moments are marked as a round goes by. On the host that is a look at the clock. On a device with streams it is an
 * event in the stream that does the work, so that seconds are those of the device, and marking waits for nothing; what
 * events say is read when the round is known to be finished, before they serve a later one.
 */

#include "replay/engine.h"

#define ROUNDS_WINDOW 16u /* rounds between the first mark and the last one, at most: more than the host runs ahead */

enum rounds_moment {
    ROUNDS_PACK = 0, /* memory is taken, then packs, copies and fills */
    ROUNDS_PACKED,
    ROUNDS_WIRE, /* messages start */
    ROUNDS_WIRED,
    ROUNDS_WAIT, /* nothing is left to do but to wait for messages */
    ROUNDS_WAITED,
    ROUNDS_UNPACK, /* unpacks, then memory is given back */
    ROUNDS_UNPACKED,
    ROUNDS_MOMENTS
};

struct rounds {
    struct shunt_exec_round *list;                /* one per round */
    struct device_event **events;                 /* with streams: ROUNDS_MOMENTS for each place in the window */
    int64_t at_ns[ROUNDS_WINDOW][ROUNDS_MOMENTS]; /* without */
};

enum shunt_status rounds_create(const struct engine *engine, struct rounds **rounds_out, struct shunt_err *err);
void rounds_destroy(struct engine *engine); /* does nothing where no figures are kept, and so do the others */

/** Before a run. */
void rounds_reset(struct engine *engine);
enum shunt_status rounds_mark(struct engine *engine, uint32_t round, enum rounds_moment moment, struct shunt_err *err);
/** What the engine has counted since its figures were `before` belongs to this round. */
void rounds_count(struct engine *engine, uint32_t round, const struct shunt_exec_stats *before);
/** All that was marked in this round is done. */
enum shunt_status rounds_finish(struct engine *engine, uint32_t round, struct shunt_err *err);

#endif
