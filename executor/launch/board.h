/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_BOARD_H
#define SHUNT_EXECUTOR_BOARD_H

/**
 * Meeting of the children of one launcher: memory that they share with it, without a name in any
 * file system, so that nothing stays behind however they end. Each child writes its own slot only;
 * the cause of failure is written once, by whoever is first.
 */

#include "launch/meet.h"

struct board;

/** The environment variable that hands the board's descriptor to a child. */
#define BOARD_FD_VARIABLE "SHUNT_BOARD_FD"

/** Launcher: make a board for `size` children and `plan_count` plans. fd_out is close-on-exec. */
enum shunt_status board_create(uint32_t size, uint32_t plan_count, struct board **board_out, int *fd_out,
                               struct shunt_err *err);

/** Child: join the board behind a descriptor, which is closed. The meeting is closed by meet_close(). */
enum shunt_status board_join(int fd, uint32_t rank, uint32_t size, uint32_t plan_count, struct meet **meet_out,
                             struct board **board_out, struct shunt_err *err);

/** Child: publish the result of a plan, of at most BOARD_RESULT_BYTES, and how it ended. */
#define BOARD_RESULT_BYTES 1024u
void board_put_result(struct board *board, uint32_t plan, uint32_t rank, const void *result, size_t bytes);
void board_put_end(struct board *board, uint32_t rank, enum shunt_status status, const char *text);

/** Launcher: what a child has published. All values are a child's claims. */
struct board_child {
    bool ended;
    uint32_t status;
    char text[1024];
    uint32_t phase, round;
};
void board_get_child(const struct board *board, uint32_t rank, struct board_child *child_out);
bool board_get_result(const struct board *board, uint32_t plan, uint32_t rank, void *result_out, size_t bytes);
bool board_get_lost(const struct board *board, struct meet_lost *lost_out);
void board_report_lost(struct board *board, const struct meet_lost *lost);

/** Launcher; accepts NULL. */
void board_destroy(struct board *board);

#endif
