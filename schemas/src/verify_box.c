/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Goal: exact questions about many boxes, without comparing all pairs.
 *
 * Tiling (vbox_tiles). Write f(p) for the number of plus boxes at point p less the number of
 * minus boxes. The mixed difference of f (once along each dimension) of one box is nothing but
 * its 2^n corners with alternating signs:
 *
 *      +---------+        +1 . . . . -1          f = 0 everywhere  <=>  the corners of all
 *      |   box   |   ->    .          .          boxes cancel, point by point, because f is
 *      +---------+        -1 . . . . +1          the sum of its differences from the origin.
 *
 * So: collect the corners, sort, add up equal ones. Where boxes touch, corners cancel. The first
 * point p (row-major) with a sum other than 0 is a witness: every other point below p in all
 * dimensions sorts before p and sums to 0, so f(p) is that sum. Cost: n boxes, 2^dims * n
 * corners, one sort. Dimensions in which all boxes agree are left out first.
 *
 * Meeting and gaps (vbox_find_meeting, vbox_find_gap). Halve the space at a plane through the
 * middle of the boxes' edges, hand each half the boxes that reach into it, and go on; small sets
 * are compared directly.
 */
#include "verify_box.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define SMALL_SET 12 /* compared directly */

/* ---- lists and single boxes --------------------------------------------------- */

bool vbox_list_add(struct vbox_list *list, const struct vbox *box)
{
    if (list->count == list->room) {
        size_t room = list->room > 0 ? list->room * 2 : 16;
        struct vbox *at = schema_alloc(room, sizeof(*at));
        if (at == NULL)
            return false;
        if (list->count > 0)
            memcpy(at, list->at, list->count * sizeof(*at));
        free(list->at);
        list->at = at;
        list->room = room;
    }
    list->at[list->count++] = *box;
    return true;
}

void vbox_list_finish(struct vbox_list *list)
{
    free(list->at);
    *list = (struct vbox_list){0};
}

bool vbox_meet(const struct vbox *a, const struct vbox *b)
{
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        if (a->lo[d] >= b->hi[d] || b->lo[d] >= a->hi[d])
            return false;
    }
    return true;
}

bool vbox_equal(const struct vbox *a, const struct vbox *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static bool holds_box(const struct vbox *outer, const struct vbox *inner)
{
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        if (inner->lo[d] < outer->lo[d] || inner->hi[d] > outer->hi[d])
            return false;
    }
    return true;
}

bool vbox_holds_point(const struct vbox *box, const int64_t *point)
{
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        if (point[d] < box->lo[d] || point[d] >= box->hi[d])
            return false;
    }
    return true;
}

uint64_t vbox_volume(const struct vbox *box)
{
    uint64_t volume = 1;
    for (int d = 0; d < SHUNT_MAX_DIMS; d++)
        volume *= (uint64_t)(box->hi[d] - box->lo[d]);
    return volume;
}

uint64_t vbox_shared(const struct vbox *a, const struct vbox *b)
{
    uint64_t volume = 1;
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        int64_t lo = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
        int64_t hi = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
        if (lo >= hi)
            return 0;
        volume *= (uint64_t)(hi - lo);
    }
    return volume;
}

/* ---- tiling ------------------------------------------------------------------- */

/* How points become row-major numbers: dimension d counts `weight[d]`; 0: all boxes agree there. */
struct numbering {
    int64_t base[SHUNT_MAX_DIMS];
    uint64_t weight[SHUNT_MAX_DIMS];
    int dims[SHUNT_MAX_DIMS]; /* those with a weight, outermost first */
    int dim_count;
};

static void widen(const struct vbox *boxes, size_t count, const struct vbox *first, struct vbox *hull, bool *differs)
{
    for (size_t i = 0; i < count; i++) {
        for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
            differs[d] |= boxes[i].lo[d] != first->lo[d] || boxes[i].hi[d] != first->hi[d];
            if (boxes[i].lo[d] < hull->lo[d])
                hull->lo[d] = boxes[i].lo[d];
            if (boxes[i].hi[d] > hull->hi[d])
                hull->hi[d] = boxes[i].hi[d];
        }
    }
}

static struct numbering number_points(const struct vbox *plus, size_t plus_count, const struct vbox *minus,
                                      size_t minus_count)
{
    const struct vbox *first = plus_count > 0 ? plus : minus;
    struct vbox hull = *first;
    bool differs[SHUNT_MAX_DIMS] = {false};
    widen(plus, plus_count, first, &hull, differs);
    widen(minus, minus_count, first, &hull, differs);
    struct numbering numbering = {0};
    uint64_t weight = 1;
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

/* A key is the corner's number, shifted left by one, and its sign: 1 for minus. */
static uint64_t *add_corners(const struct numbering *numbering, const struct vbox *boxes, size_t count, uint32_t sign,
                             uint64_t *out)
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
            *out++ = number << 1 | ((sign + (uint32_t)__builtin_popcount(corner)) & 1);
        }
    }
    return out;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
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

/* Adds up sorted keys; true if every number sums to 0, else the first that does not. */
static bool keys_cancel(const uint64_t *keys, size_t count, uint64_t *number_out, int64_t *excess_out)
{
    for (size_t i = 0; i < count;) {
        uint64_t number = keys[i] >> 1;
        int64_t sum = 0;
        for (; i < count && keys[i] >> 1 == number; i++)
            sum += keys[i] & 1 ? -1 : 1;
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
    size_t key_count = (plus_count + minus_count) << numbering.dim_count;
    uint64_t *keys = schema_alloc(key_count, sizeof(*keys));
    if (keys == NULL)
        return VBOX_NOMEM;
    uint64_t *end = add_corners(&numbering, plus, plus_count, 0, keys);
    add_corners(&numbering, minus, minus_count, 1, end);
    qsort(keys, key_count, sizeof(*keys), compare_keys);
    uint64_t number = 0;
    bool cancel = keys_cancel(keys, key_count, &number, excess_out);
    if (!cancel)
        point_of(&numbering, number, point_out);
    free(keys);
    return cancel ? VBOX_YES : VBOX_NO;
}

/* ---- halving ------------------------------------------------------------------ */

/* Boxes under examination, by index, and the planes that could part them. */
struct part_set {
    const struct vbox *boxes;
    uint32_t *index;
    size_t count;
};

struct plane {
    int dim;
    int64_t at;
    size_t below, above; /* boxes that reach below and above the plane */
};

static void count_sides(const struct part_set *set, struct plane *plane)
{
    plane->below = plane->above = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct vbox *box = &set->boxes[set->index[i]];
        plane->below += box->lo[plane->dim] < plane->at;
        plane->above += box->hi[plane->dim] > plane->at;
    }
}

static int compare_edges(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The middle of the boxes' lower and upper edges along one dimension that lie strictly inside (lo, hi). */
static bool middle_edge(const struct part_set *set, int dim, int64_t lo, int64_t hi, int64_t *edges, int64_t *at_out)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct vbox *box = &set->boxes[set->index[i]];
        if (box->lo[dim] > lo && box->lo[dim] < hi)
            edges[count++] = box->lo[dim];
        if (box->hi[dim] > lo && box->hi[dim] < hi)
            edges[count++] = box->hi[dim];
    }
    if (count == 0)
        return false;
    qsort(edges, count, sizeof(*edges), compare_edges);
    *at_out = edges[count / 2];
    return true;
}

/* The plane through region whose fuller side is least full. VBOX_NO: no edge lies inside region. */
static enum vbox_answer choose_plane(const struct part_set *set, const struct vbox *region, struct plane *best_out)
{
    int64_t *edges = schema_alloc(set->count * 2, sizeof(*edges));
    if (edges == NULL)
        return VBOX_NOMEM;
    enum vbox_answer found = VBOX_NO;
    size_t best = 0;
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        struct plane plane = {.dim = d};
        if (!middle_edge(set, d, region->lo[d], region->hi[d], edges, &plane.at))
            continue;
        count_sides(set, &plane);
        size_t fuller = plane.below > plane.above ? plane.below : plane.above;
        if (found == VBOX_NO || fuller < best) {
            best = fuller;
            *best_out = plane;
            found = VBOX_YES;
        }
    }
    free(edges);
    return found;
}

/* The boxes that reach below (or above) the plane; release index. */
static bool take_side(const struct part_set *set, const struct plane *plane, bool below, struct part_set *side_out)
{
    *side_out = (struct part_set){.boxes = set->boxes};
    side_out->index = schema_alloc(below ? plane->below : plane->above, sizeof(*side_out->index));
    if (side_out->index == NULL)
        return false;
    for (size_t i = 0; i < set->count; i++) {
        const struct vbox *box = &set->boxes[set->index[i]];
        if (below ? box->lo[plane->dim] < plane->at : box->hi[plane->dim] > plane->at)
            side_out->index[side_out->count++] = set->index[i];
    }
    return true;
}

static struct vbox half_of(const struct vbox *region, const struct plane *plane, bool below)
{
    struct vbox half = *region;
    *(below ? &half.hi[plane->dim] : &half.lo[plane->dim]) = plane->at;
    return half;
}

static uint32_t *number_all(size_t count)
{
    uint32_t *index = schema_alloc(count, sizeof(*index));
    for (size_t i = 0; index != NULL && i < count; i++)
        index[i] = (uint32_t)i;
    return index;
}

/* ---- meeting ------------------------------------------------------------------ */

static enum vbox_answer compare_pairs(const struct part_set *set, size_t *first_out, size_t *second_out)
{
    for (size_t i = 0; i < set->count; i++) {
        for (size_t j = i + 1; j < set->count; j++) {
            if (!vbox_meet(&set->boxes[set->index[i]], &set->boxes[set->index[j]]))
                continue;
            *first_out = set->index[i];
            *second_out = set->index[j];
            return VBOX_YES;
        }
    }
    return VBOX_NO;
}

static enum vbox_answer meeting_in(const struct part_set *set, const struct vbox *region, size_t *first_out,
                                   size_t *second_out)
{
    struct plane plane;
    if (set->count <= SMALL_SET)
        return compare_pairs(set, first_out, second_out);
    enum vbox_answer found = choose_plane(set, region, &plane);
    if (found == VBOX_NOMEM)
        return found;
    if (found == VBOX_NO || plane.below == set->count || plane.above == set->count)
        return compare_pairs(set, first_out, second_out);
    for (int below = 1; below >= 0; below--) {
        struct part_set side;
        if (!take_side(set, &plane, below, &side))
            return VBOX_NOMEM;
        struct vbox half = half_of(region, &plane, below);
        found = meeting_in(&side, &half, first_out, second_out);
        free(side.index);
        if (found != VBOX_NO)
            return found;
    }
    return VBOX_NO;
}

static struct vbox hull_of(const struct vbox *boxes, size_t count)
{
    struct vbox hull = boxes[0];
    bool differs[SHUNT_MAX_DIMS] = {false};
    widen(boxes, count, boxes, &hull, differs);
    return hull;
}

enum vbox_answer vbox_find_meeting(const struct vbox *boxes, size_t count, size_t *first_out, size_t *second_out)
{
    if (count < 2)
        return VBOX_NO;
    struct part_set set = {.boxes = boxes, .index = number_all(count), .count = count};
    if (set.index == NULL)
        return VBOX_NOMEM;
    struct vbox hull = hull_of(boxes, count);
    enum vbox_answer found = meeting_in(&set, &hull, first_out, second_out);
    free(set.index);
    return found;
}

/* ---- gaps --------------------------------------------------------------------- */

static enum vbox_answer gap_in(const struct part_set *set, const struct vbox *region, struct vbox *gap_out)
{
    for (size_t i = 0; i < set->count; i++) {
        if (holds_box(&set->boxes[set->index[i]], region))
            return VBOX_NO;
    }
    struct plane plane;
    enum vbox_answer found = set->count > 0 ? choose_plane(set, region, &plane) : VBOX_NO;
    if (found == VBOX_NOMEM)
        return found;
    if (found == VBOX_NO) { /* no box at all, as one that reached in without an edge would hold region */
        *gap_out = *region;
        return VBOX_YES;
    }
    for (int below = 1; below >= 0; below--) {
        struct part_set side;
        if (!take_side(set, &plane, below, &side))
            return VBOX_NOMEM;
        struct vbox half = half_of(region, &plane, below);
        found = gap_in(&side, &half, gap_out);
        free(side.index);
        if (found != VBOX_NO)
            return found;
    }
    return VBOX_NO;
}

enum vbox_answer vbox_find_gap(const struct vbox *region, const struct vbox *boxes, size_t count, struct vbox *gap_out)
{
    struct part_set set = {.boxes = boxes, .index = schema_alloc(count, sizeof(uint32_t))};
    if (set.index == NULL)
        return VBOX_NOMEM;
    for (size_t i = 0; i < count; i++) {
        if (vbox_meet(&boxes[i], region))
            set.index[set.count++] = (uint32_t)i;
    }
    enum vbox_answer found = gap_in(&set, region, gap_out);
    free(set.index);
    return found;
}
