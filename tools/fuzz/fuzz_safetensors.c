/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors header parser: first 8 bytes are the size of the data, the rest is the header. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint64_t data_bytes;
    if (size < sizeof(data_bytes))
        return 0;
    memcpy(&data_bytes, bytes, sizeof(data_bytes));
    size -= sizeof(data_bytes);
    char *text = malloc(size + (size == 0)); /* no byte more than there is */
    if (text == NULL)
        return 0;
    memcpy(text, bytes + sizeof(data_bytes), size);
    struct safetensors_index index;
    struct shunt_err err;
    if (safetensors_parse(text, size, data_bytes, &index, &err) == SHUNT_OK) {
        uint64_t held = 0;
        for (uint32_t i = 0; i < index.count; i++) {
            const struct safetensors_entry *entry = &index.entries[i];
            assert(entry->begin <= entry->end && entry->end <= data_bytes && entry->ndim <= SHUNT_MAX_DIMS);
            assert(safetensors_find(&index, entry->name) == entry);
            held += entry->end - entry->begin;
        }
        assert(held == data_bytes);
        safetensors_index_finish(&index);
    }
    free(text);
    return 0;
}
