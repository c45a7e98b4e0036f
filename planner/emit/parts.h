/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PARTS_H
#define SHUNT_PLANNER_PARTS_H

/** The parts of all devices, made by several threads. What is made does not depend on how many. */

#include "emit/part.h"

/** A part that is made. */
struct part_made {
    unsigned char *bytes;
    size_t offset, size; /* offset: from the start of all of them */
    uint32_t crc32c;
    struct part_figures figures;
};

struct parts {
    uint32_t count; /* of devices */
    struct part_made *made;
    uint32_t batch_count;
    struct arena *batches; /* the bytes of so many parts each, which follow each other */
};

/**
 * Make all parts; `input` comes without scratch. The arena is used before the first part is made only.
 *
 * @return false when memory ran out; parts_finish() all the same
 */
bool parts_emit(struct arena *arena, const struct part_input *input, uint32_t threads, struct parts *parts_out);

/** Copy the parts behind each other to `to`, and give them back. */
void parts_move(struct parts *parts, uint32_t threads, unsigned char *to);

/** Accepts what is all zero, and what is moved. */
void parts_finish(struct parts *parts);

#endif
