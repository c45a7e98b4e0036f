/* SPDX-License-Identifier: Apache-2.0 */
#include "space/placement.h"

#include <stdlib.h>
#include <string.h>

static int compare_members(const void *a, const void *b)
{
    const struct placement_member *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

void placement_index(struct arena *arena, struct placement *placement)
{
    placement->member_count = 0;
    for (uint32_t v = 0; v < placement->variant_count; v++)
        placement->member_count += placement->variants[v].rank_count;
    placement->members = ARENA_NEW(arena, struct placement_member, placement->member_count);
    uint32_t n = 0;
    for (uint32_t v = 0; v < placement->variant_count; v++) {
        for (uint32_t i = 0; i < placement->variants[v].rank_count; i++)
            placement->members[n++] = (struct placement_member){.rank = placement->variants[v].ranks[i], .variant = v};
    }
    if (n > 0)
        qsort(placement->members, n, sizeof(*placement->members), compare_members);
}

uint32_t placement_variant_of(const struct placement *placement, uint32_t rank)
{
    uint32_t lo = 0, hi = placement->member_count;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (placement->members[middle].rank < rank)
            lo = middle + 1;
        else
            hi = middle;
    }
    bool found = lo < placement->member_count && placement->members[lo].rank == rank;
    return found ? placement->members[lo].variant : PLACEMENT_NO_VARIANT;
}

void placement_dense_strides(uint32_t ndim, const int64_t *shape, int64_t *stride_out)
{
    int64_t stride = 1;
    for (uint32_t d = ndim; d-- > 0;) {
        stride_out[d] = stride;
        stride *= shape[d];
    }
}

int64_t placement_offset(const struct placement_holding *holding, const int64_t *at)
{
    int64_t offset = holding->offset;
    for (uint32_t d = 0; d < holding->box.ndim; d++)
        offset += (at[d] - holding->box.lo[d]) * holding->stride[d];
    return offset;
}

int64_t placement_pad_elements(const struct placement_variant *variant)
{
    int64_t elements = 0;
    for (uint32_t p = 0; p < variant->pad_count; p++)
        elements += box_volume(&variant->pads[p]);
    return elements;
}

void placement_add_pad(struct arena *arena, struct placement_variant *variant, const struct box *pad)
{
    if (box_empty(pad))
        return;
    struct box *pads = ARENA_NEW(arena, struct box, variant->pad_count + 1);
    if (variant->pad_count > 0)
        memcpy(pads, variant->pads, variant->pad_count * sizeof(*pads));
    pads[variant->pad_count++] = *pad;
    variant->pads = pads;
}

static bool same_holding(const struct placement_holding *a, const struct placement_holding *b)
{
    if (!box_equal(&a->box, &b->box) || a->offset != b->offset)
        return false;
    for (uint32_t d = 0; d < a->box.ndim; d++) {
        if (a->box.hi[d] - a->box.lo[d] > 1 && a->stride[d] != b->stride[d])
            return false;
    }
    return true;
}

bool placement_same_content(const struct placement_variant *a, const struct placement_variant *b)
{
    if (a->ndim != b->ndim || memcmp(a->shape, b->shape, a->ndim * sizeof(int64_t)) != 0 ||
        a->holding_count != b->holding_count)
        return false;
    for (uint32_t h = 0; h < a->holding_count; h++) {
        if (!same_holding(&a->holdings[h], &b->holdings[h]))
            return false;
    }
    return true;
}
