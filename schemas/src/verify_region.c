/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_region.h"

#include <string.h>

#define MAX_PIECES 64 /* boxes of one region: enough for any that a layout makes */

/* Dimensions of more than one element, by descending stride (ties: as they come). */
static uint32_t sort_dims(const struct shunt_plan_view *view, uint32_t *dims_out)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < view->ndim; d++) {
        if (view->shape[d] == 1)
            continue;
        uint32_t at = count++;
        for (; at > 0 && view->stride[dims_out[at - 1]] < view->stride[d]; at--)
            dims_out[at] = dims_out[at - 1];
        dims_out[at] = d;
    }
    return count;
}

bool vview_is_nested(const struct shunt_plan_view *view)
{
    uint32_t dims[SHUNT_MAX_DIMS];
    uint32_t count = sort_dims(view, dims);
    int64_t inside = view->elem_bytes;
    while (count-- > 0) {
        uint32_t d = dims[count];
        if (view->stride[d] < inside || __builtin_mul_overflow(view->stride[d], view->shape[d], &inside))
            return false;
    }
    return true;
}

bool vregion_locate(const struct shunt_plan_view *holding, uint64_t holding_offset, const struct shunt_plan_view *view,
                    uint64_t offset, int64_t *start_out)
{
    uint32_t dims[SHUNT_MAX_DIMS];
    uint32_t count = sort_dims(holding, dims);
    if (offset < holding_offset || view->ndim != holding->ndim || view->elem_bytes != holding->elem_bytes)
        return false;
    int64_t rest = (int64_t)(offset - holding_offset);
    memset(start_out, 0, SHUNT_MAX_DIMS * sizeof(*start_out));
    for (uint32_t i = 0; i < count; i++) {
        int64_t stride = holding->stride[dims[i]];
        if (stride == 0)
            return false; /* not nested: reported with the buffer */
        start_out[dims[i]] = rest / stride;
        rest %= stride;
    }
    if (rest != 0)
        return false;
    for (uint32_t d = 0; d < view->ndim; d++) {
        if (view->shape[d] > holding->shape[d] || start_out[d] > holding->shape[d] - view->shape[d])
            return false;
        if (view->shape[d] > 1 && view->stride[d] != holding->stride[d])
            return false;
    }
    return true;
}

/* ---- grids -------------------------------------------------------------------- */

void vgrid_begin(struct vgrid *grid, uint32_t elem_bytes)
{
    *grid = (struct vgrid){.levels = 1, .stride = {elem_bytes}};
}

static bool add_stride(struct vgrid *grid, int64_t stride)
{
    uint32_t at = 0;
    while (at < grid->levels && grid->stride[at] > stride)
        at++;
    if (at < grid->levels && grid->stride[at] == stride)
        return true;
    if (grid->levels == SHUNT_MAX_DIMS)
        return false;
    memmove(&grid->stride[at + 1], &grid->stride[at], (grid->levels - at) * sizeof(grid->stride[0]));
    grid->stride[at] = stride;
    grid->levels++;
    return true;
}

bool vgrid_add_view(struct vgrid *grid, const struct shunt_plan_view *view)
{
    for (uint32_t d = 0; d < view->ndim; d++) {
        if (view->shape[d] > 1 && !add_stride(grid, view->stride[d]))
            return false;
    }
    return true;
}

bool vgrid_end(struct vgrid *grid, uint64_t buffer_bytes)
{
    int64_t top = grid->stride[0], bytes = (int64_t)buffer_bytes;
    if (grid->stride[grid->levels - 1] == 0)
        return false;
    grid->radix[0] = bytes / top + (bytes % top != 0);
    for (uint32_t level = 1; level < grid->levels; level++) {
        if (grid->stride[level - 1] % grid->stride[level] != 0)
            return false;
        grid->radix[level] = grid->stride[level - 1] / grid->stride[level];
    }
    return true;
}

uint64_t vgrid_offset(const struct vgrid *grid, const int64_t *point)
{
    uint64_t offset = 0;
    for (uint32_t level = 0; level < grid->levels; level++)
        offset += (uint64_t)(point[level] * grid->stride[level]);
    return offset;
}

/* A region on its way down the levels, from the smallest stride to the largest. */
struct split {
    const struct vgrid *grid;
    struct vbox_list *list;
    size_t room; /* pieces still allowed */
    int64_t count[SHUNT_MAX_DIMS];
    struct vbox box;
};

static enum vbox_answer split_level(struct split *split, uint32_t level, int64_t position);

/* Fix the range of one level and go on with the next larger stride. */
static enum vbox_answer split_range(struct split *split, uint32_t level, int64_t lo, int64_t hi, int64_t carry)
{
    split->box.lo[level] = lo;
    split->box.hi[level] = hi;
    if (level > 0)
        return split_level(split, level - 1, carry);
    if (split->room == 0)
        return VBOX_NO;
    split->room--;
    return vbox_list_add(split->list, &split->box) ? VBOX_YES : VBOX_NOMEM;
}

/* Whole steps of the level above that a long run covers become that level's own count. */
static enum vbox_answer split_whole(struct split *split, uint32_t level, int64_t whole, int64_t carry)
{
    if (whole == 0)
        return VBOX_YES;
    if (split->count[level - 1] != 1)
        return VBOX_NO;
    split->count[level - 1] = whole;
    enum vbox_answer answer = split_range(split, level, 0, split->grid->radix[level], carry);
    split->count[level - 1] = 1;
    return answer;
}

/* `position` counts strides of this level from the start of the buffer. A run that passes the end of its step of the
   level above is cut: head | whole steps | tail. */
static enum vbox_answer split_level(struct split *split, uint32_t level, int64_t position)
{
    int64_t count = split->count[level];
    if (level == 0)
        return split_range(split, 0, position, position + count, 0);
    int64_t radix = split->grid->radix[level];
    int64_t first = position % radix, carry = position / radix;
    if (first + count <= radix)
        return split_range(split, level, first, first + count, carry);
    int64_t left = count - (radix - first);
    int64_t whole = left / radix, tail = left % radix;
    enum vbox_answer answer = split_range(split, level, first, radix, carry);
    if (answer == VBOX_YES)
        answer = split_whole(split, level, whole, carry + 1);
    if (answer == VBOX_YES && tail > 0)
        answer = split_range(split, level, 0, tail, carry + 1 + whole);
    return answer;
}

static enum vbox_answer split_counts(struct split *split, uint64_t offset)
{
    uint32_t last = split->grid->levels - 1;
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++)
        split->box.hi[d] = 1;
    split->room = MAX_PIECES;
    return split_level(split, last, (int64_t)offset / split->grid->stride[last]);
}

enum vbox_answer vgrid_split(const struct vgrid *grid, const struct shunt_plan_view *view, uint64_t offset,
                             struct vbox_list *list)
{
    struct split split = {.grid = grid, .list = list};
    if (!vview_is_nested(view) || (int64_t)offset % grid->stride[grid->levels - 1] != 0)
        return VBOX_NO;
    for (uint32_t level = 0; level < grid->levels; level++)
        split.count[level] = 1;
    for (uint32_t d = 0; d < view->ndim; d++) {
        uint32_t level = 0;
        while (level < grid->levels && grid->stride[level] != view->stride[d])
            level++;
        if (view->shape[d] == 1)
            continue;
        if (level == grid->levels)
            return VBOX_NO;
        split.count[level] = view->shape[d];
    }
    return split_counts(&split, offset);
}

enum vbox_answer vgrid_split_all(const struct vgrid *grid, uint64_t bytes, struct vbox_list *list)
{
    struct split split = {.grid = grid, .list = list};
    int64_t elem = grid->stride[grid->levels - 1];
    if ((int64_t)bytes % elem != 0)
        return VBOX_NO;
    for (uint32_t level = 0; level < grid->levels; level++)
        split.count[level] = 1;
    split.count[grid->levels - 1] = (int64_t)bytes / elem;
    return split_counts(&split, 0);
}
