/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part_build.h"

#include "shunt/plan.h"

/** live_bytes of every round, and the peak: buffers in device memory alone. */
static void account_memory(struct part *part, struct part_figures *figures)
{
    uint32_t depth = part->input->rounds->depth;
    uint64_t *allocs = ARENA_NEW(part->arena, uint64_t, part->round_count + 1);
    uint64_t *frees = ARENA_NEW(part->arena, uint64_t, part->round_count + 1);
    uint64_t live = part->input->problem->devices[part->device].fixed + part->staging[0] + part->staging[1];
    for (size_t b = 0; b < part->buffers.count; b++) {
        const struct shunt_plan_buffer *buffer = &part->buffers.items[b];
        if (buffer->tier == SHUNT_TIER_HOST)
            continue;
        live += shunt_plan_on_old_side(buffer) ? buffer->bytes : 0;
        figures->from_bytes += shunt_plan_on_old_side(buffer) ? buffer->bytes : 0;
        figures->to_bytes += shunt_plan_on_new_side(buffer) ? buffer->bytes : 0;
        if (shunt_plan_is_allocated(buffer))
            allocs[buffer->alloc_round] += buffer->bytes;
        if (shunt_plan_is_freed(buffer))
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
        figures->ops += (uint64_t)shunt_plan_is_allocated(buffer) + shunt_plan_is_freed(buffer);
        if (buffer->side == SHUNT_SIDE_FROM && buffer->free_round < figures->first_destructive_round)
            figures->first_destructive_round = buffer->free_round;
    }
    for (size_t f = 0; f < part->fills.count; f++) {
        const struct part_fill *fill = &part->fills.items[f];
        if (part->buffers.items[fill->buffer].side == SHUNT_SIDE_BOTH && fill->round < figures->first_destructive_round)
            figures->first_destructive_round = fill->round;
    }
}

/** All scratch in host memory is there in the first round, and holds what was parked. */
static void count_parked(const struct part *part, struct part_figures *figures)
{
    for (size_t b = 0; b < part->buffers.count; b++) {
        const struct shunt_plan_buffer *buffer = &part->buffers.items[b];
        if (buffer->side != SHUNT_SIDE_SCRATCH || buffer->tier != SHUNT_TIER_HOST)
            continue;
        figures->host_peak_bytes += buffer->bytes;
        for (uint32_t h = buffer->holding_begin; h < buffer->holding_begin + buffer->holding_count; h++) {
            const struct shunt_plan_view *view =
                &((const struct shunt_plan_view *)part->views.records)[part->holdings.items[h].view];
            figures->parked_bytes += shunt_plan_view_elements(view) * view->elem_bytes;
        }
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

void part_count_figures(struct part *part, struct part_figures *figures_out)
{
    *figures_out = (struct part_figures){0};
    account_memory(part, figures_out);
    count_operations(part, figures_out);
    count_parked(part, figures_out);
    count_messages(part, figures_out);
}
