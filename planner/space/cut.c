/* SPDX-License-Identifier: Apache-2.0 */
#include "space/cut.h"

#include <string.h>

#include "space/heads.h"

int64_t cut_padded_rows(const struct cfg_layout *layout, int64_t rows, struct shunt_err *err)
{
    int64_t tp = layout->size[CFG_AXIS_TP];
    int64_t padded = layout->vocab_padded;
    if (padded == 0) {
        int64_t multiple;
        if (__builtin_mul_overflow(layout->vocab_divisible_by, tp, &multiple) || multiple > INT64_MAX / 4) {
            shunt_fail(err, SHUNT_ERR_INPUT, "%s:%u:%u: vocab.divisible_by: found %lld, expected a smaller number",
                       layout->path, layout->vocab_pos.line, layout->vocab_pos.column,
                       (long long)layout->vocab_divisible_by);
            return 0;
        }
        return (rows + multiple - 1) / multiple * multiple;
    }
    if (padded < rows || padded % tp != 0) {
        shunt_fail(err, SHUNT_ERR_INPUT,
                   "%s:%u:%u: vocab.padded: found %lld, expected at least the vocabulary, %lld rows, and a multiple of "
                   "tp %lld",
                   layout->path, layout->vocab_pos.line, layout->vocab_pos.column, (long long)padded, (long long)rows,
                   (long long)tp);
        return 0;
    }
    return padded;
}

static void add_holding(struct placement_variant *variant, const struct placement_holding *holding, uint32_t dim)
{
    if (variant->holding_count > 0) {
        struct placement_holding *before = &variant->holdings[variant->holding_count - 1];
        int64_t length = before->box.hi[dim] - before->box.lo[dim];
        /* neighbours in the tensor and in memory are one box (tp 1 over fused segments) */
        if (before->box.hi[dim] == holding->box.lo[dim] &&
            before->offset + length * before->stride[dim] == holding->offset) {
            before->box.hi[dim] = holding->box.hi[dim];
            return;
        }
    }
    variant->holdings[variant->holding_count++] = *holding;
}

static void build_replicated(struct arena *arena, const struct space_family *family, struct cut *cut)
{
    struct placement_variant *variant = ARENA_NEW(arena, struct placement_variant, 1);
    variant->ndim = family->ndim;
    memcpy(variant->shape, family->shape, sizeof(variant->shape));
    variant->holdings = ARENA_NEW(arena, struct placement_holding, 1);
    variant->holding_count = 1;
    variant->holdings->box = box_whole(family->ndim, family->shape);
    placement_dense_strides(family->ndim, family->shape, variant->holdings->stride);
    cut->variant_count = 1;
    cut->variants = variant;
}

/** Variant t of tp: slice t of each segment; padded_rows >= the cut extent adds pads behind. */
static void build_variant(struct arena *arena, const struct space_family *family, int64_t t, int64_t tp,
                          int64_t padded_rows, struct placement_variant *variant)
{
    uint32_t dim = (uint32_t)family->cut_dim;
    int64_t logical = family->shape[dim];
    int64_t global_at = 0, local_at = 0, stride[SHUNT_MAX_DIMS];
    variant->ndim = family->ndim;
    memcpy(variant->shape, family->shape, sizeof(variant->shape));
    variant->shape[dim] = padded_rows / tp;
    placement_dense_strides(family->ndim, variant->shape, stride);
    variant->holdings = ARENA_NEW(arena, struct placement_holding, family->segment_count);
    for (uint32_t j = 0; j < family->segment_count; j++) {
        int64_t length = family->pad_vocab ? padded_rows : family->segments[j];
        int64_t slice = length / tp;
        struct placement_holding holding = {.box = box_whole(family->ndim, family->shape)};
        holding.box.lo[dim] = global_at + t * slice;
        holding.box.hi[dim] = holding.box.lo[dim] + slice;
        if (holding.box.hi[dim] > logical)
            holding.box.hi[dim] = logical;
        holding.offset = local_at * stride[dim];
        memcpy(holding.stride, stride, sizeof(stride));
        bool empty = box_empty(&holding.box);
        if (!empty)
            add_holding(variant, &holding, dim);
        int64_t held = empty ? 0 : holding.box.hi[dim] - holding.box.lo[dim];
        if (held < slice) {
            struct box pad = box_whole(family->ndim, variant->shape);
            pad.lo[dim] = local_at + held;
            placement_add_pad(arena, variant, &pad);
        }
        global_at += length;
        local_at += slice;
    }
}

static enum shunt_status check_divides(const struct space *space, const struct space_family *family,
                                       const struct cfg_layout *layout, int64_t parts, struct shunt_err *err)
{
    bool own = family->expert && layout->etp > 0;
    struct cfg_pos pos = own ? layout->etp_pos : layout->size_pos[CFG_AXIS_TP];
    for (uint32_t j = 0; j < family->segment_count; j++) {
        if (family->segments[j] % parts == 0)
            continue;
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s:%u:%u: parallel.%s: found %lld, expected a divisor of %lld, the length of segment %u of "
                          "dimension %d of %s (%s:%u)",
                          layout->path, pos.line, pos.column, own ? "etp" : "tp", (long long)parts,
                          (long long)family->segments[j], j, family->cut_dim, family->name, space->model->path,
                          family->pos.line);
    }
    return SHUNT_OK;
}

static enum shunt_status count_elements(const struct space *space, const struct space_family *family, struct cut *cut,
                                        struct shunt_err *err)
{
    for (uint32_t v = 0; v < cut->variant_count; v++) {
        struct placement_variant *variant = &cut->variants[v];
        variant->elements = 1;
        for (uint32_t d = 0; d < variant->ndim; d++) {
            if (__builtin_mul_overflow(variant->elements, variant->shape[d], &variant->elements) ||
                variant->elements > (INT64_C(1) << 43))
                return shunt_fail(err, SHUNT_ERR_INPUT,
                                  "%s:%u: tensors: found more than 2^43 elements of %s on one rank, expected fewer",
                                  space->model->path, family->pos.line, family->name);
        }
    }
    return SHUNT_OK;
}

enum shunt_status cut_build(struct arena *arena, const struct space *space, const struct space_family *family,
                            const struct cfg_layout *layout, int64_t parts, struct cut *cut_out, struct shunt_err *err)
{
    if (family->cut_dim < 0) {
        build_replicated(arena, family, cut_out);
        return count_elements(space, family, cut_out, err);
    }
    if (heads_apply(layout, family, parts)) {
        enum shunt_status made = heads_cut(arena, space, family, layout, parts, cut_out, err);
        return made == SHUNT_OK ? count_elements(space, family, cut_out, err) : made;
    }
    int64_t rows = family->shape[family->cut_dim];
    if (family->pad_vocab)
        rows = cut_padded_rows(layout, rows, err);
    if (rows == 0)
        return SHUNT_ERR_INPUT;
    enum shunt_status status = family->pad_vocab ? SHUNT_OK : check_divides(space, family, layout, parts, err);
    if (status != SHUNT_OK)
        return status;
    cut_out->variant_count = (uint32_t)parts;
    cut_out->variants = ARENA_NEW(arena, struct placement_variant, cut_out->variant_count);
    for (int64_t t = 0; t < parts; t++)
        build_variant(arena, family, t, parts, rows, &cut_out->variants[t]);
    return count_elements(space, family, cut_out, err);
}
