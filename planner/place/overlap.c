/* SPDX-License-Identifier: Apache-2.0 */
#include "place/overlap.h"

#include "place/kinds.h"

/** Sums by key, and the set of keys that have one: bits, so that keys come out in order without sorting. */
struct sums {
    uint64_t *bytes, *is_set;
    uint32_t count, word_count;
    uint32_t *mark, turn; /* of a key: the last turn it was added in */
};

static void sums_init(struct arena *arena, uint32_t keys, struct sums *sums)
{
    *sums = (struct sums){.bytes = ARENA_NEW(arena, uint64_t, keys),
                          .is_set = ARENA_NEW(arena, uint64_t, keys / 64 + 1),
                          .word_count = keys / 64 + 1,
                          .mark = ARENA_NEW(arena, uint32_t, keys)};
}

static void sums_add(struct sums *sums, const uint32_t *keys, uint32_t count, uint64_t bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        sums->count += sums->bytes[keys[i]] == 0;
        sums->is_set[keys[i] / 64] |= UINT64_C(1) << keys[i] % 64;
        sums->bytes[keys[i]] += bytes;
    }
}

/** The same, but each key once in this turn. */
static void sums_add_once(struct sums *sums, const uint32_t *keys, uint32_t count, uint64_t bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        if (sums->mark[keys[i]] == sums->turn)
            continue;
        sums->mark[keys[i]] = sums->turn;
        sums_add(sums, &keys[i], 1, bytes);
    }
}

/** Move the sums into entries; they are 0 again. @return their number */
static uint32_t sums_move(struct sums *sums, struct overlap_entry *entries)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < sums->word_count; w++) {
        for (; sums->is_set[w] != 0; sums->is_set[w] &= sums->is_set[w] - 1) {
            uint32_t key = 64 * w + (uint32_t)__builtin_ctzll(sums->is_set[w]);
            entries[n++] = (struct overlap_entry){key, sums->bytes[key]};
            sums->bytes[key] = 0;
        }
    }
    sums->count = 0;
    return n;
}

static struct overlap_entry *sums_take(struct arena *arena, struct sums *sums, uint32_t *count_out)
{
    struct overlap_entry *entries = ARENA_NEW(arena, struct overlap_entry, sums->count);
    *count_out = sums_move(sums, entries);
    return entries;
}

/** What a rank that stands for its class has: a variant of a kind, and one of what that may be made from. */
struct own {
    uint32_t kind, variant, fresh;
};

struct rows {
    struct arena *arena; /* of the entries */
    const struct pair *pair;
    const struct kinds *kinds;
    struct overlap *overlap;
    size_t *own_begin; /* by new class */
    struct own *owns;
    struct sums holders, classes, nodes;
    struct overlap_entry *of_holders;
};

static bool lists_variant(const struct kinds *kinds, uint32_t list, uint32_t variant)
{
    for (uint32_t i = 1; i <= kinds->lists.items[list]; i++) {
        if (kinds->lists.items[list + i] == variant)
            return true;
    }
    return false;
}

static void add_record(struct rows *rows, const struct record *record)
{
    const struct kinds *kinds = rows->kinds;
    if (record->holder < KINDS_SEVERAL) {
        sums_add(&rows->holders, &record->holder, 1, record->bytes);
        return;
    }
    const uint32_t *list = &kinds->lists.items[record->holder & ~KINDS_SEVERAL];
    rows->classes.turn++;
    rows->nodes.turn++;
    for (uint32_t i = 1; i <= list[0]; i++) {
        const struct holder *holder = &kinds->holders.items[list[i]];
        sums_add_once(&rows->classes, holder->classes, holder->class_count, record->bytes);
        sums_add_once(&rows->nodes, holder->nodes, holder->node_count, record->bytes);
    }
}

/** A holder's classes and nodes get what the holder has of the row. */
static void hand_down(struct rows *rows)
{
    uint32_t count = sums_move(&rows->holders, rows->of_holders);
    for (uint32_t i = 0; i < count; i++) {
        const struct overlap_entry *entry = &rows->of_holders[i];
        const struct holder *holder = &rows->kinds->holders.items[entry->key];
        sums_add(&rows->classes, holder->classes, holder->class_count, entry->bytes);
        sums_add(&rows->nodes, holder->nodes, holder->node_count, entry->bytes);
    }
}

static void fill_row(struct rows *rows, uint32_t class, struct overlap_row *row)
{
    const struct kinds *kinds = rows->kinds;
    for (size_t o = rows->own_begin[class]; o < rows->own_begin[class + 1]; o++) {
        const struct own *own = &rows->owns[o];
        const struct kind *kind = &kinds->kinds.items[own->kind];
        for (size_t r = kind->record_begin[own->variant]; r < kind->record_begin[own->variant + 1]; r++) {
            const struct record *record = &kinds->records.items[r];
            if (record->bytes == 0 || (record->fresh != 0 && lists_variant(kinds, record->fresh, own->fresh)))
                continue;
            row->need += record->bytes;
            add_record(rows, record);
        }
    }
    hand_down(rows);
    row->classes = sums_take(rows->arena, &rows->classes, &row->class_count);
    row->nodes = sums_take(rows->arena, &rows->nodes, &row->node_count);
}

/** An own of the kind and the member of its placement; counted or kept. */
static void add_own(struct rows *rows, uint32_t k, const struct placement_member *member, bool keep)
{
    const struct side *to = rows->pair->to;
    const struct kind *kind = &rows->kinds->kinds.items[k];
    uint32_t class = rows->overlap->new_class[member->rank], fresh = PLACEMENT_NO_VARIANT;
    if (!keep) {
        rows->own_begin[class + 2]++; /* two places on, so that filling leaves every beginning in its place */
        return;
    }
    if (kind->fresh != SIDE_KEEPS_NONE)
        fresh = placement_variant_of(&to->placements[kind->fresh], member->rank);
    rows->owns[rows->own_begin[class + 1]++] = (struct own){k, member->variant, fresh};
}

static void walk_owns(struct rows *rows, const bool *stands, bool keep)
{
    for (uint32_t k = 0; k < rows->kinds->kinds.count; k++) {
        const struct placement *placement = &rows->pair->to->placements[rows->kinds->kinds.items[k].to];
        for (uint32_t m = 0; m < placement->member_count; m++) {
            if (stands[placement->members[m].rank])
                add_own(rows, k, &placement->members[m], keep);
        }
    }
}

/** For the first rank of every class, the variants it has. */
static void list_owns(struct arena *arena, struct rows *rows)
{
    uint32_t ranks = rows->pair->to->grid.rank_count, classes = rows->overlap->new_class_count, next = 0;
    bool *stands = ARENA_NEW(arena, bool, ranks); /* for its class */
    for (uint32_t r = 0; r < ranks; r++) {
        stands[r] = rows->overlap->new_class[r] == next;
        next += stands[r];
    }
    rows->own_begin = ARENA_NEW(arena, size_t, (size_t)classes + 2);
    walk_owns(rows, stands, false);
    for (uint32_t c = 2; c <= classes + 1; c++)
        rows->own_begin[c] += rows->own_begin[c - 1];
    rows->owns = ARENA_NEW(arena, struct own, rows->own_begin[classes + 1]);
    walk_owns(rows, stands, true);
}

struct overlap_work {
    struct arena *arena;
    const struct pair *pair;
    const uint32_t *node_of_old;
    uint32_t node_count;
    struct overlap *overlap;
};

static void fill_rows(struct arena *scratch, void *context)
{
    const struct overlap_work *work = context;
    struct overlap *overlap = work->overlap;
    struct kinds kinds;
    struct rows rows = {.arena = work->arena, .pair = work->pair, .kinds = &kinds, .overlap = overlap};
    kinds_build(scratch, work->pair, overlap->old_class, work->node_of_old, &kinds);
    list_owns(scratch, &rows);
    sums_init(scratch, (uint32_t)kinds.holders.count, &rows.holders);
    rows.of_holders = ARENA_NEW(scratch, struct overlap_entry, kinds.holders.count);
    sums_init(scratch, overlap->old_class_count, &rows.classes);
    sums_init(scratch, work->node_count, &rows.nodes);
    for (uint32_t c = 0; c < overlap->new_class_count; c++)
        fill_row(&rows, c, &overlap->rows[c]);
}

struct overlap *overlap_build(struct arena *arena, const struct pair *pair, const uint32_t *node_of_old,
                              uint32_t node_count)
{
    struct overlap *overlap = ARENA_NEW(arena, struct overlap, 1);
    struct overlap_work work = {arena, pair, node_of_old, node_count, overlap};
    overlap->old_class = ARENA_NEW(arena, uint32_t, pair->from->grid.rank_count);
    overlap->new_class = ARENA_NEW(arena, uint32_t, pair->to->grid.rank_count);
    overlap->old_class_count = classes_of_ranks(arena, pair->from, overlap->old_class);
    overlap->new_class_count = classes_of_ranks(arena, pair->to, overlap->new_class);
    overlap->rows = ARENA_NEW(arena, struct overlap_row, overlap->new_class_count);
    arena_with_scratch(arena, fill_rows, &work);
    return overlap;
}

uint64_t overlap_find(const struct overlap_entry *entries, uint32_t count, uint32_t key)
{
    uint32_t lo = 0, hi = count;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (entries[middle].key < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < count && entries[lo].key == key ? entries[lo].bytes : 0;
}
