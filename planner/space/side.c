/* SPDX-License-Identifier: Apache-2.0 */
#include "space/side.h"

#include <string.h>

#include "space/current.h"
#include "space/cut.h"
#include "space/explicit.h"
#include "space/groups.h"
#include "space/heads.h"
#include "space/keys.h"
#include "space/shard.h"
#include "space/stages.h"
#include "space/stored.h"

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

static enum shunt_status check_experts(const struct cfg_model *model, const struct cfg_layout *layout,
                                       struct shunt_err *err)
{
    int64_t ep = layout->size[CFG_AXIS_EP];
    struct cfg_pos pos = layout->size_pos[CFG_AXIS_EP];
    if (model->experts > 0 ? model->experts % ep == 0 : ep == 1)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: parallel.ep: found %lld, expected a divisor of experts %lld of %s", layout->path,
                      pos.line, pos.column, (long long)ep, model->experts > 0 ? (long long)model->experts : 1LL,
                      model->path);
}

/* ---- placements ------------------------------------------------------------------ */

/** What a family's tensors share, and the placements made so far. */
struct family_placer {
    struct arena *arena;
    struct side *side;
    const struct groups *groups;
    const struct flat_place *places; /* by tensor; NULL without a flat rule */
    const struct space_family *family;
    struct cut cut;
    VEC(struct base) bases;
};

/** Placement of the tensors of a family on the same stages and ep index, and of their shards if all are cut alike. */
struct base {
    struct stages stages;
    int64_t ep;
    uint32_t placement, sharded; /* numbers; UINT32_MAX: not made */
    struct shard_deal *deals;    /* of its ranks; NULL: not made */
};

static uint32_t add_placement(struct arena *arena, placement_vec *list, const struct placement *placement)
{
    *VEC_PUSH(arena, list) = *placement;
    return (uint32_t)list->count - 1;
}

/** A family's cut on the ranks of some stages and, for experts, of one ep index. */
static struct placement make_base(const struct family_placer *placer, const struct stages *stages, int64_t ep)
{
    const struct grid *grid = &placer->side->grid;
    const struct space_family *family = placer->family;
    struct placement placement = {.variant_count = placer->cut.variant_count};
    placement.variants = ARENA_NEW(placer->arena, struct placement_variant, placement.variant_count);
    memcpy(placement.variants, placer->cut.variants, placement.variant_count * sizeof(*placement.variants));
    for (uint32_t v = 0; v < placement.variant_count; v++)
        placement.variants[v].ranks = ARENA_NEW(placer->arena, uint32_t, grid->rank_count / placement.variant_count);
    for (uint32_t r = 0; r < grid->rank_count; r++) {
        const struct grid_rank *rank = &grid->ranks[r];
        if (!stages_have(stages, rank->at[CFG_AXIS_PP]) || (family->expert && rank->at[CFG_AXIS_EP] != ep))
            continue;
        int64_t v = family->cut_dim < 0 ? 0 : family->expert ? rank->etp : rank->at[CFG_AXIS_TP];
        placement.variants[v].ranks[placement.variants[v].rank_count++] = r;
    }
    placement_index(placer->arena, &placement);
    return placement;
}

static struct base *find_base(struct family_placer *placer, placement_vec *list, int64_t layer, int64_t expert)
{
    const struct side *side = placer->side;
    struct stages stages = stages_of(&side->pipeline, placer->family, layer);
    int64_t ep = 0;
    if (placer->family->expert)
        ep = expert / (placer->family->expert_count / side->layout->size[CFG_AXIS_EP]);
    for (size_t b = placer->bases.count; b-- > 0;) {
        struct base *base = &placer->bases.items[b];
        if (base->ep == ep && stages_equal(&base->stages, &stages))
            return base;
    }
    struct placement placement = make_base(placer, &stages, ep);
    struct base *base = VEC_PUSH(placer->arena, &placer->bases);
    *base = (struct base){.stages = stages, .ep = ep, .sharded = UINT32_MAX};
    base->placement = add_placement(placer->arena, list, &placement);
    return base;
}

/** Number of the placement of a tensor's shards. Flat ones differ from tensor to tensor. */
static uint32_t place_shards(struct family_placer *placer, placement_vec *list, struct base *base, uint32_t tensor)
{
    const struct shard_group *group = placer->family->expert ? &placer->groups->expert : &placer->groups->dense;
    if (placer->places == NULL && base->sharded != UINT32_MAX)
        return base->sharded;
    if (base->deals == NULL)
        base->deals = shard_deal(placer->arena, &placer->side->grid, group, &list->items[base->placement]);
    struct placement placement = {0};
    const struct shard_input input = {.rule = placer->side->layout->shard.rule,
                                      .grid = &placer->side->grid,
                                      .group = group,
                                      .base = &list->items[base->placement],
                                      .deals = base->deals,
                                      .places = placer->places == NULL ? NULL : &placer->places[tensor]};
    shard_placement(placer->arena, &input, &placement);
    base->sharded = add_placement(placer->arena, list, &placement);
    return base->sharded;
}

/** Tensor whose place in the flat buffer an expert repeats: the one of ep index 0. */
static uint32_t flat_tensor(const struct family_placer *placer, uint32_t layer_index, uint32_t expert)
{
    const struct space_family *family = placer->family;
    uint32_t local = family->expert ? family->expert_count / (uint32_t)placer->side->layout->size[CFG_AXIS_EP] : 1;
    return family->tensor_begin + layer_index * family->expert_count + expert % local;
}

static void place_family(struct family_placer *placer, placement_vec *list)
{
    const struct space_family *family = placer->family;
    if (family->per != NULL) {
        struct placement rows = keys_place(placer->arena, family, placer->side->layout, &placer->side->grid);
        placer->side->item_placement[family->item_begin] = add_placement(placer->arena, list, &rows);
        return;
    }
    const int64_t *dims = stored_dims(placer->side->layout, family);
    size_t made = list->count;
    for (uint32_t l = 0; l < family->layer_count; l++) {
        for (uint32_t e = 0; e < family->expert_count; e++) {
            struct base *base = find_base(placer, list, family->layers[l], e);
            uint32_t item = space_item(family, l, e), sharded = UINT32_MAX;
            for (uint32_t s = 0; s < family->state_count; s++) {
                bool cut = shard_cuts_state(placer->side->layout->shard.rule, family->state[s]);
                if (cut && sharded == UINT32_MAX)
                    sharded = place_shards(placer, list, base, flat_tensor(placer, l, e));
                placer->side->item_placement[item + s] = cut ? sharded : base->placement;
            }
        }
    }
    for (; dims != NULL && made < list->count; made++)
        stored_unpermute(placer->arena, dims, &list->items[made]);
}

/** Cuts of all families, and the flat places where the rule has them. */
static enum shunt_status cut_families(struct arena *arena, const struct side *side, const struct groups *groups,
                                      struct cut *cuts, struct flat_place **places_out, struct shunt_err *err)
{
    const struct space *space = side->space;
    int64_t *elements = ARENA_NEW(arena, int64_t, space->family_count);
    *places_out = NULL;
    for (uint32_t f = 0; f < space->family_count; f++) {
        int64_t parts = space->families[f].expert ? side->grid.etp : side->layout->size[CFG_AXIS_TP];
        enum shunt_status status = cut_build(arena, space, &space->families[f], side->layout, parts, &cuts[f], err);
        if (status != SHUNT_OK)
            return status;
        const int64_t *dims = stored_dims(side->layout, &space->families[f]);
        if (dims != NULL)
            stored_permute(arena, dims, &cuts[f]);
        elements[f] = cuts[f].variants[0].elements;
    }
    enum cfg_shard_rule rule = side->layout->shard.rule;
    if (rule != CFG_SHARD_MEGATRON && rule != CFG_SHARD_ZERO1 && rule != CFG_SHARD_FSDP1)
        return SHUNT_OK;
    int64_t ep = side->layout->size[CFG_AXIS_EP];
    const struct registry_input input = {.layout = side->layout,
                                         .space = space,
                                         .pipeline = &side->pipeline,
                                         .family_elements = elements,
                                         .local_experts = space->model->experts / ep,
                                         .expert_buffer = groups->expert_buffer,
                                         .shards = groups->dense.shards,
                                         .expert_shards = groups->expert.shards};
    return registry_build(arena, &input, places_out, err);
}

static enum shunt_status place_families(struct arena *arena, struct side *side, struct shunt_err *err)
{
    const struct space *space = side->space;
    struct cut *cuts = ARENA_NEW(arena, struct cut, space->family_count);
    struct flat_place *places;
    struct groups groups;
    placement_vec list = {0};
    enum shunt_status status = groups_build(arena, side->layout, &side->grid, space->model->experts > 0, &groups, err);
    if (status == SHUNT_OK)
        status = stored_check(space, side->layout, err);
    if (status == SHUNT_OK)
        status = cut_families(arena, side, &groups, cuts, &places, err);
    if (status != SHUNT_OK)
        return status;
    side->item_placement = ARENA_NEW(arena, uint32_t, space->item_count);
    for (uint32_t f = 0; f < space->family_count; f++) {
        struct family_placer placer = {.arena = arena,
                                       .side = side,
                                       .groups = &groups,
                                       .places = places,
                                       .family = &space->families[f],
                                       .cut = cuts[f]};
        place_family(&placer, &list);
    }
    side->placements = list.items;
    side->placement_count = (uint32_t)list.count;
    return SHUNT_OK;
}

/** A layout made by rules from degrees of parallelism. */
static enum shunt_status build_parallel(struct arena *arena, struct side *side, struct shunt_err *err)
{
    const struct cfg_model *model = side->space->model;
    enum shunt_status status = check_heads(model, side->layout, err);
    if (status == SHUNT_OK)
        status = heads_check(model, side->layout, err);
    if (status == SHUNT_OK)
        status = check_experts(model, side->layout, err);
    if (status == SHUNT_OK)
        status = grid_build(arena, side->layout, model->experts > 0, &side->grid, err);
    if (status == SHUNT_OK)
        status = pipeline_build(arena, side->layout, model, &side->pipeline, err);
    if (status == SHUNT_OK)
        status = place_families(arena, side, err);
    return status;
}

/** A layout given tensor by tensor: there are ranks, but no axes and no stages. */
static enum shunt_status build_given(struct arena *arena, struct side *side, struct shunt_err *err)
{
    const struct cfg_layout *layout = side->layout;
    placement_vec list = {0};
    side->grid.rank_count = (uint32_t)cfg_layout_world(layout);
    side->grid.ranks = ARENA_NEW(arena, struct grid_rank, side->grid.rank_count);
    for (uint32_t r = 0; r < side->grid.rank_count; r++)
        side->grid.ranks[r].device = layout->device_count > 0 ? layout->devices[r] : r;
    side->item_placement = ARENA_NEW(arena, uint32_t, side->space->item_count);
    enum shunt_status status = layout->form == CFG_FORM_MESH
                                   ? mesh_place(arena, side->space, layout, &list, side->item_placement, err)
                                   : explicit_place(arena, side->space, layout, &list, side->item_placement, err);
    side->placements = list.items;
    side->placement_count = (uint32_t)list.count;
    return status;
}

enum shunt_status side_build(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                             struct side **side_out, struct shunt_err *err)
{
    struct side *side = ARENA_NEW(arena, struct side, 1);
    side->layout = layout;
    side->space = space;
    enum shunt_status status =
        layout->form == CFG_FORM_PARALLEL ? build_parallel(arena, side, err) : build_given(arena, side, err);
    for (uint32_t i = 0; status == SHUNT_OK && i < space->item_count; i++) {
        if (!space_keeps(layout, space->items[i].state))
            side->item_placement[i] = SIDE_KEEPS_NONE;
        else if (side_placement(side, i)->member_count == 0)
            status = shunt_fail(err, SHUNT_ERR_INTERNAL, "%s: no rank would hold %s of %s (a fault of the rules)",
                                layout->path, shunt_state_name(space->items[i].state),
                                space_tensor_name(arena, &space->families[space->items[i].family],
                                                  space->items[i].layer, space->items[i].expert));
    }
    if (status == SHUNT_OK)
        status = current_check(side, err);
    if (status == SHUNT_OK)
        *side_out = side;
    return status;
}

/* ---- questions ------------------------------------------------------------------- */

const struct placement_variant *side_variant(const struct side *side, uint32_t item, uint32_t rank)
{
    if (!side_keeps(side, item))
        return NULL;
    const struct placement *placement = side_placement(side, item);
    uint32_t variant = placement_variant_of(placement, rank);
    return variant == PLACEMENT_NO_VARIANT ? NULL : &placement->variants[variant];
}

uint64_t side_rank_bytes(const struct side *side, uint32_t rank)
{
    const struct side_index *index = &side->index;
    uint64_t total = 0;
    enum space_side which = space_side_of(side->space, side->layout);
    for (size_t n = index->rank_begin[rank]; n < index->rank_begin[rank + 1]; n++) {
        uint32_t p = index->rank_placement[n];
        const struct placement *placement = &side->placements[p];
        uint64_t elements = (uint64_t)placement->variants[placement_variant_of(placement, rank)].elements;
        for (uint32_t i = index->placement_begin[p]; i < index->placement_begin[p + 1]; i++)
            total += elements * side->space->items[index->placement_item[i]].elem_bytes[which];
    }
    return total;
}
