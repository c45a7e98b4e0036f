/* SPDX-License-Identifier: Apache-2.0 */
#include "space/heads.h"

#include <string.h>

enum shunt_status heads_check(const struct cfg_model *model, const struct cfg_layout *layout, struct shunt_err *err)
{
    if (!layout->kv_replicate)
        return SHUNT_OK;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        if (model->tensors[t].heads != CFG_HEADS_NONE)
            return SHUNT_OK;
    }
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: attention.kv: found replicate, expected it with a model whose tensors say which rows "
                      "are heads (cut.heads); %s has none",
                      layout->path, layout->attention_pos.line, layout->attention_pos.column, model->path);
}

bool heads_apply(const struct cfg_layout *layout, const struct space_family *family, int64_t parts)
{
    return layout->kv_replicate && family->heads != CFG_HEADS_NONE && parts > family->kv_heads;
}

/** Query heads of all groups; those of a part of key or value heads alone are 0. */
static int64_t query_heads(const struct space_family *family)
{
    int64_t groups = family->kv_heads, of_group = family->segments[0] / family->head_dim / groups;
    switch (family->heads) {
    case CFG_HEADS_QKV:
        return groups * (of_group - 2);
    case CFG_HEADS_QGKV:
        return groups * (of_group - 2) / 2;
    case CFG_HEADS_Q_K_V:
        return groups * of_group;
    case CFG_HEADS_KV:
    case CFG_HEADS_NONE:
        break;
    }
    return 0;
}

/** Rows of a rank, in the order in which it has them; neighbours are one run. */
struct runs {
    uint32_t count;
    struct run {
        int64_t begin, end;
    } * items;
};

static void add_heads(struct runs *runs, int64_t head_dim, int64_t first, int64_t count)
{
    int64_t begin = first * head_dim, end = begin + count * head_dim;
    if (runs->count > 0 && runs->items[runs->count - 1].end == begin)
        runs->items[runs->count - 1].end = end;
    else
        runs->items[runs->count++] = (struct run){begin, end};
}

/** Heads of rank t, counted along the whole dimension in heads. */
static void list_heads(const struct space_family *family, int64_t t, int64_t parts, struct runs *runs)
{
    int64_t dim = family->head_dim, groups = family->kv_heads;
    int64_t queries = query_heads(family), own = queries / parts, group = t * groups / parts;
    int64_t of_group = queries / groups, first = t * own - group * of_group; /* first own one of the group */
    bool gates = family->heads == CFG_HEADS_QGKV;
    int64_t size = of_group * (gates ? 2 : 1) + 2;
    switch (family->heads) {
    case CFG_HEADS_QKV:
    case CFG_HEADS_QGKV:
        add_heads(runs, dim, group * size + first, own);
        if (gates)
            add_heads(runs, dim, group * size + of_group + first, own);
        add_heads(runs, dim, group * size + size - 2, 2);
        break;
    case CFG_HEADS_Q_K_V:
        add_heads(runs, dim, t * own, own);
        add_heads(runs, dim, queries + group, 1);
        add_heads(runs, dim, queries + groups + group, 1);
        break;
    case CFG_HEADS_KV:
        for (uint32_t s = 0; s < family->segment_count; s++)
            add_heads(runs, dim, s * groups + group, 1);
        break;
    case CFG_HEADS_NONE:
        break;
    }
}

static void build_variant(struct arena *arena, const struct space_family *family, const struct runs *runs,
                          struct placement_variant *variant)
{
    uint32_t dim = (uint32_t)family->cut_dim;
    int64_t stride[SHUNT_MAX_DIMS], at = 0;
    variant->ndim = family->ndim;
    memcpy(variant->shape, family->shape, sizeof(variant->shape));
    variant->shape[dim] = 0;
    for (uint32_t r = 0; r < runs->count; r++)
        variant->shape[dim] += runs->items[r].end - runs->items[r].begin;
    placement_dense_strides(variant->ndim, variant->shape, stride);
    variant->holdings = ARENA_NEW(arena, struct placement_holding, runs->count);
    for (uint32_t r = 0; r < runs->count; r++) {
        struct placement_holding *holding = &variant->holdings[variant->holding_count++];
        holding->box = box_whole(family->ndim, family->shape);
        holding->box.lo[dim] = runs->items[r].begin;
        holding->box.hi[dim] = runs->items[r].end;
        holding->offset = at * stride[dim];
        memcpy(holding->stride, stride, sizeof(stride));
        at += runs->items[r].end - runs->items[r].begin;
    }
}

enum shunt_status heads_cut(struct arena *arena, const struct space *space, const struct space_family *family,
                            const struct cfg_layout *layout, int64_t parts, struct cut *cut_out, struct shunt_err *err)
{
    int64_t queries = query_heads(family);
    struct cfg_pos pos = layout->size_pos[CFG_AXIS_TP];
    if (parts % family->kv_heads != 0 || queries % parts != 0)
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s:%u:%u: parallel.tp: found %lld, expected a multiple of the %lld key/value heads and a "
                          "divisor of the %lld query heads of %s (%s:%u)",
                          layout->path, pos.line, pos.column, (long long)parts, (long long)family->kv_heads,
                          (long long)queries, family->name, space->model->path, family->pos.line);
    cut_out->variant_count = (uint32_t)parts;
    cut_out->variants = ARENA_NEW(arena, struct placement_variant, cut_out->variant_count);
    struct runs runs = {.items = ARENA_NEW(arena, struct run, family->segment_count + 3)};
    for (int64_t t = 0; t < parts; t++) {
        runs.count = 0;
        list_heads(family, t, parts, &runs);
        build_variant(arena, family, &runs, &cut_out->variants[t]);
    }
    return SHUNT_OK;
}
