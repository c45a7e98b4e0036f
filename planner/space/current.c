/* SPDX-License-Identifier: Apache-2.0 */
#include "space/current.h"

#include <stdlib.h>

#include "space/mesh.h"

#define NO_STATE UINT32_MAX

/** Index of the state whose shards tell a weight's owners: the first of the optimizer's that lies unlike the weight. */
static uint32_t owner_state(const struct side *side, const struct space_family *family, uint32_t item)
{
    for (uint32_t s = 1; s < family->state_count && family->state[0] == SHUNT_STATE_PARAM; s++) {
        bool optimizer = family->state[s] > SHUNT_STATE_GRAD && family->state[s] < SHUNT_STATE_BUFFER;
        if (optimizer && side_keeps(side, item + s) && side->item_placement[item + s] != side->item_placement[item])
            return s;
    }
    return NO_STATE;
}

enum shunt_status current_check(const struct side *side, struct shunt_err *err)
{
    const struct cfg_layout *layout = side->layout;
    bool kept = false;
    if (!layout->current_owner)
        return SHUNT_OK;
    for (int s = SHUNT_STATE_GRAD + 1; s < SHUNT_STATE_BUFFER; s++)
        kept = kept || layout->state_dtype[s] >= 0;
    for (uint32_t f = 0; f < side->space->family_count; f++) {
        const struct space_family *family = &side->space->families[f];
        if (owner_state(side, family, family->item_begin) != NO_STATE)
            return SHUNT_OK;
    }
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: current: found owner in a layout %s, expected one that cuts optimizer states and not "
                      "weights over data-parallel ranks (such as shard.rule megatron, zero1 or zero2)",
                      layout->path, layout->current_pos.line, layout->current_pos.column,
                      kept ? "whose optimizer states lie as its weights do" : "without optimizer states");
}

/* ---- one tensor ---------------------------------------------------------------------- */

/** A rank of a weight's variant and the variant of its shard; PLACEMENT_NO_VARIANT: it has none. */
struct owner {
    uint32_t shard, rank;
};

static int compare_owners(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/** Part of a weight's holdings that a shard covers, where it lies in the weight's buffer. */
static void narrow_holdings(struct arena *arena, const struct placement_variant *weight,
                            const struct placement_variant *shard, struct placement_variant *out)
{
    out->holdings = ARENA_NEW(arena, struct placement_holding, (size_t)weight->holding_count * shard->holding_count);
    for (uint32_t h = 0; h < weight->holding_count; h++) {
        for (uint32_t s = 0; s < shard->holding_count; s++) {
            struct placement_holding holding = weight->holdings[h];
            if (!box_intersect(&weight->holdings[h].box, &shard->holdings[s].box, &holding.box))
                continue;
            holding.offset = placement_offset(&weight->holdings[h], holding.box.lo);
            out->holdings[out->holding_count++] = holding;
        }
    }
}

static struct placement narrow_placement(struct arena *arena, const struct placement *weight,
                                         const struct placement *shards)
{
    VEC(struct placement_variant) variants = {0};
    for (uint32_t v = 0; v < weight->variant_count; v++) {
        const struct placement_variant *variant = &weight->variants[v];
        struct owner *owners = ARENA_NEW(arena, struct owner, variant->rank_count);
        for (uint32_t i = 0; i < variant->rank_count; i++)
            owners[i] = (struct owner){placement_variant_of(shards, variant->ranks[i]), variant->ranks[i]};
        if (variant->rank_count > 0)
            qsort(owners, variant->rank_count, sizeof(*owners), compare_owners);
        for (uint32_t i = 0; i < variant->rank_count;) {
            struct placement_variant *part = VEC_PUSH(arena, &variants);
            uint32_t shard = owners[i].shard;
            *part = *variant;
            part->holding_count = part->rank_count = 0;
            part->ranks = ARENA_NEW(arena, uint32_t, variant->rank_count - i);
            for (; i < variant->rank_count && owners[i].shard == shard; i++)
                part->ranks[part->rank_count++] = owners[i].rank;
            if (shard != PLACEMENT_NO_VARIANT)
                narrow_holdings(arena, variant, &shards->variants[shard], part);
        }
    }
    struct placement placement = {.variant_count = (uint32_t)variants.count, .variants = variants.items};
    placement_index(arena, &placement);
    return placement;
}

/* ---- all of them ------------------------------------------------------------------- */

/** What was last made for a placement of shards: tensors that lie alike follow each other. */
struct made {
    uint32_t weight, placement; /* UINT32_MAX: nothing */
};

static void narrow_item(struct arena *arena, struct side *side, uint32_t item, uint32_t owner, placement_vec *list,
                        struct made *made)
{
    uint32_t weight = side->item_placement[item], shards = side->item_placement[owner];
    if (made[shards].weight != weight) {
        struct placement placement = narrow_placement(arena, &list->items[weight], &list->items[shards]);
        *VEC_PUSH(arena, list) = placement;
        made[shards] = (struct made){.weight = weight, .placement = (uint32_t)list->count - 1};
    }
    side->item_placement[item] = made[shards].placement;
}

static void narrow_side(struct arena *arena, struct side *side)
{
    const struct space *space = side->space;
    struct made *made = ARENA_NEW(arena, struct made, side->placement_count);
    placement_vec list = {0};
    for (uint32_t p = 0; p < side->placement_count; p++) {
        *VEC_PUSH(arena, &list) = side->placements[p];
        made[p] = (struct made){UINT32_MAX, UINT32_MAX};
    }
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        for (uint32_t t = 0; t < family->layer_count * family->expert_count; t++) {
            uint32_t item = family->item_begin + t * family->state_count, s = owner_state(side, family, item);
            if (s != NO_STATE)
                narrow_item(arena, side, item, item + s, &list, made);
        }
    }
    side->placements = list.items;
    side->placement_count = (uint32_t)list.count;
}

enum shunt_status current_side_build(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                                     struct side **side_out, struct shunt_err *err)
{
    enum shunt_status status = side_build(arena, space, layout, side_out, err);
    if (status == SHUNT_OK && layout->current_owner)
        narrow_side(arena, *side_out);
    return status;
}
