/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/intern.h"

#include <string.h>

void intern_init(struct intern *intern, struct arena *arena, size_t record_bytes)
{
    *intern = (struct intern){.arena = arena, .record_bytes = record_bytes, .slot_count = 64};
    intern->slots = ARENA_NEW(arena, uint32_t, intern->slot_count);
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 product;
    product all = (product)a * b;
    return (uint64_t)all ^ (uint64_t)(all >> 64);
}

/** Two words at a time, multiplied into each other; records are multiples of 8. */
static size_t hash(const void *record, size_t bytes)
{
    uint64_t value = UINT64_C(0x9e3779b97f4a7c15), words[2] = {0};
    size_t at = 0;
    for (; at + 16 <= bytes; at += 16) {
        memcpy(words, (const char *)record + at, 16);
        value = fold(words[0] ^ value, words[1] ^ UINT64_C(0xa0761d6478bd642f)) ^ value << 1;
    }
    if (at < bytes) {
        memcpy(words, (const char *)record + at, 8);
        value = fold(words[0] ^ value, UINT64_C(0xe7037ed1a0b428db));
    }
    return (size_t)(value ^ value >> 32);
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
