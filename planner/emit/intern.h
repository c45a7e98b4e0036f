/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_INTERN_H
#define SHUNT_PLANNER_INTERN_H

/** Tables of records in which equal records share one number: views and corners of a part. */

#include "shunt/plan_format.h"
#include "util/arena.h"

struct intern {
    struct arena *arena;
    size_t record_bytes;
    uint32_t count;
    size_t capacity;
    unsigned char *records;
    uint32_t *slots;   /* number + 1; 0: free */
    size_t slot_count; /* power of two */
};

void intern_init(struct intern *intern, struct arena *arena, size_t record_bytes);

/** Number of an equal record, added when new. Padding inside the record must be zero. */
uint32_t intern_add(struct intern *intern, const void *record);

/** The same of views, of which the unused dimensions are all alike: they are not looked at. */
uint32_t intern_add_view(struct intern *intern, const struct shunt_plan_view *view);

#endif
