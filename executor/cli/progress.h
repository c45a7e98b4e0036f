/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_PROGRESS_H
#define SHUNT_EXECUTOR_PROGRESS_H

/** One line on stderr: rewritten in place on a terminal, else a plain line every few seconds. */

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool terminal;
    bool drawn; /* a line stands on the terminal */
    int64_t next_ns;
};

void progress_init(struct progress *progress);
/** Prints when it is time to; otherwise free of cost. round_count 0: no rounds in this phase. */
void progress_show(struct progress *progress, const char *phase, uint32_t round, uint32_t round_count);
/** Wipe the line before other output. */
void progress_clear(struct progress *progress);

#endif
