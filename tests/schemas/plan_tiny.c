/* SPDX-License-Identifier: Apache-2.0 */
/** The tiny plan, written out by hand. See plan_builder.h for a picture of what moves. */
#include "plan_builder.h"

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define SLOT(k)  (SHUNT_PLAN_STAGING + (k))

#define BF16    SHUNT_DTYPE_BF16
#define FP32    SHUNT_DTYPE_FP32
#define PARAM   SHUNT_STATE_PARAM
#define EXP_AVG SHUNT_STATE_EXP_AVG

static void make_world(struct build *build)
{
    build->header.from_rank_count = build->header.to_rank_count = 2;
    build->devices[0].from_rank = 0;
    build->devices[1].from_rank = 1;
    build->devices[1].to_rank = 0;
    build->devices[2].to_rank = 1;
    build->devices[2].node = 1;
    build->summary.model = build_string(build, "tiny");
    build->summary.from = build_string(build, "rows");
    build->summary.to = build_string(build, "columns");
    build->summary.method = build_string(build, "by hand");
    build->summary.reserve = 1000;
    build->summary.transport = 24;
    build_tensor(build, "embed.weight", 2, I64(6, 4));
    build_tensor(build, "norm.weight", 1, I64(4));
    build_tensor(build, "flat", 2, I64(2, 3));
}

static void make_device_0(struct build *build)
{
    struct build_part *part = &build->parts[0];
    part->staging_bytes[0] = 32;
    part->staging_bytes[1] = 32;
    build_buffer(build, 0, TINY_EMBED, PARAM, BF16, SHUNT_SIDE_FROM, 2, I64(3, 4), 0);
    build_holding(part, 2, I64(0, 0), I64(3, 4), NULL, 0);
    build_buffer(build, 0, TINY_NORM, PARAM, FP32, SHUNT_SIDE_FROM, 1, I64(4), 0);
    build_holding(part, 1, I64(0), I64(4), NULL, 0);
    build_buffer(build, 0, TINY_FLAT, EXP_AVG, FP32, SHUNT_SIDE_FROM, 1, I64(5), 1);
    build_holding(part, 2, I64(0, 0), I64(1, 3), NULL, 0);
    build_holding(part, 2, I64(1, 0), I64(1, 2), NULL, 12);

    uint32_t columns = build_view(part, 2, 2, I64(3, 2), I64(8, 2)), packed = build_view(part, 2, 2, I64(3, 2), NULL);
    build_op(part, 0, SHUNT_OP_PACK, TINY_D0_EMBED, columns, 0, SLOT(0), packed, 0);
    build_op(part, 0, SHUNT_OP_PACK, TINY_D0_EMBED, columns, 4, SLOT(0), packed, 16);
    uint32_t row = build_view(part, 4, 2, I64(1, 3), NULL), start = build_view(part, 4, 2, I64(1, 2), NULL);
    build_op(part, 1, SHUNT_OP_PACK, TINY_D0_FLAT, row, 0, SLOT(1), row, 0);
    build_op(part, 1, SHUNT_OP_PACK, TINY_D0_FLAT, start, 12, SLOT(1), start, 16);
    build_message(build, 0, 0, SHUNT_SEND, 1, 0, 16);
    build_message(build, 0, 0, SHUNT_SEND, 2, 16, 16);
    build_message(build, 0, 1, SHUNT_SEND, 1, 0, 32);
}

static void make_device_1_buffers(struct build *build)
{
    struct build_part *part = &build->parts[1];
    part->staging_bytes[0] = 32;
    part->staging_bytes[1] = 48;
    build_buffer(build, 1, TINY_EMBED, PARAM, BF16, SHUNT_SIDE_FROM, 2, I64(3, 4), 0);
    build_holding(part, 2, I64(3, 0), I64(3, 4), NULL, 0);
    build_buffer(build, 1, TINY_EMBED, PARAM, BF16, SHUNT_SIDE_TO, 2, I64(8, 2), 0);
    build_holding(part, 2, I64(0, 0), I64(6, 2), NULL, 0);
    build_buffer(build, 1, TINY_NORM, PARAM, FP32, SHUNT_SIDE_BOTH, 1, I64(4), SHUNT_PLAN_NONE);
    build_holding(part, 1, I64(0), I64(4), NULL, 0);
    build_buffer(build, 1, TINY_FLAT, EXP_AVG, FP32, SHUNT_SIDE_FROM, 1, I64(1), 1);
    build_holding(part, 2, I64(1, 2), I64(1, 1), NULL, 0);
    build_buffer(build, 1, TINY_FLAT, EXP_AVG, FP32, SHUNT_SIDE_TO, 1, I64(6), 1);
    build_holding(part, 2, I64(0, 0), I64(2, 3), NULL, 0);
}

static void make_device_1(struct build *build)
{
    struct build_part *part = &build->parts[1];
    make_device_1_buffers(build);
    uint32_t columns = build_view(part, 2, 2, I64(3, 2), I64(8, 2)), packed = build_view(part, 2, 2, I64(3, 2), NULL);
    build_op(part, 0, SHUNT_OP_COPY, TINY_D1_EMBED_OLD, columns, 0, TINY_D1_EMBED_NEW, packed, 12);
    build_op(part, 0, SHUNT_OP_FILL, SHUNT_PLAN_NONE, 0, 0, TINY_D1_EMBED_NEW, build_view(part, 2, 2, I64(2, 2), NULL),
             24);
    build_op(part, 0, SHUNT_OP_PACK, TINY_D1_EMBED_OLD, columns, 4, SLOT(0), packed, 0);
    build_op(part, 0, SHUNT_OP_UNPACK, SLOT(0), packed, 16, TINY_D1_EMBED_NEW, packed, 0);
    uint32_t one = build_view(part, 4, 2, I64(1, 1), NULL), norm = build_view(part, 4, 1, I64(4), NULL);
    uint32_t row = build_view(part, 4, 2, I64(1, 3), NULL), start = build_view(part, 4, 2, I64(1, 2), NULL);
    build_op(part, 1, SHUNT_OP_COPY, TINY_D1_FLAT_OLD, one, 0, TINY_D1_FLAT_NEW, one, 20);
    build_op(part, 1, SHUNT_OP_PACK, TINY_D1_NORM, norm, 0, SLOT(1), norm, 0);
    build_op(part, 1, SHUNT_OP_UNPACK, SLOT(1), row, 16, TINY_D1_FLAT_NEW, row, 0);
    build_op(part, 1, SHUNT_OP_UNPACK, SLOT(1), start, 32, TINY_D1_FLAT_NEW, start, 12);
    build_message(build, 1, 0, SHUNT_SEND, 2, 0, 16);
    build_message(build, 1, 0, SHUNT_RECV, 0, 16, 16);
    build_message(build, 1, 1, SHUNT_SEND, 2, 0, 16);
    build_message(build, 1, 1, SHUNT_RECV, 0, 16, 32);
}

static void make_device_2(struct build *build)
{
    struct build_part *part = &build->parts[2];
    part->staging_bytes[0] = 32;
    part->staging_bytes[1] = 16;
    build_buffer(build, 2, TINY_EMBED, PARAM, BF16, SHUNT_SIDE_TO, 2, I64(8, 2), 0);
    build_holding(part, 2, I64(0, 2), I64(6, 2), NULL, 0);
    build_buffer(build, 2, TINY_NORM, PARAM, FP32, SHUNT_SIDE_TO, 1, I64(4), 1);
    build_holding(part, 1, I64(0), I64(4), NULL, 0);
    build_buffer(build, 2, TINY_FLAT, EXP_AVG, FP32, SHUNT_SIDE_TO, 1, I64(1), 1);
    build_buffer_at(build, 2, TINY_D2_FLAT)->bytes = 0;

    uint32_t packed = build_view(part, 2, 2, I64(3, 2), NULL), norm = build_view(part, 4, 1, I64(4), NULL);
    build_op(part, 0, SHUNT_OP_FILL, SHUNT_PLAN_NONE, 0, 0, TINY_D2_EMBED, build_view(part, 2, 2, I64(2, 2), NULL), 24);
    build_op(part, 0, SHUNT_OP_UNPACK, SLOT(0), packed, 0, TINY_D2_EMBED, packed, 0);
    build_op(part, 0, SHUNT_OP_UNPACK, SLOT(0), packed, 16, TINY_D2_EMBED, packed, 12);
    build_op(part, 1, SHUNT_OP_UNPACK, SLOT(1), norm, 0, TINY_D2_NORM, norm, 0);
    build_message(build, 2, 0, SHUNT_RECV, 0, 0, 16);
    build_message(build, 2, 0, SHUNT_RECV, 1, 16, 16);
    build_message(build, 2, 1, SHUNT_RECV, 1, 0, 16);
}

struct build *build_tiny(void)
{
    struct build *build = build_create(3, 2, 2);
    make_world(build);
    make_device_0(build);
    make_device_1(build);
    make_device_2(build);
    build_account(build);
    return build;
}
