/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Goal: do two boxes meet, is there a gap, without comparing all pairs. Halve the space at a plane
 * through the middle of the boxes' edges, hand each half the boxes that reach into it, and go on;
 * small sets are compared directly.
 */
#include <stdlib.h>

#include "alloc.h"
#include "verify_box.h"

#define SMALL_SET 12 /* compared directly */

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

enum vbox_answer vbox_find_meeting(const struct vbox *boxes, size_t count, size_t *first_out, size_t *second_out)
{
    if (count < 2)
        return VBOX_NO;
    struct part_set set = {.boxes = boxes, .index = number_all(count), .count = count};
    if (set.index == NULL)
        return VBOX_NOMEM;
    struct vbox hull = boxes[0];
    vbox_widen(boxes, count, &hull);
    enum vbox_answer found = meeting_in(&set, &hull, first_out, second_out);
    free(set.index);
    return found;
}

/* ---- gaps --------------------------------------------------------------------- */

static bool holds_box(const struct vbox *outer, const struct vbox *inner)
{
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        if (inner->lo[d] < outer->lo[d] || inner->hi[d] > outer->hi[d])
            return false;
    }
    return true;
}

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
