/* SPDX-License-Identifier: Apache-2.0 */
/** The plan with scratch buffers, written out by hand. See plan_builder.h for what moves. */
#include "plan_builder.h"

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define SLOT(k)  (SHUNT_PLAN_STAGING + (k))

#define BF16 SHUNT_DTYPE_BF16
#define FP32 SHUNT_DTYPE_FP32

enum { W, NORM };

/* A buffer of whole rows [lo, hi) of w and its one holding. */
static uint32_t add_rows(struct build *build, uint32_t device, unsigned state, unsigned dtype,
                         enum shunt_plan_side side, int64_t lo, int64_t hi, uint32_t round)
{
    uint32_t buffer = build_buffer(build, device, W, state, dtype, side, 2, I64(hi - lo, 4), round);
    build_holding(&build->parts[device], 2, I64(lo, 0), I64(hi - lo, 4), NULL, 0);
    return buffer;
}

static void add_norm(struct build *build, enum shunt_plan_side side, uint32_t round)
{
    build_buffer(build, 0, NORM, SHUNT_STATE_PARAM, FP32, side, 1, I64(4), round);
    build_holding(&build->parts[0], 1, I64(0), I64(4), NULL, 0);
}

/* A scratch buffer's end, and its kind of memory. */
static void make_scratch(struct build *build, uint32_t device, uint32_t buffer, uint32_t free_round,
                         enum shunt_plan_tier tier)
{
    build_buffer_at(build, device, buffer)->free_round = free_round;
    build_buffer_at(build, device, buffer)->tier = (uint8_t)tier;
}

static uint32_t rows_view(struct build *build, uint32_t device, unsigned dtype, int64_t rows)
{
    return build_view(&build->parts[device], shunt_dtype_bytes(dtype), 2, I64(rows, 4), NULL);
}

static uint32_t move_rows(struct build *build, uint32_t device, uint32_t round, enum shunt_plan_op_kind kind,
                          uint32_t view, uint32_t src, uint64_t src_offset, uint32_t dst, uint64_t dst_offset)
{
    return build_op(&build->parts[device], round, kind, src, view, src_offset, dst, view, dst_offset);
}

static void make_device_0(struct build *build)
{
    add_rows(build, 0, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_FROM, 0, 2, 0);
    add_rows(build, 0, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_SCRATCH, 0, 2, 0);
    make_scratch(build, 0, SCRATCH_D0_MASTER, 4, SHUNT_TIER_HOST);
    add_rows(build, 0, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_TO, 2, 4, 2);
    add_rows(build, 0, SHUNT_STATE_EXP_AVG, FP32, SHUNT_SIDE_FROM, 0, 4, 0);
    add_norm(build, SHUNT_SIDE_FROM, 0);
    add_norm(build, SHUNT_SIDE_SCRATCH, 0);
    make_scratch(build, 0, SCRATCH_D0_NORM, 2, SHUNT_TIER_HOST);
    add_norm(build, SHUNT_SIDE_TO, 2);

    build->parts[0].staging_bytes[0] = 32;
    uint32_t half = rows_view(build, 0, FP32, 2), norm = build_view(&build->parts[0], 4, 1, I64(4), NULL);
    uint32_t wide = rows_view(build, 0, FP32, 4), narrow = rows_view(build, 0, BF16, 4);
    move_rows(build, 0, 0, SHUNT_OP_COPY, half, SCRATCH_D0_MASTER_OLD, 0, SCRATCH_D0_MASTER, 0);
    move_rows(build, 0, 0, SHUNT_OP_COPY, norm, SCRATCH_D0_NORM_OLD, 0, SCRATCH_D0_NORM, 0);
    uint32_t pack = build_op(&build->parts[0], 0, SHUNT_OP_PACK, SCRATCH_D0_AVG_OLD, wide, 0, SLOT(0), narrow, 0);
    build_op_at(build, 0, pack)->cast = SHUNT_CAST_FP32_BF16;
    move_rows(build, 0, 2, SHUNT_OP_COPY, norm, SCRATCH_D0_NORM, 0, SCRATCH_D0_NORM_NEW, 0);
    move_rows(build, 0, 2, SHUNT_OP_UNPACK, half, SLOT(0), 0, SCRATCH_D0_MASTER_NEW, 0);
    move_rows(build, 0, 4, SHUNT_OP_PACK, half, SCRATCH_D0_MASTER, 0, SLOT(0), 0);
    build_message(build, 0, 0, SHUNT_SEND, 1, 0, 32);
    build_message(build, 0, 2, SHUNT_RECV, 1, 0, 32);
    build_message(build, 0, 4, SHUNT_SEND, 1, 0, 32);
}

static void make_device_1(struct build *build)
{
    add_rows(build, 1, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_FROM, 2, 4, 2);
    add_rows(build, 1, SHUNT_STATE_EXP_AVG, BF16, SHUNT_SIDE_SCRATCH, 0, 4, 0);
    make_scratch(build, 1, SCRATCH_D1_AVG, 2, SHUNT_TIER_DEVICE);
    build_buffer_at(build, 1, SCRATCH_D1_AVG)->origin_dtype = 1 + FP32;
    add_rows(build, 1, SHUNT_STATE_MASTER, FP32, SHUNT_SIDE_TO, 0, 2, 4);

    build->parts[1].staging_bytes[0] = 64;
    uint32_t half = rows_view(build, 1, FP32, 2), narrow = rows_view(build, 1, BF16, 4);
    move_rows(build, 1, 0, SHUNT_OP_UNPACK, narrow, SLOT(0), 0, SCRATCH_D1_AVG, 0);
    move_rows(build, 1, 2, SHUNT_OP_PACK, half, SCRATCH_D1_MASTER_OLD, 0, SLOT(0), 0);
    move_rows(build, 1, 2, SHUNT_OP_PACK, narrow, SCRATCH_D1_AVG, 0, SLOT(0), 32);
    move_rows(build, 1, 4, SHUNT_OP_UNPACK, half, SLOT(0), 0, SCRATCH_D1_MASTER_NEW, 0);
    build_message(build, 1, 0, SHUNT_RECV, 0, 0, 32);
    build_message(build, 1, 2, SHUNT_SEND, 0, 0, 32);
    build_message(build, 1, 2, SHUNT_SEND, 2, 32, 32);
    build_message(build, 1, 4, SHUNT_RECV, 0, 0, 32);
}

static void make_device_2(struct build *build)
{
    add_rows(build, 2, SHUNT_STATE_EXP_AVG, BF16, SHUNT_SIDE_TO, 0, 4, 2);
    build_buffer_at(build, 2, 0)->origin_dtype = 1 + FP32;
    build->parts[2].staging_bytes[0] = 32;
    move_rows(build, 2, 2, SHUNT_OP_UNPACK, rows_view(build, 2, BF16, 4), SLOT(0), 0, 0, 0);
    build_message(build, 2, 2, SHUNT_RECV, 1, 0, 32);
}

struct build *build_scratch(void)
{
    struct build *build = build_create(3, 5, 2);
    build->header.from_rank_count = 2;
    build->header.to_rank_count = 3;
    for (uint32_t d = 0; d < 3; d++) {
        build->devices[d].from_rank = d < 2 ? d : SHUNT_PLAN_NONE;
        build->devices[d].to_rank = d;
        build->devices[d].node = d / 2;
    }
    build->summary.model = build_string(build, "scratch");
    build->summary.from = build_string(build, "halves");
    build->summary.to = build_string(build, "other halves");
    build->summary.cluster = build_string(build, "two nodes");
    build->summary.method = build_string(build, "by hand");
    build->summary.solver = build_string(build, "none");
    build->summary.solver_status = build_string(build, "none");
    build_tensor(build, "w", 2, I64(4, 4));
    build_tensor(build, "norm", 1, I64(4));
    make_device_0(build);
    make_device_1(build);
    make_device_2(build);
    build_account(build);
    return build;
}
