/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part.h"

#include <stdlib.h>
#include <string.h>

#include "emit/intern.h"

/** Pads of one new buffer, zeroed in one round. */
struct fill {
    uint32_t round, buffer, item;
};

/** A part under construction. */
struct part {
    struct arena *arena;
    const struct part_input *input;
    const struct space *space;
    uint32_t device, from_rank, to_rank, round_count;
    side_items old_items, new_items;
    uint32_t *from_buffer, *to_buffer; /* by item: buffer + 1; 0: none */
    struct intern views, corners;
    VEC(struct shunt_plan_buffer) buffers;
    VEC(struct shunt_plan_holding) holdings;
    VEC(struct shunt_plan_op) ops;
    VEC(struct shunt_plan_message) messages;
    struct shunt_plan_round *rounds;
    uint64_t staging[SHUNT_PLAN_MAX_DEPTH];
    VEC(struct fill) fills; /* by round, then buffer */
    size_t next_fill;
};

/* ---- views ------------------------------------------------------------------ */

/** View of a box of `shape` with strides in elements. */
static uint32_t add_view(struct part *part, uint32_t ndim, const int64_t *shape, const int64_t *stride,
                         uint32_t elem_bytes)
{
    struct shunt_plan_view view = {.ndim = ndim, .elem_bytes = elem_bytes};
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++) {
        view.shape[d] = d < ndim ? shape[d] : 1;
        view.stride[d] = d < ndim ? stride[d] * elem_bytes : 0;
    }
    return intern_add(&part->views, &view);
}

static uint32_t add_dense_view(struct part *part, uint32_t ndim, const int64_t *shape, uint32_t elem_bytes)
{
    int64_t stride[SHUNT_MAX_DIMS];
    placement_dense_strides(ndim, shape, stride);
    return add_view(part, ndim, shape, stride, elem_bytes);
}

/** Local shape of a buffer. No view is empty: that of an empty shard, whose bytes are 0, says 1 in place of 0. */
static uint32_t add_local_view(struct part *part, const struct placement_variant *variant, uint32_t elem_bytes)
{
    int64_t shape[SHUNT_MAX_DIMS];
    for (uint32_t d = 0; d < variant->ndim; d++)
        shape[d] = variant->shape[d] > 0 ? variant->shape[d] : 1;
    return add_dense_view(part, variant->ndim, shape, elem_bytes);
}

static void box_shape(const struct box *box, int64_t *shape_out)
{
    for (uint32_t d = 0; d < box->ndim; d++)
        shape_out[d] = box->hi[d] - box->lo[d];
}

/* ---- buffers ---------------------------------------------------------------- */

static void add_holding(struct part *part, const struct placement_holding *holding, uint32_t elem_bytes)
{
    int64_t shape[SHUNT_MAX_DIMS];
    struct shunt_plan_corner corner = {0};
    box_shape(&holding->box, shape);
    memcpy(corner.lo, holding->box.lo, holding->box.ndim * sizeof(int64_t));
    struct shunt_plan_holding *record = VEC_PUSH(part->arena, &part->holdings);
    record->view = add_view(part, holding->box.ndim, shape, holding->stride, elem_bytes);
    record->corner = intern_add(&part->corners, &corner);
    record->offset = (uint64_t)holding->offset * elem_bytes;
}

/** What the elements of a new buffer are made from, where that is not the same on the old side. */
static void set_origin(const struct part *part, uint32_t i, struct shunt_plan_buffer *buffer)
{
    const struct space_item *item = &part->space->items[i];
    if (item->origin != i)
        buffer->origin_state = (uint8_t)(1 + part->space->items[item->origin].state);
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
    uint32_t lo = 0, hi = type->taker_count;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (type->takers[middle].device < part->device)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < type->taker_count && type->takers[lo].device == part->device && type->takers[lo].kept;
}

/** One walk over what the device has before and afterwards, both by ascending item. */
static void list_buffers(struct part *part)
{
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
        if (has_old)
            part->from_buffer[i] = add_buffer(part, i, old->variant, SHUNT_SIDE_FROM);
        if (has_new)
            part->to_buffer[i] = add_buffer(part, i, new->variant, SHUNT_SIDE_TO);
    }
}

/** Leave the tables by item as they were found, for the next part. */
static void forget_buffers(struct part *part)
{
    for (size_t o = 0; o < part->old_items.count; o++)
        part->from_buffer[part->old_items.items[o].item] = 0;
    for (size_t n = 0; n < part->new_items.count; n++)
        part->to_buffer[part->new_items.items[n].item] = 0;
}

/** Alloc in the round of the first write (or of the job, when there are only pads); free after the last read. */
static void set_lifetimes(struct part *part)
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
        part->buffers.items[part->to_buffer[transfer->item] - 1].alloc_round = transfer->round;
    }
    for (uint32_t n = 0; !part->input->rounds->hold_old && n < reads->count; n++) {
        const struct transfer *transfer = &lowered->transfers[reads->transfers[n]];
        if (transfer->fresh)
            continue;
        uint32_t read = part->from_buffer[part->space->items[transfer->item].origin];
        struct shunt_plan_buffer *buffer = &part->buffers.items[read - 1];
        if (buffer->side == SHUNT_SIDE_FROM) /* others may read a kept buffer too */
            buffer->free_round = transfer->round;
    }
}

/* ---- operations ------------------------------------------------------------- */

/** Where a box of the space lies in a buffer: offset in bytes and view. */
static void locate(struct part *part, const struct placement_holding *holding, const struct box *box,
                   uint32_t elem_bytes, uint64_t *offset_out, uint32_t *view_out)
{
    int64_t shape[SHUNT_MAX_DIMS];
    box_shape(box, shape);
    *offset_out = (uint64_t)placement_offset(holding, box->lo) * elem_bytes;
    *view_out = add_view(part, box->ndim, shape, holding->stride, elem_bytes);
}

/** The holding of a side's placement on this device that contains a cell. */
static const struct placement_holding *own_origin(const struct side *side, uint32_t item, uint32_t rank,
                                                  const struct route_origin *origins, uint32_t count)
{
    const struct placement *placement = side_placement(side, item);
    uint32_t variant = placement_variant_of(placement, rank);
    return &placement->variants[variant].holdings[route_find_origin(origins, count, variant)->holding];
}

static void locate_source(struct part *part, const struct transfer *transfer, const struct box *box,
                          struct shunt_plan_op *op)
{
    const struct route *route = part->input->problem->route;
    const struct route_cell *cell = transfer->cell;
    uint32_t origin = part->space->items[transfer->item].origin;
    enum space_side which = transfer->fresh ? SPACE_TO : SPACE_FROM;
    const struct placement_holding *holding =
        transfer->fresh ? own_origin(route->to, origin, part->to_rank, cell->fresh, cell->fresh_count)
                        : own_origin(route->from, origin, part->from_rank, cell->origins, cell->origin_count);
    locate(part, holding, box, part->space->items[origin].elem_bytes[which], &op->src_offset, &op->src_view);
    op->src_buffer = (transfer->fresh ? part->to_buffer[origin] : part->from_buffer[origin]) - 1;
}

static void locate_target(struct part *part, const struct transfer *transfer, const struct box *box,
                          struct shunt_plan_op *op)
{
    const struct placement *placement = side_placement(part->input->problem->route->to, transfer->item);
    const struct placement_variant *variant = &placement->variants[transfer->cell->to_variant];
    locate(part, &variant->holdings[transfer->cell->to_holding], box,
           part->space->items[transfer->item].elem_bytes[SPACE_TO], &op->dst_offset, &op->dst_view);
    op->dst_buffer = part->to_buffer[transfer->item] - 1;
}

/** The cast from one form of an element to another; there are two such pairs of sizes only. */
static uint8_t cast_between(uint32_t from_bytes, uint32_t to_bytes)
{
    if (from_bytes == to_bytes)
        return SHUNT_CAST_NONE;
    return from_bytes > to_bytes ? SHUNT_CAST_FP32_BF16 : SHUNT_CAST_BF16_FP32;
}

static void set_cast(const struct part *part, const struct transfer *transfer, struct shunt_plan_op *op)
{
    const struct space_item *item = &part->space->items[transfer->item];
    uint32_t read = shunt_dtype_bytes(item->read_dtype), written = item->elem_bytes[SPACE_TO];
    if (op->kind == SHUNT_OP_COPY)
        op->cast = cast_between(read, written);
    else
        op->cast =
            op->kind == SHUNT_OP_PACK ? cast_between(read, item->wire_bytes) : cast_between(item->wire_bytes, written);
}

static uint32_t staging_view(struct part *part, const struct transfer *transfer, const struct box *box)
{
    int64_t shape[SHUNT_MAX_DIMS];
    box_shape(box, shape);
    return add_dense_view(part, box->ndim, shape, part->space->items[transfer->item].wire_bytes);
}

static int compare_fills(const void *a, const void *b)
{
    const struct fill *x = a, *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/** Pads of a new buffer are zeroed when it is allocated, those of a kept one in the last round. */
static void list_fills(struct part *part)
{
    for (size_t n = 0; n < part->new_items.count; n++) {
        uint32_t i = part->new_items.items[n].item;
        if (part->new_items.items[n].variant->pad_count == 0)
            continue;
        const struct shunt_plan_buffer *buffer = &part->buffers.items[part->to_buffer[i] - 1];
        uint32_t round = buffer->side == SHUNT_SIDE_BOTH ? part->round_count - 1 : buffer->alloc_round;
        *VEC_PUSH(part->arena, &part->fills) =
            (struct fill){.round = round, .buffer = part->to_buffer[i] - 1, .item = i};
    }
    if (part->fills.count > 0)
        qsort(part->fills.items, part->fills.count, sizeof(*part->fills.items), compare_fills);
}

static void emit_pad(struct part *part, const struct fill *fill, const struct placement_variant *variant,
                     const struct box *pad)
{
    uint32_t elem_bytes = part->space->items[fill->item].elem_bytes[SPACE_TO];
    int64_t shape[SHUNT_MAX_DIMS], stride[SHUNT_MAX_DIMS], offset = 0;
    placement_dense_strides(variant->ndim, variant->shape, stride);
    for (uint32_t d = 0; d < variant->ndim; d++)
        offset += pad->lo[d] * stride[d];
    box_shape(pad, shape);
    struct shunt_plan_op *op = VEC_PUSH(part->arena, &part->ops);
    op->kind = SHUNT_OP_FILL;
    op->src_buffer = SHUNT_PLAN_NONE;
    op->dst_buffer = fill->buffer;
    op->dst_view = add_view(part, variant->ndim, shape, stride, elem_bytes);
    op->dst_offset = (uint64_t)offset * elem_bytes;
}

static void emit_fill(struct part *part, const struct fill *fill)
{
    const struct placement_variant *variant = side_variant(part->input->problem->route->to, fill->item, part->to_rank);
    for (uint32_t p = 0; p < variant->pad_count; p++)
        emit_pad(part, fill, variant, &variant->pads[p]);
}

static void emit_read(struct part *part, const struct transfer *transfer, uint32_t slot)
{
    struct box box = transfer_box(transfer);
    struct shunt_plan_op *op = VEC_PUSH(part->arena, &part->ops);
    locate_source(part, transfer, &box, op);
    if (transfer->source == transfer->taker) {
        op->kind = SHUNT_OP_COPY;
        locate_target(part, transfer, &box, op);
        set_cast(part, transfer, op);
        return;
    }
    op->kind = SHUNT_OP_PACK;
    op->dst_buffer = SHUNT_PLAN_STAGING + slot;
    op->dst_offset = part->input->send_base[transfer->taker] + transfer->message_offset;
    op->dst_view = staging_view(part, transfer, &box);
    set_cast(part, transfer, op);
}

static void emit_unpack(struct part *part, const struct transfer *transfer, uint32_t slot)
{
    struct box box = transfer_box(transfer);
    struct shunt_plan_op *op = VEC_PUSH(part->arena, &part->ops);
    op->kind = SHUNT_OP_UNPACK;
    op->src_buffer = SHUNT_PLAN_STAGING + slot;
    op->src_offset = part->input->recv_base[transfer->source] + transfer->message_offset;
    op->src_view = staging_view(part, transfer, &box);
    locate_target(part, transfer, &box, op);
    set_cast(part, transfer, op);
}

static int compare_peers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/**
 * Messages of one direction and round, one per peer, by ascending peer: sizes from their transfers,
 * then places in the slot from *cursor on. base[peer] is where the peer's message starts.
 */
static void emit_messages(struct part *part, const struct transfer_list *list, uint32_t begin, uint32_t end,
                          enum shunt_plan_direction direction, uint32_t slot, uint64_t *cursor)
{
    uint64_t *size = part->input->message_bytes;
    uint64_t *base = direction == SHUNT_SEND ? part->input->send_base : part->input->recv_base;
    uint32_t count = 0;
    for (uint32_t n = begin; n < end; n++) {
        const struct transfer *transfer = &part->input->lowered->transfers[list->transfers[n]];
        if (transfer->source == transfer->taker)
            continue;
        uint32_t peer = direction == SHUNT_SEND ? transfer->taker : transfer->source;
        uint32_t elem_bytes = part->space->items[transfer->item].wire_bytes;
        if (size[peer] == 0)
            part->input->peers[count++] = peer;
        size[peer] =
            transfer->message_offset + problem_aligned_bytes((int64_t)(transfer->bytes / elem_bytes), elem_bytes);
    }
    if (count > 1)
        qsort(part->input->peers, count, sizeof(*part->input->peers), compare_peers);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t peer = part->input->peers[i];
        struct shunt_plan_message *message = VEC_PUSH(part->arena, &part->messages);
        message->peer = peer;
        message->direction = direction;
        message->buffer = SHUNT_PLAN_STAGING + slot;
        message->offset = base[peer] = *cursor;
        message->bytes = size[peer];
        *cursor += size[peer];
        size[peer] = 0;
    }
}

/** End of the transfers of `round` in a list, from `begin` on. */
static uint32_t round_end(const struct part *part, const struct transfer_list *list, uint32_t begin, uint32_t round)
{
    while (begin < list->count && part->input->lowered->transfers[list->transfers[begin]].round == round)
        begin++;
    return begin;
}

static void emit_rounds(struct part *part)
{
    const struct lowered *lowered = part->input->lowered;
    const struct transfer_list *reads = &lowered->reads[part->device], *writes = &lowered->writes[part->device];
    uint32_t read = 0, write = 0;
    for (uint32_t k = 0; k < part->round_count; k++) {
        uint32_t slot = k % part->input->rounds->depth;
        uint32_t read_end = round_end(part, reads, read, k), write_end = round_end(part, writes, write, k);
        uint64_t cursor = 0;
        part->rounds[k].op_begin = (uint32_t)part->ops.count;
        part->rounds[k].message_begin = (uint32_t)part->messages.count;
        emit_messages(part, reads, read, read_end, SHUNT_SEND, slot, &cursor);
        emit_messages(part, writes, write, write_end, SHUNT_RECV, slot, &cursor);
        part->staging[slot] = cursor > part->staging[slot] ? cursor : part->staging[slot];
        while (part->next_fill < part->fills.count && part->fills.items[part->next_fill].round == k)
            emit_fill(part, &part->fills.items[part->next_fill++]);
        for (; read < read_end; read++)
            emit_read(part, &lowered->transfers[reads->transfers[read]], slot);
        part->rounds[k].unpack_begin = (uint32_t)part->ops.count;
        for (; write < write_end; write++) {
            const struct transfer *transfer = &lowered->transfers[writes->transfers[write]];
            if (transfer->source != transfer->taker)
                emit_unpack(part, transfer, slot);
        }
    }
    struct shunt_plan_round *sentinel = &part->rounds[part->round_count];
    sentinel->op_begin = sentinel->unpack_begin = (uint32_t)part->ops.count;
    sentinel->message_begin = (uint32_t)part->messages.count;
}

/* ---- figures ---------------------------------------------------------------- */

/** live_bytes of every round, and the peak: buffers in device memory alone. */
static void account_memory(struct part *part, struct part_figures *figures)
{
    uint32_t depth = part->input->rounds->depth;
    uint64_t *allocs = ARENA_NEW(part->arena, uint64_t, part->round_count + 1);
    uint64_t *frees = ARENA_NEW(part->arena, uint64_t, part->round_count + 1);
    uint64_t live = part->input->problem->fixed + part->staging[0] + part->staging[1];
    for (size_t b = 0; b < part->buffers.count; b++) {
        const struct shunt_plan_buffer *buffer = &part->buffers.items[b];
        if (buffer->tier == SHUNT_TIER_HOST)
            continue;
        live += buffer->side == SHUNT_SIDE_TO ? 0 : buffer->bytes;
        figures->from_bytes += buffer->side == SHUNT_SIDE_TO ? 0 : buffer->bytes;
        figures->to_bytes += buffer->side == SHUNT_SIDE_FROM ? 0 : buffer->bytes;
        if (buffer->side == SHUNT_SIDE_TO)
            allocs[buffer->alloc_round] += buffer->bytes;
        else if (buffer->side == SHUNT_SIDE_FROM)
            frees[buffer->free_round] += buffer->bytes;
    }
    uint32_t freed = 0; /* frees of the rounds before this one are done */
    for (uint32_t k = 0; k <= part->round_count; k++) {
        uint32_t done = k == part->round_count ? k : (k + 1 > depth ? k + 1 - depth : 0);
        while (freed < done)
            live -= frees[freed++];
        live += allocs[k];
        part->rounds[k].live_bytes = live;
        figures->peak_bytes = live > figures->peak_bytes ? live : figures->peak_bytes;
    }
    figures->staging_bytes = part->staging[0] + part->staging[1];
}

static void count_operations(struct part *part, struct part_figures *figures)
{
    figures->ops = part->ops.count;
    figures->first_destructive_round = part->round_count;
    for (size_t b = 0; b < part->buffers.count; b++) {
        const struct shunt_plan_buffer *buffer = &part->buffers.items[b];
        figures->ops += buffer->side != SHUNT_SIDE_BOTH;
        if (buffer->side == SHUNT_SIDE_FROM && buffer->free_round < figures->first_destructive_round)
            figures->first_destructive_round = buffer->free_round;
    }
    for (size_t f = 0; f < part->fills.count; f++) {
        const struct fill *fill = &part->fills.items[f];
        if (part->buffers.items[fill->buffer].side == SHUNT_SIDE_BOTH && fill->round < figures->first_destructive_round)
            figures->first_destructive_round = fill->round;
    }
}

static void count_messages(struct part *part, struct part_figures *figures)
{
    uint64_t *seen = part->input->message_bytes;
    for (uint32_t k = 0; k < part->round_count; k++) {
        uint32_t group = part->rounds[k + 1].message_begin - part->rounds[k].message_begin;
        figures->max_group_messages = group > figures->max_group_messages ? group : figures->max_group_messages;
    }
    for (size_t m = 0; m < part->messages.count; m++) {
        figures->peers += seen[part->messages.items[m].peer] == 0;
        seen[part->messages.items[m].peer] = 1;
    }
    for (size_t m = 0; m < part->messages.count; m++)
        seen[part->messages.items[m].peer] = 0;
}

/* ---- the part --------------------------------------------------------------- */

static void part_init(struct part *part, struct arena *arena, const struct part_input *input, uint32_t device)
{
    const struct route *route = input->problem->route;
    *part = (struct part){.arena = arena, .input = input, .space = route->space, .device = device};
    part->from_rank = route->world->devices[device].from_rank;
    part->to_rank = route->world->devices[device].to_rank;
    part->round_count = input->rounds->round_count;
    part->from_buffer = input->from_buffer;
    part->to_buffer = input->to_buffer;
    if (part->from_rank != WORLD_NO_RANK)
        side_list(arena, route->from, part->from_rank, &part->old_items);
    if (part->to_rank != WORLD_NO_RANK)
        side_list(arena, route->to, part->to_rank, &part->new_items);
    part->rounds = ARENA_NEW(arena, struct shunt_plan_round, part->round_count + 1);
    intern_init(&part->views, arena, sizeof(struct shunt_plan_view));
    intern_init(&part->corners, arena, sizeof(struct shunt_plan_corner));
}

struct table {
    const void *records;
    size_t bytes;
};

#define PART_TABLES 8

static unsigned char *write_part(const struct part *part, struct arena *out_arena, size_t *size_out)
{
    struct shunt_plan_part_header header = {.device = part->device,
                                            .buffer_count = (uint32_t)part->buffers.count,
                                            .holding_count = (uint32_t)part->holdings.count,
                                            .view_count = part->views.count,
                                            .corner_count = part->corners.count,
                                            .op_count = (uint32_t)part->ops.count,
                                            .message_count = (uint32_t)part->messages.count,
                                            .staging_bytes = {part->staging[0], part->staging[1]}};
    /* all records are multiples of 8 bytes, so that the tables follow each other without gaps */
    const struct table tables[PART_TABLES] = {
        {&header, sizeof(header)},
        {part->buffers.items, part->buffers.count * sizeof(*part->buffers.items)},
        {part->holdings.items, part->holdings.count * sizeof(*part->holdings.items)},
        {part->views.records, part->views.count * sizeof(struct shunt_plan_view)},
        {part->corners.records, part->corners.count * sizeof(struct shunt_plan_corner)},
        {part->rounds, (part->round_count + 1) * sizeof(*part->rounds)},
        {part->ops.items, part->ops.count * sizeof(*part->ops.items)},
        {part->messages.items, part->messages.count * sizeof(*part->messages.items)},
    };
    size_t size = 0, at = 0;
    for (int t = 0; t < PART_TABLES; t++)
        size += tables[t].bytes;
    size = (size + SHUNT_PLAN_ALIGN - 1) / SHUNT_PLAN_ALIGN * SHUNT_PLAN_ALIGN;
    unsigned char *bytes = ARENA_NEW(out_arena, unsigned char, size);
    for (int t = 0; t < PART_TABLES; t++) {
        if (tables[t].bytes > 0)
            memcpy(bytes + at, tables[t].records, tables[t].bytes);
        at += tables[t].bytes;
    }
    *size_out = size;
    return bytes;
}

unsigned char *part_emit(struct arena *scratch, struct arena *out_arena, const struct part_input *input,
                         uint32_t device, size_t *size_out, struct part_figures *figures_out)
{
    struct part part;
    part_init(&part, scratch, input, device);
    list_buffers(&part);
    set_lifetimes(&part);
    list_fills(&part);
    emit_rounds(&part);
    *figures_out = (struct part_figures){0};
    account_memory(&part, figures_out);
    count_operations(&part, figures_out);
    count_messages(&part, figures_out);
    forget_buffers(&part);
    return write_part(&part, out_arena, size_out);
}
