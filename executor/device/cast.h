/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_CAST_H
#define SHUNT_EXECUTOR_CAST_H

/** Casts between fp32 and bf16 in host memory, bit for bit the same on every machine. */

#include "shunt/plan.h"

/** To nearest, ties to even; what is too large becomes an infinity, a NaN keeps its upper half and is made quiet. */
static inline uint16_t cast_to_bf16(uint32_t bits)
{
    if ((bits & UINT32_C(0x7FFFFFFF)) > UINT32_C(0x7F800000))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + UINT32_C(0x7FFF) + (bits >> 16 & 1)) >> 16);
}

/** Exact: the same number, and of a NaN the same bits. */
static inline uint32_t cast_to_fp32(uint16_t bits)
{
    return (uint32_t)bits << 16;
}

/** `count` elements in a row. Neither side need be aligned. */
void cast_run(void *dst, const void *src, uint64_t count, unsigned cast);

/** A box. Views have the same shape and the element sizes of the cast's dtypes; the boxes do not overlap. */
void cast_box(void *dst, const struct shunt_plan_view *dst_view, const void *src,
              const struct shunt_plan_view *src_view, unsigned cast);

#endif
