/* SPDX-License-Identifier: Apache-2.0 */
/** Indices over a part, so that staging pieces and holdings are found by search and not by scan. */
#include <stdlib.h>

#include "alloc.h"
#include "verify_internal.h"
#include "verify_sort.h"

void vsort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b))
{
    for (size_t i = 1; i < count; i++) {
        const char *item = (const char *)items + i * size;
        if (compare(item - size, item) > 0) {
            qsort(items, count, size, compare);
            return;
        }
    }
}

static uint64_t op_staging_offset(const struct shunt_plan_op *op)
{
    if (op->kind == SHUNT_OP_PACK)
        return op->dst_offset;
    return op->kind == SHUNT_OP_UNPACK ? op->src_offset : UINT64_MAX;
}

/* order[begin, end) = those indices by key; `spare` has room for as many. */
static void sort_range(struct ventry *entries, uint32_t begin, uint32_t end, uint32_t *order, struct ventry *spare)
{
    vsort_entries(&entries[begin], end - begin, spare);
    for (uint32_t i = begin; i < end; i++)
        order[i] = entries[i].index;
}

static void order_ops(struct vpart *vp, uint32_t round_count, struct ventry *entries, struct ventry *spare)
{
    const struct shunt_plan_part *part = &vp->part;
    for (uint32_t i = 0; i < part->header->op_count; i++)
        entries[i] = (struct ventry){op_staging_offset(&part->ops[i]), i};
    for (uint32_t k = 0; k < round_count; k++) {
        const struct shunt_plan_round *round = &part->rounds[k];
        sort_range(entries, round->op_begin, round->unpack_begin, vp->op_order, spare);
        sort_range(entries, round->unpack_begin, round[1].op_begin, vp->op_order, spare);
    }
}

static uint64_t holding_end(const struct shunt_plan_part *part, uint32_t index)
{
    const struct shunt_plan_holding *holding = &part->holdings[index];
    return holding->offset + shunt_plan_view_extent(&part->views[holding->view]);
}

static void order_holdings(struct vpart *vp, struct ventry *entries, struct ventry *spare)
{
    const struct shunt_plan_part *part = &vp->part;
    for (uint32_t i = 0; i < part->header->holding_count; i++)
        entries[i] = (struct ventry){part->holdings[i].offset, i};
    for (uint32_t b = 0; b < part->header->buffer_count; b++) {
        uint32_t begin = part->buffers[b].holding_begin, end = begin + part->buffers[b].holding_count;
        uint64_t reach = 0;
        sort_range(entries, begin, end, vp->holding_order, spare);
        for (uint32_t i = begin; i < end; i++) {
            vmax(&reach, holding_end(part, vp->holding_order[i]));
            vp->holding_reach[i] = reach;
        }
    }
}

bool vindex_part(struct vpart *vp, uint32_t round_count)
{
    uint32_t ops = vp->part.header->op_count, holdings = vp->part.header->holding_count;
    uint32_t most = ops > holdings ? ops : holdings;
    struct ventry *entries = schema_alloc(2 * (size_t)most, sizeof(*entries));
    vp->op_order = schema_alloc(ops, sizeof(*vp->op_order));
    vp->holding_order = schema_alloc(holdings, sizeof(*vp->holding_order));
    vp->holding_reach = schema_alloc(holdings, sizeof(*vp->holding_reach));
    bool complete = entries != NULL && vp->op_order != NULL && vp->holding_order != NULL && vp->holding_reach != NULL;
    if (complete) {
        order_ops(vp, round_count, entries, entries + most);
        order_holdings(vp, entries, entries + most);
    } else {
        vindex_finish(vp);
    }
    free(entries);
    return complete;
}

void vindex_finish(struct vpart *vp)
{
    free(vp->op_order);
    free(vp->holding_order);
    free(vp->holding_reach);
    vp->op_order = vp->holding_order = NULL;
    vp->holding_reach = NULL;
}

uint64_t vindex_staging_offset(const struct vpart *vp, uint32_t at)
{
    return op_staging_offset(&vp->part.ops[vp->op_order[at]]);
}

uint32_t vindex_find(const struct vpart *vp, uint32_t begin, uint32_t end, uint64_t offset)
{
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (vindex_staging_offset(vp, middle) < offset)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static bool resolve_in(const struct shunt_plan_part *part, uint32_t index, const struct shunt_plan_view *view,
                       uint64_t offset, struct vend *end_out)
{
    const struct shunt_plan_holding *holding = &part->holdings[index];
    if (!vregion_locate(&part->views[holding->view], holding->offset, view, offset, end_out->lo))
        return false;
    for (int d = 0; d < SHUNT_MAX_DIMS; d++)
        end_out->lo[d] += part->corners[holding->corner].lo[d];
    end_out->holding = index;
    return true;
}

/* One past the last holding of a buffer, in holding_order, that begins at or before offset. */
static uint32_t holdings_upto(const struct vpart *vp, const struct shunt_plan_buffer *buffer, uint64_t offset)
{
    uint32_t begin = buffer->holding_begin, end = begin + buffer->holding_count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (vp->part.holdings[vp->holding_order[middle]].offset <= offset)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

bool vindex_resolve(const struct verifier *v, uint32_t device, uint32_t buffer, const struct shunt_plan_view *view,
                    uint64_t offset, struct vend *end_out)
{
    const struct vpart *vp = &v->parts[device];
    const struct shunt_plan_buffer *record = &vp->part.buffers[buffer];
    uint32_t at = holdings_upto(vp, record, offset);
    while (at > record->holding_begin && vp->holding_reach[at - 1] > offset) {
        at--;
        if (resolve_in(&vp->part, vp->holding_order[at], view, offset, end_out))
            return true;
    }
    return false;
}
