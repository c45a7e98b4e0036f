/* SPDX-License-Identifier: Apache-2.0 */
#include "space/side.h"

#include <string.h>

#include "space/cut.h"
#include "space/pipeline.h"

static enum shunt_status check_heads(const struct cfg_model *model, const struct cfg_layout *layout,
                                     struct shunt_err *err)
{
    int64_t tp = layout->size[CFG_AXIS_TP];
    struct cfg_pos pos = layout->size_pos[CFG_AXIS_TP];
    if (model->heads > 0 && model->heads % tp != 0)
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s:%u:%u: parallel.tp: found %lld, expected a divisor of heads %lld of %s", layout->path,
                          pos.line, pos.column, (long long)tp, (long long)model->heads, model->path);
    if (model->kv_heads > 0 && model->kv_heads % tp != 0 && tp % model->kv_heads != 0)
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s:%u:%u: parallel.tp: found %lld, expected a divisor or a multiple of kv_heads %lld of %s",
                          layout->path, pos.line, pos.column, (long long)tp, (long long)model->kv_heads, model->path);
    return SHUNT_OK;
}

static enum shunt_status check_layout(const struct space *space, const struct cfg_layout *layout, struct shunt_err *err)
{
    if (layout->size[CFG_AXIS_EP] > 1)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "%s:%u:%u: parallel.ep: found %lld, expected 1 (not supported: expert parallelism)",
                          layout->path, layout->size_pos[CFG_AXIS_EP].line, layout->size_pos[CFG_AXIS_EP].column,
                          (long long)layout->size[CFG_AXIS_EP]);
    return check_heads(space->model, layout, err);
}

/** Mixed radix, the first axis of the order fastest. */
static void place_ranks(struct arena *arena, struct side *side)
{
    const struct cfg_layout *layout = side->layout;
    side->rank_count = (uint32_t)cfg_layout_world(layout);
    side->ranks = ARENA_NEW(arena, struct side_rank, side->rank_count);
    for (uint32_t r = 0; r < side->rank_count; r++) {
        int64_t rest = r;
        side->ranks[r].device = layout->device_count > 0 ? layout->devices[r] : r;
        for (int i = 0; i < CFG_AXIS_COUNT; i++) {
            enum cfg_axis axis = layout->order[i];
            side->ranks[r].at[axis] = rest % layout->size[axis];
            rest /= layout->size[axis];
        }
    }
}

/* ---- stage sets ------------------------------------------------------------------ */

/** Stages that hold a tensor: each one alone, then {first, last} of a tied tensor, then all. */
static uint32_t stage_set(const struct side *side, const struct space_family *family, int64_t layer)
{
    uint32_t last = side->stage_count - 1, stage = 0;
    switch (family->stage) {
    case CFG_STAGE_LAYER:
        while (layer >= side->stage_layers[stage + 1])
            stage++;
        return stage;
    case CFG_STAGE_FIRST:
        return family->tied_last && last > 0 ? side->stage_count : 0;
    case CFG_STAGE_LAST:
        return last;
    case CFG_STAGE_ALL:
        break;
    }
    return side->stage_count + 1;
}

static bool set_has_stage(const struct side *side, uint32_t set, int64_t stage)
{
    if (set < side->stage_count)
        return set == stage;
    return set > side->stage_count || stage == 0 || stage == side->stage_count - 1;
}

/* ---- placements ------------------------------------------------------------------ */

/** A family's cut on the ranks of a stage set. */
static void add_placement(struct arena *arena, struct side *side, const struct space_family *family,
                          const struct cut *cut, uint32_t set, struct placement *placement)
{
    placement->variant_count = cut->variant_count;
    placement->variants = ARENA_NEW(arena, struct placement_variant, cut->variant_count);
    memcpy(placement->variants, cut->variants, cut->variant_count * sizeof(*cut->variants));
    uint32_t per_variant = side->rank_count / (family->cut_dim >= 0 ? cut->variant_count : 1);
    for (uint32_t v = 0; v < cut->variant_count; v++)
        placement->variants[v].ranks = ARENA_NEW(arena, uint32_t, per_variant);
    for (uint32_t r = 0; r < side->rank_count; r++) {
        const struct side_rank *rank = &side->ranks[r];
        if (!set_has_stage(side, set, rank->at[CFG_AXIS_PP]))
            continue;
        struct placement_variant *variant = &placement->variants[family->cut_dim >= 0 ? rank->at[CFG_AXIS_TP] : 0];
        variant->ranks[variant->rank_count++] = r;
    }
    placement_index(arena, placement);
}

/** Placements of one family, made as its layers ask for them. */
static void place_family(struct arena *arena, struct side *side, const struct space_family *family,
                         const struct cut *cut, uint32_t *placement_of_set)
{
    memset(placement_of_set, 0xff, (side->stage_count + 2) * sizeof(*placement_of_set));
    for (int64_t layer = family->layer_begin; layer < family->layer_end; layer++) {
        uint32_t set = stage_set(side, family, layer);
        if (placement_of_set[set] == UINT32_MAX) {
            placement_of_set[set] = side->placement_count;
            add_placement(arena, side, family, cut, set, &side->placements[side->placement_count++]);
        }
        uint32_t item = family->item_begin + (uint32_t)(layer - family->layer_begin) * family->state_count;
        for (uint32_t s = 0; s < family->state_count; s++)
            side->item_placement[item + s] = placement_of_set[set];
    }
}

static enum shunt_status place_families(struct arena *arena, struct side *side, struct shunt_err *err)
{
    const struct space *space = side->space;
    uint32_t *placement_of_set = ARENA_NEW(arena, uint32_t, side->stage_count + 2);
    side->item_placement = ARENA_NEW(arena, uint32_t, space->item_count);
    side->placements = ARENA_NEW(arena, struct placement, (size_t)space->family_count * side->stage_count);
    for (uint32_t f = 0; f < space->family_count; f++) {
        struct cut cut;
        enum shunt_status status = cut_build(arena, space, &space->families[f], side->layout, &cut, err);
        if (status != SHUNT_OK)
            return status;
        place_family(arena, side, &space->families[f], &cut, placement_of_set);
    }
    return SHUNT_OK;
}

enum shunt_status side_build(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                             struct side **side_out, struct shunt_err *err)
{
    enum shunt_status status = check_layout(space, layout, err);
    if (status != SHUNT_OK)
        return status;
    struct side *side = ARENA_NEW(arena, struct side, 1);
    side->layout = layout;
    side->space = space;
    place_ranks(arena, side);
    side->stage_count = (uint32_t)layout->size[CFG_AXIS_PP];
    side->stage_layers = ARENA_NEW(arena, int64_t, side->stage_count + 1);
    status = pipeline_split(layout, space->model->layers, side->stage_layers, err);
    if (status == SHUNT_OK)
        status = place_families(arena, side, err);
    if (status != SHUNT_OK)
        return status;
    *side_out = side;
    return SHUNT_OK;
}

/* ---- questions ------------------------------------------------------------------- */

const struct placement_variant *side_variant(const struct side *side, uint32_t item, uint32_t rank)
{
    const struct placement *placement = side_placement(side, item);
    uint32_t variant = placement_variant_of(placement, rank);
    return variant == PLACEMENT_NO_VARIANT ? NULL : &placement->variants[variant];
}

uint64_t side_rank_bytes(const struct side *side, uint32_t rank)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < side->space->item_count; i++) {
        const struct placement_variant *variant = side_variant(side, i, rank);
        if (variant != NULL)
            total += (uint64_t)variant->elements * side->space->items[i].elem_bytes;
    }
    return total;
}
