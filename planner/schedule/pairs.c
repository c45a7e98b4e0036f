/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/pairs.h"

#define FIRST_SLOTS 64

/**
 * The slot of a pair, or the free one where it belongs. Pairs that are asked for one after the other are often of
 * takers in a row that are as far from their sources: those have slots in a row, however many steps they take.
 */
static struct pair_slot *find_slot(const struct pairs *pairs, uint64_t pair)
{
    uint32_t source = (uint32_t)((pair - 1) >> 32), taker = (uint32_t)(pair - 1);
    uint64_t apart = (uint64_t)(source - taker) * UINT64_C(0x9e3779b97f4a7c15);
    size_t slot = ((size_t)(apart >> 20) + taker) & (pairs->slot_count - 1), step = (size_t)(apart >> 32) | 1;
    while (pairs->slots[slot].pair != 0 && pairs->slots[slot].pair != pair)
        slot = (slot + step) & (pairs->slot_count - 1);
    return &pairs->slots[slot];
}

static void grow(struct arena *arena, struct pairs *pairs)
{
    struct pairs larger = {.slot_count = pairs->slot_count > 0 ? 2 * pairs->slot_count : FIRST_SLOTS,
                           .used = pairs->used};
    larger.slots = ARENA_NEW(arena, struct pair_slot, larger.slot_count);
    for (size_t i = 0; i < pairs->slot_count; i++) {
        if (pairs->slots[i].pair != 0)
            *find_slot(&larger, pairs->slots[i].pair) = pairs->slots[i];
    }
    *pairs = larger;
}

/** The slot of a pair, of this round; *fresh_out: it was not. */
static struct pair_slot *take_slot(struct arena *arena, struct pairs *pairs, uint32_t source, uint32_t taker,
                                   uint32_t round, bool *fresh_out)
{
    if (2 * (pairs->used + 1) > pairs->slot_count)
        grow(arena, pairs);
    struct pair_slot *slot = find_slot(pairs, ((uint64_t)source << 32 | taker) + 1);
    *fresh_out = slot->pair == 0 || slot->round != round;
    pairs->used += slot->pair == 0;
    if (*fresh_out)
        *slot = (struct pair_slot){.pair = ((uint64_t)source << 32 | taker) + 1, .round = round};
    return slot;
}

bool pairs_add(struct arena *arena, struct pairs *pairs, uint32_t source, uint32_t taker, uint32_t round)
{
    bool fresh;
    take_slot(arena, pairs, source, taker, round, &fresh);
    return fresh;
}

uint64_t pairs_extend(struct arena *arena, struct pairs *pairs, uint32_t source, uint32_t taker, uint32_t round,
                      uint64_t bytes)
{
    bool fresh;
    struct pair_slot *slot = take_slot(arena, pairs, source, taker, round, &fresh);
    return slot->bytes += bytes;
}

void pairs_add_unit(struct arena *arena, struct pairs *pairs, const struct problem *problem, const struct unit *unit,
                    uint32_t round, uint32_t *messages)
{
    const struct job *job = &problem->jobs[unit->job];
    const struct chunk chunk = rounds_chunk(problem, job, &unit->chunking, unit->chunk);
    const struct route_type *type = chunk.type;
    for (uint32_t p = 0; p < type->piece_count; p++) {
        if (!chunk_has_piece(&chunk, p))
            continue;
        uint32_t source = route_source(type, job->index, p), taker = type->pieces[p].taker;
        if (source == taker || !pairs_add(arena, pairs, source, taker, round))
            continue;
        messages[source]++;
        messages[taker]++;
    }
}
