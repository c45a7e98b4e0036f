/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/pieces.h"

#include <stdlib.h>

/* A message, or a piece, and where it starts in its slot. */
struct place {
    uint64_t offset;
    uint32_t index;
};

struct finder {
    const struct shunt_plan_part *part;
    struct pieces *pieces;
    struct place *messages, *ops; /* of one round and direction */
    uint32_t *found;              /* per message: pieces so far */
};

uint64_t pieces_offset(const struct shunt_plan_op *op)
{
    return op->kind == SHUNT_OP_UNPACK ? op->src_offset : op->dst_offset;
}

const struct shunt_plan_view *pieces_view(const struct shunt_plan_part *part, const struct shunt_plan_op *op)
{
    return &part->views[op->kind == SHUNT_OP_UNPACK ? op->src_view : op->dst_view];
}

uint64_t pieces_bytes(const struct shunt_plan_part *part, const struct shunt_plan_op *op)
{
    const struct shunt_plan_view *view = pieces_view(part, op);
    return shunt_plan_view_elements(view) * view->elem_bytes;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static uint32_t list_messages(const struct finder *finder, uint32_t round, uint32_t direction)
{
    const struct shunt_plan_round *r = &finder->part->rounds[round];
    uint32_t count = 0;
    for (uint32_t i = r->message_begin; i < r[1].message_begin; i++) {
        if (finder->part->messages[i].direction == direction)
            finder->messages[count++] = (struct place){finder->part->messages[i].offset, i};
    }
    if (count > 1)
        qsort(finder->messages, count, sizeof(struct place), compare_places);
    return count;
}

static uint32_t list_ops(const struct finder *finder, uint32_t round, uint32_t direction)
{
    const struct shunt_plan_round *r = &finder->part->rounds[round];
    uint32_t begin = direction == SHUNT_SEND ? r->op_begin : r->unpack_begin;
    uint32_t end = direction == SHUNT_SEND ? r->unpack_begin : r[1].op_begin;
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; i++) {
        const struct shunt_plan_op *op = &finder->part->ops[i];
        if (op->kind == SHUNT_OP_PACK || op->kind == SHUNT_OP_UNPACK)
            finder->ops[count++] = (struct place){pieces_offset(op), i};
    }
    if (count > 1)
        qsort(finder->ops, count, sizeof(struct place), compare_places);
    return count;
}

/* Counts at first; then, with the table's beginnings known, files them. What is in no message, as an unproved plan may
   have it, is left out. */
static void walk_half(struct finder *finder, uint32_t round, uint32_t direction, bool files)
{
    uint32_t message_count = list_messages(finder, round, direction), op_count = list_ops(finder, round, direction);
    uint32_t m = 0;
    for (uint32_t i = 0; i < op_count; i++) {
        while (m + 1 < message_count && finder->messages[m + 1].offset <= finder->ops[i].offset)
            m++;
        if (m == message_count || finder->ops[i].offset < finder->messages[m].offset)
            continue;
        uint32_t message = finder->messages[m].index;
        if (files)
            finder->pieces->ops[finder->pieces->begin[message] + finder->found[message]] = finder->ops[i].index;
        finder->found[message]++;
    }
}

static void walk_all(struct finder *finder, uint32_t round_count, bool files)
{
    for (uint32_t i = 0; i < finder->part->header->message_count; i++)
        finder->found[i] = 0;
    for (uint32_t k = 0; k < round_count; k++) {
        walk_half(finder, k, SHUNT_SEND, files);
        walk_half(finder, k, SHUNT_RECV, files);
    }
}

bool pieces_init(struct pieces *pieces, const struct shunt_plan_part *part, uint32_t round_count)
{
    uint32_t messages = part->header->message_count, ops = part->header->op_count;
    struct finder finder = {.part = part, .pieces = pieces};
    *pieces = (struct pieces){.ops = calloc((size_t)ops + 1, sizeof(uint32_t)),
                              .begin = calloc((size_t)messages + 1, sizeof(uint32_t))};
    finder.messages = calloc((size_t)messages + 1, sizeof(struct place));
    finder.ops = calloc((size_t)ops + 1, sizeof(struct place));
    finder.found = calloc((size_t)messages + 1, sizeof(uint32_t));
    bool enough = pieces->ops != NULL && pieces->begin != NULL && finder.messages != NULL && finder.ops != NULL &&
                  finder.found != NULL;
    if (enough) {
        walk_all(&finder, round_count, false);
        for (uint32_t i = 0; i < messages; i++)
            pieces->begin[i + 1] = pieces->begin[i] + finder.found[i];
        walk_all(&finder, round_count, true);
    } else {
        pieces_finish(pieces);
    }
    free(finder.messages);
    free(finder.ops);
    free(finder.found);
    return enough;
}

void pieces_finish(struct pieces *pieces)
{
    free(pieces->ops);
    free(pieces->begin);
    *pieces = (struct pieces){0};
}
