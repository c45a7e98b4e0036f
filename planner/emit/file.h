/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_FILE_H
#define SHUNT_PLANNER_FILE_H

/** The plan file: global sections and parts put together, checksums and id set; and its way to disk. */

#include "emit/output.h"
#include "emit/part.h"
#include "emit/timing.h"
#include "place/place.h"
#include "schedule/schedule.h"

struct file_input {
    const struct cfg_model *model;
    const struct cfg_cluster *cluster;
    const struct place *place; /* NULL: the new ranks are where the layout says */
    const struct route *route;
    const struct problem *problem;
    const struct schedule *schedule;
    uint32_t threads; /* to make parts with, at least 1; the bytes do not depend on it */
};

/** Assemble the plan in `output`, which holds nothing yet. */
enum shunt_status file_assemble(struct arena *arena, const struct file_input *input, struct output *output,
                                struct shunt_err *err);

/** Write to a temporary file beside `path`, fsync and rename: the old file stays whole until the new one is. */
enum shunt_status file_write(const char *path, const void *bytes, size_t size, struct shunt_err *err);

#endif
