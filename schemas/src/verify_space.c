/* SPDX-License-Identifier: Apache-2.0 */
/**
 * No element of a tensor is lost: whatever state of a tensor either side has, each side holds all
 * of it, on any number of devices. Replicas are equal boxes and count once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "verify_internal.h"

struct held {
    uint32_t device, holding;
};

/* Holdings of all devices by (tensor, state, side): those of group g are held[begin[g] .. begin[g + 1]). */
struct space {
    struct verifier *v;
    uint64_t group_count;
    uint64_t *begin;
    struct held *held;
};

enum { OLD_SIDE = 0, NEW_SIDE = 1 };

static uint64_t group_of(uint32_t tensor, uint32_t state, uint32_t side)
{
    return ((uint64_t)tensor * SHUNT_STATE_COUNT + state) * 2 + side;
}

static bool on_side(const struct shunt_plan_buffer *buffer, uint32_t side)
{
    return buffer->side != (side == OLD_SIDE ? SHUNT_SIDE_TO : SHUNT_SIDE_FROM);
}

/* Pass 0 counts into at[g + 1], pass 1 places at at[g]; `at` is begin + 1. */
static void visit_buffer(struct space *space, uint32_t device, const struct shunt_plan_buffer *buffer, int pass)
{
    uint64_t *at = space->begin + 1;
    for (uint32_t side = OLD_SIDE; side <= NEW_SIDE; side++) {
        uint64_t group = group_of(buffer->tensor, buffer->state, side);
        if (!on_side(buffer, side))
            continue;
        if (pass == 0)
            at[group + 1] += buffer->holding_count;
        for (uint32_t i = 0; pass == 1 && i < buffer->holding_count; i++)
            space->held[at[group]++] = (struct held){device, buffer->holding_begin + i};
    }
}

static void visit_all(struct space *space, int pass)
{
    for (uint32_t d = 0; d < space->v->header->device_count; d++) {
        const struct vpart *vp = &space->v->parts[d];
        for (uint32_t i = 0; vp->readable && i < vp->part.header->buffer_count; i++)
            visit_buffer(space, d, &vp->part.buffers[i], pass);
    }
}

static bool group_holdings(struct space *space)
{
    space->group_count = (uint64_t)shunt_plan_tensor_count(space->v->plan) * SHUNT_STATE_COUNT * 2;
    space->begin = schema_alloc(space->group_count + 2, sizeof(*space->begin));
    if (space->begin == NULL)
        return false;
    visit_all(space, 0);
    for (uint64_t g = 2; g < space->group_count + 2; g++)
        space->begin[g] += space->begin[g - 1];
    space->held = schema_alloc(space->begin[space->group_count + 1], sizeof(*space->held));
    if (space->held == NULL)
        return false;
    visit_all(space, 1);
    return true;
}

static int compare_boxes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct vbox));
}

static bool gather(const struct space *space, uint64_t group, struct vbox_list *boxes)
{
    boxes->count = 0;
    for (uint64_t i = space->begin[group]; i < space->begin[group + 1]; i++) {
        const struct held *held = &space->held[i];
        struct vbox box = vbox_of_holding(&space->v->parts[held->device].part, held->holding);
        if (boxes->count > 0 && vbox_equal(&boxes->at[boxes->count - 1], &box))
            continue; /* a replica on the device before */
        if (!vbox_list_add(boxes, &box))
            return false;
    }
    if (boxes->count > 1)
        qsort(boxes->at, boxes->count, sizeof(*boxes->at), compare_boxes);
    size_t kept = 0;
    for (size_t i = 0; i < boxes->count; i++) {
        if (kept == 0 || !vbox_equal(&boxes->at[kept - 1], &boxes->at[i]))
            boxes->at[kept++] = boxes->at[i];
    }
    boxes->count = kept;
    return true;
}

static struct vbox whole_tensor(const struct verifier *v, uint32_t tensor)
{
    struct vbox whole = {{0}, {1, 1, 1, 1, 1, 1}};
    const int64_t *dims = shunt_plan_tensor_dims(v->plan, tensor);
    memcpy(whole.hi, dims, vtensor_ndim(v, tensor) * sizeof(*dims));
    return whole;
}

static void report_gap(struct verifier *v, uint32_t tensor, uint32_t state, uint32_t side, const struct vbox *gap)
{
    int64_t shape[SHUNT_MAX_DIMS];
    for (int d = 0; d < SHUNT_MAX_DIMS; d++)
        shape[d] = gap->hi[d] - gap->lo[d];
    vproblem(v, SHUNT_RULE_COVERAGE, VNONE, VNONE, "box %s of %s/%.120s is held by no %s rank",
             vtext_box(gap->lo, shape, vtensor_ndim(v, tensor)).text, shunt_state_name(state),
             shunt_plan_string(v->plan, shunt_plan_get_tensor(v->plan, tensor)->name),
             side == OLD_SIDE ? "old" : "new");
}

static enum shunt_status check_group(struct space *space, uint32_t tensor, uint32_t state, uint32_t side,
                                     struct vbox_list *boxes)
{
    if (!gather(space, group_of(tensor, state, side), boxes))
        return SHUNT_ERR_NOMEM;
    struct vbox whole = whole_tensor(space->v, tensor), gap;
    int64_t point[SHUNT_MAX_DIMS], excess;
    enum vbox_answer answer = vbox_tiles(boxes->at, boxes->count, &whole, 1, point, &excess);
    if (answer == VBOX_NO) { /* overlapping replicas are fine, a gap is not */
        answer = vbox_find_gap(&whole, boxes->at, boxes->count, &gap);
        if (answer == VBOX_YES)
            report_gap(space->v, tensor, state, side, &gap);
    }
    return answer == VBOX_NOMEM ? SHUNT_ERR_NOMEM : SHUNT_OK;
}

static enum shunt_status check_state(struct space *space, uint32_t tensor, uint32_t state, struct vbox_list *boxes)
{
    uint64_t first = group_of(tensor, state, OLD_SIDE);
    if (space->begin[first] == space->begin[first + 2])
        return SHUNT_OK; /* neither side has it */
    enum shunt_status st = check_group(space, tensor, state, OLD_SIDE, boxes);
    return st == SHUNT_OK ? check_group(space, tensor, state, NEW_SIDE, boxes) : st;
}

enum shunt_status vspace_check(struct verifier *v)
{
    struct space space = {.v = v};
    struct vbox_list boxes = {0};
    enum shunt_status st = group_holdings(&space) ? SHUNT_OK : SHUNT_ERR_NOMEM;
    for (uint32_t t = 0; t < shunt_plan_tensor_count(v->plan) && st == SHUNT_OK; t++) {
        for (uint32_t s = 0; s < SHUNT_STATE_COUNT && st == SHUNT_OK; s++)
            st = check_state(&space, t, s, &boxes);
    }
    free(space.begin);
    free(space.held);
    vbox_list_finish(&boxes);
    return st;
}
