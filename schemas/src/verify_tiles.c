/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Goal: do boxes tile, without comparing pairs. Write f(p) for the number of plus boxes at point p
 * less the number of minus boxes. The mixed difference of f (once along each dimension) of one box
 * is nothing but its 2^n corners with alternating signs:
 *
 *      +---------+        +1 . . . . -1          f = 0 everywhere  <=>  the corners of all
 *      |   box   |   ->    .          .          boxes cancel, point by point, because f is
 *      +---------+        -1 . . . . +1          the sum of its differences from the origin.
 *
 * So: collect the corners, sort, add up equal ones. Where boxes touch, corners cancel. The first
 * point p (row-major) with a sum other than 0 is a witness: every other point below p in all
 * dimensions sorts before p and sums to 0, so f(p) is that sum. Cost: n boxes, 2^dims * n
 * corners, one sort. Dimensions in which all boxes agree are left out first.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "verify_box.h"
#include "verify_sort.h"

/* How points become row-major numbers: dimension d counts `weight[d]`; 0: all boxes agree there. */
struct numbering {
    int64_t base[SHUNT_MAX_DIMS];
    uint64_t weight[SHUNT_MAX_DIMS];
    int dims[SHUNT_MAX_DIMS]; /* those with a weight, outermost first */
    int dim_count;
};

static void find_differences(const struct vbox *boxes, size_t count, const struct vbox *first, bool *differs)
{
    for (size_t i = 0; i < count; i++) {
        for (int d = 0; d < SHUNT_MAX_DIMS; d++)
            differs[d] |= boxes[i].lo[d] != first->lo[d] || boxes[i].hi[d] != first->hi[d];
    }
}

static struct numbering number_points(const struct vbox *plus, size_t plus_count, const struct vbox *minus,
                                      size_t minus_count)
{
    struct vbox hull = plus_count > 0 ? plus[0] : minus[0];
    bool differs[SHUNT_MAX_DIMS] = {false};
    struct numbering numbering = {0};
    uint64_t weight = 1;
    find_differences(plus, plus_count, &hull, differs);
    find_differences(minus, minus_count, &hull, differs);
    vbox_widen(plus, plus_count, &hull);
    vbox_widen(minus, minus_count, &hull);
    for (int d = SHUNT_MAX_DIMS; d-- > 0;) {
        numbering.base[d] = hull.lo[d];
        if (!differs[d])
            continue;
        numbering.weight[d] = weight;
        weight *= (uint64_t)(hull.hi[d] - hull.lo[d]) + 1;
    }
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        if (differs[d])
            numbering.dims[numbering.dim_count++] = d;
    }
    return numbering;
}

/* An entry is the corner's number, and its sign: 1 for minus. */
static struct ventry *add_corners(const struct numbering *numbering, const struct vbox *boxes, size_t count,
                                  uint32_t sign, struct ventry *out)
{
    uint32_t corners = 1u << numbering->dim_count;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t corner = 0; corner < corners; corner++) {
            uint64_t number = 0;
            for (int j = 0; j < numbering->dim_count; j++) {
                int d = numbering->dims[j];
                int64_t at = (corner >> j) & 1 ? boxes[i].hi[d] : boxes[i].lo[d];
                number += (uint64_t)(at - numbering->base[d]) * numbering->weight[d];
            }
            *out++ = (struct ventry){number, (sign + (uint32_t)__builtin_popcount(corner)) & 1};
        }
    }
    return out;
}

static void point_of(const struct numbering *numbering, uint64_t number, int64_t *point_out)
{
    memcpy(point_out, numbering->base, sizeof(numbering->base));
    for (int j = 0; j < numbering->dim_count; j++) {
        int d = numbering->dims[j];
        point_out[d] += (int64_t)(number / numbering->weight[d]);
        number %= numbering->weight[d];
    }
}

/* Adds up sorted corners; true if every number sums to 0, else the first that does not. */
static bool corners_cancel(const struct ventry *corners, size_t count, uint64_t *number_out, int64_t *excess_out)
{
    for (size_t i = 0; i < count;) {
        uint64_t number = corners[i].key;
        int64_t sum = 0;
        for (; i < count && corners[i].key == number; i++)
            sum += corners[i].index != 0 ? -1 : 1;
        if (sum != 0) {
            *number_out = number;
            *excess_out = sum;
            return false;
        }
    }
    return true;
}

enum vbox_answer vbox_tiles(const struct vbox *plus, size_t plus_count, const struct vbox *minus, size_t minus_count,
                            int64_t *point_out, int64_t *excess_out)
{
    if (plus_count + minus_count == 0 || (plus_count == 1 && minus_count == 1 && vbox_equal(plus, minus)))
        return VBOX_YES;
    struct numbering numbering = number_points(plus, plus_count, minus, minus_count);
    size_t count = (plus_count + minus_count) << numbering.dim_count;
    struct ventry *corners = schema_alloc(2 * count, sizeof(*corners));
    if (corners == NULL)
        return VBOX_NOMEM;
    struct ventry *end = add_corners(&numbering, plus, plus_count, 0, corners);
    add_corners(&numbering, minus, minus_count, 1, end);
    vsort_entries(corners, count, corners + count);
    uint64_t number = 0;
    bool cancel = corners_cancel(corners, count, &number, excess_out);
    if (!cancel)
        point_of(&numbering, number, point_out);
    free(corners);
    return cancel ? VBOX_YES : VBOX_NO;
}
