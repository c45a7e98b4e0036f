/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_COPY_H
#define SHUNT_EXECUTOR_COPY_H

/** Strided copies in host memory. */

#include "shunt/plan.h"

/** Copy a box. Views have the same shape and element size; the boxes do not overlap. */
void copy_box(void *dst, const struct shunt_plan_view *dst_view, const void *src,
              const struct shunt_plan_view *src_view);

/** Set every byte of a box. */
void fill_box(void *dst, const struct shunt_plan_view *view, unsigned char byte);

#endif
