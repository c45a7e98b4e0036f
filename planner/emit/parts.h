/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PARTS_H
#define SHUNT_PLANNER_PARTS_H

/** The parts of all devices, made by several threads. What is made does not depend on how many. */

#include "emit/output.h"
#include "emit/part.h"

/** A part that is made, and written. */
struct part_made {
    uint64_t offset, size;
    uint32_t crc32c;
    struct part_figures figures;
};

/**
 * Make all parts and write them behind each other from `offset` on; `input` comes without scratch.
 *
 * @param made_out  one for each device
 * @return SHUNT_ERR_NOMEM, or what output_fail() says
 */
enum shunt_status parts_emit(struct arena *arena, const struct part_input *input, uint32_t threads,
                             struct output *output, uint64_t offset, struct part_made **made_out,
                             struct shunt_err *err);

#endif
