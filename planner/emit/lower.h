/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_LOWER_H
#define SHUNT_PLANNER_LOWER_H

/** From scheduled units to transfers: every slice with its two devices, its round and its place in the message. */

#include "schedule/rounds.h"

struct transfer {
    uint32_t round;
    uint32_t source, taker; /* devices; equal: a local copy */
    uint32_t item;
    const struct route_cell *cell;
    uint16_t slice, slices;  /* ROUNDS_MAX_SLICES at most */
    bool fresh;              /* a local copy from the new buffer of what the item is derived from */
    bool forwarded;          /* from the new buffer of the item itself */
    bool passing, passed;    /* into, and from, scratch memory of a device that only sends it on */
    uint64_t bytes;          /* payload; of a local copy, what it writes */
    uint64_t written;        /* into the new buffer, or the scratch memory */
    uint64_t message_offset; /* inside the message of (round, source, taker); 0 for a local copy */
};

/** Numbers of transfers, in the order of the rounds. */
struct transfer_list {
    uint32_t count;
    uint32_t *transfers;
};

struct lowered {
    uint32_t transfer_count;
    struct transfer *transfers;   /* by round, then by place in the schedule */
    struct transfer_list *reads;  /* by device: transfers that it sends, and its local copies */
    struct transfer_list *writes; /* by device: transfers that it receives, and its local copies */
    uint32_t *item_first_round;   /* by item: round of the job's first unit; UINT32_MAX without a job */
};

/** Box of a transfer: the slice of its cell. */
struct box transfer_box(const struct transfer *transfer);

struct lowered *lower_build(struct arena *arena, const struct problem *problem, const struct rounds *rounds);

#endif
