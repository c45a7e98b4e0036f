/* SPDX-License-Identifier: Apache-2.0 */
#include "device/walk.h"

/* Push a dimension behind (inside) those already there, merging it into the last one where both sides allow. */
static void push_dim(struct walk *walk, uint64_t extent, uint64_t a_stride, uint64_t b_stride)
{
    int last = walk->outer - 1;
    if (extent == 1)
        return;
    if (last >= 0 && walk->a_stride[last] == a_stride * extent && walk->b_stride[last] == b_stride * extent) {
        walk->shape[last] *= extent;
        walk->a_stride[last] = a_stride;
        walk->b_stride[last] = b_stride;
        return;
    }
    walk->shape[walk->outer] = extent;
    walk->a_stride[walk->outer] = a_stride;
    walk->b_stride[walk->outer] = b_stride;
    walk->outer++;
}

void walk_init(struct walk *walk, uint32_t ndim, uint32_t elem_bytes, const int64_t *shape, const int64_t *a_stride,
               const int64_t *b_stride)
{
    *walk = (struct walk){.unit_bytes = elem_bytes, .count = 1};
    for (uint32_t d = 0; d < ndim; d++)
        push_dim(walk, (uint64_t)shape[d], (uint64_t)a_stride[d], (uint64_t)b_stride[d]);

    int last = walk->outer - 1;
    if (last >= 0 && walk->a_stride[last] == elem_bytes && walk->b_stride[last] == elem_bytes) {
        walk->unit_bytes *= walk->shape[last];
        walk->outer = last--;
    }
    if (last >= 0) {
        walk->count = walk->shape[last];
        walk->a_step = walk->a_stride[last];
        walk->b_step = walk->b_stride[last];
        walk->outer = last;
    }
}
