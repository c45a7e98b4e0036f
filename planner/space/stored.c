/* SPDX-License-Identifier: Apache-2.0 */
#include "space/stored.h"

#include <string.h>

enum shunt_status stored_check(const struct space *space, const struct cfg_layout *layout, struct shunt_err *err)
{
    for (uint32_t s = 0; s < layout->storage_count; s++) {
        const struct cfg_storage *storage = &layout->storage[s];
        const struct space_family *family = space_find_family(space, storage->tensor);
        struct cfg_pos pos = storage->pos;
        if (family == NULL)
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: storage[%u].tensor: found \"%.200s\", expected a tensor as %s writes it",
                              layout->path, pos.line, pos.column, s, storage->tensor, space->model->path);
        if (family->ndim != storage->ndim)
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: storage[%u].dims: found %u dimensions, expected the %u of %s", layout->path,
                              pos.line, pos.column, s, storage->ndim, family->ndim, family->name);
        if (family->pad_vocab)
            return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                              "%s:%u:%u: storage[%u].tensor: found %s, expected a tensor without a padded vocabulary "
                              "(not supported: pads that do not lie at the end)",
                              layout->path, pos.line, pos.column, s, family->name);
    }
    return SHUNT_OK;
}

const int64_t *stored_dims(const struct cfg_layout *layout, const struct space_family *family)
{
    for (uint32_t s = 0; s < layout->storage_count; s++) {
        if (strcmp(layout->storage[s].tensor, family->name) == 0)
            return layout->storage[s].dims;
    }
    return NULL;
}

static void permute_box(const int64_t *dims, struct box *box)
{
    struct box from = *box;
    for (uint32_t k = 0; k < box->ndim; k++) {
        box->lo[k] = from.lo[dims[k]];
        box->hi[k] = from.hi[dims[k]];
    }
}

/** The same box of memory, at the place that it has among the permuted dimensions. */
static struct placement_holding permute_holding(const int64_t *dims, const struct placement_holding *from,
                                                const int64_t *stride, const int64_t *permuted)
{
    struct placement_holding holding = {.box = from->box};
    int64_t rest = from->offset, corner[SHUNT_MAX_DIMS];
    for (uint32_t d = 0; d < from->box.ndim; d++) {
        corner[d] = rest / stride[d];
        rest %= stride[d];
    }
    permute_box(dims, &holding.box);
    for (uint32_t k = 0; k < from->box.ndim; k++) {
        holding.stride[k] = permuted[k];
        holding.offset += corner[dims[k]] * permuted[k];
    }
    return holding;
}

static void permute_variant(struct arena *arena, const int64_t *dims, struct placement_variant *variant)
{
    struct placement_variant from = *variant;
    int64_t stride[SHUNT_MAX_DIMS], permuted[SHUNT_MAX_DIMS];
    for (uint32_t k = 0; k < from.ndim; k++)
        variant->shape[k] = from.shape[dims[k]];
    placement_dense_strides(from.ndim, from.shape, stride);
    placement_dense_strides(from.ndim, variant->shape, permuted);
    variant->holdings = ARENA_NEW(arena, struct placement_holding, from.holding_count);
    for (uint32_t h = 0; h < from.holding_count; h++)
        variant->holdings[h] = permute_holding(dims, &from.holdings[h], stride, permuted);
    variant->pads = ARENA_NEW(arena, struct box, from.pad_count);
    for (uint32_t p = 0; p < from.pad_count; p++) {
        variant->pads[p] = from.pads[p];
        permute_box(dims, &variant->pads[p]);
    }
}

void stored_permute(struct arena *arena, const int64_t *dims, struct cut *cut)
{
    for (uint32_t v = 0; v < cut->variant_count; v++)
        permute_variant(arena, dims, &cut->variants[v]);
}

void stored_unpermute(struct arena *arena, const int64_t *dims, struct placement *placement)
{
    for (uint32_t v = 0; v < placement->variant_count; v++) {
        struct placement_variant *variant = &placement->variants[v];
        struct placement_holding *holdings = ARENA_NEW(arena, struct placement_holding, variant->holding_count);
        for (uint32_t h = 0; h < variant->holding_count; h++) {
            const struct placement_holding *from = &variant->holdings[h];
            holdings[h] = *from;
            for (uint32_t k = 0; k < from->box.ndim; k++) {
                holdings[h].box.lo[dims[k]] = from->box.lo[k];
                holdings[h].box.hi[dims[k]] = from->box.hi[k];
                holdings[h].stride[dims[k]] = from->stride[k];
            }
        }
        variant->holdings = holdings; /* variants of several placements share the ones from before */
    }
}
