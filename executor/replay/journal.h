/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_JOURNAL_H
#define SHUNT_EXECUTOR_JOURNAL_H

/**
 * How far one device has come, in a file that is valid at any moment.
 *
 *     head | state 0 | state 1
 *
 * The file has its name only once it is complete. From then on it is written through a shared mapping: the two states
 * take turns, each with a count and a checksum, so that a writer that dies in the middle leaves the one before. What has
 * been written outlives the process, not the machine.
 */

#include "shunt/exec.h"

struct journal;

/**
 * Make the file, in place of an older one.
 *
 * @return SHUNT_ERR_IO, SHUNT_ERR_NOMEM
 */
enum shunt_status journal_open(const char *path, const struct shunt_plan *plan, uint32_t device,
                               struct journal **journal_out, struct shunt_err *err);

/* All accept NULL, and cost next to nothing. */

/** Before a run: nothing has been touched. */
void journal_reset(struct journal *journal);
/** Round k: before its first allocation; behind its last pack, copy and fill. */
void journal_begin(struct journal *journal, uint32_t round);
void journal_fill(struct journal *journal, uint32_t round);
/** Round k: behind its last unpack. */
void journal_finish(struct journal *journal, uint32_t round);
/** Round k: before its first free; behind its last. */
void journal_release(struct journal *journal, uint32_t round);
void journal_free(struct journal *journal, uint32_t round);
void journal_end(struct journal *journal, enum shunt_status status);

/** The file stays. */
void journal_close(struct journal *journal);

#endif
