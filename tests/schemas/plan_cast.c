/* SPDX-License-Identifier: Apache-2.0 */
/** The plan with casts, written out by hand. See plan_builder.h for what moves. */
#include "plan_builder.h"

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define SLOT(k)  (SHUNT_PLAN_STAGING + (k))

#define BF16 SHUNT_DTYPE_BF16
#define FP32 SHUNT_DTYPE_FP32

static void made_from(struct build *build, uint32_t device, uint32_t buffer, unsigned state, unsigned dtype)
{
    struct shunt_plan_buffer *record = build_buffer_at(build, device, buffer);
    record->origin_state = state != record->state ? (uint8_t)(1 + state) : 0;
    record->origin_dtype = dtype != record->dtype ? (uint8_t)(1 + dtype) : 0;
}

/* A buffer of whole rows [lo, hi) and its one holding. */
static void add_rows(struct build *build, uint32_t device, unsigned state, unsigned dtype, enum shunt_plan_side side,
                     int64_t lo, int64_t hi, uint32_t round)
{
    build_buffer(build, device, 0, state, dtype, side, 2, I64(hi - lo, 4), round);
    build_holding(&build->parts[device], 2, I64(lo, 0), I64(hi - lo, 4), NULL, 0);
}

static uint32_t rows_view(struct build *build, uint32_t device, unsigned dtype, int64_t rows)
{
    return build_view(&build->parts[device], shunt_dtype_bytes(dtype), 2, I64(rows, 4), NULL);
}

static void add_op(struct build *build, uint32_t device, uint32_t round, enum shunt_plan_op_kind kind, int64_t rows,
                   uint32_t src, unsigned src_dtype, uint64_t src_offset, uint32_t dst, unsigned dst_dtype,
                   uint64_t dst_offset)
{
    uint32_t op = build_op(&build->parts[device], round, kind, src, rows_view(build, device, src_dtype, rows),
                           src_offset, dst, rows_view(build, device, dst_dtype, rows), dst_offset);
    if (src_dtype != dst_dtype)
        build_op_at(build, device, op)->cast = dst_dtype == BF16 ? SHUNT_CAST_FP32_BF16 : SHUNT_CAST_BF16_FP32;
}

static void make_device_0(struct build *build)
{
    add_rows(build, 0, SHUNT_STATE_PARAM, FP32, SHUNT_SIDE_FROM, 0, 4, 0);
    add_rows(build, 0, SHUNT_STATE_PARAM, BF16, SHUNT_SIDE_TO, 0, 4, 0);
    made_from(build, 0, CAST_D0_PARAM_NEW, SHUNT_STATE_MASTER, FP32);
    add_rows(build, 0, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_FROM, 0, 2, 3);
    add_rows(build, 0, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_TO, 0, 4, 0);
    add_rows(build, 0, SHUNT_STATE_EXP_AVG, FP32, SHUNT_SIDE_FROM, 0, 2, 1);
    add_rows(build, 0, SHUNT_STATE_EXP_AVG, BF16, SHUNT_SIDE_TO, 0, 4, 1);
    made_from(build, 0, CAST_D0_AVG_NEW, SHUNT_STATE_EXP_AVG, FP32);
    add_rows(build, 0, SHUNT_STATE_EXP_AVG_SQ, BF16, SHUNT_SIDE_FROM, 0, 4, 2);
    add_rows(build, 0, SHUNT_STATE_MOMENTUM, FP32, SHUNT_SIDE_FROM, 0, 4, 0);

    build->parts[0].staging_bytes[0] = 64;
    build->parts[0].staging_bytes[1] = 16;
    add_op(build, 0, 0, SHUNT_OP_COPY, 2, CAST_D0_MASTER_OLD, FP32, 0, CAST_D0_MASTER_NEW, FP32, 0);
    add_op(build, 0, 0, SHUNT_OP_COPY, 2, CAST_D0_MASTER_OLD, FP32, 0, CAST_D0_PARAM_NEW, BF16, 0);
    add_op(build, 0, 0, SHUNT_OP_PACK, 2, CAST_D0_MASTER_OLD, FP32, 0, SLOT(0), FP32, 0);
    add_op(build, 0, 0, SHUNT_OP_UNPACK, 2, SLOT(0), FP32, 32, CAST_D0_MASTER_NEW, FP32, 32);
    add_op(build, 0, 1, SHUNT_OP_COPY, 2, CAST_D0_AVG_OLD, FP32, 0, CAST_D0_AVG_NEW, BF16, 0);
    add_op(build, 0, 1, SHUNT_OP_UNPACK, 2, SLOT(1), BF16, 0, CAST_D0_AVG_NEW, BF16, 16);
    add_op(build, 0, 2, SHUNT_OP_COPY, 2, CAST_D0_MASTER_NEW, FP32, 32, CAST_D0_PARAM_NEW, BF16, 16);
    add_op(build, 0, 2, SHUNT_OP_PACK, 4, CAST_D0_AVG_SQ, BF16, 0, SLOT(0), BF16, 0);
    add_op(build, 0, 3, SHUNT_OP_PACK, 2, CAST_D0_MASTER_OLD, FP32, 0, SLOT(1), BF16, 0);
    build_message(build, 0, 0, SHUNT_SEND, 1, 0, 32);
    build_message(build, 0, 0, SHUNT_RECV, 1, 32, 32);
    build_message(build, 0, 1, SHUNT_RECV, 1, 0, 16);
    build_message(build, 0, 2, SHUNT_SEND, 1, 0, 32);
    build_message(build, 0, 3, SHUNT_SEND, 1, 0, 16);
}

static void make_device_1(struct build *build)
{
    add_rows(build, 1, SHUNT_STATE_PARAM, BF16, SHUNT_SIDE_TO, 0, 4, 1);
    made_from(build, 1, CAST_D1_PARAM_NEW, SHUNT_STATE_MASTER, FP32);
    add_rows(build, 1, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_FROM, 2, 4, 1);
    add_rows(build, 1, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_TO, 0, 4, 0);
    add_rows(build, 1, SHUNT_STATE_EXP_AVG, FP32, SHUNT_SIDE_FROM, 2, 4, 1);
    add_rows(build, 1, SHUNT_STATE_EXP_AVG_SQ, FP32, SHUNT_SIDE_TO, 0, 4, 2);
    made_from(build, 1, CAST_D1_AVG_SQ_NEW, SHUNT_STATE_EXP_AVG_SQ, BF16);

    build->parts[1].staging_bytes[0] = 64;
    build->parts[1].staging_bytes[1] = 16;
    add_op(build, 1, 0, SHUNT_OP_COPY, 2, CAST_D1_MASTER_OLD, FP32, 0, CAST_D1_MASTER_NEW, FP32, 32);
    add_op(build, 1, 0, SHUNT_OP_PACK, 2, CAST_D1_MASTER_OLD, FP32, 0, SLOT(0), FP32, 0);
    add_op(build, 1, 0, SHUNT_OP_UNPACK, 2, SLOT(0), FP32, 32, CAST_D1_MASTER_NEW, FP32, 0);
    add_op(build, 1, 1, SHUNT_OP_COPY, 2, CAST_D1_MASTER_OLD, FP32, 0, CAST_D1_PARAM_NEW, BF16, 16);
    add_op(build, 1, 1, SHUNT_OP_PACK, 2, CAST_D1_AVG_OLD, FP32, 0, SLOT(1), BF16, 0);
    add_op(build, 1, 2, SHUNT_OP_UNPACK, 4, SLOT(0), BF16, 0, CAST_D1_AVG_SQ_NEW, FP32, 0);
    add_op(build, 1, 3, SHUNT_OP_UNPACK, 2, SLOT(1), BF16, 0, CAST_D1_PARAM_NEW, BF16, 0);
    build_message(build, 1, 0, SHUNT_SEND, 0, 0, 32);
    build_message(build, 1, 0, SHUNT_RECV, 0, 32, 32);
    build_message(build, 1, 1, SHUNT_SEND, 0, 0, 16);
    build_message(build, 1, 2, SHUNT_RECV, 0, 0, 32);
    build_message(build, 1, 3, SHUNT_RECV, 0, 0, 16);
}

void build_cast_account(struct build *build)
{
    build_account(build);
    build->summary.needed_remote -= 8 * 2; /* device 1 could have made those weights from its new master */
    build->summary.saved = 16 * 2;         /* and it had none */
}

struct build *build_cast(void)
{
    struct build *build = build_create(2, 4, 2);
    build->header.from_rank_count = build->header.to_rank_count = 2;
    for (uint32_t d = 0; d < 2; d++)
        build->devices[d].from_rank = build->devices[d].to_rank = d;
    build->summary.model = build_string(build, "cast");
    build_tensor(build, "w", 2, I64(4, 4));
    make_device_0(build);
    make_device_1(build);
    build_cast_account(build);
    return build;
}
