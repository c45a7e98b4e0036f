/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/direct.h"

#include <stdlib.h>

#include "replay/pieces.h"

/* What is being built. */
struct cutter {
    const struct engine *engine;
    struct direct *direct;
    struct pieces pieces;
    uint64_t least;
    uint32_t count; /* segments so far */
};

static bool is_contiguous(const struct shunt_plan_view *view)
{
    return shunt_plan_view_extent(view) == shunt_plan_view_elements(view) * view->elem_bytes;
}

static bool needs_no_slot(const struct engine *engine, const struct shunt_plan_op *op)
{
    bool packs = op->kind == SHUNT_OP_PACK;
    uint32_t buffer = packs ? op->src_buffer : op->dst_buffer;
    return op->cast == SHUNT_CAST_NONE && engine->part.buffers[buffer].side != SHUNT_SIDE_SCRATCH &&
           is_contiguous(&engine->part.views[packs ? op->src_view : op->dst_view]);
}

static void add_segment(struct cutter *cutter, uint32_t message, uint64_t offset, uint64_t bytes, uint32_t op)
{
    struct direct *direct = cutter->direct;
    const struct shunt_plan_message *m = &cutter->engine->part.messages[message];
    direct->messages[cutter->count] =
        (struct transport_message){.peer = m->peer, .direction = m->direction, .bytes = bytes};
    direct->offsets[cutter->count] = offset;
    direct->plan_messages[cutter->count] = message;
    direct->ops[cutter->count] = op;
    if (op != UINT32_MAX)
        direct->left_out[op] = true;
    cutter->count++;
}

/* What lies before a large piece, or behind the last one. */
static void add_rest(struct cutter *cutter, uint32_t message, uint64_t begin, uint64_t end)
{
    if (end > begin)
        add_segment(cutter, message, begin, end - begin, UINT32_MAX);
}

static void cut_message(struct cutter *cutter, uint32_t message)
{
    const struct engine *engine = cutter->engine;
    const struct shunt_plan_message *m = &engine->part.messages[message];
    uint64_t at = m->offset;
    for (uint32_t i = cutter->pieces.begin[message]; i < cutter->pieces.begin[message + 1]; i++) {
        uint32_t index = cutter->pieces.ops[i];
        const struct shunt_plan_op *op = &engine->part.ops[index];
        uint64_t bytes = pieces_bytes(&engine->part, op), offset = pieces_offset(op);
        if (bytes < cutter->least || offset < at || offset + bytes > m->offset + m->bytes)
            continue;
        add_rest(cutter, message, at, offset);
        add_segment(cutter, message, offset, bytes, needs_no_slot(engine, op) ? index : UINT32_MAX);
        at = offset + (bytes + SHUNT_PLAN_MESSAGE_ALIGN - 1) / SHUNT_PLAN_MESSAGE_ALIGN * SHUNT_PLAN_MESSAGE_ALIGN;
    }
    add_rest(cutter, message, at, m->offset + m->bytes);
}

static void cut_all(struct cutter *cutter)
{
    const struct engine *engine = cutter->engine;
    for (uint32_t k = 0; k < engine->header->round_count; k++) {
        uint32_t first = cutter->count;
        cutter->direct->round_begin[k] = first;
        for (uint32_t m = engine->part.rounds[k].message_begin; m < engine->part.rounds[k + 1].message_begin; m++)
            cut_message(cutter, m);
        if (cutter->count - first > cutter->direct->max_messages)
            cutter->direct->max_messages = cutter->count - first;
    }
    cutter->direct->round_begin[engine->header->round_count] = cutter->count;
}

bool direct_create(const struct engine *engine, uint64_t least, struct direct **direct_out)
{
    const struct shunt_plan_part_header *part = engine->part.header;
    size_t most = (size_t)part->message_count + 2 * (size_t)part->op_count + 1; /* before and behind each piece */
    struct cutter cutter = {.engine = engine, .least = least, .direct = calloc(1, sizeof(*cutter.direct))};
    struct direct *direct = cutter.direct;
    if (direct == NULL || !pieces_init(&cutter.pieces, &engine->part, engine->header->round_count)) {
        free(direct);
        return false;
    }
    direct->messages = calloc(most, sizeof(*direct->messages));
    direct->round_begin = calloc((size_t)engine->header->round_count + 1, sizeof(uint32_t));
    direct->ops = calloc(most, sizeof(uint32_t));
    direct->offsets = calloc(most, sizeof(uint64_t));
    direct->plan_messages = calloc(most, sizeof(uint32_t));
    direct->left_out = calloc((size_t)part->op_count + 1, sizeof(bool));
    bool enough = direct->messages != NULL && direct->round_begin != NULL && direct->ops != NULL &&
                  direct->offsets != NULL && direct->plan_messages != NULL && direct->left_out != NULL;
    if (enough)
        cut_all(&cutter);
    pieces_finish(&cutter.pieces);
    if (!enough) {
        direct_destroy(direct);
        return false;
    }
    *direct_out = direct;
    return true;
}

void direct_destroy(struct direct *direct)
{
    if (direct == NULL)
        return;
    free(direct->messages);
    free(direct->round_begin);
    free(direct->ops);
    free(direct->offsets);
    free(direct->plan_messages);
    free(direct->left_out);
    free(direct);
}

void direct_point(struct engine *engine, uint32_t round)
{
    struct direct *direct = engine->segments;
    for (uint32_t i = direct->round_begin[round]; i < direct->round_begin[round + 1]; i++) {
        uint32_t slot = engine->part.messages[direct->plan_messages[i]].buffer - SHUNT_PLAN_STAGING;
        char *at = (char *)engine->staging[slot] + direct->offsets[i];
        if (direct->ops[i] != UINT32_MAX) {
            const struct shunt_plan_op *op = &engine->part.ops[direct->ops[i]];
            at = op->kind == SHUNT_OP_PACK ? (char *)engine->buffers[op->src_buffer].data + op->src_offset
                                           : (char *)engine->buffers[op->dst_buffer].data + op->dst_offset;
        }
        direct->messages[i].data = at;
        direct->messages[i].arrived = 0;
    }
}
