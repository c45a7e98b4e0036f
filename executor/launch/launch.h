/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_LAUNCH_H
#define SHUNT_EXECUTOR_LAUNCH_H

/** Start one process per device on this machine, watch over them, and clean up after them. */

#include "launch/board.h"

struct launch_watch {
    void *ctx;
    /** Called several times a second while children run. */
    void (*look)(void *ctx, const struct board *board);
};

/**
 * Run this program again, `count` times, with the same arguments and SHUNT_RANK and company in the
 * environment, and wait until all have ended. When one dies the others are told; what has not ended
 * LAUNCH_GRACE_SECONDS later is killed. SIGINT and SIGTERM end the run.
 *
 * @return SHUNT_OK when all children succeeded; else the first cause
 */
enum shunt_status launch_run(char **argv, uint32_t count, struct board *board, int board_fd,
                             const struct launch_watch *watch, struct shunt_err *err);

#define LAUNCH_GRACE_SECONDS 10

/** A child ends well only behind the last meeting: what has not ended this long after it is taken for lost. */
#define LAUNCH_END_SECONDS 30

#endif
