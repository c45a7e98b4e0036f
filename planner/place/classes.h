/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACE_CLASSES_H
#define SHUNT_PLANNER_PLACE_CLASSES_H

/** What is alike, so that it is looked at once. */

#include "space/side.h"

/**
 * Ranks that hold the same variant of every placement are of one class. Classes count up in the order of their first
 * ranks.
 *
 * @return their number
 */
uint32_t classes_of_ranks(struct arena *arena, const struct side *side, uint32_t *class_out);

/** Equal rows of a table of `count` rows, each of `width` numbers, are of one class. @return the number of classes */
uint32_t classes_of_rows(struct arena *arena, uint32_t count, uint32_t width, const uint32_t *table,
                         uint32_t *class_out);

/** Members of classes: those of class c are members[begin[c], begin[c + 1]), ascending. */
struct class_index {
    uint32_t *begin, *members;
};

struct class_index classes_index(struct arena *arena, uint32_t class_count, uint32_t count, const uint32_t *class_of);

#endif
