/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_MEMORY_H
#define SHUNT_EXECUTOR_MEMORY_H

/**
 * The buffers that one device holds between the plans of a chain, by name. While a plan runs there
 * is an old side and a new side; memory_turn() makes the new one the old one of the next plan.
 */

#include "device/device.h"
#include "device/pool.h"

struct memory_item {
    char *name;
    bool host;               /* of the host tier: in host memory on every device */
    struct pool_block block; /* data is NULL once released; from the pool only if the device is the host */
};

struct memory_list {
    struct memory_item *items;
    uint32_t count, capacity;
};

struct memory {
    struct memory_list old_side; /* sorted by name */
    struct memory_list new_side;
    struct pool pool;
    struct shunt_device *on;      /* NULL: the host */
    struct device_stream *stream; /* in whose order memory is there, and is freed */
};

/** Add to the new side: 64-byte aligned, with anybody's contents; NULL when out of memory, or if bytes is 0. */
void *memory_alloc(struct memory *memory, const char *name, bool host, uint64_t bytes);
/** Free a buffer of the old side; its pages serve the new side. */
void memory_release(struct memory *memory, const char *name);
/** Old side; NULL if there is none of that name. */
const struct memory_item *memory_find(const struct memory *memory, const char *name);
/** What is left of the old side, and the new side, become the old side. @return false when out of memory */
bool memory_turn(struct memory *memory);
/** What the stream had to do with the memory is done. */
void memory_finish(struct memory *memory);

#endif
