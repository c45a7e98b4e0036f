/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_PIECES_H
#define SHUNT_EXECUTOR_PIECES_H

/**
 * Which pieces each message of a device carries: its packs or unpacks, by their places in the message. A verified
 * plan has the same pieces at both ends, in the same order.
 */

#include <stdbool.h>

#include "shunt/plan.h"

struct pieces {
    uint32_t *ops;   /* indices of packs and unpacks */
    uint32_t *begin; /* message_count + 1: pieces of message i are ops[begin[i] .. begin[i + 1]) */
};

/** @return false when out of memory; release with pieces_finish() */
bool pieces_init(struct pieces *pieces, const struct shunt_plan_part *part, uint32_t round_count);
void pieces_finish(struct pieces *pieces);

/** Where in its slot a pack writes, or an unpack reads. */
uint64_t pieces_offset(const struct shunt_plan_op *op);

/** The piece as it lies in the slot: dense. */
const struct shunt_plan_view *pieces_view(const struct shunt_plan_part *part, const struct shunt_plan_op *op);
uint64_t pieces_bytes(const struct shunt_plan_part *part, const struct shunt_plan_op *op);

#endif
