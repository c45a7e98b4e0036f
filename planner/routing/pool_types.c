/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/pool_types.h"

#include <string.h>

/** Items by what their sources are, found through an open-addressing table. */
struct table {
    const struct route_type *type;
    uint32_t *slots;   /* first item of a part + 1; 0: free */
    size_t slot_count; /* power of two, at least twice the number of items */
    uint32_t *part_of; /* by item */
    uint32_t part_count;
};

static const uint32_t *sources_of(const struct route_type *type, uint32_t index)
{
    return &type->sources[(size_t)index * type->piece_count];
}

static uint64_t hash_sources(const struct route_type *type, uint32_t index)
{
    const uint32_t *sources = sources_of(type, index);
    uint64_t hash = 0;
    for (uint32_t p = 0; p < type->piece_count; p++)
        hash = (hash ^ sources[p]) * UINT64_C(0x9e3779b97f4a7c15);
    return hash;
}

/** Put an item to the one with the same sources; else into a part of its own. */
static void add_item(struct table *table, uint32_t index)
{
    const struct route_type *type = table->type;
    size_t slot = (size_t)(hash_sources(type, index) >> 32) & (table->slot_count - 1);
    while (table->slots[slot] != 0) {
        uint32_t first = table->slots[slot] - 1;
        if (memcmp(sources_of(type, first), sources_of(type, index), type->piece_count * sizeof(uint32_t)) == 0) {
            table->part_of[index] = table->part_of[first];
            return;
        }
        slot = (slot + 1) & (table->slot_count - 1);
    }
    table->slots[slot] = index + 1;
    table->part_of[index] = table->part_count++;
}

static void fill_part(struct route_type *part, const struct space *space, const struct route_type *type, uint32_t index)
{
    const struct space_item *item = &space->items[type->items[index]];
    memcpy(&part->sources[(size_t)part->item_count * type->piece_count], sources_of(type, index),
           type->piece_count * sizeof(uint32_t));
    part->items[part->item_count++] = type->items[index];
    part->wire_bytes += item->wire_bytes;
    part->new_bytes += item->elem_bytes[SPACE_TO];
}

struct pool_types pool_types_split(struct arena *arena, const struct space *space, const struct route_type *type)
{
    struct table table = {.type = type, .slot_count = 16};
    while (table.slot_count < 2 * (size_t)type->item_count)
        table.slot_count *= 2;
    table.slots = ARENA_NEW(arena, uint32_t, table.slot_count);
    table.part_of = ARENA_NEW(arena, uint32_t, type->item_count);
    for (uint32_t i = 0; i < type->item_count; i++)
        add_item(&table, i);
    struct pool_types split = {.count = table.part_count,
                               .types = ARENA_NEW(arena, struct route_type, table.part_count)};
    uint32_t *counts = ARENA_NEW(arena, uint32_t, table.part_count);
    for (uint32_t i = 0; i < type->item_count; i++)
        counts[table.part_of[i]]++;
    for (uint32_t t = 0; t < split.count; t++) {
        struct route_type *part = &split.types[t];
        *part = *type;
        part->item_count = 0;
        part->wire_bytes = part->new_bytes = 0;
        part->items = ARENA_NEW(arena, uint32_t, counts[t]);
        part->sources = ARENA_NEW(arena, uint32_t, (size_t)counts[t] * type->piece_count);
    }
    for (uint32_t i = 0; i < type->item_count; i++)
        fill_part(&split.types[table.part_of[i]], space, type, i);
    return split;
}
