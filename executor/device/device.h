/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_DEVICE_H
#define SHUNT_EXECUTOR_DEVICE_H

/** Kinds of device memory: one row of functions each. */

#include "shunt/plan.h"

/** A box inside a buffer. */
struct device_box {
    void *data; /* start of the buffer or staging slot, plus the offset of the box */
    const struct shunt_plan_view *view;
};

struct device_ops {
    const char *name;
    /** 64-byte aligned and zeroed; NULL when there is none left. bytes may be 0. */
    void *(*alloc)(uint64_t bytes);
    /** bytes as given to alloc; accepts NULL. The memory is usable again at once. */
    void (*free)(void *ptr, uint64_t bytes);
    /** Boxes of the same shape and element size that do not overlap. */
    void (*copy)(const struct device_box *dst, const struct device_box *src);
    /** Boxes of the same shape; cast is not SHUNT_CAST_NONE, and the element sizes are those of its dtypes. */
    void (*cast)(const struct device_box *dst, const struct device_box *src, unsigned cast);
    void (*fill_zero)(const struct device_box *dst);
};

extern const struct device_ops device_host;

#endif
