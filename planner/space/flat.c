/* SPDX-License-Identifier: Apache-2.0 */
#include "space/flat.h"

#include <string.h>

/** Append the box of indices [begin, end) of dimension d, whole behind it, at `prefix` before it. */
static uint32_t add_box(uint32_t ndim, const int64_t *shape, const int64_t *prefix, uint32_t d, int64_t begin,
                        int64_t end, struct box *boxes, uint32_t count)
{
    if (begin >= end)
        return count;
    struct box box = box_whole(ndim, shape);
    for (uint32_t i = 0; i < d; i++) {
        box.lo[i] = prefix[i];
        box.hi[i] = prefix[i] + 1;
    }
    box.lo[d] = begin;
    box.hi[d] = end;
    boxes[count] = box;
    return count + 1;
}

/** Indices of a flat offset. */
static void unflatten(uint32_t ndim, const int64_t *stride, int64_t at, int64_t *index_out)
{
    for (uint32_t d = 0; d < ndim; d++) {
        index_out[d] = at / stride[d];
        at %= stride[d];
    }
}

uint32_t flat_boxes(uint32_t ndim, const int64_t *shape, int64_t begin, int64_t end,
                    struct box boxes_out[2 * SHUNT_MAX_DIMS])
{
    int64_t stride[SHUNT_MAX_DIMS], first[SHUNT_MAX_DIMS], last[SHUNT_MAX_DIMS];
    uint32_t count = 0, split = 0;
    if (begin >= end)
        return 0;
    placement_dense_strides(ndim, shape, stride);
    unflatten(ndim, stride, begin, first);
    unflatten(ndim, stride, end - 1, last);
    while (split < ndim && first[split] == last[split])
        split++;
    if (split == ndim) /* one element */
        return add_box(ndim, shape, first, ndim - 1, first[ndim - 1], first[ndim - 1] + 1, boxes_out, 0);
    /* Up from the innermost dimension: rest of each row behind `first`. A dimension that starts at 0 in all
     * inner ones belongs to the block outside it. */
    bool whole = true;
    for (uint32_t d = ndim - 1; d > split; d--) {
        bool starts_whole = whole && first[d] == 0;
        if (!starts_whole)
            count = add_box(ndim, shape, first, d, first[d] + (whole ? 0 : 1), shape[d], boxes_out, count);
        whole = starts_whole;
    }
    int64_t block_begin = first[split] + (whole ? 0 : 1);
    /* Is everything inside `last[split]` taken? Then it belongs to the block. */
    bool ends_whole = true;
    for (uint32_t d = split + 1; d < ndim; d++)
        ends_whole = ends_whole && last[d] == shape[d] - 1;
    count = add_box(ndim, shape, first, split, block_begin, last[split] + (ends_whole ? 1 : 0), boxes_out, count);
    for (uint32_t d = split + 1; d < ndim && !ends_whole; d++) {
        bool inner_whole = true;
        for (uint32_t i = d + 1; i < ndim; i++)
            inner_whole = inner_whole && last[i] == shape[i] - 1;
        count = add_box(ndim, shape, last, d, 0, last[d] + (inner_whole ? 1 : 0), boxes_out, count);
        if (inner_whole)
            break;
    }
    return count;
}

/** Index, in the local tensor, of a holding's first element. */
static void local_corner(const struct placement_variant *base, const struct placement_holding *holding, int64_t *lo_out)
{
    int64_t stride[SHUNT_MAX_DIMS];
    placement_dense_strides(base->ndim, base->shape, stride);
    unflatten(base->ndim, stride, holding->offset, lo_out);
}

/** The part of a holding that lies in a local box, with offsets counted from `origin`. */
static bool clip_holding(const struct placement_variant *base, const struct placement_holding *holding,
                         const struct box *local, int64_t origin, struct placement_holding *out)
{
    int64_t corner[SHUNT_MAX_DIMS];
    local_corner(base, holding, corner);
    *out = *holding;
    for (uint32_t d = 0; d < base->ndim; d++) {
        /* the same box moved into local indices, clipped, and moved back */
        int64_t shift = holding->box.lo[d] - corner[d];
        int64_t lo = local->lo[d] + shift, hi = local->hi[d] + shift;
        out->box.lo[d] = lo > holding->box.lo[d] ? lo : holding->box.lo[d];
        out->box.hi[d] = hi < holding->box.hi[d] ? hi : holding->box.hi[d];
        if (out->box.lo[d] >= out->box.hi[d])
            return false;
    }
    out->offset = placement_offset(holding, out->box.lo) - origin;
    return true;
}

/** First element of the base's pad in the flattened tensor; its elements when there is none. Pads are trailing rows. */
static int64_t pad_begin(const struct placement_variant *base)
{
    if (base->pad_count == 0)
        return base->elements;
    return base->pads[0].lo[0] * (base->elements / base->shape[0]);
}

struct placement_variant flat_variant(struct arena *arena, const struct placement_variant *base, int64_t begin,
                                      int64_t end, int64_t length)
{
    struct box boxes[2 * SHUNT_MAX_DIMS];
    struct placement_variant variant = {.ndim = 1, .shape = {length}, .elements = length};
    uint32_t count = flat_boxes(base->ndim, base->shape, begin, end, boxes);
    variant.holdings = ARENA_NEW(arena, struct placement_holding, (size_t)count * base->holding_count);
    for (uint32_t b = 0; b < count; b++) {
        for (uint32_t h = 0; h < base->holding_count; h++) {
            if (clip_holding(base, &base->holdings[h], &boxes[b], begin, &variant.holdings[variant.holding_count]))
                variant.holding_count++;
        }
    }
    int64_t held = pad_begin(base) < end ? pad_begin(base) : end;
    int64_t whole[] = {length};
    struct box pad = box_whole(1, whole);
    pad.lo[0] = held > begin ? held - begin : 0;
    placement_add_pad(arena, &variant, &pad);
    return variant;
}

struct placement_variant flat_rows_variant(struct arena *arena, const struct placement_variant *base, int64_t begin,
                                           int64_t end)
{
    struct placement_variant variant = {.ndim = base->ndim};
    int64_t row = base->elements / base->shape[0];
    memcpy(variant.shape, base->shape, sizeof(variant.shape));
    variant.shape[0] = end - begin;
    variant.elements = row * (end - begin);
    variant.holdings = ARENA_NEW(arena, struct placement_holding, base->holding_count);
    struct box rows = box_whole(base->ndim, base->shape);
    rows.lo[0] = begin;
    rows.hi[0] = end;
    for (uint32_t h = 0; h < base->holding_count && begin < end; h++) {
        if (clip_holding(base, &base->holdings[h], &rows, begin * row, &variant.holdings[variant.holding_count]))
            variant.holding_count++;
    }
    for (uint32_t p = 0; p < base->pad_count && begin < end; p++) {
        struct box pad;
        if (!box_intersect(&base->pads[p], &rows, &pad))
            continue;
        pad.lo[0] -= begin;
        pad.hi[0] -= begin;
        placement_add_pad(arena, &variant, &pad);
    }
    return variant;
}
