/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/part_build.h"

#include <stdlib.h>

static int compare_peers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/**
 * Messages of one direction and round, one per peer, by ascending peer: sizes from their transfers,
 * then places in the slot from *cursor on. base[peer] is where the peer's message starts.
 */
static void emit_messages(struct part *part, const struct transfer_list *list, uint32_t begin, uint32_t end,
                          enum shunt_plan_direction direction, uint32_t slot, uint64_t *cursor)
{
    uint64_t *size = part->input->message_bytes;
    uint64_t *base = direction == SHUNT_SEND ? part->input->send_base : part->input->recv_base;
    uint32_t count = 0;
    for (uint32_t n = begin; n < end; n++) {
        const struct transfer *transfer = &part->input->lowered->transfers[list->transfers[n]];
        if (transfer->source == transfer->taker)
            continue;
        uint32_t peer = direction == SHUNT_SEND ? transfer->taker : transfer->source;
        uint32_t elem_bytes = part->space->items[transfer->item].wire_bytes;
        if (size[peer] == 0)
            part->input->peers[count++] = peer;
        size[peer] =
            transfer->message_offset + problem_aligned_bytes((int64_t)(transfer->bytes / elem_bytes), elem_bytes);
    }
    if (count > 1)
        qsort(part->input->peers, count, sizeof(*part->input->peers), compare_peers);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t peer = part->input->peers[i];
        struct shunt_plan_message *message = VEC_PUSH(part->arena, &part->messages);
        message->peer = peer;
        message->direction = direction;
        message->buffer = SHUNT_PLAN_STAGING + slot;
        message->offset = base[peer] = *cursor;
        message->bytes = size[peer];
        *cursor += size[peer];
        size[peer] = 0;
    }
}

/** End of the transfers of `round` in a list, from `begin` on. */
static uint32_t round_end(const struct part *part, const struct transfer_list *list, uint32_t begin, uint32_t round)
{
    while (begin < list->count && part->input->lowered->transfers[list->transfers[begin]].round == round)
        begin++;
    return begin;
}

void part_emit_rounds(struct part *part)
{
    const struct lowered *lowered = part->input->lowered;
    const struct transfer_list *reads = &lowered->reads[part->device], *writes = &lowered->writes[part->device];
    uint32_t read = 0, write = 0;
    for (uint32_t k = 0; k < part->round_count; k++) {
        uint32_t slot = k % part->input->rounds->depth;
        uint32_t read_end = round_end(part, reads, read, k), write_end = round_end(part, writes, write, k);
        uint64_t cursor = 0;
        part->rounds[k].op_begin = (uint32_t)part->ops.count;
        part->rounds[k].message_begin = (uint32_t)part->messages.count;
        emit_messages(part, reads, read, read_end, SHUNT_SEND, slot, &cursor);
        emit_messages(part, writes, write, write_end, SHUNT_RECV, slot, &cursor);
        part->staging[slot] = cursor > part->staging[slot] ? cursor : part->staging[slot];
        while (part->next_fill < part->fills.count && part->fills.items[part->next_fill].round == k)
            part_emit_fill(part, &part->fills.items[part->next_fill++]);
        if (k == 0)
            part_emit_parks(part);
        for (; read < read_end; read++)
            part_emit_read(part, &lowered->transfers[reads->transfers[read]], slot);
        part->rounds[k].unpack_begin = (uint32_t)part->ops.count;
        for (; write < write_end; write++) {
            const struct transfer *transfer = &lowered->transfers[writes->transfers[write]];
            if (transfer->source != transfer->taker)
                part_emit_unpack(part, transfer, slot);
        }
    }
    struct shunt_plan_round *sentinel = &part->rounds[part->round_count];
    sentinel->op_begin = sentinel->unpack_begin = (uint32_t)part->ops.count;
    sentinel->message_begin = (uint32_t)part->messages.count;
}
