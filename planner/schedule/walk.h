/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_WALK_H
#define SHUNT_PLANNER_WALK_H

/**
 * The pieces of unit after unit. Of a job in several groups or stages most pieces are in other chunks than the one at
 * hand: they are sorted by chunk once, in place of being asked for each chunk. What a cell's slice has is counted once
 * for all of its takers.
 *
 *     walk_init(arena, problem, &walk);
 *     for (each unit, in any order) {
 *         walk_unit(arena, &walk, unit);
 *         for (uint32_t i = 0; i < walk.count; i++)
 *             use(walk_piece(&walk, i));
 *     }
 */

#include "schedule/rounds.h"

/** The pieces of a job by stage, then group: those of bin b are [begin[b], begin[b + 1]). */
struct walk_job {
    uint32_t groups, stages; /* as they are sorted; 0: not yet */
    uint32_t *begin, *pieces;
};

/** What all pieces of a job have in common. */
struct walk_item {
    uint32_t wire_bytes, read_bytes, new_bytes; /* of an element: when sent, where it is read, on the new side */
    bool old_in_host, fresh_in_host;            /* what is read, on either side; an old buffer may be parked as well */
    bool to_host;
    uint32_t read; /* the item that is read */
};

struct walk {
    const struct problem *problem;
    struct chunk chunk;      /* at hand */
    struct walk_item item;   /* of its job */
    const uint32_t *sources; /* of its job, by piece: route_at() */
    uint32_t count;          /* of its pieces */
    const uint32_t *pieces;  /* ascending; NULL: all */
    struct walk_job *jobs;
    uint32_t serial; /* of the unit at hand */
    struct walk_cell {
        uint32_t serial;
        int64_t elements;
    } * cells; /* by number */
};

void walk_init(struct arena *arena, const struct problem *problem, struct walk *walk_out);

/** Go to a unit. */
void walk_unit(struct arena *arena, struct walk *walk, const struct unit *unit);

static inline uint32_t walk_piece(const struct walk *walk, uint32_t i)
{
    return walk->pieces == NULL ? i : walk->pieces[i];
}

/** Elements of a cell in the slice at hand. */
int64_t walk_slice_elements(struct walk *walk, const struct route_cell *cell);

static inline int64_t walk_elements(struct walk *walk, const struct route_cell *cell)
{
    return walk->chunk.slices == 1 ? cell->elements : walk_slice_elements(walk, cell);
}

#endif
