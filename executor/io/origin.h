/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_ORIGIN_H
#define SHUNT_EXECUTOR_ORIGIN_H

/**
 * What the elements of a buffer must be when the old side was filled with the pattern: the pattern of
 * the state and dtype that the plan makes them from, cast once where the dtypes differ. A stream is
 * the whole tensor, row-major, in the buffer's own dtype.
 */

#include "shunt/plan.h"

struct origin {
    uint64_t key;
    unsigned cast; /* enum shunt_plan_cast */
};

struct origin origin_of(const struct shunt_plan_buffer *buffer, uint64_t seed, const char *tensor);

/** Bytes [begin, begin + count) of the stream: whole elements. */
void origin_write(const struct origin *origin, uint64_t begin, void *dst, uint64_t count);

/** Index of the first byte that differs from data; count if none does. */
uint64_t origin_compare(const struct origin *origin, uint64_t begin, const void *data, uint64_t count);

#endif
