/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/intern.h"

#include <stdbool.h>
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

static size_t hash_view(const struct shunt_plan_view *view)
{
    uint64_t value = UINT64_C(0x9e3779b97f4a7c15) + view->ndim + ((uint64_t)view->elem_bytes << 32);
    for (uint32_t d = 0; d < view->ndim; d++)
        value = fold((uint64_t)view->shape[d] ^ value, (uint64_t)view->stride[d] ^ UINT64_C(0xa0761d6478bd642f)) ^
                value << 1;
    return (size_t)(value ^ value >> 32);
}

static bool same_view(const struct shunt_plan_view *a, const struct shunt_plan_view *b)
{
    uint64_t apart = (a->ndim ^ b->ndim) | (a->elem_bytes ^ b->elem_bytes);
    for (uint32_t d = 0; d < a->ndim; d++)
        apart |= (uint64_t)(a->shape[d] ^ b->shape[d]) | (uint64_t)(a->stride[d] ^ b->stride[d]);
    return apart == 0;
}

static size_t find_view_slot(const struct intern *intern, const struct shunt_plan_view *view)
{
    const struct shunt_plan_view *views = (const struct shunt_plan_view *)intern->records;
    size_t slot = hash_view(view) & (intern->slot_count - 1);
    while (intern->slots[slot] != 0 && !same_view(&views[intern->slots[slot] - 1], view))
        slot = (slot + 1) & (intern->slot_count - 1);
    return slot;
}

static void grow_slots(struct intern *intern, bool views)
{
    intern->slot_count *= 2;
    intern->slots = ARENA_NEW(intern->arena, uint32_t, intern->slot_count);
    for (uint32_t i = 0; i < intern->count; i++) {
        const void *record = intern->records + i * intern->record_bytes;
        intern->slots[views ? find_view_slot(intern, record) : find_slot(intern, record)] = i + 1;
    }
}

/** Add a record that is in none of the slots. */
static uint32_t add_record(struct intern *intern, const void *record, size_t slot, bool views)
{
    intern->records = vec_grow(intern->arena, intern->records, &intern->capacity, intern->count, intern->record_bytes);
    memcpy(intern->records + intern->count * intern->record_bytes, record, intern->record_bytes);
    intern->slots[slot] = ++intern->count;
    if (intern->count * 2 > intern->slot_count)
        grow_slots(intern, views);
    return intern->count - 1;
}

uint32_t intern_add(struct intern *intern, const void *record)
{
    size_t slot = find_slot(intern, record);
    return intern->slots[slot] != 0 ? intern->slots[slot] - 1 : add_record(intern, record, slot, false);
}

uint32_t intern_add_view(struct intern *intern, const struct shunt_plan_view *view)
{
    size_t slot = find_view_slot(intern, view);
    return intern->slots[slot] != 0 ? intern->slots[slot] - 1 : add_record(intern, view, slot, true);
}
