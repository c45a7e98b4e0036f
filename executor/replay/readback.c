/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/readback.h"

#include <stdlib.h>

#define PIECE_ALIGN 16u /* what the kernel moves at once */

static struct shunt_plan_view dense_view(const struct shunt_plan_view *view)
{
    struct shunt_plan_view dense = *view;
    int64_t stride = view->elem_bytes;
    for (uint32_t d = view->ndim; d-- > 0;) {
        dense.stride[d] = stride;
        stride *= view->shape[d];
    }
    return dense;
}

/* Places in the area: one behind the other, from the start for each round and direction. */
static void place_pieces(struct readback *readback, const struct engine *engine, const struct pieces *pieces)
{
    const struct shunt_plan_part *part = &engine->part;
    for (uint32_t k = 0; k < engine->header->round_count; k++) {
        uint64_t used[2] = {0, 0};
        for (uint32_t m = part->rounds[k].message_begin; m < part->rounds[k + 1].message_begin; m++) {
            uint64_t *at = &used[part->messages[m].direction == SHUNT_SEND];
            for (uint32_t i = pieces->begin[m]; i < pieces->begin[m + 1]; i++) {
                readback->offsets[i] = *at;
                *at += (pieces_bytes(part, &part->ops[pieces->ops[i]]) + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
            }
        }
        for (uint32_t side = 0; side < 2; side++)
            readback->area_bytes = used[side] > readback->area_bytes ? used[side] : readback->area_bytes;
    }
}

bool readback_init(struct readback *readback, const struct engine *engine, const struct pieces *pieces,
                   bool (*reads_source)(const struct shunt_plan_op *op))
{
    const struct shunt_plan_part *part = &engine->part;
    uint32_t count = pieces->begin[part->header->message_count];
    *readback = (struct readback){.work = calloc((size_t)count + 1, sizeof(struct device_work)),
                                  .dense = calloc((size_t)count + 1, sizeof(struct shunt_plan_view)),
                                  .offsets = calloc((size_t)count + 1, sizeof(uint64_t)),
                                  .count = count};
    if (readback->work == NULL || readback->dense == NULL || readback->offsets == NULL)
        return false;
    place_pieces(readback, engine, pieces);
    for (uint32_t i = 0; i < count; i++) {
        const struct shunt_plan_op *op = &part->ops[pieces->ops[i]];
        readback->dense[i] = dense_view(pieces_view(part, op));
        readback->work[i].dst = (struct device_end){
            .base = engine_program_base_count(engine), .offset = readback->offsets[i], .view = &readback->dense[i]};
        readback->work[i].src = reads_source(op)
                                    ? engine_program_end_of(engine, op->src_buffer, op->src_offset, op->src_view)
                                    : engine_program_end_of(engine, op->dst_buffer, op->dst_offset, op->dst_view);
    }
    return true;
}

void readback_finish(struct readback *readback)
{
    free(readback->work);
    free(readback->dense);
    free(readback->offsets);
    *readback = (struct readback){0};
}

enum shunt_status readback_begin(struct readback *readback, struct engine *engine, struct shunt_err *err)
{
    const struct device_ops *ops = engine->on->ops;
    uint32_t area = engine_program_base_count(engine);
    enum shunt_status st = ops->alloc_host(engine->on, readback->area_bytes, (void **)&readback->area, err);
    if (st == SHUNT_OK)
        st = ops->program_create(engine->on, engine->stream, readback->work, readback->count, area + 1,
                                 &readback->program, err);
    if (st != SHUNT_OK)
        return st;
    engine->stats.table_bytes += ops->program_bytes(readback->program);
    ops->program_bind(readback->program, area, readback->area);
    return SHUNT_OK;
}

void readback_end(struct readback *readback, struct engine *engine)
{
    const struct device_ops *ops = engine->on->ops;
    if (readback->program != NULL && !engine->stuck)
        ops->program_destroy(engine->on, readback->program);
    if (readback->area != NULL && !engine->stuck)
        ops->free_host(engine->on, readback->area, readback->area_bytes);
    readback->program = NULL;
    readback->area = NULL;
}

void readback_bind(struct readback *readback, const struct engine *engine, uint32_t base, void *data)
{
    if (readback->program != NULL)
        engine->on->ops->program_bind(readback->program, base, data);
}

enum shunt_status readback_bring(struct readback *readback, const struct engine *engine, uint32_t begin, uint32_t end,
                                 struct shunt_err *err)
{
    if (begin == end)
        return SHUNT_OK;
    enum shunt_status st = engine->on->ops->program_run(engine->on, readback->program, begin, end, err);
    if (st == SHUNT_OK)
        st = engine->on->ops->stream_finish(engine->on, engine->stream, engine->timeout_seconds, err);
    return st;
}

const void *readback_piece(const struct readback *readback, uint32_t piece)
{
    return readback->area + readback->offsets[piece];
}
