/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part.h"

#include <stdlib.h>
#include <string.h>

#include "emit/part_build.h"

uint32_t part_add_view(struct part *part, uint32_t ndim, const int64_t *shape, const int64_t *stride,
                       uint32_t elem_bytes)
{
    struct shunt_plan_view view = {.ndim = ndim, .elem_bytes = elem_bytes};
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++) {
        view.shape[d] = d < ndim ? shape[d] : 1;
        view.stride[d] = d < ndim ? stride[d] * elem_bytes : 0;
    }
    return intern_add_view(&part->views, &view);
}

uint32_t part_add_dense_view(struct part *part, uint32_t ndim, const int64_t *shape, uint32_t elem_bytes)
{
    int64_t stride[SHUNT_MAX_DIMS];
    placement_dense_strides(ndim, shape, stride);
    return part_add_view(part, ndim, shape, stride, elem_bytes);
}

static void part_init(struct part *part, struct arena *arena, const struct part_input *input, uint32_t device)
{
    const struct route *route = input->problem->route;
    *part = (struct part){.arena = arena, .input = input, .space = route->space, .device = device};
    part->from_rank = route->world->devices[device].from_rank;
    part->to_rank = route->world->devices[device].to_rank;
    part->round_count = input->rounds->round_count;
    part->from_buffer = input->from_buffer;
    part->to_buffer = input->to_buffer;
    part->parked_buffer = input->parked_buffer;
    if (part->from_rank != WORLD_NO_RANK)
        side_list(arena, route->from, part->from_rank, &part->old_items);
    if (part->to_rank != WORLD_NO_RANK)
        side_list(arena, route->to, part->to_rank, &part->new_items);
    part->rounds = ARENA_NEW(arena, struct shunt_plan_round, part->round_count + 1);
    intern_init(&part->views, arena, sizeof(struct shunt_plan_view));
    intern_init(&part->corners, arena, sizeof(struct shunt_plan_corner));
}

void part_add_scratch(struct arena *arena, struct part_input *input)
{
    const struct route *route = input->problem->route;
    input->message_bytes = ARENA_NEW(arena, uint64_t, route->world->device_count);
    input->send_base = ARENA_NEW(arena, uint64_t, route->world->device_count);
    input->recv_base = ARENA_NEW(arena, uint64_t, route->world->device_count);
    input->peers = ARENA_NEW(arena, uint32_t, route->world->device_count);
    input->from_buffer = ARENA_NEW(arena, uint32_t, route->space->item_count);
    input->parked_buffer = ARENA_NEW(arena, uint32_t, route->space->item_count);
    input->to_buffer = ARENA_NEW(arena, uint32_t, route->space->item_count);
}

struct table {
    const void *records;
    size_t bytes;
};

#define PART_TABLES 8

/** Room for so many bytes behind the others. */
static unsigned char *add_bytes(struct part *part, struct part_bytes *bytes, size_t size)
{
    if (bytes->capacity - bytes->size < size) {
        size_t larger = 2 * bytes->capacity > bytes->size + size ? 2 * bytes->capacity : bytes->size + size;
        unsigned char *grown = realloc(bytes->bytes, larger);
        if (grown == NULL)
            longjmp(part->arena->on_failure, 1);
        bytes->bytes = grown;
        bytes->capacity = larger;
    }
    bytes->size += size;
    return bytes->bytes + bytes->size - size;
}

static void write_part(struct part *part, struct part_bytes *bytes)
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
    size_t size = 0;
    for (int t = 0; t < PART_TABLES; t++)
        size += tables[t].bytes;
    size_t gap = (SHUNT_PLAN_ALIGN - size % SHUNT_PLAN_ALIGN) % SHUNT_PLAN_ALIGN;
    unsigned char *at = add_bytes(part, bytes, size + gap);
    for (int t = 0; t < PART_TABLES; t++) {
        if (tables[t].bytes > 0)
            memcpy(at, tables[t].records, tables[t].bytes);
        at += tables[t].bytes;
    }
    memset(at, 0, gap);
}

void part_emit(struct arena *scratch, struct part_bytes *bytes, const struct part_input *input, uint32_t device,
               struct part_figures *figures_out)
{
    struct part part;
    part_init(&part, scratch, input, device);
    part_list_buffers(&part);
    part_set_lifetimes(&part);
    part_list_passing(&part);
    part_list_fills(&part);
    part_emit_rounds(&part);
    part_count_figures(&part, figures_out);
    part_forget_buffers(&part);
    write_part(&part, bytes);
}
