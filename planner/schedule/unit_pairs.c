/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/unit_pairs.h"

#define FIRST_SLOT 256
#define NO_UNIT    UINT32_MAX

/** Numbers of pairs: an open-addressing table. */
struct pair_numbers {
    uint64_t *keys; /* source << 32 | taker, plus 1; 0: free */
    uint32_t *numbers;
    size_t slot_count;
    uint32_t count;
};

static size_t slot_of(const struct pair_numbers *table, uint64_t key)
{
    size_t slot = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (table->slot_count - 1);
    while (table->keys[slot] != 0 && table->keys[slot] != key)
        slot = (slot + 1) & (table->slot_count - 1);
    return slot;
}

static void grow_table(struct arena *arena, struct pair_numbers *table)
{
    struct pair_numbers larger = {.slot_count = table->slot_count > 0 ? 2 * table->slot_count : FIRST_SLOT,
                                  .count = table->count};
    larger.keys = ARENA_NEW(arena, uint64_t, larger.slot_count);
    larger.numbers = ARENA_NEW(arena, uint32_t, larger.slot_count);
    for (size_t i = 0; i < table->slot_count; i++) {
        if (table->keys[i] == 0)
            continue;
        size_t slot = slot_of(&larger, table->keys[i]);
        larger.keys[slot] = table->keys[i];
        larger.numbers[slot] = table->numbers[i];
    }
    *table = larger;
}

static uint32_t number_pair(struct arena *arena, struct pair_numbers *table, uint32_t source, uint32_t taker)
{
    if (2 * ((size_t)table->count + 1) > table->slot_count)
        grow_table(arena, table);
    uint64_t key = ((uint64_t)source << 32 | taker) + 1;
    size_t slot = slot_of(table, key);
    if (table->keys[slot] == 0) {
        table->keys[slot] = key;
        table->numbers[slot] = table->count++;
    }
    return table->numbers[slot];
}

/** `seen`, by pair, tells the unit that had it last. */
struct lister {
    struct pair_numbers table;
    VEC(struct unit_pair) pairs;
    VEC(uint32_t) seen;
};

static void list_unit(struct arena *arena, struct walk *walk, uint32_t unit, const bool *counts, struct lister *lister)
{
    const struct chunk *chunk = &walk->chunk;
    for (uint32_t i = 0; i < walk->count; i++) {
        uint32_t p = walk_piece(walk, i), taker = chunk->type->pieces[p].taker;
        uint32_t source = route_source(chunk->type, chunk->job->index, p);
        if (source == taker || (!counts[source] && !counts[taker]) ||
            walk_elements(walk, chunk->type->pieces[p].cell) == 0)
            continue;
        uint32_t number = number_pair(arena, &lister->table, source, taker);
        while (lister->seen.count <= number)
            *VEC_PUSH(arena, &lister->seen) = NO_UNIT;
        if (lister->seen.items[number] != unit)
            *VEC_PUSH(arena, &lister->pairs) = (struct unit_pair){number, source, taker};
        lister->seen.items[number] = unit;
    }
}

struct unit_pairs unit_pairs_build(struct arena *arena, const struct problem *problem, const struct loads *loads,
                                   const bool *counts)
{
    struct lister lister = {0};
    struct unit_pairs list = {.begin = ARENA_NEW(arena, uint32_t, (size_t)loads->unit_count + 1)};
    struct walk walk;
    walk_init(arena, problem, &walk);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        list.begin[u] = (uint32_t)lister.pairs.count;
        walk_unit(arena, &walk, &loads->units[u]);
        list_unit(arena, &walk, u, counts, &lister);
    }
    list.begin[loads->unit_count] = (uint32_t)lister.pairs.count;
    list.pairs = lister.pairs.items;
    list.count = lister.table.count;
    return list;
}
