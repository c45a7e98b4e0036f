/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_SAFETENSORS_HEADER_H
#define SHUNT_EXECUTOR_SAFETENSORS_HEADER_H

/**
 * The JSON header of a safetensors file, read as hostile text: a strict parser for exactly this
 * grammar, bounded in every direction.
 *
 *     { "__metadata__": {"key": "value", ...},
 *       "NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ... }   then spaces
 */

#include <stddef.h>
#include <stdint.h>

#include "shunt/types.h"

#define SAFETENSORS_MAX_HEADER  UINT64_C(100000000) /* bytes; the format's own limit */
#define SAFETENSORS_MAX_ENTRIES 1000000u
#define SAFETENSORS_MAX_NAME    4096u

struct safetensors_entry {
    const char *name; /* decoded, inside the text */
    uint32_t dtype;   /* enum shunt_dtype */
    uint32_t ndim;    /* 0..SHUNT_MAX_DIMS */
    uint64_t shape[SHUNT_MAX_DIMS];
    uint64_t begin, end; /* bytes behind the header */
};

struct safetensors_index {
    struct safetensors_entry *entries; /* sorted by name */
    uint32_t count;
};

/**
 * Parse and check a header: grammar, UTF-8, no name twice, sizes that fit shape and dtype, and data
 * that tile [0, data_bytes) without overlap or hole.
 *
 * @param text  changed in place; must outlive the index
 * @return SHUNT_ERR_INPUT, SHUNT_ERR_NOMEM; texts say "header byte N: found ..., expected ..."
 */
enum shunt_status safetensors_parse(char *text, size_t text_bytes, uint64_t data_bytes,
                                    struct safetensors_index *index_out, struct shunt_err *err);
void safetensors_index_finish(struct safetensors_index *index);

/** NULL if there is none. */
const struct safetensors_entry *safetensors_find(const struct safetensors_index *index, const char *name);

#endif
