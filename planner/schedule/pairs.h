/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PAIRS_H
#define SHUNT_PLANNER_PAIRS_H

/** Which pairs of a sender and a receiver have a message, round by round: an open-addressing table. */

#include <stdbool.h>

#include "schedule/rounds.h"

struct pair_slot {
    uint64_t pair; /* source << 32 | taker, plus 1; 0: free */
    uint32_t round;
    uint64_t bytes; /* of the message of that round */
};

/** All zero: empty. */
struct pairs {
    struct pair_slot *slots;
    size_t slot_count, used; /* slot_count: 0 or a power of two */
};

/** @return whether the pair was not there in this round yet */
bool pairs_add(struct arena *arena, struct pairs *pairs, uint32_t source, uint32_t taker, uint32_t round);

/** Make the message of a pair in a round larger. @return its bytes so far: `bytes` if it was not there yet */
uint64_t pairs_extend(struct arena *arena, struct pairs *pairs, uint32_t source, uint32_t taker, uint32_t round,
                      uint64_t bytes);

/** Add one to both devices' `messages` for each pair of a unit that was not there in this round yet. */
void pairs_add_unit(struct arena *arena, struct pairs *pairs, const struct problem *problem, const struct unit *unit,
                    uint32_t round, uint32_t *messages);

#endif
