/* SPDX-License-Identifier: Apache-2.0 */
#include "space/shard.h"

#include "space/flat.h"

bool shard_cuts_state(enum cfg_shard_rule rule, uint8_t state)
{
    if (state >= SHUNT_STATE_BUFFER)
        return false; /* buffers, scalars and blobs are replicated */
    switch (rule) {
    case CFG_SHARD_NONE:
        return false;
    case CFG_SHARD_MEGATRON:
    case CFG_SHARD_ZERO1:
        return state != SHUNT_STATE_PARAM;
    case CFG_SHARD_ZERO3:
    case CFG_SHARD_FSDP2:
    case CFG_SHARD_FSDP1:
        break;
    }
    return true;
}

int64_t shard_index(const struct shard_group *group, const struct grid_rank *rank)
{
    return (group->expert ? rank->edp : rank->dp_cp) % group->shards;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool same_place(const struct flat_place *a, const struct flat_place *b)
{
    return a->start == b->start && a->bucket == b->bucket;
}

/** Shards [*begin, *end) of a bucket that a tensor of `elements` elements meets. */
static void meeting_shards(const struct flat_place *place, int64_t shards, int64_t elements, int64_t *begin_out,
                           int64_t *end_out)
{
    int64_t size = place->bucket / shards;
    *begin_out = place->start / size;
    *end_out = at_most(ceil_div(place->start + elements, size), shards);
}

/** Shard s of a flat bucket that the tensor meets, as a range of the tensor. */
static struct placement_variant cut_bucket(struct arena *arena, const struct placement_variant *base,
                                           const struct flat_place *place, int64_t shards, int64_t s)
{
    int64_t size = place->bucket / shards;
    int64_t begin = s * size - place->start, end = at_most((s + 1) * size - place->start, base->elements);
    begin = begin > 0 ? begin : 0;
    return flat_variant(arena, base, begin, end, end - begin);
}

/** Shard s of a local tensor by itself; may be empty. */
static struct placement_variant cut_alone(struct arena *arena, enum cfg_shard_rule rule,
                                          const struct placement_variant *base, int64_t shards, int64_t s)
{
    int64_t whole = rule == CFG_SHARD_FSDP2 ? base->shape[0] : base->elements;
    int64_t chunk = ceil_div(whole, shards);
    int64_t begin = at_most(s * chunk, whole), end = at_most(begin + chunk, whole);
    if (rule == CFG_SHARD_FSDP2)
        return flat_rows_variant(arena, base, begin, end);
    return flat_variant(arena, base, begin, end, chunk);
}

/* ---- ranks ------------------------------------------------------------------- */

struct shard_deal *shard_deal(struct arena *arena, const struct grid *grid, const struct shard_group *group,
                              const struct placement *base)
{
    struct shard_deal *deals = ARENA_NEW(arena, struct shard_deal, base->variant_count);
    for (uint32_t v = 0; v < base->variant_count; v++) {
        const struct placement_variant *variant = &base->variants[v];
        struct shard_deal *deal = &deals[v];
        deal->begin = ARENA_NEW(arena, uint32_t, (size_t)group->shards + 2);
        deal->ranks = ARENA_NEW(arena, uint32_t, variant->rank_count);
        /* counted two places on, so that filling leaves every beginning in its place */
        for (uint32_t i = 0; i < variant->rank_count; i++)
            deal->begin[shard_index(group, &grid->ranks[variant->ranks[i]]) + 2]++;
        for (int64_t s = 2; s <= group->shards + 1; s++)
            deal->begin[s] += deal->begin[s - 1];
        for (uint32_t i = 0; i < variant->rank_count; i++)
            deal->ranks[deal->begin[shard_index(group, &grid->ranks[variant->ranks[i]]) + 1]++] = variant->ranks[i];
    }
    return deals;
}

/** Whether the tensor lies at `place` on the stage of a rank. */
static bool lies_at(const struct flat_place *places, const struct flat_place *place, const struct grid_rank *rank)
{
    while (places->next != NULL && places->stage != rank->at[CFG_AXIS_PP])
        places = places->next;
    return same_place(places, place);
}

/** Ranks of shard s; where copies lie unlike, those of the stages that have the tensor at `place`. */
static void set_ranks(struct arena *arena, const struct grid *grid, const struct shard_deal *deal,
                      const struct flat_place *places, const struct flat_place *place, int64_t s,
                      struct placement_variant *variant)
{
    variant->ranks = &deal->ranks[deal->begin[s]];
    variant->rank_count = deal->begin[s + 1] - deal->begin[s];
    if (place == NULL || places->next == NULL)
        return;
    const uint32_t *all = variant->ranks;
    uint32_t count = variant->rank_count;
    variant->ranks = ARENA_NEW(arena, uint32_t, count);
    variant->rank_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (lies_at(places, place, &grid->ranks[all[i]]))
            variant->ranks[variant->rank_count++] = all[i];
    }
}

/* ---- the placement ----------------------------------------------------------- */

typedef VEC(struct placement_variant) variant_list;

static void add_variant(struct arena *arena, variant_list *list, const struct placement_variant *variant)
{
    if (variant->rank_count > 0)
        *VEC_PUSH(arena, list) = *variant;
}

static void add_alone(struct arena *arena, const struct shard_input *input, uint32_t v, variant_list *list)
{
    for (int64_t s = 0; s < input->group->shards; s++) {
        struct placement_variant variant =
            cut_alone(arena, input->rule, &input->base->variants[v], input->group->shards, s);
        set_ranks(arena, input->grid, &input->deals[v], NULL, NULL, s, &variant);
        add_variant(arena, list, &variant);
    }
}

static void add_at(struct arena *arena, const struct shard_input *input, uint32_t v, const struct flat_place *place,
                   variant_list *list)
{
    const struct placement_variant *base = &input->base->variants[v];
    int64_t begin, end, shards = input->group->shards;
    meeting_shards(place, shards, base->elements, &begin, &end);
    for (int64_t s = begin; s < end; s++) {
        struct placement_variant variant = cut_bucket(arena, base, place, shards, s);
        set_ranks(arena, input->grid, &input->deals[v], input->places, place, s, &variant);
        add_variant(arena, list, &variant);
    }
}

static bool is_first_such(const struct flat_place *places, const struct flat_place *place)
{
    while (!same_place(places, place))
        places = places->next;
    return places == place;
}

void shard_placement(struct arena *arena, const struct shard_input *input, struct placement *placement_out)
{
    variant_list list = {0};
    for (uint32_t v = 0; v < input->base->variant_count; v++) {
        if (input->places == NULL)
            add_alone(arena, input, v, &list);
        for (const struct flat_place *place = input->places; place != NULL; place = place->next) {
            if (is_first_such(input->places, place))
                add_at(arena, input, v, place, &list);
        }
    }
    placement_out->variant_count = (uint32_t)list.count;
    placement_out->variants = list.items;
    placement_index(arena, placement_out);
}
