/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part_build.h"

#include <stdlib.h>
#include <string.h>

#include "shunt/plan.h"

/** Where a transfer that a device only sends on lies there. A device never gets the same twice. */
struct part_passing {
    uint32_t item, cell, slice;
    uint32_t buffer;
};

static int compare_passing(const void *a, const void *b)
{
    const struct part_passing *x = a, *y = b;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    if (x->cell != y->cell)
        return x->cell < y->cell ? -1 : 1;
    return (x->slice > y->slice) - (x->slice < y->slice);
}

/** What elements are sent as. */
static enum shunt_dtype wire_dtype(const struct space_item *item)
{
    return item->wire_bytes == item->elem_bytes[SPACE_TO] ? item->dtype[SPACE_TO] : item->read_dtype;
}

/** A buffer that is just the box of a transfer, in the form in which it is sent. */
static uint32_t add_passing(struct part *part, const struct transfer *transfer)
{
    const struct space_item *item = &part->space->items[transfer->item];
    struct box box = transfer_box(transfer);
    struct shunt_plan_corner corner = {0};
    int64_t shape[SHUNT_MAX_DIMS];
    part_box_shape(&box, shape);
    memcpy(corner.lo, box.lo, box.ndim * sizeof(int64_t));
    uint32_t view = part_add_dense_view(part, box.ndim, shape, item->wire_bytes);
    *VEC_PUSH(part->arena, &part->buffers) = (struct shunt_plan_buffer){
        .tensor = item->tensor,
        .state = item->state,
        .dtype = wire_dtype(item),
        .side = SHUNT_SIDE_SCRATCH,
        .tier = SHUNT_TIER_DEVICE,
        .bytes = transfer->bytes,
        .view = view,
        .holding_begin = (uint32_t)part->holdings.count,
        .holding_count = 1,
        .alloc_round = transfer->round,
        .free_round = transfer->round,
        .origin_state =
            item->derived_from != transfer->item ? (uint8_t)(1 + part->space->items[item->derived_from].state) : 0,
        .origin_dtype = item->read_dtype != wire_dtype(item) ? (uint8_t)(1 + item->read_dtype) : 0};
    struct shunt_plan_holding *holding = VEC_PUSH(part->arena, &part->holdings);
    holding->view = view;
    holding->corner = intern_add(&part->corners, &corner);
    holding->offset = 0;
    return (uint32_t)part->buffers.count - 1;
}

uint32_t part_passing_buffer(const struct part *part, const struct transfer *transfer)
{
    const struct part_passing key = {.item = transfer->item, .cell = transfer->cell->number, .slice = transfer->slice};
    const struct part_passing *found =
        bsearch(&key, part->passing, part->passing_count, sizeof(*part->passing), compare_passing);
    return found->buffer;
}

void part_list_passing(struct part *part)
{
    const struct lowered *lowered = part->input->lowered;
    const struct transfer_list *reads = &lowered->reads[part->device], *writes = &lowered->writes[part->device];
    VEC(struct part_passing) list = {0};
    for (uint32_t n = 0; n < writes->count; n++) {
        const struct transfer *transfer = &lowered->transfers[writes->transfers[n]];
        if (!transfer->passing)
            continue;
        uint32_t buffer = add_passing(part, transfer);
        *VEC_PUSH(part->arena, &list) = (struct part_passing){
            .item = transfer->item, .cell = transfer->cell->number, .slice = transfer->slice, .buffer = buffer};
    }
    if (list.count > 0)
        qsort(list.items, list.count, sizeof(*list.items), compare_passing);
    part->passing = list.items;
    part->passing_count = list.count;
    for (uint32_t n = 0; n < reads->count; n++) { /* by ascending round */
        const struct transfer *transfer = &lowered->transfers[reads->transfers[n]];
        if (transfer->passed)
            part->buffers.items[part_passing_buffer(part, transfer)].free_round = transfer->round;
    }
}
