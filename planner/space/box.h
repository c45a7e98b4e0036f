/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_BOX_H
#define SHUNT_PLANNER_BOX_H

/** Range arithmetic of the planner: half-open boxes [lo, hi) of up to SHUNT_MAX_DIMS dimensions. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shunt/types.h"

struct box {
    uint32_t ndim;
    int64_t lo[SHUNT_MAX_DIMS], hi[SHUNT_MAX_DIMS]; /* entries at ndim and above are 0 and 1 */
};

/** [0, shape) */
struct box box_whole(uint32_t ndim, const int64_t *shape);

/** Intersection; false (and out unspecified) when it is empty. */
bool box_intersect(const struct box *a, const struct box *b, struct box *out);

bool box_equal(const struct box *a, const struct box *b);
bool box_empty(const struct box *box);

/** Number of elements; 0 for an empty box. */
int64_t box_volume(const struct box *box);

/** "[0,64)x[0,768)" into `text`, cut off where it does not fit. Returns text. */
char *box_print(const struct box *box, char *text, size_t room);

/** Most boxes that a difference falls into. */
#define BOX_MAX_PARTS (2 * SHUNT_MAX_DIMS)

/** Cut `part`, which lies in `whole`, out of it: disjoint boxes that make up the rest. @return their number */
uint32_t box_subtract(const struct box *whole, const struct box *part, struct box rest_out[BOX_MAX_PARTS]);

/**
 * Part `index` of `count` nearly equal slices, cut along the outermost dimension that is at
 * least `count` long, else along the longest one. A slice may be empty.
 */
struct box box_slice(const struct box *box, int64_t index, int64_t count);

/** box_volume() of a slice of a box that is not empty. */
int64_t box_slice_volume(const struct box *box, int64_t index, int64_t count);

#endif
