/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_BALANCE_H
#define SHUNT_PLANNER_BALANCE_H

/**
 * Rounds with even ports: every unit goes to the round where it raises the load of its ports least, so that the
 * busiest port of each round has about its share of the whole. No order among units is kept, so old buffers are
 * held to the end: memory must allow for both sides.
 */

#include "schedule/rounds.h"

struct balance_options {
    uint32_t depth;        /* staging slots */
    bool hold_old;         /* every old buffer lives to the end; otherwise units keep near an even order */
    bool quick;            /* one pass over the units */
    uint32_t round_factor; /* how many times the rounds that the staging asks for */
    uint64_t slot_bytes;   /* size of a staging slot; a device's own largest chunk may exceed it */
    uint64_t chunk_bytes;  /* as in struct rounds_options */
};

/**
 * @return false when the units would not fit in any number of rounds that was tried
 */
bool balance_build(struct arena *arena, const struct problem *problem, const struct balance_options *options,
                   struct rounds *rounds_out);

#endif
