/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/packed.h"

#include <string.h>

#define MOST_BYTES 15 /* of a load */

size_t packed_begin(struct packed *packed)
{
    memset(packed->last, 0, sizeof(packed->last));
    return packed->size;
}

static unsigned char *put_number(unsigned char *at, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (unsigned char)(number | 0x80);
    *at++ = (unsigned char)number;
    return at;
}

void packed_add(struct arena *arena, struct packed *packed, const uint32_t *ports, const uint64_t *bytes, size_t count)
{
    while (packed->capacity - packed->size < count * MOST_BYTES)
        packed->bytes = vec_grow(arena, packed->bytes, &packed->capacity, packed->capacity, 1);
    unsigned char *at = packed->bytes + packed->size;
    uint32_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t port = ports[i];
        uint64_t *last = &packed->last[port % PORT_KINDS];
        bool differs = bytes[port] != *last;
        at = put_number(at, (uint64_t)(port - before) << 1 | differs);
        if (differs)
            at = put_number(at, bytes[port]);
        *last = bytes[port];
        before = port;
    }
    packed->size = (size_t)(at - packed->bytes);
}
