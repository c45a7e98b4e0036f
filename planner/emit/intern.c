/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/intern.h"

#include <string.h>

void intern_init(struct intern *intern, struct arena *arena, size_t record_bytes)
{
    *intern = (struct intern){.arena = arena, .record_bytes = record_bytes, .slot_count = 64};
    intern->slots = ARENA_NEW(arena, uint32_t, intern->slot_count);
}

/** FNV-1a over 8-byte words; records are multiples of 8. */
static size_t hash(const void *record, size_t bytes)
{
    uint64_t value = UINT64_C(1469598103934665603);
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word;
        memcpy(&word, (const char *)record + at, 8);
        value = (value ^ word) * UINT64_C(1099511628211);
        value ^= value >> 29;
    }
    return (size_t)value;
}

static size_t find_slot(const struct intern *intern, const void *record)
{
    size_t slot = hash(record, intern->record_bytes) & (intern->slot_count - 1);
    while (intern->slots[slot] != 0 && memcmp(intern->records + (intern->slots[slot] - 1) * intern->record_bytes,
                                              record, intern->record_bytes) != 0)
        slot = (slot + 1) & (intern->slot_count - 1);
    return slot;
}

static void grow_slots(struct intern *intern)
{
    intern->slot_count *= 2;
    intern->slots = ARENA_NEW(intern->arena, uint32_t, intern->slot_count);
    for (uint32_t i = 0; i < intern->count; i++)
        intern->slots[find_slot(intern, intern->records + i * intern->record_bytes)] = i + 1;
}

uint32_t intern_add(struct intern *intern, const void *record)
{
    size_t slot = find_slot(intern, record);
    if (intern->slots[slot] != 0)
        return intern->slots[slot] - 1;
    intern->records = vec_grow(intern->arena, intern->records, &intern->capacity, intern->count, intern->record_bytes);
    memcpy(intern->records + intern->count * intern->record_bytes, record, intern->record_bytes);
    intern->slots[slot] = ++intern->count;
    if (intern->count * 2 > intern->slot_count)
        grow_slots(intern);
    return intern->count - 1;
}
