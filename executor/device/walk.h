/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_WALK_H
#define SHUNT_EXECUTOR_WALK_H

/**
 * Walk two strided images of one box together, in the largest steps that are contiguous in both.
 *
 * A box of shape [2, 3, 4] with 2-byte elements, dense on side a (strides 24, 8, 2) and every
 * second row on side b (strides 48, 16, 2), becomes one line of 6 units of 8 bytes:
 *
 *     a: uuuuuu            unit = 8 bytes, count = 6, a_step = 8, b_step = 16
 *     b: u.u.u.u.u.u.
 *
 * Dimensions of extent 1 vanish, neighbours merge where both sides allow it, and what is contiguous
 * on both sides becomes the unit. The innermost remaining dimension is the line; outer ones are
 * stepped by walk_next().
 */

#include <stdbool.h>
#include <stdint.h>

#include "shunt/types.h"

struct walk {
    uint64_t unit_bytes; /* contiguous on both sides */
    uint64_t count;      /* units in a line */
    uint64_t a_step, b_step;
    uint64_t a, b; /* byte offsets of the line's first unit */
    int outer;     /* dimensions left outside the line, outermost first */
    uint64_t shape[SHUNT_MAX_DIMS], index[SHUNT_MAX_DIMS];
    uint64_t a_stride[SHUNT_MAX_DIMS], b_stride[SHUNT_MAX_DIMS];
};

/** Strides are bytes; every extent is at least 1. The walk stands on the first line. */
void walk_init(struct walk *walk, uint32_t ndim, uint32_t elem_bytes, const int64_t *shape, const int64_t *a_stride,
               const int64_t *b_stride);

/** To the next line; false after the last one. */
static inline bool walk_next(struct walk *walk)
{
    for (int d = walk->outer - 1; d >= 0; d--) {
        walk->a += walk->a_stride[d];
        walk->b += walk->b_stride[d];
        if (++walk->index[d] < walk->shape[d])
            return true;
        walk->a -= walk->a_stride[d] * walk->shape[d];
        walk->b -= walk->b_stride[d] * walk->shape[d];
        walk->index[d] = 0;
    }
    return false;
}

#endif
