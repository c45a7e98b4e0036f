/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Messages compared without a look at the other end. Each end of a message is hashed with what it
 * says: who to whom, when, how many bytes, and for each piece its place, its shape and which elements
 * of the space it is. Sends add up to one sum, receives to another. Equal sums mean equal multisets
 * of messages: the hash is SipHash-2-4 under two keys drawn when the
 * walk begins, so that whoever made the plan could not know them, and 128 bits in all.
 */
#include "verify_internal.h"
#include "verify_sip.h"

bool vdigest_begin(struct vdigest *digest)
{
    *digest = (struct vdigest){.active = true};
    return vsip_draw(&digest->keys[0][0], 4);
}

void vdigest_piece(struct vdigest *digest, struct vdigest_message *message, const struct vdigest_piece *piece)
{
    const struct shunt_plan_view *view = piece->view;
    uint32_t count = 4;
    uint64_t words[4 + 2 * SHUNT_MAX_DIMS] = {piece->distance, (uint64_t)view->ndim << 32 | view->elem_bytes,
                                              piece->buffer->tensor,
                                              (uint64_t)shunt_plan_origin_state(piece->buffer) << 32 |
                                                  shunt_plan_origin_dtype(piece->buffer) << 8 | piece->dtype};
    for (uint32_t d = 0; d < view->ndim; d++) { /* further ones are 1 element long, from 0 */
        words[count++] = (uint64_t)view->shape[d];
        words[count++] = (uint64_t)piece->lo[d];
    }
    for (int i = 0; i < 2; i++) { /* each piece under what came before it */
        uint64_t key[2] = {digest->keys[i][0] ^ message->state[i], digest->keys[i][1]};
        message->state[i] = vsip_words(key, words, count);
    }
    message->pieces++;
}

/* Add 128 bits. */
static void add_term(uint64_t sum[2], const uint64_t term[2])
{
    unsigned carry = __builtin_add_overflow(sum[0], term[0], &sum[0]);
    sum[1] += term[1] + carry;
}

void vdigest_message(struct vdigest *digest, const struct vdigest_message *message, uint32_t direction)
{
    const uint64_t ends = (uint64_t)message->from << 32 | message->to;
    uint64_t term[2];
    for (int i = 0; i < 2; i++) {
        uint64_t words[] = {
            ends, message->round, message->bytes, message->pieces, message->state[0], message->state[1]};
        term[i] = vsip_words(digest->keys[i], words, sizeof(words) / sizeof(words[0]));
    }
    add_term(direction == SHUNT_SEND ? digest->sent : digest->received, term);
}

bool vdigest_agrees(const struct vdigest *digest)
{
    return !digest->odd && digest->sent[0] == digest->received[0] && digest->sent[1] == digest->received[1];
}

void vdigest_merge(struct vdigest *digest, const struct vdigest *other)
{
    digest->odd = digest->odd || other->odd;
    add_term(digest->sent, other->sent);
    add_term(digest->received, other->received);
}
