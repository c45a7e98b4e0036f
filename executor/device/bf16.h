/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_BF16_H
#define SHUNT_EXECUTOR_BF16_H

/** Casts of one number between fp32 and bf16 in integers: bit for bit the same on every machine. Plain C and CUDA. */

#include <stdint.h>

#ifdef __CUDACC__
#define SHUNT_KERNEL static __device__ __forceinline__
#else
#define SHUNT_KERNEL static inline
#endif

/** To nearest, ties to even; what is too large becomes an infinity, a NaN keeps its upper half and is made quiet. */
SHUNT_KERNEL uint16_t cast_to_bf16(uint32_t bits)
{
    if ((bits & UINT32_C(0x7FFFFFFF)) > UINT32_C(0x7F800000))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + UINT32_C(0x7FFF) + (bits >> 16 & 1)) >> 16);
}

/** Exact: the same number, and of a NaN the same bits. */
SHUNT_KERNEL uint32_t cast_to_fp32(uint16_t bits)
{
    return (uint32_t)bits << 16;
}

#endif
