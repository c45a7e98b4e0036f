/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_CAST_H
#define SHUNT_EXECUTOR_CAST_H

/** Casts between fp32 and bf16 in host memory, bit for bit the same on every machine. */

#include "device/bf16.h"
#include "shunt/plan.h"

/** `count` elements in a row. Neither side need be aligned. */
void cast_run(void *dst, const void *src, uint64_t count, unsigned cast);

/** A box. Views have the same shape and the element sizes of the cast's dtypes; the boxes do not overlap. */
void cast_box(void *dst, const struct shunt_plan_view *dst_view, const void *src,
              const struct shunt_plan_view *src_view, unsigned cast);

#endif
