/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_TRACK_H
#define SHUNT_EXECUTOR_TRACK_H

/** One bit per element of a buffer: which elements were touched. */

#include <stdbool.h>

#include "shunt/plan.h"

struct track {
    uint64_t *words;
    uint64_t elems;
    uint32_t elem_bytes;
};

/** @return false when out of memory; release with track_finish() */
bool track_init(struct track *track, uint64_t elems, uint32_t elem_bytes);
void track_finish(struct track *track);
void track_clear(struct track *track);

/** Mark the elements of a box that starts `offset` bytes into the buffer. */
void track_mark_box(struct track *track, uint64_t offset, const struct shunt_plan_view *view);

uint64_t track_count(const struct track *track);

/** First unmarked (or marked, if `marked`) element at or behind `from`; elems if there is none. */
uint64_t track_find(const struct track *track, uint64_t from, bool marked);

#endif
