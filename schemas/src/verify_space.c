/* SPDX-License-Identifier: Apache-2.0 */
/**
 * No element of a tensor is lost: whatever state of a tensor a side has, it holds all of it, on any
 * number of devices, and so does the old side of what the new one is made from. The new side may lack
 * a state of weights, but then for all tensors. Replicas are equal boxes and count once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "verify_internal.h"

/* One more box of a group. */
struct entry {
    uint32_t next; /* entry + 1; 0: the last one */
    uint32_t box;
};

/* What new buffers of a tensor's state say of themselves: all must say the same. */
struct made {
    bool seen;
    uint8_t dtype, origin_state, origin_dtype;
};

/*
 * Boxes of all devices by (tensor, state, side). Most are held many times, by replicas and by tensors of
 * equal shape, so that boxes are numbered and groups list numbers.
 */
struct vspace {
    struct vbox_set boxes;
    struct made *made;                   /* by tensor and state */
    bool on_new_side[SHUNT_STATE_COUNT]; /* some tensor has it there */
    uint64_t group_count;
    uint32_t *heads; /* per group: its newest entry + 1 */
    struct entry *entries;
    uint32_t count, room;
};

enum { OLD_SIDE = 0, NEW_SIDE = 1 };

static uint64_t group_of(uint32_t tensor, uint32_t state, uint32_t side)
{
    return ((uint64_t)tensor * SHUNT_STATE_COUNT + state) * 2 + side;
}

static struct made *made_of(const struct vspace *space, uint32_t tensor, uint32_t state)
{
    return &space->made[(uint64_t)tensor * SHUNT_STATE_COUNT + state];
}

static bool has_group(const struct vspace *space, uint32_t tensor, uint32_t state, uint32_t side)
{
    return space->heads[group_of(tensor, state, side)] != 0;
}

static bool on_side(const struct shunt_plan_buffer *buffer, uint32_t side)
{
    return side == OLD_SIDE ? shunt_plan_on_old_side(buffer) : shunt_plan_on_new_side(buffer);
}

enum shunt_status vspace_open(struct verifier *v)
{
    struct vspace *space = v->space = schema_alloc(1, sizeof(*space));
    if (space == NULL)
        return SHUNT_ERR_NOMEM;
    if (!vbox_set_begin(&space->boxes))
        return v->status = shunt_fail(&v->err, SHUNT_ERR_IO, "verify: no random numbers");
    space->group_count = (uint64_t)shunt_plan_tensor_count(v->plan) * SHUNT_STATE_COUNT * 2;
    space->heads = schema_alloc(space->group_count, sizeof(*space->heads));
    space->made = schema_alloc(space->group_count / 2, sizeof(*space->made));
    return space->heads != NULL && space->made != NULL ? SHUNT_OK : SHUNT_ERR_NOMEM;
}

void vspace_close(struct verifier *v)
{
    if (v->space == NULL)
        return;
    vbox_set_finish(&v->space->boxes);
    free(v->space->heads);
    free(v->space->made);
    free(v->space->entries);
    free(v->space);
}

static bool grow_entries(struct vspace *space)
{
    uint32_t room = space->room > 0 ? space->room * 2 : 1024;
    struct entry *entries = room > space->room ? schema_alloc(room, sizeof(*entries)) : NULL;
    if (entries == NULL)
        return false;
    if (space->count > 0)
        memcpy(entries, space->entries, space->count * sizeof(*entries));
    free(space->entries);
    space->entries = entries;
    space->room = room;
    return true;
}

static bool add_box(struct vspace *space, uint64_t group, uint32_t box)
{
    uint32_t head = space->heads[group];
    if (head != 0 && space->entries[head - 1].box == box)
        return true; /* a replica on the device before */
    if (space->count == space->room && !grow_entries(space))
        return false;
    space->entries[space->count] = (struct entry){head, box};
    space->heads[group] = ++space->count;
    return true;
}

static bool add_holding(struct verifier *v, uint32_t device, const struct shunt_plan_buffer *buffer, uint32_t holding)
{
    struct vbox box = vbox_of_holding(&v->parts[device].part, holding);
    uint32_t number;
    if (!vbox_set_add(&v->space->boxes, &box, &number))
        return false;
    for (uint32_t side = OLD_SIDE; side <= NEW_SIDE; side++) {
        if (on_side(buffer, side) && !add_box(v->space, group_of(buffer->tensor, buffer->state, side), number))
            return false;
    }
    return true;
}

static void report_unlike(struct verifier *v, uint32_t device, uint32_t index, const struct made *first)
{
    const struct shunt_plan_buffer *buffer = &v->parts[device].part.buffers[index];
    vproblem(
        v, SHUNT_RULE_COORDINATE, device, VNONE, "%s is %s made from %s %s, on another device it is %s made from %s %s",
        vtext_buffer(v, device, index).text, shunt_dtype_name(buffer->dtype),
        shunt_state_name(shunt_plan_origin_state(buffer)), shunt_dtype_name(shunt_plan_origin_dtype(buffer)),
        shunt_dtype_name(first->dtype), shunt_state_name(first->origin_state), shunt_dtype_name(first->origin_dtype));
}

static void note_made(struct verifier *v, uint32_t device, uint32_t index)
{
    const struct shunt_plan_buffer *buffer = &v->parts[device].part.buffers[index];
    struct made *made = made_of(v->space, buffer->tensor, buffer->state);
    const struct made own = {.seen = true,
                             .dtype = buffer->dtype,
                             .origin_state = (uint8_t)shunt_plan_origin_state(buffer),
                             .origin_dtype = (uint8_t)shunt_plan_origin_dtype(buffer)};
    v->space->on_new_side[buffer->state] = true;
    if (!made->seen)
        *made = own;
    if (memcmp(made, &own, sizeof(own)) != 0)
        report_unlike(v, device, index, made);
}

enum shunt_status vspace_add(struct verifier *v, uint32_t device)
{
    const struct shunt_plan_part *part = &v->parts[device].part;
    for (uint32_t i = 0; i < part->header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &part->buffers[i];
        if (on_side(buffer, NEW_SIDE))
            note_made(v, device, i);
        for (uint32_t h = 0; h < buffer->holding_count; h++) {
            if (!add_holding(v, device, buffer, buffer->holding_begin + h))
                return SHUNT_ERR_NOMEM;
        }
    }
    return SHUNT_OK;
}

/* Buffers of a tensor and state that say unlike things may lie on either side of the border. */
static void merge_made(struct verifier *v, const struct vspace *from)
{
    struct vspace *space = v->space;
    for (uint32_t s = 0; s < SHUNT_STATE_COUNT; s++)
        space->on_new_side[s] = space->on_new_side[s] || from->on_new_side[s];
    for (uint64_t i = 0; i < space->group_count / 2; i++) {
        if (from->made[i].seen && !space->made[i].seen)
            space->made[i] = from->made[i];
        else if (from->made[i].seen && memcmp(&space->made[i], &from->made[i], sizeof(from->made[i])) != 0)
            vproblem(v, SHUNT_RULE_COORDINATE, VNONE, VNONE, "a tensor is made from unlike things");
    }
}

enum shunt_status vspace_merge(struct verifier *v, const struct verifier *other)
{
    const struct vspace *from = other->space;
    uint32_t *number = schema_alloc(from->boxes.list.count, sizeof(*number));
    bool ok = number != NULL;
    merge_made(v, from);
    for (size_t i = 0; i < from->boxes.list.count && ok; i++)
        ok = vbox_set_add(&v->space->boxes, &from->boxes.list.at[i], &number[i]);
    for (uint64_t group = 0; group < from->group_count && ok; group++) {
        for (uint32_t at = from->heads[group]; at != 0 && ok; at = from->entries[at - 1].next)
            ok = add_box(v->space, group, number[from->entries[at - 1].box]);
    }
    free(number);
    return ok ? SHUNT_OK : SHUNT_ERR_NOMEM;
}

static int compare_boxes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct vbox));
}

static bool gather(const struct vspace *space, uint64_t group, struct vbox_list *boxes)
{
    boxes->count = 0;
    for (uint32_t at = space->heads[group]; at != 0; at = space->entries[at - 1].next) {
        if (!vbox_list_add(boxes, &space->boxes.list.at[space->entries[at - 1].box]))
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

static enum shunt_status check_group(struct verifier *v, uint32_t tensor, uint32_t state, uint32_t side,
                                     struct vbox_list *boxes)
{
    if (!gather(v->space, group_of(tensor, state, side), boxes))
        return SHUNT_ERR_NOMEM;
    struct vbox whole = whole_tensor(v, tensor), gap;
    int64_t point[SHUNT_MAX_DIMS], excess;
    enum vbox_answer answer = vbox_tiles(boxes->at, boxes->count, &whole, 1, point, &excess);
    if (answer == VBOX_NO) { /* overlapping replicas are fine, a gap is not */
        answer = vbox_find_gap(&whole, boxes->at, boxes->count, &gap);
        if (answer == VBOX_YES)
            report_gap(v, tensor, state, side, &gap);
    }
    return answer == VBOX_NOMEM ? SHUNT_ERR_NOMEM : SHUNT_OK;
}

/* The new side may lack a state of weights, other than the weight, if it does so for all tensors. */
static bool is_dropped(const struct vspace *space, uint32_t state)
{
    return state > SHUNT_STATE_PARAM && state <= SHUNT_STATE_MOMENTUM && !space->on_new_side[state];
}

/* A master is more than its weight: one that is there is not made anew. */
static void check_remade(struct verifier *v, uint32_t tensor, uint32_t state, uint32_t origin)
{
    if (state == SHUNT_STATE_MASTER && origin != state)
        vproblem(v, SHUNT_RULE_COVERAGE, VNONE, VNONE, "%s/%.120s is made from %s, and the old side has it itself",
                 shunt_state_name(state), shunt_plan_string(v->plan, shunt_plan_get_tensor(v->plan, tensor)->name),
                 shunt_state_name(origin));
}

static enum shunt_status check_state(struct verifier *v, uint32_t tensor, uint32_t state, struct vbox_list *boxes)
{
    const struct vspace *space = v->space;
    bool old = has_group(space, tensor, state, OLD_SIDE);
    bool fresh = has_group(space, tensor, state, NEW_SIDE);
    uint32_t origin = made_of(space, tensor, state)->origin_state;
    enum shunt_status st = SHUNT_OK;
    if (old)
        st = check_group(v, tensor, state, OLD_SIDE, boxes);
    if (old && fresh)
        check_remade(v, tensor, state, origin);
    if (st == SHUNT_OK && fresh && (!old || origin != state))
        st = check_group(v, tensor, origin, OLD_SIDE, boxes);
    if (st == SHUNT_OK && (fresh || (old && !is_dropped(space, state))))
        st = check_group(v, tensor, state, NEW_SIDE, boxes);
    return st;
}

/* States that tensors of both sides lose. */
static uint32_t find_dropped(const struct verifier *v)
{
    const struct vspace *space = v->space;
    uint32_t dropped = 0;
    for (uint32_t t = 0; t < shunt_plan_tensor_count(v->plan); t++) {
        uint32_t old = 0, fresh = 0;
        for (uint32_t s = 0; s < SHUNT_STATE_COUNT; s++) {
            old |= (uint32_t)has_group(space, t, s, OLD_SIDE) << s;
            fresh |= (uint32_t)has_group(space, t, s, NEW_SIDE) << s;
        }
        for (uint32_t s = 0; fresh != 0 && s < SHUNT_STATE_COUNT; s++)
            dropped |= old & (uint32_t)is_dropped(space, s) << s;
    }
    return dropped;
}

enum shunt_status vspace_check(struct verifier *v)
{
    struct vbox_list boxes = {0};
    enum shunt_status st = SHUNT_OK;
    for (uint32_t t = 0; t < shunt_plan_tensor_count(v->plan) && st == SHUNT_OK; t++) {
        for (uint32_t s = 0; s < SHUNT_STATE_COUNT && st == SHUNT_OK; s++)
            st = check_state(v, t, s, &boxes);
    }
    v->report->dropped_states = find_dropped(v);
    vbox_list_finish(&boxes);
    return st;
}
