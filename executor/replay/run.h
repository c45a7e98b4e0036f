/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_RUN_H
#define SHUNT_EXECUTOR_RUN_H

/** One run of the local devices of a world: run.c begins and ends it, run_rounds.c is what lies between. */

#include "replay/exec.h"
#include "replay/pace.h"

#define RANGES_OPEN 4u /* more than there are rounds at hand */

struct run {
    struct shunt_world *world;
    struct shunt_exec *const *execs;
    struct engine **engines;
    uint32_t count;
    uint32_t rounds, depth;
    bool checksum;
    bool dry;      /* without the rounds */
    bool lockstep; /* a journal must not run ahead of the device */
    double timeout_seconds;
    struct pace pace;
    uint64_t round_ranges[RANGES_OPEN], wire_ranges[RANGES_OPEN]; /* for profilers, of the rounds at hand */
};

/** Tells callers of a finished round; for the pace. */
enum shunt_status run_say_done(void *ctx, uint32_t round, struct shunt_err *err);
/** Until all devices of the world are here. */
enum shunt_status run_barrier(struct run *run, const char *what, struct shunt_err *err);
/** From the common start to the common end. */
enum shunt_status run_rounds(struct run *run, struct shunt_err *err);

#endif
