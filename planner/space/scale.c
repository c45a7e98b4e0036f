/* SPDX-License-Identifier: Apache-2.0 */
#include "space/scale.h"

#include <stdlib.h>
#include <string.h>

#include "space/mesh.h"

static const int64_t one_element = 1;
static const int64_t no_layer = 0;

/* ---- shards in order ---------------------------------------------------------------- */

/** What a variant holds, its boxes in order. */
struct shard {
    uint32_t variant, box_count;
    struct box *boxes;
};

/** The shards of a placement that hold anything, in the order of their boxes. */
struct shard_list {
    uint32_t count;
    struct shard *shards;
};

/** By their first elements, row-major; then by their last ones. */
static int compare_boxes(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    for (uint32_t d = 0; d < x->ndim; d++) {
        if (x->lo[d] != y->lo[d])
            return x->lo[d] < y->lo[d] ? -1 : 1;
    }
    for (uint32_t d = 0; d < x->ndim; d++) {
        if (x->hi[d] != y->hi[d])
            return x->hi[d] < y->hi[d] ? -1 : 1;
    }
    return 0;
}

/** By what they hold alone. */
static int compare_contents(const struct shard *x, const struct shard *y)
{
    for (uint32_t b = 0; b < x->box_count && b < y->box_count; b++) {
        int order = compare_boxes(&x->boxes[b], &y->boxes[b]);
        if (order != 0)
            return order;
    }
    return (x->box_count > y->box_count) - (x->box_count < y->box_count);
}

static int compare_shards(const void *a, const void *b)
{
    const struct shard *x = a, *y = b;
    int order = compare_contents(x, y);
    return order != 0 ? order : (x->variant > y->variant) - (x->variant < y->variant);
}

static struct shard_list list_shards(struct arena *arena, const struct placement *placement)
{
    struct shard_list list = {.shards = ARENA_NEW(arena, struct shard, placement->variant_count)};
    for (uint32_t v = 0; v < placement->variant_count; v++) {
        const struct placement_variant *variant = &placement->variants[v];
        if (variant->rank_count == 0 || variant->holding_count == 0)
            continue;
        struct shard *shard = &list.shards[list.count++];
        *shard = (struct shard){.variant = v, .box_count = variant->holding_count};
        shard->boxes = ARENA_NEW(arena, struct box, variant->holding_count);
        for (uint32_t h = 0; h < variant->holding_count; h++)
            shard->boxes[h] = variant->holdings[h].box;
        qsort(shard->boxes, shard->box_count, sizeof(*shard->boxes), compare_boxes);
    }
    if (list.count > 0)
        qsort(list.shards, list.count, sizeof(*list.shards), compare_shards);
    return list;
}

/** Number of the first shard behind `s` that holds something else. */
static uint32_t next_content(const struct shard_list *list, uint32_t s)
{
    uint32_t next = s + 1;
    while (next < list->count && compare_contents(&list->shards[s], &list->shards[next]) == 0)
        next++;
    return next;
}

/**
 * Walk both lists together, copies as one.
 *
 * @return a new shard that is no old one, or one behind which an old one is missing; NULL when the cuts are the same
 */
static const struct shard *find_unlike(const struct shard_list *from, const struct shard_list *to)
{
    uint32_t a = 0, b = 0;
    while (a < from->count && b < to->count) {
        if (compare_contents(&from->shards[a], &to->shards[b]) != 0)
            return &to->shards[b];
        a = next_content(from, a);
        b = next_content(to, b);
    }
    return b < to->count ? &to->shards[b] : a < from->count ? &to->shards[to->count - 1] : NULL;
}

/* ---- placements ------------------------------------------------------------------------ */

/** Where the scales of one placement's shards lie: copies of a shard have one scale. @return number of scales */
static int64_t place_scales(struct arena *arena, const struct placement *placement, const struct shard_list *list,
                            struct placement *scales_out)
{
    static const int64_t dense = 1;
    int64_t number = -1;
    scales_out->variant_count = list->count;
    scales_out->variants = ARENA_NEW(arena, struct placement_variant, list->count);
    for (uint32_t s = 0; s < list->count; s++) {
        const struct placement_variant *shard = &placement->variants[list->shards[s].variant];
        struct placement_variant *variant = &scales_out->variants[s];
        number += s == 0 || compare_contents(&list->shards[s - 1], &list->shards[s]) != 0;
        variant->ndim = 1;
        variant->shape[0] = variant->elements = 1;
        variant->holding_count = 1;
        variant->holdings = ARENA_NEW(arena, struct placement_holding, 1);
        variant->holdings->box = (struct box){.ndim = 1, .lo = {number}, .hi = {number + 1}};
        for (uint32_t d = 1; d < SHUNT_MAX_DIMS; d++)
            variant->holdings->box.hi[d] = 1;
        variant->holdings->stride[0] = dense;
        variant->rank_count = shard->rank_count;
        variant->ranks = shard->ranks;
    }
    placement_index(arena, scales_out);
    return number + 1;
}

/** Number of a new placement of a side; `list` is the side's placements, with room to grow. */
static uint32_t append_placement(struct arena *arena, struct side *side, placement_vec *list,
                                 const struct placement *placement)
{
    *VEC_PUSH(arena, list) = *placement;
    side->placements = list->items;
    side->placement_count = (uint32_t)list->count;
    return side->placement_count - 1;
}

/* ---- tensors ------------------------------------------------------------------------------ */

/** Scales of one tensor. */
struct scaled {
    uint32_t item;        /* a scaled state of the tensor */
    int64_t count;        /* of scales */
    uint32_t from, to;    /* their placements */
    uint32_t state_count; /* states that have scales */
    uint8_t states[SHUNT_STATE_COUNT];
    bool dropped[SHUNT_STATE_COUNT]; /* beside the states: the new side has it not, and its scales neither */
};

struct extender {
    struct arena *arena;
    struct space *space;
    struct side *from, *to;
    struct shunt_err *err;
    placement_vec from_list, to_list;
    uint32_t seen_from, seen_to; /* placements of the tensor before, whose scales lie as `last` says */
    struct scaled last;
    VEC(struct scaled) list;
};

static const char *tensor_name(const struct extender *extender, uint32_t i)
{
    const struct space_item *item = &extender->space->items[i];
    return space_tensor_name(extender->arena, &extender->space->families[item->family], item->layer, item->expert);
}

static enum shunt_status refuse_cut(const struct extender *extender, uint32_t item, const struct shard *shard)
{
    const struct cfg_layout *from = extender->from->layout, *to = extender->to->layout;
    const struct placement_variant *variant = &side_placement(extender->to, item)->variants[shard->variant];
    const char *state = shunt_state_name(extender->space->items[item].state);
    char text[SHUNT_MAX_DIMS * 48];
    return shunt_fail(extender->err, SHUNT_ERR_UNSUPPORTED,
                      "%s:%u:%u: state.%s: found shards of %s such as %s on rank %u, expected those of %s, box for "
                      "box, as each has a scale of its own (not supported: quantizing anew)",
                      to->path, to->state_pos.line, to->state_pos.column, state, tensor_name(extender, item),
                      box_print(&shard->boxes[0], text, sizeof(text)), variant->ranks[0], from->path);
}

/** Scales of the shards of an item, which are cut the same on both sides. */
static enum shunt_status scale_item(struct extender *extender, uint32_t item)
{
    const struct placement *from = side_placement(extender->from, item);
    struct shard_list old = list_shards(extender->arena, from);
    extender->seen_from = extender->from->item_placement[item];
    extender->seen_to = extender->to->item_placement[item];
    struct placement scales = {0};
    extender->last.count = place_scales(extender->arena, from, &old, &scales);
    extender->last.from = extender->last.to =
        append_placement(extender->arena, extender->from, &extender->from_list, &scales);
    if (extender->from == extender->to || !side_keeps(extender->to, item))
        return SHUNT_OK;
    const struct placement *to = side_placement(extender->to, item);
    struct shard_list new = list_shards(extender->arena, to);
    const struct shard *unlike = find_unlike(&old, &new);
    if (unlike != NULL)
        return refuse_cut(extender, item, unlike);
    struct placement taken = {0};
    place_scales(extender->arena, to, &new, &taken);
    extender->last.to = append_placement(extender->arena, extender->to, &extender->to_list, &taken);
    return SHUNT_OK;
}

/** The scaled states of one tensor, if it has any. */
static enum shunt_status scale_tensor(struct extender *extender, const struct space_family *family, uint32_t first)
{
    const uint32_t *from = extender->from->item_placement, *to = extender->to->item_placement;
    struct scaled scaled = {0};
    for (uint32_t s = 0; s < family->state_count; s++) {
        if (extender->from->layout->state_scale[family->state[s]] != CFG_SCALE_SHARD)
            continue;
        bool dropped = !side_keeps(extender->to, first + s);
        if (scaled.state_count == 0 || (!side_keeps(extender->to, scaled.item) && !dropped))
            scaled.item = first + s;
        if (from[scaled.item] != from[first + s] || (!dropped && to[scaled.item] != to[first + s]))
            return shunt_fail(extender->err, SHUNT_ERR_UNSUPPORTED,
                              "%s:%u:%u: state.%s: found %s cut otherwise than its %s, expected all states with scales "
                              "of a tensor cut alike",
                              extender->to->layout->path, extender->to->layout->state_pos.line,
                              extender->to->layout->state_pos.column, shunt_state_name(family->state[s]),
                              tensor_name(extender, first + s),
                              shunt_state_name(extender->space->items[scaled.item].state));
        scaled.dropped[scaled.state_count] = dropped;
        scaled.states[scaled.state_count++] = family->state[s];
    }
    if (scaled.state_count == 0)
        return SHUNT_OK;
    if (extender->seen_from != from[scaled.item] || extender->seen_to != to[scaled.item]) {
        enum shunt_status status = scale_item(extender, scaled.item);
        if (status != SHUNT_OK)
            return status;
    }
    scaled.count = extender->last.count;
    scaled.from = extender->last.from;
    scaled.to = extender->last.to;
    *VEC_PUSH(extender->arena, &extender->list) = scaled;
    return SHUNT_OK;
}

/** The tensor of the scales of a tensor: a family of its own, as their numbers differ. */
static struct space_family make_family(const struct extender *extender, const struct scaled *scaled)
{
    const char *of = tensor_name(extender, scaled->item);
    size_t room = strlen(of) + sizeof(SCALE_SUFFIX);
    char *name = ARENA_NEW(extender->arena, char, room);
    snprintf(name, room, "%s%s", of, SCALE_SUFFIX);
    struct space_family family = {.name = name,
                                  .pos = extender->space->families[extender->space->items[scaled->item].family].pos,
                                  .ndim = 1,
                                  .shape = {scaled->count},
                                  .stage = CFG_STAGE_ALL,
                                  .cut_dim = -1,
                                  .segment_count = 1,
                                  .segments = &one_element,
                                  .layer_count = 1,
                                  .expert_count = 1,
                                  .layers = &no_layer};
    for (uint32_t s = 0; s < scaled->state_count; s++)
        space_family_add_state(&family, scaled->states[s],
                               (const int[SPACE_SIDES]){SHUNT_DTYPE_FP32, scaled->dropped[s] ? -1 : SHUNT_DTYPE_FP32});
    return family;
}

static void place_items(struct extender *extender, struct side *side, uint32_t old_count)
{
    uint32_t *grown = ARENA_NEW(extender->arena, uint32_t, extender->space->item_count), item = old_count;
    memcpy(grown, side->item_placement, old_count * sizeof(*grown));
    side->item_placement = grown;
    for (size_t i = 0; i < extender->list.count; i++) {
        const struct scaled *scaled = &extender->list.items[i];
        for (uint32_t s = 0; s < scaled->state_count; s++, item++) {
            grown[item] = side == extender->from ? scaled->from : scaled->to;
            if (side != extender->from && scaled->dropped[s])
                grown[item] = SIDE_KEEPS_NONE;
        }
    }
}

static enum shunt_status append_scales(struct extender *extender)
{
    uint32_t count = (uint32_t)extender->list.count, items = extender->space->item_count;
    struct space_family *families = ARENA_NEW(extender->arena, struct space_family, count);
    for (uint32_t f = 0; f < count; f++)
        families[f] = make_family(extender, &extender->list.items[f]);
    enum shunt_status status = space_append(extender->arena, extender->space, families, count, extender->err);
    if (status != SHUNT_OK)
        return status;
    place_items(extender, extender->from, items);
    if (extender->to != extender->from)
        place_items(extender, extender->to, items);
    return SHUNT_OK;
}

static placement_vec list_placements(const struct side *side)
{
    return (placement_vec){
        .items = side->placements, .count = side->placement_count, .capacity = side->placement_count};
}

enum shunt_status scale_extend(struct arena *arena, struct space *space, struct side *from, struct side *to,
                               struct shunt_err *err)
{
    struct extender extender = {.arena = arena,
                                .space = space,
                                .from = from,
                                .to = to,
                                .err = err,
                                .from_list = list_placements(from),
                                .to_list = list_placements(to),
                                .seen_from = UINT32_MAX,
                                .seen_to = UINT32_MAX};
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        for (uint32_t t = 0; t < family->layer_count * family->expert_count; t++) {
            enum shunt_status status = scale_tensor(&extender, family, family->item_begin + t * family->state_count);
            if (status != SHUNT_OK)
                return status;
        }
    }
    return extender.list.count > 0 ? append_scales(&extender) : SHUNT_OK;
}

bool scale_is_family(const struct space_family *family)
{
    return strchr(family->name, SCALE_SUFFIX[0]) != NULL;
}
