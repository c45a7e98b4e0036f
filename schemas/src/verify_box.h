/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_VERIFY_BOX_H
#define SHUNT_SCHEMAS_VERIFY_BOX_H

/**
 * Sets of boxes: do they tile, do two of them meet, do they leave a gap. A box is half-open
 * per dimension; unused dimensions are [0, 1). Answers are exact and come with a witness.
 * verify_box.c: single boxes; verify_box_set.c: equal ones once; verify_tiles.c; verify_halving.c: meetings and gaps.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shunt/types.h"

struct vbox {
    int64_t lo[SHUNT_MAX_DIMS];
    int64_t hi[SHUNT_MAX_DIMS];
};

/** A growing list of boxes; zero-initialised, released with vbox_list_finish(). */
struct vbox_list {
    struct vbox *at;
    size_t count, room;
};

/** False if out of memory. */
bool vbox_list_add(struct vbox_list *list, const struct vbox *box);
void vbox_list_finish(struct vbox_list *list);

/** Boxes numbered from 0 in the order of their coming, equal ones once; begun with vbox_set_begin(). */
struct vbox_set {
    struct vbox_list list;
    uint32_t *slots; /* hash table: number + 1, 0 if empty */
    size_t slot_count;
    uint64_t key[2];
};

/** False if there are no random numbers. */
bool vbox_set_begin(struct vbox_set *set);
/** Number of a box, which is added if it is new. False if out of memory. */
bool vbox_set_add(struct vbox_set *set, const struct vbox *box, uint32_t *number_out);
void vbox_set_finish(struct vbox_set *set);

/** Grow hull so that it contains all boxes. */
void vbox_widen(const struct vbox *boxes, size_t count, struct vbox *hull);

enum vbox_answer {
    VBOX_NO = 0,
    VBOX_YES,
    VBOX_NOMEM,
};

bool vbox_meet(const struct vbox *a, const struct vbox *b);
bool vbox_equal(const struct vbox *a, const struct vbox *b);
bool vbox_holds_point(const struct vbox *box, const int64_t *point);
uint64_t vbox_volume(const struct vbox *box);
/** Elements that two boxes share. */
uint64_t vbox_shared(const struct vbox *a, const struct vbox *b);

/**
 * Is every point in exactly as many boxes of `plus` as of `minus`? With one box in `minus`:
 * does `plus` tile it. All coordinates are >= 0, and the product over the dimensions of
 * (greatest hi + 1) is below 2^62.
 *
 * @param point_out   on VBOX_NO: the first point, in row-major order, where the counts differ
 * @param excess_out  on VBOX_NO: boxes of plus minus boxes of minus at that point
 */
enum vbox_answer vbox_tiles(const struct vbox *plus, size_t plus_count, const struct vbox *minus, size_t minus_count,
                            int64_t *point_out, int64_t *excess_out);

/** Do two of the boxes meet? On VBOX_YES the outs say which, first_out < second_out. */
enum vbox_answer vbox_find_meeting(const struct vbox *boxes, size_t count, size_t *first_out, size_t *second_out);

/** Is a part of region in none of the boxes? On VBOX_YES gap_out is one such part. */
enum vbox_answer vbox_find_gap(const struct vbox *region, const struct vbox *boxes, size_t count, struct vbox *gap_out);

#endif
