/* SPDX-License-Identifier: Apache-2.0 */
#include "shunt/types.h"

#include <string.h>

struct dtype_row {
    const char *name;
    const char *safetensors_name;
    uint32_t bytes;
};

static const char *const state_names[SHUNT_STATE_COUNT] = {
    [SHUNT_STATE_PARAM] = "param",
    [SHUNT_STATE_GRAD] = "grad",
    [SHUNT_STATE_MASTER] = "master",
    [SHUNT_STATE_EXP_AVG] = "exp_avg",
    [SHUNT_STATE_EXP_AVG_SQ] = "exp_avg_sq",
    [SHUNT_STATE_MOMENTUM] = "momentum",
    [SHUNT_STATE_BUFFER] = "buffer",
    [SHUNT_STATE_SCALAR] = "scalar",
    [SHUNT_STATE_BLOB] = "blob",
};

static const struct dtype_row dtype_rows[SHUNT_DTYPE_COUNT] = {
    [SHUNT_DTYPE_BF16] = {"bf16", "BF16", 2},
    [SHUNT_DTYPE_FP16] = {"fp16", "F16", 2},
    [SHUNT_DTYPE_FP32] = {"fp32", "F32", 4},
    [SHUNT_DTYPE_FP64] = {"fp64", "F64", 8},
    [SHUNT_DTYPE_FP8_E4M3] = {"fp8_e4m3", "F8_E4M3", 1},
    [SHUNT_DTYPE_FP8_E5M2] = {"fp8_e5m2", "F8_E5M2", 1},
    [SHUNT_DTYPE_I8] = {"i8", "I8", 1},
    [SHUNT_DTYPE_I16] = {"i16", "I16", 2},
    [SHUNT_DTYPE_I32] = {"i32", "I32", 4},
    [SHUNT_DTYPE_I64] = {"i64", "I64", 8},
    [SHUNT_DTYPE_U8] = {"u8", "U8", 1},
    [SHUNT_DTYPE_U16] = {"u16", "U16", 2},
    [SHUNT_DTYPE_U32] = {"u32", "U32", 4},
    [SHUNT_DTYPE_U64] = {"u64", "U64", 8},
    [SHUNT_DTYPE_BOOL] = {"bool", "BOOL", 1},
};

const char *shunt_state_name(unsigned state)
{
    return state < SHUNT_STATE_COUNT ? state_names[state] : NULL;
}

const char *shunt_dtype_name(unsigned dtype)
{
    return dtype < SHUNT_DTYPE_COUNT ? dtype_rows[dtype].name : NULL;
}

const char *shunt_dtype_safetensors_name(unsigned dtype)
{
    return dtype < SHUNT_DTYPE_COUNT ? dtype_rows[dtype].safetensors_name : NULL;
}

uint32_t shunt_dtype_bytes(unsigned dtype)
{
    return dtype < SHUNT_DTYPE_COUNT ? dtype_rows[dtype].bytes : 0;
}

int shunt_state_from_name(const char *name)
{
    for (int i = 0; i < SHUNT_STATE_COUNT; i++) {
        if (strcmp(state_names[i], name) == 0)
            return i;
    }
    return -1;
}

int shunt_dtype_from_name(const char *name)
{
    for (int i = 0; i < SHUNT_DTYPE_COUNT; i++) {
        if (strcmp(dtype_rows[i].name, name) == 0)
            return i;
    }
    return -1;
}

int shunt_dtype_from_safetensors_name(const char *name)
{
    for (int i = 0; i < SHUNT_DTYPE_COUNT; i++) {
        if (strcmp(dtype_rows[i].safetensors_name, name) == 0)
            return i;
    }
    return -1;
}
