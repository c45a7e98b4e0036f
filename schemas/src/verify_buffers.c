/* SPDX-License-Identifier: Apache-2.0 */
/** Buffers of one device on their own: sides, holdings, and how much of the new side was not here before. */
#include <inttypes.h>
#include <stdlib.h>

#include "alloc.h"
#include "verify_internal.h"

/* ---- sides -------------------------------------------------------------------- */

static void check_side(struct vreplay *replay, uint32_t index)
{
    const struct shunt_plan_buffer *buffer = &replay->part->buffers[index];
    if (shunt_plan_on_old_side(buffer) && replay->record->from_rank == VNONE)
        vproblem(replay->v, SHUNT_RULE_LIFETIME, replay->device, VNONE, "%s is of the old side, which has no rank here",
                 vtext_buffer(replay->v, replay->device, index).text);
    if (shunt_plan_on_new_side(buffer) && replay->record->to_rank == VNONE)
        vproblem(replay->v, SHUNT_RULE_LIFETIME, replay->device, VNONE, "%s is of the new side, which has no rank here",
                 vtext_buffer(replay->v, replay->device, index).text);
}

/* A binding "STATE/TENSOR" as a number that sorts. */
static uint64_t binding_number(uint32_t tensor, unsigned state)
{
    return (uint64_t)tensor << 8 | state;
}

static uint64_t binding_of(const struct shunt_plan_buffer *buffer)
{
    return binding_number(buffer->tensor, buffer->state);
}

struct bound {
    uint64_t binding;
    uint32_t index;
};

static int compare_bound(const void *a, const void *b)
{
    const struct bound *x = a, *y = b;
    if (x->binding != y->binding)
        return x->binding < y->binding ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The buffers of one side by binding; reports bindings that two buffers share. Returns how many. */
static uint32_t sort_side(struct vreplay *replay, bool old_side, struct bound *bound)
{
    const struct shunt_plan_part *part = replay->part;
    uint32_t count = 0;
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &part->buffers[i];
        if (old_side ? shunt_plan_on_old_side(buffer) : shunt_plan_on_new_side(buffer))
            bound[count++] = (struct bound){binding_of(buffer), i};
    }
    vsort(bound, count, sizeof(*bound), compare_bound);
    for (uint32_t i = 1; i < count; i++) {
        if (bound[i].binding == bound[i - 1].binding)
            vproblem(replay->v, SHUNT_RULE_HOLDING, replay->device, VNONE,
                     "buffers %" PRIu32 " and %" PRIu32 " are both %s on the %s side", bound[i - 1].index,
                     bound[i].index, vtext_buffer(replay->v, replay->device, bound[i].index).text,
                     old_side ? "old" : "new");
    }
    return count;
}

static enum shunt_status check_bindings(struct vreplay *replay)
{
    struct bound *bound = schema_alloc(replay->part->header->buffer_count, sizeof(*bound));
    if (bound == NULL)
        return SHUNT_ERR_NOMEM;
    replay->new_count = sort_side(replay, false, bound);
    for (uint32_t i = 0; i < replay->new_count; i++)
        replay->new_sorted[i] = bound[i].index;
    replay->old_count = sort_side(replay, true, bound);
    for (uint32_t i = 0; i < replay->old_count; i++)
        replay->old_sorted[i] = bound[i].index;
    free(bound);
    return SHUNT_OK;
}

/* ---- holdings ----------------------------------------------------------------- */

static bool check_nested(struct vreplay *replay, uint32_t index)
{
    const struct shunt_plan_buffer *buffer = &replay->part->buffers[index];
    for (uint32_t h = buffer->holding_begin; h < buffer->holding_begin + buffer->holding_count; h++) {
        if (vview_is_nested(&replay->part->views[replay->part->holdings[h].view]))
            continue;
        vproblem(replay->v, SHUNT_RULE_HOLDING, replay->device, VNONE,
                 "holding %" PRIu32 " of %s has elements on the same bytes or strides that interleave", h,
                 vtext_buffer(replay->v, replay->device, index).text);
        return false;
    }
    return true;
}

static void report_twice(struct vreplay *replay, uint32_t index, uint32_t first, uint32_t second)
{
    const struct shunt_plan_part *part = replay->part;
    uint32_t ndim = vtensor_ndim(replay->v, part->buffers[index].tensor);
    const struct shunt_plan_holding *a = &part->holdings[first], *b = &part->holdings[second];
    vproblem(replay->v, SHUNT_RULE_HOLDING, replay->device, VNONE, "%s holds %s and %s, which overlap",
             vtext_buffer(replay->v, replay->device, index).text,
             vtext_box(part->corners[a->corner].lo, part->views[a->view].shape, ndim).text,
             vtext_box(part->corners[b->corner].lo, part->views[b->view].shape, ndim).text);
}

/* In the tensor: no box of it twice. Overlap in the buffer's bytes is found with the pads (verify_coverage.c). */
static enum shunt_status check_boxes(struct vreplay *replay, uint32_t index)
{
    const struct shunt_plan_buffer *buffer = &replay->part->buffers[index];
    if (buffer->holding_count < 2)
        return SHUNT_OK;
    struct vbox *boxes = schema_alloc(buffer->holding_count, sizeof(*boxes));
    if (boxes == NULL)
        return SHUNT_ERR_NOMEM;
    for (uint32_t i = 0; i < buffer->holding_count; i++)
        boxes[i] = vbox_of_holding(replay->part, buffer->holding_begin + i);
    size_t first = 0, second = 0;
    enum vbox_answer met = vbox_find_meeting(boxes, buffer->holding_count, &first, &second);
    free(boxes);
    if (met == VBOX_YES) {
        report_twice(replay, index, buffer->holding_begin + (uint32_t)first, buffer->holding_begin + (uint32_t)second);
        replay->sound[index] = 0;
    }
    return met == VBOX_NOMEM ? SHUNT_ERR_NOMEM : SHUNT_OK;
}

/* ---- what was here before ------------------------------------------------------ */

/* The buffer of a binding in a sorted list, or NULL. */
static const struct shunt_plan_buffer *find_binding(const struct vreplay *replay, const uint32_t *sorted,
                                                    uint32_t count, uint64_t binding)
{
    uint32_t begin = 0, end = count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        const struct shunt_plan_buffer *buffer = &replay->part->buffers[sorted[middle]];
        if (binding_of(buffer) == binding)
            return buffer;
        if (binding_of(buffer) < binding)
            begin = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

static const struct shunt_plan_buffer *find_old(const struct vreplay *replay, uint32_t tensor, unsigned state)
{
    return find_binding(replay, replay->old_sorted, replay->old_count, binding_number(tensor, state));
}

static const struct shunt_plan_buffer *find_new(const struct vreplay *replay, uint32_t tensor, unsigned state)
{
    return find_binding(replay, replay->new_sorted, replay->new_count, binding_number(tensor, state));
}

/* Elements of a box that the holdings of a buffer cover. They are disjoint. */
static uint64_t held_before(const struct vreplay *replay, const struct vbox *box,
                            const struct shunt_plan_buffer *buffer)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < buffer->holding_count; i++) {
        struct vbox held = vbox_of_holding(replay->part, buffer->holding_begin + i);
        elements += vbox_shared(box, &held);
    }
    return elements;
}

/* Bytes of one element on the wire: the narrower of what it is made from and what it becomes. */
static uint32_t wire_bytes(const struct shunt_plan_buffer *buffer)
{
    uint32_t own = shunt_dtype_bytes(buffer->dtype), origin = shunt_dtype_bytes(shunt_plan_origin_dtype(buffer));
    return own < origin ? own : origin;
}

static uint64_t holding_bytes(const struct vreplay *replay, const struct shunt_plan_buffer *buffer)
{
    uint64_t bytes = 0;
    for (uint32_t h = buffer->holding_begin; h < buffer->holding_begin + buffer->holding_count; h++)
        bytes += vview_bytes(&replay->part->views[replay->part->holdings[h].view]);
    return bytes;
}

/* Elements of a box that both buffers hold. */
static uint64_t held_by_both(const struct vreplay *replay, const struct vbox *box, const struct shunt_plan_buffer *a,
                             const struct shunt_plan_buffer *b)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < a->holding_count; i++) {
        struct vbox held = vbox_of_holding(replay->part, a->holding_begin + i), common = *box;
        if (!vbox_meet(&held, box))
            continue;
        for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
            common.lo[d] = common.lo[d] > held.lo[d] ? common.lo[d] : held.lo[d];
            common.hi[d] = common.hi[d] < held.hi[d] ? common.hi[d] : held.hi[d];
        }
        elements += held_before(replay, &common, b);
    }
    return elements;
}

/* Elements of a box that are here already, or that the device makes from what else arrives here. */
static uint64_t found_here(const struct vreplay *replay, const struct vbox *box, const struct shunt_plan_buffer *old,
                           const struct shunt_plan_buffer *fresh)
{
    uint64_t found = 0;
    if (old != NULL)
        found += held_before(replay, box, old);
    if (fresh != NULL)
        found += held_before(replay, box, fresh);
    if (old != NULL && fresh != NULL)
        found -= held_by_both(replay, box, old, fresh);
    return found;
}

/* The new buffer of the state that this one is made from, if that state arrives unchanged. */
static const struct shunt_plan_buffer *find_fresh(const struct vreplay *replay, const struct shunt_plan_buffer *buffer)
{
    unsigned state = shunt_plan_origin_state(buffer);
    if (state == buffer->state)
        return NULL;
    const struct shunt_plan_buffer *fresh = find_new(replay, buffer->tensor, state);
    bool unchanged = fresh != NULL && fresh->origin_state == 0 && fresh->origin_dtype == 0 &&
                     fresh->dtype == shunt_plan_origin_dtype(buffer);
    return unchanged ? fresh : NULL;
}

static uint64_t needed_remote(const struct vreplay *replay, const struct shunt_plan_buffer *buffer)
{
    const struct shunt_plan_buffer *old = find_old(replay, buffer->tensor, shunt_plan_origin_state(buffer));
    const struct shunt_plan_buffer *fresh = find_fresh(replay, buffer);
    uint64_t needed = 0;
    for (uint32_t h = buffer->holding_begin; h < buffer->holding_begin + buffer->holding_count; h++) {
        struct vbox box = vbox_of_holding(replay->part, h);
        needed += shunt_plan_view_elements(&replay->part->views[replay->part->holdings[h].view]);
        needed -= found_here(replay, &box, old, fresh);
    }
    return needed * wire_bytes(buffer);
}

/* Elements that would have to be sent if this buffer were made from the old side of its own state. */
static uint64_t lacking_itself(const struct vreplay *replay, const struct shunt_plan_buffer *buffer)
{
    const struct shunt_plan_buffer *old =
        find_binding(replay, replay->old_sorted, replay->old_count, binding_of(buffer));
    uint64_t lacking = 0;
    for (uint32_t h = buffer->holding_begin; h < buffer->holding_begin + buffer->holding_count; h++) {
        struct vbox box = vbox_of_holding(replay->part, h);
        lacking += shunt_plan_view_elements(&replay->part->views[replay->part->holdings[h].view]);
        lacking -= old != NULL ? held_before(replay, &box, old) : 0;
    }
    return lacking;
}

/* What must be sent for a new buffer, and what need not because it is made from another state. */
static void add_needed(struct vreplay *replay, const struct shunt_plan_buffer *buffer)
{
    struct vfigures *figures = &replay->v->figures;
    uint64_t needed = needed_remote(replay, buffer);
    vadd(&figures->needed_remote, needed);
    if (shunt_plan_origin_state(buffer) == buffer->state)
        return;
    vadd(&figures->made_needed, needed);
    vadd(&figures->own_needed, lacking_itself(replay, buffer) * wire_bytes(buffer));
}

static void add_figures(struct vreplay *replay, const struct shunt_plan_buffer *buffer)
{
    struct vfigures *figures = &replay->v->figures;
    if (buffer->side == SHUNT_SIDE_BOTH)
        vadd(&figures->kept, holding_bytes(replay, buffer));
    if (buffer->side == SHUNT_SIDE_TO)
        add_needed(replay, buffer);
    if (buffer->side == SHUNT_SIDE_FROM && buffer->free_round < figures->rollback_until_round)
        figures->rollback_until_round = buffer->free_round;
    figures->ops += (uint64_t)shunt_plan_is_allocated(buffer) + shunt_plan_is_freed(buffer);
}

enum shunt_status vbuffers_check(struct vreplay *replay)
{
    const struct shunt_plan_part *part = replay->part;
    enum shunt_status st = check_bindings(replay);
    for (uint32_t i = 0; i < part->header->buffer_count && st == SHUNT_OK; i++) {
        check_side(replay, i);
        replay->sound[i] = check_nested(replay, i);
        if (replay->sound[i])
            st = check_boxes(replay, i);
    }
    for (uint32_t i = 0; i < part->header->buffer_count && st == SHUNT_OK; i++)
        add_figures(replay, &part->buffers[i]);
    return st;
}
