/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_ORIGIN_H
#define SHUNT_EXECUTOR_ORIGIN_H

/**
 * What the elements of a buffer must be when the old side was filled with the pattern: the pattern of
 * the state and dtype that they are made from, cast where the dtypes differ. A stream is the whole
 * tensor, row-major, in the buffer's own dtype.
 */

#include "shunt/plan.h"

#define DESCENT_CASTS 3 /* more of them in a row change nothing */

/** How a state came from what was filled. All zero but the state: it is what was filled. */
struct descent {
    uint8_t state;                /* enum shunt_state that was filled */
    uint8_t cast_count;           /* casts since, the first one first */
    uint8_t casts[DESCENT_CASTS]; /* enum shunt_plan_cast */
};

/** What one plan makes of what its old side holds. */
struct descent descent_of(const struct shunt_plan_buffer *buffer);

/** `then`, of which the state is what `first` describes, behind `first`. */
struct descent descent_join(const struct descent *first, const struct descent *then);

struct origin {
    uint64_t key;
    struct descent descent;
};

struct origin origin_of(const struct descent *descent, uint64_t seed, const char *tensor);

/** Bytes [begin, begin + count) of the stream: whole elements. */
void origin_write(const struct origin *origin, uint64_t begin, void *dst, uint64_t count);

/** Index of the first byte that differs from data; count if none does. */
uint64_t origin_compare(const struct origin *origin, uint64_t begin, const void *data, uint64_t count);

#endif
