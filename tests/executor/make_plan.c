/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writes a plan for tests and measurements, without the compiler: `tensors` matrices of [rows, cols]
 * whose rows lie over `from` ranks before the move and whose columns lie over `to` ranks after it, so
 * that everybody sends to everybody. Uneven cuts leave pads.
 *
 *     make_plan OUT FROM TO TENSORS ROWS COLS ROUNDS DEPTH [swap|wrong|host]
 *
 * `swap` makes the plan that leads back: columns before, rows after. `wrong` makes a plan that reads
 * well, and moves the wrong elements once. `host` keeps both sides in host memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_builder.h"

struct shape {
    uint32_t from, to, tensors, rounds, depth;
    int64_t rows, cols;
    bool swap, wrong, host;
};

struct cut {
    int64_t lo, hi, padded;
};

static struct cut cut_of(int64_t extent, uint32_t parts, uint32_t index)
{
    int64_t each = (extent + parts - 1) / parts;
    struct cut cut = {.lo = each * index, .hi = each * (index + 1), .padded = each};
    cut.lo = cut.lo > extent ? extent : cut.lo;
    cut.hi = cut.hi > extent ? extent : cut.hi;
    return cut;
}

/* One side of one tensor: its dimension `dim` is cut over `parts` ranks. */
struct side {
    uint32_t parts;
    int dim;
};

/* Receives of a round: a device's sends come first in its table. */
struct received {
    uint32_t device, peer;
    uint64_t offset, bytes;
};

struct maker {
    struct build *build;
    struct shape shape;
    uint32_t devices;
    struct side old_side, new_side;
    struct received *received; /* devices x devices */
    uint32_t received_count;
    uint64_t *used; /* staging bytes of a device in the round at hand */
};

static void local_shape(const struct maker *m, const struct side *side, uint32_t rank, int64_t shape[2])
{
    shape[0] = m->shape.rows;
    shape[1] = m->shape.cols;
    shape[side->dim] = cut_of(shape[side->dim], side->parts, rank).padded;
}

static void add_side(struct maker *m, uint32_t tensor, const struct side *side, bool is_new, uint32_t round)
{
    for (uint32_t rank = 0; rank < side->parts; rank++) {
        int64_t shape[2], held[2] = {m->shape.rows, m->shape.cols}, lo[2] = {0, 0}, strides[2];
        struct cut cut = cut_of(held[side->dim], side->parts, rank);
        local_shape(m, side, rank, shape);
        held[side->dim] = cut.hi - cut.lo;
        lo[side->dim] = cut.lo;
        strides[0] = shape[1] * 2;
        strides[1] = 2;
        build_buffer(m->build, rank, tensor, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16,
                     is_new ? SHUNT_SIDE_TO : SHUNT_SIDE_FROM, 2, shape, round);
        if (cut.hi > cut.lo)
            build_holding(&m->build->parts[rank], 2, lo, held, strides, 0);
    }
}

/* Tensor t's buffers are the 2t-th and so on of each device that has them. */
static uint32_t buffer_index(const struct maker *m, uint32_t device, uint32_t tensor, bool is_new)
{
    uint32_t each = (device < m->old_side.parts) + (device < m->new_side.parts);
    return tensor * each + (is_new && device < m->old_side.parts);
}

static uint64_t region_offset(const struct maker *m, const struct side *side, uint32_t rank, const int64_t lo[2],
                              int64_t strides[2])
{
    int64_t shape[2], at[2] = {lo[0], lo[1]};
    local_shape(m, side, rank, shape);
    at[side->dim] -= cut_of(side->dim == 0 ? m->shape.rows : m->shape.cols, side->parts, rank).lo;
    strides[0] = shape[1] * 2;
    strides[1] = 2;
    return (uint64_t)(at[0] * strides[0] + at[1] * strides[1]);
}

struct piece {
    uint32_t src, dst, tensor, round;
    int64_t lo[2], size[2];
};

static void add_local(struct maker *m, const struct piece *p)
{
    struct build_part *part = &m->build->parts[p->src];
    int64_t src[2], dst[2];
    uint64_t from = region_offset(m, &m->old_side, p->src, p->lo, src);
    uint64_t to = region_offset(m, &m->new_side, p->dst, p->lo, dst);
    build_op(part, p->round, SHUNT_OP_COPY, buffer_index(m, p->src, p->tensor, false),
             build_view(part, 2, 2, p->size, src), from, buffer_index(m, p->dst, p->tensor, true),
             build_view(part, 2, 2, p->size, dst), to);
}

static void add_pack(struct maker *m, const struct piece *p, uint64_t offset)
{
    struct build_part *part = &m->build->parts[p->src];
    int64_t src[2];
    uint64_t from = region_offset(m, &m->old_side, p->src, p->lo, src);
    build_op(part, p->round, SHUNT_OP_PACK, buffer_index(m, p->src, p->tensor, false),
             build_view(part, 2, 2, p->size, src), from, SHUNT_PLAN_STAGING + p->round % m->shape.depth,
             build_view(part, 2, 2, p->size, NULL), offset);
}

static void add_unpack(struct maker *m, const struct piece *p, uint64_t offset)
{
    struct build_part *part = &m->build->parts[p->dst];
    int64_t dst[2];
    uint64_t to = region_offset(m, &m->new_side, p->dst, p->lo, dst);
    build_op(part, p->round, SHUNT_OP_UNPACK, SHUNT_PLAN_STAGING + p->round % m->shape.depth,
             build_view(part, 2, 2, p->size, NULL), offset, buffer_index(m, p->dst, p->tensor, true),
             build_view(part, 2, 2, p->size, dst), to);
}

static bool piece_of(const struct maker *m, uint32_t src, uint32_t dst, struct piece *p)
{
    int64_t extent[2] = {m->shape.rows, m->shape.cols};
    struct cut a = cut_of(extent[m->old_side.dim], m->old_side.parts, src);
    struct cut b = cut_of(extent[m->new_side.dim], m->new_side.parts, dst);
    p->src = src;
    p->dst = dst;
    p->lo[m->old_side.dim] = a.lo;
    p->size[m->old_side.dim] = a.hi - a.lo;
    p->lo[m->new_side.dim] = b.lo;
    p->size[m->new_side.dim] = b.hi - b.lo;
    return p->size[0] > 0 && p->size[1] > 0;
}

static uint64_t align16(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* All pieces from src to dst in one round: one message. */
static void add_message(struct maker *m, uint32_t round, uint32_t src, uint32_t dst, uint32_t first, uint32_t last)
{
    struct piece p = {.round = round};
    if (!piece_of(m, src, dst, &p))
        return;
    uint64_t bytes = 0;
    for (p.tensor = first; p.tensor < last; p.tensor++) {
        if (src == dst) {
            add_local(m, &p);
            continue;
        }
        add_pack(m, &p, m->used[src] + bytes);
        add_unpack(m, &p, m->used[dst] + bytes);
        bytes += align16((uint64_t)(p.size[0] * p.size[1]) * 2);
    }
    if (bytes == 0)
        return;
    build_message(m->build, src, round, SHUNT_SEND, dst, m->used[src], bytes);
    m->received[m->received_count++] = (struct received){dst, src, m->used[dst], bytes};
    m->used[src] += bytes;
    m->used[dst] += bytes;
}

static void add_fills(struct maker *m, uint32_t round, uint32_t tensor)
{
    for (uint32_t rank = 0; rank < m->new_side.parts; rank++) {
        int64_t shape[2], extent[2] = {m->shape.rows, m->shape.cols};
        int dim = m->new_side.dim;
        struct cut cut = cut_of(extent[dim], m->new_side.parts, rank);
        local_shape(m, &m->new_side, rank, shape);
        int64_t pads = cut.padded - (cut.hi - cut.lo), strides[2] = {shape[1] * 2, 2};
        if (pads == 0)
            continue;
        int64_t box[2] = {shape[0], shape[1]};
        box[dim] = pads;
        struct build_part *part = &m->build->parts[rank];
        build_op(part, round, SHUNT_OP_FILL, SHUNT_PLAN_NONE, 0, 0, buffer_index(m, rank, tensor, true),
                 build_view(part, 2, 2, box, strides), (uint64_t)((cut.hi - cut.lo) * strides[dim]));
    }
}

static void add_round(struct maker *m, uint32_t round, uint32_t first, uint32_t last)
{
    memset(m->used, 0, m->devices * sizeof(*m->used));
    m->received_count = 0;
    for (uint32_t t = first; t < last; t++)
        add_fills(m, round, t);
    for (uint32_t src = 0; src < m->old_side.parts; src++) {
        for (uint32_t dst = 0; dst < m->new_side.parts; dst++)
            add_message(m, round, src, dst, first, last);
    }
    for (uint32_t i = 0; i < m->received_count; i++)
        build_message(m->build, m->received[i].device, round, SHUNT_RECV, m->received[i].peer, m->received[i].offset,
                      m->received[i].bytes);
    for (uint32_t d = 0; d < m->devices; d++) {
        uint64_t *slot = &m->build->parts[d].staging_bytes[round % m->shape.depth];
        *slot = m->used[d] > *slot ? m->used[d] : *slot;
    }
}

static uint32_t round_of(const struct shape *shape, uint32_t tensor)
{
    return (uint32_t)((uint64_t)tensor * shape->rounds / shape->tensors);
}

static void add_tensors(struct maker *m)
{
    for (uint32_t t = 0; t < m->shape.tensors; t++) {
        char name[40];
        int64_t dims[2] = {m->shape.rows, m->shape.cols};
        snprintf(name, sizeof(name), "layers.%u.weight", t);
        uint32_t tensor = build_tensor(m->build, name, 2, dims);
        uint32_t round = round_of(&m->shape, t);
        add_side(m, tensor, &m->old_side, false, round);
        add_side(m, tensor, &m->new_side, true, round);
    }
}

static void name_plan(struct build *build, const struct shape *shape)
{
    char from[64], to[64];
    snprintf(from, sizeof(from), "rows over %u", shape->from);
    snprintf(to, sizeof(to), "columns over %u", shape->to);
    build->summary.model = build_string(build, "matrices");
    build->summary.from = build_string(build, shape->swap ? to : from);
    build->summary.to = build_string(build, shape->swap ? from : to);
    build->summary.cluster = build_string(build, "one machine");
    snprintf((char *)build->header.model_digest, SHUNT_PLAN_DIGEST_BYTES, "m%u-%ld-%ld", shape->tensors,
             (long)shape->rows, (long)shape->cols);
    memcpy(shape->swap ? build->header.to_digest : build->header.from_digest, from, SHUNT_PLAN_DIGEST_BYTES);
    memcpy(shape->swap ? build->header.from_digest : build->header.to_digest, to, SHUNT_PLAN_DIGEST_BYTES);
    memcpy(build->header.plan_id, build->header.from_digest, 16);
    memcpy(build->header.plan_id + 16, build->header.to_digest, 16);
}

static void keep_in_host_memory(struct maker *m)
{
    for (uint32_t d = 0; d < m->devices; d++) {
        for (uint32_t i = 0; i < m->build->parts[d].buffers.count; i++)
            build_buffer_at(m->build, d, i)->tier = SHUNT_TIER_HOST;
    }
}

static struct build *make(const struct shape *shape)
{
    struct maker m = {.shape = *shape,
                      .devices = shape->from > shape->to ? shape->from : shape->to,
                      .old_side = {shape->from, 0},
                      .new_side = {shape->to, 1}};
    if (shape->swap) {
        m.old_side = (struct side){shape->to, 1};
        m.new_side = (struct side){shape->from, 0};
    }
    m.build = build_create(m.devices, shape->rounds, shape->depth);
    m.used = calloc(m.devices, sizeof(*m.used));
    m.received = calloc((size_t)m.devices * m.devices, sizeof(*m.received));
    if (m.used == NULL || m.received == NULL)
        abort();
    m.build->header.from_rank_count = m.old_side.parts;
    m.build->header.to_rank_count = m.new_side.parts;
    for (uint32_t d = 0; d < m.devices; d++) {
        m.build->devices[d].from_rank = d < m.old_side.parts ? d : SHUNT_PLAN_NONE;
        m.build->devices[d].to_rank = d < m.new_side.parts ? d : SHUNT_PLAN_NONE;
    }
    name_plan(m.build, shape);
    add_tensors(&m);
    for (uint32_t k = 0, t = 0; k < shape->rounds; k++) {
        uint32_t first = t;
        while (t < shape->tensors && round_of(shape, t) == k)
            t++;
        add_round(&m, k, first, t);
    }
    if (shape->host)
        keep_in_host_memory(&m);
    build_account(m.build);
    free(m.used);
    free(m.received);
    return m.build;
}

static void make_wrong(struct build *build)
{
    for (uint32_t i = 0; i < build->parts[0].ops.count; i++) {
        struct shunt_plan_op *op = build_op_at(build, 0, i);
        if (op->kind != SHUNT_OP_PACK || op->src_offset == 0)
            continue;
        op->src_offset = 0;
        return;
    }
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    if (argc < 9) {
        fprintf(stderr, "usage: make_plan OUT FROM TO TENSORS ROWS COLS ROUNDS DEPTH [swap|wrong|host]\n");
        return 2;
    }
    struct shape shape = {.from = number(argv[2]),
                          .to = number(argv[3]),
                          .tensors = number(argv[4]),
                          .rows = number(argv[5]),
                          .cols = number(argv[6]),
                          .rounds = number(argv[7]),
                          .depth = number(argv[8]),
                          .swap = argc > 9 && strcmp(argv[9], "swap") == 0,
                          .wrong = argc > 9 && strcmp(argv[9], "wrong") == 0,
                          .host = argc > 9 && strcmp(argv[9], "host") == 0};
    struct build *build = make(&shape);
    if (shape.wrong)
        make_wrong(build);
    struct image image = build_encode(build);
    FILE *file = fopen(argv[1], "wb");
    bool good = file != NULL && fwrite(image.bytes, 1, image.size, file) == image.size;
    good = file != NULL && fclose(file) == 0 && good;
    image_finish(&image);
    build_destroy(build);
    if (!good)
        perror(argv[1]);
    return good ? 0 : 3;
}
