/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PACKED_H
#define SHUNT_PLANNER_PACKED_H

/**
 * Loads of units, one behind the other, in about three bytes each in place of 24: the distance to the port before, and
 * the bytes unless they are those of the last port of that kind. Of large moves most loads are looked at once, to see
 * that they are those of another device as well.
 */

#include "schedule/ports.h"

struct packed {
    unsigned char *bytes;
    size_t size, capacity;
    uint64_t last[PORT_KINDS];
};

/** Where a reader is. */
struct unpacker {
    const unsigned char *at;
    uint64_t last[PORT_KINDS];
    uint32_t port;
};

/** Begin anew behind what is there: what follows can be read without that. @return where it begins */
size_t packed_begin(struct packed *packed);

/** Add the loads of a unit, of `count` ports, ascending. */
void packed_add(struct arena *arena, struct packed *packed, const uint32_t *ports, const uint64_t *bytes, size_t count);

/** Go to the next unit; the first one comes without. */
static inline void unpack_unit(struct unpacker *unpacker)
{
    unpacker->port = 0;
}

static inline uint64_t unpack_number(struct unpacker *unpacker)
{
    uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
        unsigned char byte = *unpacker->at++;
        number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return number;
    }
}

/** The next load of the unit. @return its bytes; unpacker->port is its port */
static inline uint64_t unpack_load(struct unpacker *unpacker)
{
    uint64_t token = unpack_number(unpacker);
    unpacker->port += (uint32_t)(token >> 1);
    uint64_t *last = &unpacker->last[unpacker->port % PORT_KINDS];
    if ((token & 1) != 0)
        *last = unpack_number(unpacker);
    return *last;
}

#endif
