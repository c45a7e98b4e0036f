/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_DIRECT_H
#define SHUNT_EXECUTOR_DIRECT_H

/**
 * Large pieces that go from buffer to buffer, without staging.
 *
 * Where a transport takes several messages between two devices in one group, a message of the plan is cut into segments:
 * each piece of at least DIRECT_BYTES is one, and so is what lies between two of those. Both ends cut alike, as they have
 * the same pieces. Each end then decides for itself: a piece that is contiguous in its buffer, and not cast, is sent from
 * there or received there, and its pack or unpack is left out; any other one goes through the slot.
 *
 *     message   |aaaaaaaaaa|b|c|dddddddddddd|      segments   a, bc, d
 *
 * A source is read while its round is on the wire, and no longer only before. Nothing writes to it meanwhile: elements of
 * the old side are never written, and those of the new side once, in an earlier round. Scratch buffers may be written
 * again, so what comes from them or goes to them is staged.
 */

#include "replay/engine.h"

#define DIRECT_BYTES (UINT64_C(64) << 10)

struct direct {
    struct transport_message *messages; /* all segments, round after round; within one by direction and peer */
    uint32_t *round_begin;              /* round_count + 1 */
    uint32_t *ops;                      /* per segment: the op that is left out; UINT32_MAX: through the slot */
    uint64_t *offsets;                  /* per segment, in its slot */
    uint32_t *plan_messages;            /* per segment, its message in the plan */
    bool *left_out;                     /* per op */
    uint32_t max_messages;              /* of one round */
};

/** @param least  bytes of a piece that is large. @return false when out of memory */
bool direct_create(const struct engine *engine, uint64_t least, struct direct **direct_out);
void direct_destroy(struct direct *direct); /* accepts NULL */

/** Point the segments of a round at their memory: all that it needs is there. */
void direct_point(struct engine *engine, uint32_t round);

#endif
