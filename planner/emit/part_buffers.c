/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part_build.h"

#include <string.h>

#include "shunt/plan.h"

/** Local shape of a buffer. No view is empty: that of an empty shard, whose bytes are 0, says 1 in place of 0. */
static uint32_t add_local_view(struct part *part, const struct placement_variant *variant, uint32_t elem_bytes)
{
    int64_t shape[SHUNT_MAX_DIMS];
    for (uint32_t d = 0; d < variant->ndim; d++)
        shape[d] = variant->shape[d] > 0 ? variant->shape[d] : 1;
    return part_add_dense_view(part, variant->ndim, shape, elem_bytes);
}

static void add_holding(struct part *part, const struct placement_holding *holding, uint32_t elem_bytes)
{
    int64_t shape[SHUNT_MAX_DIMS];
    struct shunt_plan_corner corner = {0};
    part_box_shape(&holding->box, shape);
    memcpy(corner.lo, holding->box.lo, holding->box.ndim * sizeof(int64_t));
    struct shunt_plan_holding *record = VEC_PUSH(part->arena, &part->holdings);
    record->view = part_add_view(part, holding->box.ndim, shape, holding->stride, elem_bytes);
    record->corner = intern_add(&part->corners, &corner);
    record->offset = (uint64_t)holding->offset * elem_bytes;
}

/** What the elements of a new buffer are derived from, where that is not the same on the old side. */
static void set_origin(const struct part *part, uint32_t i, struct shunt_plan_buffer *buffer)
{
    const struct space_item *item = &part->space->items[i];
    if (item->derived_from != i)
        buffer->origin_state = (uint8_t)(1 + part->space->items[item->derived_from].state);
    if (item->read_dtype != item->dtype[SPACE_TO])
        buffer->origin_dtype = (uint8_t)(1 + item->read_dtype);
}

static uint32_t add_buffer(struct part *part, uint32_t i, const struct placement_variant *variant,
                           enum shunt_plan_side plan_side)
{
    const struct route *route = part->input->problem->route;
    const struct space_item *item = &part->space->items[i];
    enum cfg_tier tier = side_tier(plan_side == SHUNT_SIDE_TO ? route->to : route->from, i);
    enum space_side side = plan_side == SHUNT_SIDE_TO ? SPACE_TO : SPACE_FROM;
    uint32_t elem_bytes = item->elem_bytes[side];
    struct shunt_plan_buffer *buffer = VEC_PUSH(part->arena, &part->buffers);
    *buffer = (struct shunt_plan_buffer){.tensor = item->tensor,
                                         .state = item->state,
                                         .dtype = item->dtype[side],
                                         .side = (uint8_t)plan_side,
                                         .tier = tier == CFG_TIER_HOST ? SHUNT_TIER_HOST : SHUNT_TIER_DEVICE,
                                         .bytes = (uint64_t)variant->elements * elem_bytes,
                                         .view = add_local_view(part, variant, elem_bytes),
                                         .holding_begin = (uint32_t)part->holdings.count,
                                         .holding_count = variant->holding_count,
                                         .alloc_round = SHUNT_PLAN_NONE,
                                         .free_round = SHUNT_PLAN_NONE};
    if (side == SPACE_TO)
        set_origin(part, i, buffer);
    for (uint32_t h = 0; h < variant->holding_count; h++)
        add_holding(part, &variant->holdings[h], elem_bytes);
    return (uint32_t)part->buffers.count;
}

static bool is_kept(const struct part *part, uint32_t item)
{
    const struct route *route = part->input->problem->route;
    const struct route_type *type = &route->types[route->item_type[item]];
    const struct route_member *taker = route_find_member(type->takers, type->taker_count, part->device);
    return taker != NULL && taker->kept;
}

/** A buffer in host memory that is all that the old one is, with the same holdings. */
static uint32_t add_parked(struct part *part, uint32_t i)
{
    struct shunt_plan_buffer parked = part->buffers.items[part->from_buffer[i] - 1];
    uint32_t begin = parked.holding_begin;
    parked.side = SHUNT_SIDE_SCRATCH;
    parked.tier = SHUNT_TIER_HOST;
    parked.alloc_round = parked.free_round = 0;
    parked.holding_begin = (uint32_t)part->holdings.count;
    for (uint32_t h = 0; h < parked.holding_count; h++) {
        struct shunt_plan_holding holding = part->holdings.items[begin + h];
        *VEC_PUSH(part->arena, &part->holdings) = holding;
    }
    *VEC_PUSH(part->arena, &part->buffers) = parked;
    return (uint32_t)part->buffers.count;
}

/** Scratch behind the old buffers that are parked; `*next` walks over those of the device. */
static void park_old(struct part *part, uint32_t i, uint32_t *next)
{
    const struct parks *parks = &part->input->problem->parks;
    if (parks->begin == NULL || *next == parks->begin[part->device + 1] || parks->list[*next].item != i)
        return;
    part->parked_buffer[i] = add_parked(part, i);
    ++*next;
}

void part_emit_parks(struct part *part)
{
    for (size_t b = 0; b < part->buffers.count; b++) {
        const struct shunt_plan_buffer *buffer = &part->buffers.items[b];
        bool parked = buffer->side == SHUNT_SIDE_SCRATCH && buffer->tier == SHUNT_TIER_HOST;
        for (uint32_t h = 0; parked && h < buffer->holding_count; h++) {
            const struct shunt_plan_holding *holding = &part->holdings.items[buffer->holding_begin + h];
            *VEC_PUSH(part->arena, &part->ops) = (struct shunt_plan_op){.kind = SHUNT_OP_COPY,
                                                                        .src_buffer = (uint32_t)b - 1,
                                                                        .dst_buffer = (uint32_t)b,
                                                                        .src_view = holding->view,
                                                                        .dst_view = holding->view,
                                                                        .src_offset = holding->offset,
                                                                        .dst_offset = holding->offset};
        }
    }
}

/** One walk over what the device has before and afterwards, both by ascending item. */
void part_list_buffers(struct part *part)
{
    const struct parks *parks = &part->input->problem->parks;
    uint32_t next_park = parks->begin != NULL ? parks->begin[part->device] : 0;
    size_t o = 0, n = 0;
    while (o < part->old_items.count || n < part->new_items.count) {
        const struct side_item *old = o < part->old_items.count ? &part->old_items.items[o] : NULL;
        const struct side_item *new = n < part->new_items.count ? &part->new_items.items[n] : NULL;
        uint32_t i = old == NULL || (new != NULL &&new->item < old->item) ? new->item : old->item;
        bool has_old = old != NULL && old->item == i, has_new = new != NULL &&new->item == i;
        o += has_old;
        n += has_new;
        if (has_old && has_new && is_kept(part, i)) {
            part->from_buffer[i] = part->to_buffer[i] = add_buffer(part, i, old->variant, SHUNT_SIDE_BOTH);
            continue;
        }
        if (has_old) {
            part->from_buffer[i] = add_buffer(part, i, old->variant, SHUNT_SIDE_FROM);
            park_old(part, i, &next_park);
        }
        if (has_new)
            part->to_buffer[i] = add_buffer(part, i, new->variant, SHUNT_SIDE_TO);
    }
}

/** Leave the tables by item as they were found, for the next part. */
void part_forget_buffers(struct part *part)
{
    for (size_t o = 0; o < part->old_items.count; o++)
        part->from_buffer[part->old_items.items[o].item] = part->parked_buffer[part->old_items.items[o].item] = 0;
    for (size_t n = 0; n < part->new_items.count; n++)
        part->to_buffer[part->new_items.items[n].item] = 0;
}

/** Alloc in the round of the first write (or of the job, when there are only pads); free after the last read. */
void part_set_lifetimes(struct part *part)
{
    const struct lowered *lowered = part->input->lowered;
    const struct transfer_list *reads = &lowered->reads[part->device], *writes = &lowered->writes[part->device];
    for (size_t o = 0; o < part->old_items.count; o++) {
        struct shunt_plan_buffer *buffer = &part->buffers.items[part->from_buffer[part->old_items.items[o].item] - 1];
        if (buffer->side == SHUNT_SIDE_FROM)
            buffer->free_round = part->input->rounds->hold_old ? part->round_count - 1 : 0;
    }
    for (size_t n = 0; n < part->new_items.count; n++) {
        uint32_t i = part->new_items.items[n].item;
        struct shunt_plan_buffer *buffer = &part->buffers.items[part->to_buffer[i] - 1];
        if (buffer->side == SHUNT_SIDE_TO)
            buffer->alloc_round = lowered->item_first_round[i];
    }
    for (uint32_t n = writes->count; n-- > 0;) {
        const struct transfer *transfer = &lowered->transfers[writes->transfers[n]];
        if (!transfer->passing)
            part->buffers.items[part->to_buffer[transfer->item] - 1].alloc_round = transfer->round;
    }
    for (uint32_t n = 0; !part->input->rounds->hold_old && n < reads->count; n++) {
        const struct transfer *transfer = &lowered->transfers[reads->transfers[n]];
        if (transfer->fresh || transfer->forwarded || transfer->passed)
            continue;
        uint32_t read = part_read_buffer(part, part->space->items[transfer->item].derived_from);
        struct shunt_plan_buffer *buffer = &part->buffers.items[read];
        if (shunt_plan_is_freed(buffer)) /* others may read a kept buffer too */
            buffer->free_round = transfer->round;
    }
}
