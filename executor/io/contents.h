/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_CONTENTS_H
#define SHUNT_EXECUTOR_CONTENTS_H

/** Fill an old side with predictable contents, and check a new side against the prediction. */

#include "io/lineage.h"
#include "replay/exec.h"

/** Called between buffers and every few megabytes; a status other than SHUNT_OK ends the work. */
struct contents_poll {
    void *ctx;
    enum shunt_status (*poll)(void *ctx, struct shunt_err *err);
};

/** The work ends when the world does: its shunt_world_poll(). */
struct contents_poll contents_poll_world(struct shunt_world *world);

/**
 * Pattern in every holding of the bound old-side buffers; in every other byte (pads) 0xEE, which no
 * move may carry over, and zero in kept buffers, whose pads are the new side's too.
 */
enum shunt_status contents_fill(struct shunt_exec *exec, uint64_t seed, const struct contents_poll *poll,
                                struct shunt_err *err);

struct contents_report {
    uint64_t checked_bytes;
    uint64_t wrong_bytes; /* of elements that differ; never-written ones may be among them */
    uint64_t never_bytes; /* of elements that no operation of the run has written (needs track_writes) */
    char first[600];      /* the first problem: tensor, range, found and expected; empty if there is none */
};

/** What a check expects in the holdings; pads must be zero in any case. */
struct contents_expect {
    uint64_t seed;                 /* as for the fill */
    bool zeros;                    /* zeros instead of the pattern */
    const struct lineage *lineage; /* of the old side; NULL: it is what was filled */
};

/**
 * Compare every element of the new side, kept buffers included.
 *
 * @param report_out  filled unless the work was ended by poll
 */
enum shunt_status contents_check(const struct shunt_exec *exec, const struct contents_expect *expect,
                                 const struct contents_poll *poll, struct contents_report *report_out,
                                 struct shunt_err *err);

#endif
