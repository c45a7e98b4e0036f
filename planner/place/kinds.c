/* SPDX-License-Identifier: Apache-2.0 */
#include "place/kinds.h"

#include <stdlib.h>
#include <string.h>

#include "routing/overlay.h"

#define CELLS_AT_ONCE 4096

struct builder {
    struct arena *arena;
    const struct pair *pair;
    const uint32_t *old_class, *node_of_old;
    struct kinds *out;
    uint32_t *slots;      /* holder + 1, by a hash of its ranks; 0: free */
    size_t slot_count;    /* power of two, at least twice the number of variants */
    uint32_t **holder_of; /* by old placement and variant; NULL: nothing was read of it yet */
    uint32_t kind_at;     /* the one at hand */
};

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/** Sort and drop what comes twice. @return how many are left */
static uint32_t sort_once(uint32_t *numbers, uint32_t count)
{
    uint32_t kept = 0;
    if (count > 1)
        qsort(numbers, count, sizeof(*numbers), compare_numbers);
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || numbers[kept - 1] != numbers[i])
            numbers[kept++] = numbers[i];
    }
    return kept;
}

/* ---- kinds of items ---------------------------------------------------------------- */

static int compare_kinds(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return (x->fresh > y->fresh) - (x->fresh < y->fresh);
}

/** One kind an item at first; then equal ones are summed up. */
static void list_kinds(struct builder *builder)
{
    const struct space *space = builder->pair->space;
    const struct side *from = builder->pair->from, *to = builder->pair->to;
    struct kind *kinds = ARENA_NEW(builder->arena, struct kind, space->item_count);
    size_t count = 0;
    for (uint32_t i = 0; i < space->item_count; i++) {
        const struct space_item *item = &space->items[i];
        if (side_keeps(to, i) && side_keeps(from, item->derived_from))
            kinds[count++] =
                (struct kind){.from = from->item_placement[item->derived_from],
                              .to = to->item_placement[i],
                              .fresh = item->fresh ? to->item_placement[item->derived_from] : SIDE_KEEPS_NONE,
                              .wire_bytes = item->wire_bytes};
    }
    if (count > 1)
        qsort(kinds, count, sizeof(*kinds), compare_kinds);
    for (size_t k = 0; k < count; k++) {
        if (k == 0 || compare_kinds(&kinds[k - 1], &kinds[k]) != 0)
            *VEC_PUSH(builder->arena, &builder->out->kinds) =
                (struct kind){.from = kinds[k].from, .to = kinds[k].to, .fresh = kinds[k].fresh};
        builder->out->kinds.items[builder->out->kinds.count - 1].wire_bytes += kinds[k].wire_bytes;
    }
}

/* ---- holders ------------------------------------------------------------------------- */

static void init_slots(struct builder *builder)
{
    const struct side *from = builder->pair->from;
    size_t variants = 0;
    for (uint32_t p = 0; p < from->placement_count; p++)
        variants += from->placements[p].variant_count;
    builder->slot_count = 16;
    while (builder->slot_count < 2 * variants)
        builder->slot_count *= 2;
    builder->slots = ARENA_NEW(builder->arena, uint32_t, builder->slot_count);
    builder->holder_of = ARENA_NEW(builder->arena, uint32_t *, from->placement_count);
}

static struct holder make_holder(const struct builder *builder, const struct placement_variant *variant)
{
    struct holder holder = {.rank_count = variant->rank_count,
                            .ranks = variant->ranks,
                            .classes = ARENA_NEW(builder->arena, uint32_t, variant->rank_count),
                            .nodes = ARENA_NEW(builder->arena, uint32_t, variant->rank_count)};
    for (uint32_t r = 0; r < variant->rank_count; r++) {
        holder.classes[r] = builder->old_class[variant->ranks[r]];
        holder.nodes[r] = builder->node_of_old[variant->ranks[r]];
    }
    holder.class_count = sort_once(holder.classes, variant->rank_count);
    holder.node_count = sort_once(holder.nodes, variant->rank_count);
    return holder;
}

static bool has_ranks(const struct holder *holder, const struct placement_variant *variant)
{
    return holder->rank_count == variant->rank_count &&
           memcmp(holder->ranks, variant->ranks, variant->rank_count * sizeof(*variant->ranks)) == 0;
}

static uint32_t find_holder(struct builder *builder, const struct placement_variant *variant)
{
    uint64_t hash = variant->rank_count;
    for (uint32_t r = 0; r < variant->rank_count; r++)
        hash = (hash ^ variant->ranks[r]) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
    size_t slot = (size_t)(hash >> 32) & (builder->slot_count - 1);
    while (builder->slots[slot] != 0) {
        if (has_ranks(&builder->out->holders.items[builder->slots[slot] - 1], variant))
            return builder->slots[slot] - 1;
        slot = (slot + 1) & (builder->slot_count - 1);
    }
    *VEC_PUSH(builder->arena, &builder->out->holders) = make_holder(builder, variant);
    builder->slots[slot] = (uint32_t)builder->out->holders.count;
    return (uint32_t)builder->out->holders.count - 1;
}

static const uint32_t *find_holders(struct builder *builder, uint32_t from)
{
    const struct placement *placement = &builder->pair->from->placements[from];
    if (builder->holder_of[from] != NULL)
        return builder->holder_of[from];
    uint32_t *holder_of = ARENA_NEW(builder->arena, uint32_t, placement->variant_count);
    for (uint32_t v = 0; v < placement->variant_count; v++)
        holder_of[v] = find_holder(builder, &placement->variants[v]);
    return builder->holder_of[from] = holder_of;
}

/* ---- cells ------------------------------------------------------------------------- */

/** Keep a list of what some holdings' variants stand for. @return its place */
static uint32_t keep_list(struct builder *builder, const struct route_holding *holdings, uint32_t count,
                          const uint32_t *number_of)
{
    uint32_t place = (uint32_t)builder->out->lists.count;
    *VEC_PUSH(builder->arena, &builder->out->lists) = count;
    for (uint32_t h = 0; h < count; h++)
        *VEC_PUSH(builder->arena, &builder->out->lists) =
            number_of == NULL ? holdings[h].variant : number_of[holdings[h].variant];
    return place;
}

static struct record make_record(struct builder *builder, const struct kind *kind, const struct route_cell *cell)
{
    struct record record = {.bytes = (uint64_t)cell->elements * kind->wire_bytes};
    record.holder = kind->holder_of[cell->holdings[0].variant];
    if (cell->holding_count > 1)
        record.holder = keep_list(builder, cell->holdings, cell->holding_count, kind->holder_of) | KINDS_SEVERAL;
    if (cell->fresh_count > 0)
        record.fresh = keep_list(builder, cell->fresh, cell->fresh_count, NULL);
    return record;
}

/** Cells of a new variant; those behind each other that the same old ones hold are one. */
static void keep_records(struct builder *builder, const struct kind *kind, const cell_list *cells, size_t begin)
{
    for (size_t c = 0; c < cells->count; c++) {
        struct record record = make_record(builder, kind, &cells->items[c]);
        struct record *last =
            builder->out->records.count > begin ? &builder->out->records.items[builder->out->records.count - 1] : NULL;
        if (last != NULL && record.fresh == 0 && last->fresh == 0 && record.holder < KINDS_SEVERAL &&
            last->holder == record.holder)
            last->bytes += record.bytes;
        else
            *VEC_PUSH(builder->arena, &builder->out->records) = record;
    }
}

static size_t intersect_kind(struct arena *scratch, struct builder *builder, struct kind *kind)
{
    const struct placement *to = &builder->pair->to->placements[kind->to];
    struct overlay overlay, made;
    size_t count = 0;
    overlay_init(scratch, &builder->pair->from->placements[kind->from], &overlay);
    if (kind->fresh != SIDE_KEEPS_NONE)
        overlay_init(scratch, &builder->pair->to->placements[kind->fresh], &made);
    for (uint32_t v = 0; v < to->variant_count; v++) {
        cell_list cells = {0};
        for (uint32_t h = 0; h < to->variants[v].holding_count; h++) {
            size_t begin = cells.count;
            overlay_holding(scratch, &overlay, to, v, h, &cells);
            if (kind->fresh != SIDE_KEEPS_NONE)
                overlay_fresh(scratch, &made, &to->variants[v].holdings[h].box, begin, &cells);
        }
        kind->record_begin[v] = builder->out->records.count;
        keep_records(builder, kind, &cells, builder->out->records.count);
        count += cells.count;
    }
    kind->record_begin[to->variant_count] = builder->out->records.count;
    return count + overlay.count;
}

/** Kinds from the one at hand on, as many as one scratch arena takes. */
static void intersect_some(struct arena *scratch, void *context)
{
    struct builder *builder = context;
    for (size_t cells = 0; builder->kind_at < builder->out->kinds.count && cells < CELLS_AT_ONCE; builder->kind_at++)
        cells += intersect_kind(scratch, builder, &builder->out->kinds.items[builder->kind_at]);
}

static void intersect_all(struct builder *builder)
{
    *VEC_PUSH(builder->arena, &builder->out->lists) = 0;
    for (size_t k = 0; k < builder->out->kinds.count; k++) {
        struct kind *kind = &builder->out->kinds.items[k];
        kind->record_begin =
            ARENA_NEW(builder->arena, size_t, (size_t)builder->pair->to->placements[kind->to].variant_count + 1);
        kind->holder_of = find_holders(builder, kind->from);
    }
    while (builder->kind_at < builder->out->kinds.count)
        arena_with_scratch(builder->arena, intersect_some, builder);
}

void kinds_build(struct arena *arena, const struct pair *pair, const uint32_t *old_class, const uint32_t *node_of_old,
                 struct kinds *kinds_out)
{
    struct builder builder = {
        .arena = arena, .pair = pair, .old_class = old_class, .node_of_old = node_of_old, .out = kinds_out};
    *kinds_out = (struct kinds){0};
    list_kinds(&builder);
    init_slots(&builder);
    intersect_all(&builder);
}
