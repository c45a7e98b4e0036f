/* SPDX-License-Identifier: Apache-2.0 */
#include "space/mesh.h"

#include <stdio.h>
#include <string.h>

#include "space/keys.h"

static const struct cfg_mesh_rule replicate_all;

/** The rule of a family's state: its own, else the one for every tensor, else replicated. */
static const struct cfg_mesh_rule *find_rule(const struct cfg_mesh *mesh, const struct space_family *family,
                                             uint8_t state)
{
    const struct cfg_mesh_rule *general = &replicate_all;
    if (family->state[0] != SHUNT_STATE_PARAM)
        return general; /* buffers and scalars are whole on every rank */
    for (uint32_t r = 0; r < mesh->rule_count; r++) {
        const struct cfg_mesh_rule *rule = &mesh->rules[r];
        if (!rule->state[state])
            continue;
        if (rule->tensor == NULL)
            general = rule;
        else if (strcmp(rule->tensor, family->name) == 0)
            return rule;
    }
    return general;
}

static enum cfg_placement_kind kind_of(const struct cfg_mesh_rule *rule, uint32_t axis)
{
    return rule == &replicate_all ? CFG_PLACE_REPLICATE : rule->placement[axis].kind;
}

static enum shunt_status check_rule(const struct cfg_layout *layout, const struct space_family *family,
                                    const struct cfg_mesh_rule *rule, struct shunt_err *err)
{
    const struct cfg_mesh *mesh = &layout->mesh;
    for (uint32_t a = 0; a < mesh->axis_count; a++) {
        const struct cfg_placement *placement = &rule->placement[a];
        if (kind_of(rule, a) == CFG_PLACE_REPLICATE)
            continue;
        if (placement->dim < 0 || (uint32_t)placement->dim >= family->ndim)
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: placements: found dimension %d for mesh axis %s, expected one of the %u "
                              "dimensions of %s",
                              layout->path, rule->pos.line, rule->pos.column, placement->dim, mesh->names[a],
                              family->ndim, family->name);
    }
    return SHUNT_OK;
}

/** Axes in the order in which they cut. */
struct cut_order {
    uint32_t count;
    uint32_t axes[CFG_MAX_MESH];
};

/**
 * Where an axis comes among those to its right: behind the fewest that cut the same dimension into k parts, k being
 * 1 for a plain shard. @return order->count + 1 where no number of them does
 */
static uint32_t find_place(const struct cfg_mesh *mesh, const struct cfg_mesh_rule *rule, uint32_t axis,
                           const struct cut_order *order)
{
    const struct cfg_placement *placement = &rule->placement[axis];
    int64_t parts = 1, wanted = placement->kind == CFG_PLACE_STRIDED ? placement->split_factor : 1;
    uint32_t place = 0;
    for (; place < order->count && parts < wanted; place++) {
        uint32_t other = order->axes[place];
        if (rule->placement[other].dim == placement->dim)
            parts *= mesh->shape[other];
    }
    return parts == wanted ? place : order->count + 1;
}

/** "2, 4 or 8": what the split factor of an axis may be; "no strided shard" where nothing to its right cuts. */
static void factors_text(const struct cfg_mesh *mesh, const struct cfg_mesh_rule *rule, uint32_t axis,
                         const struct cut_order *order, char *text, size_t size)
{
    int64_t parts = 1;
    size_t used = 0;
    snprintf(text, size, "no strided shard");
    for (uint32_t i = 0; i < order->count; i++) {
        uint32_t other = order->axes[i];
        if (rule->placement[other].dim != rule->placement[axis].dim || mesh->shape[other] == 1)
            continue;
        parts *= mesh->shape[other];
        used += (size_t)snprintf(text + used, size - used, "%s%lld", used > 0 ? " or " : "", (long long)parts);
    }
}

/**
 * The order of a rule's cuts, axes inserted from right to left. With [_StridedShard(0, 4), _StridedShard(0, 2),
 * Shard(0)] on axes a, b, c of size 2 it is c, b, a; with [_StridedShard(0, 2), _StridedShard(0, 2), Shard(0)] it is
 * c, a, b; with [_StridedShard(0, 2), Shard(0), Shard(0)] it is b, a, c.
 */
static enum shunt_status order_cuts(const struct cfg_layout *layout, const struct space_family *family,
                                    const struct cfg_mesh_rule *rule, struct cut_order *order, struct shunt_err *err)
{
    const struct cfg_mesh *mesh = &layout->mesh;
    *order = (struct cut_order){0};
    for (uint32_t a = mesh->axis_count; a-- > 0;) {
        if (kind_of(rule, a) == CFG_PLACE_REPLICATE)
            continue;
        uint32_t place = find_place(mesh, rule, a, order);
        if (place > order->count) {
            char factors[CFG_MAX_MESH * 24];
            factors_text(mesh, rule, a, order, factors, sizeof(factors));
            return shunt_fail(
                err, SHUNT_ERR_INPUT,
                "%s:%u:%u: placements: found split_factor %lld for mesh axis %s, expected %s: the sizes of the "
                "axes to its right that shard dimension %d of %s, in the order of their cuts",
                layout->path, rule->pos.line, rule->pos.column, (long long)rule->placement[a].split_factor,
                mesh->names[a], factors, rule->placement[a].dim, family->name);
        }
        memmove(&order->axes[place + 1], &order->axes[place], (order->count - place) * sizeof(order->axes[0]));
        order->axes[place] = a;
        order->count++;
    }
    return SHUNT_OK;
}

static void cut_chunk(struct box *box, int32_t dim, int64_t parts, int64_t index)
{
    int64_t length = box->hi[dim] - box->lo[dim];
    int64_t chunk = (length + parts - 1) / parts;
    int64_t begin = index * chunk < length ? index * chunk : length;
    int64_t end = begin + chunk < length ? begin + chunk : length;
    box->hi[dim] = box->lo[dim] + end;
    box->lo[dim] += begin;
}

/** The box of a rank at mesh coordinates `at`. */
static struct box cut_box(const struct cfg_mesh *mesh, const struct space_family *family,
                          const struct cfg_mesh_rule *rule, const struct cut_order *order, const int64_t *at)
{
    struct box box = box_whole(family->ndim, family->shape);
    for (uint32_t i = 0; i < order->count; i++) {
        uint32_t a = order->axes[i];
        cut_chunk(&box, rule->placement[a].dim, mesh->shape[a], at[a]);
    }
    return box;
}

static void fill_variant(struct arena *arena, const struct box *box, struct placement_variant *variant)
{
    variant->ndim = box->ndim;
    variant->elements = 1;
    for (uint32_t d = 0; d < box->ndim; d++) {
        variant->shape[d] = box->hi[d] - box->lo[d];
        variant->elements *= variant->shape[d];
    }
    if (variant->elements == 0)
        return;
    variant->holdings = ARENA_NEW(arena, struct placement_holding, 1);
    variant->holding_count = 1;
    variant->holdings->box = *box;
    placement_dense_strides(box->ndim, variant->shape, variant->holdings->stride);
}

/** Ranks with the same coordinates on all axes that cut share a variant. */
static struct placement make_placement(struct arena *arena, const struct cfg_mesh *mesh,
                                       const struct space_family *family, const struct cfg_mesh_rule *rule,
                                       const struct cut_order *order, uint32_t rank_count)
{
    struct placement placement = {.variant_count = 1};
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        placement.variant_count *= kind_of(rule, a) == CFG_PLACE_REPLICATE ? 1 : (uint32_t)mesh->shape[a];
    placement.variants = ARENA_NEW(arena, struct placement_variant, placement.variant_count);
    for (uint32_t r = 0; r < rank_count; r++) {
        int64_t at[CFG_MAX_MESH], rest = r;
        uint32_t v = 0;
        for (uint32_t a = mesh->axis_count; a-- > 0;) {
            at[a] = rest % mesh->shape[a];
            rest /= mesh->shape[a];
        }
        for (uint32_t a = 0; a < mesh->axis_count; a++)
            v = kind_of(rule, a) == CFG_PLACE_REPLICATE ? v : v * (uint32_t)mesh->shape[a] + (uint32_t)at[a];
        struct placement_variant *variant = &placement.variants[v];
        if (variant->ranks == NULL) {
            struct box box = cut_box(mesh, family, rule, order, at);
            fill_variant(arena, &box, variant);
            variant->ranks = ARENA_NEW(arena, uint32_t, rank_count / placement.variant_count);
        }
        variant->ranks[variant->rank_count++] = r;
    }
    placement_index(arena, &placement);
    return placement;
}

enum shunt_status mesh_place(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                             placement_vec *list, uint32_t *item_placement_out, struct shunt_err *err)
{
    uint32_t ranks = (uint32_t)cfg_layout_world(layout);
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        const struct cfg_mesh_rule *made[SHUNT_STATE_COUNT];
        uint32_t number[SHUNT_STATE_COUNT];
        if (family->per != NULL) {
            *VEC_PUSH(arena, list) = keys_place(arena, family, layout, NULL);
            item_placement_out[family->item_begin] = (uint32_t)list->count - 1;
            continue;
        }
        for (uint32_t s = 0; s < family->state_count; s++) {
            number[s] = UINT32_MAX;
            made[s] = NULL;
            if (!space_keeps(layout, family->state[s]))
                continue;
            made[s] = find_rule(&layout->mesh, family, family->state[s]);
            for (uint32_t before = 0; before < s; before++)
                number[s] = made[before] == made[s] ? number[before] : number[s];
            if (number[s] != UINT32_MAX)
                continue;
            struct cut_order order;
            enum shunt_status status = check_rule(layout, family, made[s], err);
            if (status == SHUNT_OK)
                status = order_cuts(layout, family, made[s], &order, err);
            if (status != SHUNT_OK)
                return status;
            struct placement placement = make_placement(arena, &layout->mesh, family, made[s], &order, ranks);
            *VEC_PUSH(arena, list) = placement;
            number[s] = (uint32_t)list->count - 1;
        }
        for (uint32_t t = 0; t < family->layer_count * family->expert_count; t++) {
            for (uint32_t s = 0; s < family->state_count; s++)
                item_placement_out[family->item_begin + t * family->state_count + s] = number[s];
        }
    }
    return SHUNT_OK;
}
