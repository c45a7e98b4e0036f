/* SPDX-License-Identifier: Apache-2.0 */
#include "space/keys.h"

#include <string.h>

static const enum cfg_axis axis_of_key[CFG_KEY_COUNT] = {
    [CFG_KEY_PP] = CFG_AXIS_PP, [CFG_KEY_DP] = CFG_AXIS_DP,  [CFG_KEY_CP] = CFG_AXIS_CP,
    [CFG_KEY_EP] = CFG_AXIS_EP, [CFG_KEY_ETP] = CFG_AXIS_TP, [CFG_KEY_TP] = CFG_AXIS_TP};

/* ---- sizes ----------------------------------------------------------------------- */

/** Mesh axes that stand for a key. */
static const struct {
    const char *name;
    enum cfg_key key;
} mesh_names[] = {{"tp", CFG_KEY_TP},       {"cp", CFG_KEY_CP},   {"pp", CFG_KEY_PP},
                  {"ep", CFG_KEY_EP},       {"dp", CFG_KEY_DP},   {"dp_replicate", CFG_KEY_DP},
                  {"dp_shard", CFG_KEY_DP}, {"fsdp", CFG_KEY_DP}, {"etp", CFG_KEY_ETP}};

/** Key of a mesh axis; CFG_KEY_COUNT: none. */
static enum cfg_key key_of_name(const char *name)
{
    for (size_t n = 0; n < sizeof(mesh_names) / sizeof(mesh_names[0]); n++) {
        if (strcmp(mesh_names[n].name, name) == 0)
            return mesh_names[n].key;
    }
    return CFG_KEY_COUNT;
}

/** Unknown if any axis has another name: it may be the one that is asked for. */
static int64_t mesh_size(const struct cfg_mesh *mesh, enum cfg_key key)
{
    int64_t size = 1;
    bool found = false;
    for (uint32_t a = 0; a < mesh->axis_count; a++) {
        enum cfg_key named = key_of_name(mesh->names[a]);
        if (named == CFG_KEY_COUNT)
            return 0;
        size *= named == key ? mesh->shape[a] : 1;
        found = found || named == key;
    }
    bool expert = key == CFG_KEY_EP || key == CFG_KEY_ETP;
    return expert && !found ? 0 : size;
}

int64_t keys_size(const struct cfg_layout *layout, enum cfg_key key)
{
    switch (layout->form) {
    case CFG_FORM_PARALLEL:
        return key == CFG_KEY_ETP && layout->etp > 0 ? layout->etp : layout->size[axis_of_key[key]];
    case CFG_FORM_MESH:
        return mesh_size(&layout->mesh, key);
    case CFG_FORM_HOLDINGS:
        break;
    }
    return key == CFG_KEY_ETP ? layout->axes_etp : layout->axes[axis_of_key[key]];
}

int64_t keys_rows(const struct cfg_layout *layout, const bool *per)
{
    int64_t rows = 1;
    for (int k = 0; k < CFG_KEY_COUNT; k++) {
        if (per[k] && __builtin_mul_overflow(rows, keys_size(layout, (enum cfg_key)k), &rows))
            return 0;
    }
    return rows <= INT64_C(1) << 40 ? rows : 0;
}

/* ---- places ---------------------------------------------------------------------- */

static int64_t mesh_place_of(const struct cfg_mesh *mesh, enum cfg_key key, uint32_t rank)
{
    int64_t at[CFG_MAX_MESH], rest = rank, place = 0;
    for (uint32_t a = mesh->axis_count; a-- > 0;) {
        at[a] = rest % mesh->shape[a];
        rest /= mesh->shape[a];
    }
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        place = key_of_name(mesh->names[a]) == key ? place * mesh->shape[a] + at[a] : place;
    return place;
}

static int64_t place_of(const struct cfg_layout *layout, const struct grid *grid, enum cfg_key key, uint32_t rank)
{
    if (layout->form == CFG_FORM_MESH)
        return mesh_place_of(&layout->mesh, key, rank);
    return key == CFG_KEY_ETP ? grid->ranks[rank].etp : grid->ranks[rank].at[axis_of_key[key]];
}

static int64_t row_of(const struct cfg_layout *layout, const struct grid *grid, const bool *per, uint32_t rank)
{
    int64_t row = 0;
    for (int k = 0; k < CFG_KEY_COUNT; k++) {
        if (per[k])
            row = row * keys_size(layout, (enum cfg_key)k) + place_of(layout, grid, (enum cfg_key)k, rank);
    }
    return row;
}

/** Row r of the family, as a buffer of one row. */
static void fill_variant(struct arena *arena, const struct space_family *family, int64_t row,
                         struct placement_variant *variant)
{
    variant->ndim = family->ndim;
    memcpy(variant->shape, family->shape, sizeof(variant->shape));
    variant->shape[0] = 1;
    variant->elements = family->shape[1];
    variant->holdings = ARENA_NEW(arena, struct placement_holding, 1);
    variant->holding_count = 1;
    variant->holdings->box = box_whole(family->ndim, family->shape);
    variant->holdings->box.lo[0] = row;
    variant->holdings->box.hi[0] = row + 1;
    placement_dense_strides(family->ndim, variant->shape, variant->holdings->stride);
}

struct placement keys_place(struct arena *arena, const struct space_family *family, const struct cfg_layout *layout,
                            const struct grid *grid)
{
    struct placement placement = {.variant_count = (uint32_t)family->shape[0]};
    uint32_t ranks = (uint32_t)cfg_layout_world(layout);
    placement.variants = ARENA_NEW(arena, struct placement_variant, placement.variant_count);
    for (uint32_t v = 0; v < placement.variant_count; v++) {
        fill_variant(arena, family, v, &placement.variants[v]);
        placement.variants[v].ranks = ARENA_NEW(arena, uint32_t, ranks / placement.variant_count);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        struct placement_variant *variant = &placement.variants[row_of(layout, grid, family->per, r)];
        variant->ranks[variant->rank_count++] = r;
    }
    placement_index(arena, &placement);
    return placement;
}
