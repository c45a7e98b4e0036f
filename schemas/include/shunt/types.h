/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TYPES_H
#define SHUNT_TYPES_H

/** State kinds and element types: the numbers written in plans and the names used in documents. */

#include <stddef.h>
#include <stdint.h>

#include "shunt/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most dimensions a tensor, box or view may have. */
#define SHUNT_MAX_DIMS 6

enum shunt_state {
    SHUNT_STATE_PARAM = 0,
    SHUNT_STATE_GRAD,
    SHUNT_STATE_MASTER,
    SHUNT_STATE_EXP_AVG,
    SHUNT_STATE_EXP_AVG_SQ,
    SHUNT_STATE_MOMENTUM,
    SHUNT_STATE_BUFFER,
    SHUNT_STATE_SCALAR,
    SHUNT_STATE_BLOB,
    SHUNT_STATE_COUNT
};

enum shunt_dtype {
    SHUNT_DTYPE_BF16 = 0,
    SHUNT_DTYPE_FP16,
    SHUNT_DTYPE_FP32,
    SHUNT_DTYPE_FP64,
    SHUNT_DTYPE_FP8_E4M3,
    SHUNT_DTYPE_FP8_E5M2,
    SHUNT_DTYPE_I8,
    SHUNT_DTYPE_I16,
    SHUNT_DTYPE_I32,
    SHUNT_DTYPE_I64,
    SHUNT_DTYPE_U8,
    SHUNT_DTYPE_U16,
    SHUNT_DTYPE_U32,
    SHUNT_DTYPE_U64,
    SHUNT_DTYPE_BOOL,
    SHUNT_DTYPE_COUNT
};

/** Name as written in documents ("exp_avg", "bf16"); NULL if out of range. */
SHUNT_API const char *shunt_state_name(unsigned state);
SHUNT_API const char *shunt_dtype_name(unsigned dtype);

/** Name as written in safetensors headers ("BF16", "F32"); NULL if out of range. */
SHUNT_API const char *shunt_dtype_safetensors_name(unsigned dtype);

/** Bytes of one element (1, 2, 4 or 8); 0 if out of range. */
SHUNT_API uint32_t shunt_dtype_bytes(unsigned dtype);

/** Number of a name, or -1. */
SHUNT_API int shunt_state_from_name(const char *name);
SHUNT_API int shunt_dtype_from_name(const char *name);
SHUNT_API int shunt_dtype_from_safetensors_name(const char *name);

#ifdef __cplusplus
}
#endif
#endif
