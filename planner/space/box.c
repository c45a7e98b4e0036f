/* SPDX-License-Identifier: Apache-2.0 */
#include "space/box.h"

#include <stdio.h>

struct box box_whole(uint32_t ndim, const int64_t *shape)
{
    struct box box = {.ndim = ndim};
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++)
        box.hi[d] = d < ndim ? shape[d] : 1;
    return box;
}

bool box_intersect(const struct box *a, const struct box *b, struct box *out)
{
    *out = *a;
    for (uint32_t d = 0; d < a->ndim; d++) {
        if (b->lo[d] > out->lo[d])
            out->lo[d] = b->lo[d];
        if (b->hi[d] < out->hi[d])
            out->hi[d] = b->hi[d];
        if (out->lo[d] >= out->hi[d])
            return false;
    }
    return true;
}

bool box_equal(const struct box *a, const struct box *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (uint32_t d = 0; d < a->ndim; d++) {
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d])
            return false;
    }
    return true;
}

bool box_empty(const struct box *box)
{
    for (uint32_t d = 0; d < box->ndim; d++) {
        if (box->lo[d] >= box->hi[d])
            return true;
    }
    return false;
}

int64_t box_volume(const struct box *box)
{
    int64_t volume = 1;
    for (uint32_t d = 0; d < box->ndim; d++) {
        if (box->lo[d] >= box->hi[d])
            return 0;
        volume *= box->hi[d] - box->lo[d];
    }
    return volume;
}

char *box_print(const struct box *box, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t d = 0; d < box->ndim && used < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s[%lld,%lld)", d > 0 ? "x" : "", (long long)box->lo[d],
                                 (long long)box->hi[d]);
    return text;
}

uint32_t box_subtract(const struct box *whole, const struct box *part, struct box rest_out[BOX_MAX_PARTS])
{
    struct box left = *whole;
    uint32_t count = 0;
    for (uint32_t d = 0; d < whole->ndim; d++) {
        if (left.lo[d] < part->lo[d]) {
            rest_out[count] = left;
            rest_out[count++].hi[d] = part->lo[d];
            left.lo[d] = part->lo[d];
        }
        if (left.hi[d] > part->hi[d]) {
            rest_out[count] = left;
            rest_out[count++].lo[d] = part->hi[d];
            left.hi[d] = part->hi[d];
        }
    }
    return count;
}

static uint32_t slice_dimension(const struct box *box, int64_t count)
{
    uint32_t longest = 0;
    for (uint32_t d = 0; d < box->ndim; d++) {
        if (box->hi[d] - box->lo[d] >= count)
            return d;
        if (box->hi[d] - box->lo[d] > box->hi[longest] - box->lo[longest])
            longest = d;
    }
    return longest;
}

/** Part of an extent that lies before a slice; extent * index may not fit 64 bits: that is split into whole and rest. */
static int64_t before_slice(int64_t whole, int64_t rest, int64_t index, int64_t count)
{
    return whole * index + (rest == 0 ? 0 : rest * index / count);
}

/** Where a slice begins and ends in a dimension, from the beginning of the box on. */
static void slice_extent(int64_t extent, int64_t index, int64_t count, int64_t *lo_out, int64_t *hi_out)
{
    int64_t whole = extent / count, rest = extent - whole * count;
    *lo_out = before_slice(whole, rest, index, count);
    *hi_out = before_slice(whole, rest, index + 1, count);
}

struct box box_slice(const struct box *box, int64_t index, int64_t count)
{
    struct box slice = *box;
    uint32_t d = slice_dimension(box, count);
    int64_t lo, hi;
    slice_extent(box->hi[d] - box->lo[d], index, count, &lo, &hi);
    slice.lo[d] = box->lo[d] + lo;
    slice.hi[d] = box->lo[d] + hi;
    return slice;
}

int64_t box_slice_volume(const struct box *box, int64_t index, int64_t count)
{
    uint32_t cut = slice_dimension(box, count);
    int64_t lo, hi;
    slice_extent(box->hi[cut] - box->lo[cut], index, count, &lo, &hi);
    int64_t volume = hi - lo;
    for (uint32_t d = 0; d < box->ndim; d++)
        volume *= d == cut ? 1 : box->hi[d] - box->lo[d];
    return volume;
}
