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

/** Shard s of a flat bucket, as a range of the tensor; empty when they do not meet. */
static void bucket_range(const struct flat_place *place, int64_t shards, int64_t s, int64_t elements,
                         int64_t *begin_out, int64_t *end_out)
{
    int64_t size = place->bucket / shards;
    int64_t begin = s * size - place->start, end = (s + 1) * size - place->start;
    *begin_out = begin > 0 ? begin : 0;
    *end_out = at_most(end, elements);
}

/** Content of shard s of a local tensor; false when the rank holds nothing of it, not even an empty tensor. */
static bool cut_variant(struct arena *arena, enum cfg_shard_rule rule, const struct placement_variant *base,
                        const struct flat_place *place, int64_t shards, int64_t s, struct placement_variant *out)
{
    int64_t begin, end, chunk;
    switch (rule) {
    case CFG_SHARD_FSDP2:
        chunk = ceil_div(base->shape[0], shards);
        begin = at_most(s * chunk, base->shape[0]);
        *out = flat_rows_variant(arena, base, begin, at_most(begin + chunk, base->shape[0]));
        return true;
    case CFG_SHARD_ZERO3:
        chunk = ceil_div(base->elements, shards);
        begin = at_most(s * chunk, base->elements);
        *out = flat_variant(arena, base, begin, at_most(begin + chunk, base->elements), chunk);
        return true;
    case CFG_SHARD_MEGATRON:
    case CFG_SHARD_ZERO1:
    case CFG_SHARD_FSDP1:
    case CFG_SHARD_NONE:
        break;
    }
    bucket_range(place, shards, s, base->elements, &begin, &end);
    if (begin >= end)
        return false;
    *out = flat_variant(arena, base, begin, end, end - begin);
    return true;
}

static void add_ranks(struct arena *arena, const struct grid *grid, const struct shard_group *group,
                      const struct placement_variant *base, int64_t s, struct placement_variant *variant)
{
    variant->ranks = ARENA_NEW(arena, uint32_t, base->rank_count);
    for (uint32_t i = 0; i < base->rank_count; i++) {
        if (shard_index(group, &grid->ranks[base->ranks[i]]) == s)
            variant->ranks[variant->rank_count++] = base->ranks[i];
    }
}

void shard_placement(struct arena *arena, const struct cfg_layout *layout, const struct grid *grid,
                     const struct shard_group *group, const struct placement *base, const struct flat_place *place,
                     struct placement *placement_out)
{
    VEC(struct placement_variant) variants = {0};
    for (uint32_t v = 0; v < base->variant_count; v++) {
        for (int64_t s = 0; s < group->shards; s++) {
            struct placement_variant variant;
            if (!cut_variant(arena, layout->shard.rule, &base->variants[v], place, group->shards, s, &variant))
                continue;
            add_ranks(arena, grid, group, &base->variants[v], s, &variant);
            if (variant.rank_count > 0)
                *VEC_PUSH(arena, &variants) = variant;
        }
    }
    placement_out->variant_count = (uint32_t)variants.count;
    placement_out->variants = variants.items;
    placement_index(arena, placement_out);
}
