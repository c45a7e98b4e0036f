/* SPDX-License-Identifier: Apache-2.0 */
/** Scratch buffers: what the reader refuses, and one edit of the plan with scratch buffers, one rule broken. */
#include "verify_rig.h"

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define SLOT(k)  (SHUNT_PLAN_STAGING + (k))

static struct shunt_plan_buffer *d0_master(struct build *b)
{
    return build_buffer_at(b, 0, SCRATCH_D0_MASTER);
}

static struct shunt_plan_buffer *d0_norm(struct build *b)
{
    return build_buffer_at(b, 0, SCRATCH_D0_NORM);
}

static struct shunt_plan_buffer *d1_avg(struct build *b)
{
    return build_buffer_at(b, 1, SCRATCH_D1_AVG);
}

static void move_op(struct build *b, uint32_t device, uint32_t op, uint32_t round)
{
    ((struct build_op *)b->parts[device].ops.at)[op].round = round;
}

/* ---- the reader ----------------------------------------------------------------------- */

static void older_version(struct build *b)
{
    b->header.version_minor = 2;
}

static void freed_before_alloc(struct build *b)
{
    d0_norm(b)->alloc_round = 3;
}

static void never_allocated(struct build *b)
{
    d0_norm(b)->alloc_round = SHUNT_PLAN_NONE;
}

static void never_freed(struct build *b)
{
    d0_norm(b)->free_round = SHUNT_PLAN_NONE;
}

static void freed_too_late(struct build *b)
{
    d0_master(b)->free_round = 5;
}

static void unknown_side(struct build *b)
{
    d0_norm(b)->side = 4;
}

static void made_from_nothing(struct build *b)
{
    d0_norm(b)->origin_dtype = 1 + SHUNT_DTYPE_FP16;
}

static void faults_of_form_are_found(void)
{
    static const struct {
        const char *name;
        void (*edit)(struct build *build);
        const char *want;
    } rows[] = {
        {"older version", older_version, "part of device 0 buffer 1: side is 3, allowed 0..2"},
        {"freed before it is allocated", freed_before_alloc,
         "part of device 0 buffer 5: free_round of a scratch buffer is 2, allowed 3..4"},
        {"never allocated", never_allocated, "buffer 5: alloc_round is 4294967295, the table has 5"},
        {"never freed", never_freed, "buffer 5: free_round is 4294967295, the table has 5"},
        {"freed after the last round", freed_too_late, "buffer 1: free_round is 5, the table has 5"},
        {"unknown side", unknown_side, "buffer 5: side is 4, allowed 0..3"},
        {"made from what is not cast", made_from_nothing, "buffer 5: origin_dtype is 2 for dtype 2, between which"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct build *build = build_scratch();
        struct shunt_plan *plan = NULL;
        struct shunt_plan_part part;
        struct shunt_err err = {""};
        rows[i].edit(build);
        struct image image = build_encode(build);
        CHECK_MSG(shunt_plan_open_memory(image.bytes, image.size, &plan, &err) == SHUNT_OK, "%s", err.text);
        CHECK_MSG(shunt_plan_get_part(plan, 0, &part, &err) == SHUNT_ERR_PLAN, "%s", rows[i].name);
        CHECK_CONTAINS(err.text, rows[i].want);
        shunt_plan_close(plan);
        image_finish(&image);
        build_destroy(build);
    }
}

/* ---- the verifier --------------------------------------------------------------------- */

static void read_too_early(struct build *b)
{
    build_buffer_at(b, 0, SCRATCH_D0_NORM_NEW)->alloc_round = 1;
    move_op(b, 0, SCRATCH_D0_COPY_NORM, 1);
}

static void read_before_alloc(struct build *b)
{
    d0_master(b)->alloc_round = 1;
    move_op(b, 0, SCRATCH_D0_PARK_MASTER, 1);
    build_buffer_at(b, 0, SCRATCH_D0_MASTER_OLD)->free_round = 1;
    move_op(b, 0, SCRATCH_D0_PACK_MASTER, 0);
}

static void read_after_free(struct build *b)
{
    d0_master(b)->free_round = 3;
}

static void written_before_alloc(struct build *b)
{
    d1_avg(b)->alloc_round = 1;
}

static void written_after_free(struct build *b)
{
    d0_norm(b)->free_round = 0;
    build_buffer_at(b, 0, SCRATCH_D0_NORM_OLD)->free_round = 1;
    move_op(b, 0, SCRATCH_D0_PARK_NORM, 1);
}

static void never_written(struct build *b)
{
    build_remove_op(b, 0, SCRATCH_D0_PARK_NORM);
}

static void written_twice(struct build *b)
{
    struct shunt_plan_op op = *build_op_at(b, 0, SCRATCH_D0_PARK_NORM);
    build_op(&b->parts[0], 0, SHUNT_OP_COPY, op.src_buffer, op.src_view, 0, op.dst_buffer, op.dst_view, 0);
}

static void filled(struct build *b)
{
    struct build_part *part = &b->parts[0];
    d0_norm(b)->bytes = 32;
    build_op(part, 0, SHUNT_OP_FILL, SHUNT_PLAN_NONE, 0, 0, SCRATCH_D0_NORM, build_view(part, 4, 1, I64(4), NULL), 16);
}

static void other_rows_parked(struct build *b)
{
    build_holding_at(b, 0, d0_master(b)->holding_begin)->corner = build_corner(&b->parts[0], 2, I64(2, 0));
}

/* Of the right rows, and read in the place of others. */
static void other_rows_sent_on(struct build *b)
{
    build_buffer_at(b, 1, SCRATCH_D1_MASTER_NEW)->holding_count = 1;
    build_holding_at(b, 1, build_buffer_at(b, 1, SCRATCH_D1_MASTER_NEW)->holding_begin)->corner =
        build_corner(&b->parts[1], 2, I64(1, 0));
}

static void other_state(struct build *b)
{
    d1_avg(b)->state = SHUNT_STATE_EXP_AVG_SQ;
}

static void origin_forgotten(struct build *b)
{
    d1_avg(b)->origin_dtype = 0;
}

/* Wide into scratch, and narrowed behind it: right as a scratch of its own origin, wrong in one that says narrowed. */
static void cast_twice(struct build *b)
{
    struct build_part *part = &b->parts[1];
    struct shunt_plan_op *pack = build_op_at(b, 1, SCRATCH_D1_PACK_AVG);
    d1_avg(b)->dtype = SHUNT_DTYPE_FP32;
    d1_avg(b)->origin_dtype = 1 + SHUNT_DTYPE_BF16;
    d1_avg(b)->bytes = 64;
    uint32_t wide = build_view(part, 4, 2, I64(4, 4), NULL);
    d1_avg(b)->view = build_holding_at(b, 1, d1_avg(b)->holding_begin)->view = wide;
    build_op_at(b, 1, SCRATCH_D1_UNPACK_AVG)->dst_view = wide;
    build_op_at(b, 1, SCRATCH_D1_UNPACK_AVG)->cast = SHUNT_CAST_BF16_FP32;
    pack->src_view = wide;
    pack->cast = SHUNT_CAST_FP32_BF16;
}

static void read_past_the_holding(struct build *b)
{
    d0_master(b)->bytes = 48;
    build_op_at(b, 0, SCRATCH_D0_PACK_MASTER)->src_offset = 16;
}

/* What ends in scratch has not arrived. */
static void scratch_at_the_end(struct build *b)
{
    struct shunt_plan_buffer *buffer = build_buffer_at(b, 0, SCRATCH_D0_MASTER_NEW);
    buffer->side = SHUNT_SIDE_SCRATCH;
    buffer->free_round = 4;
}

/* What is in scratch at the beginning has come from nowhere. */
static void scratch_at_the_start(struct build *b)
{
    struct shunt_plan_buffer *buffer = build_buffer_at(b, 0, SCRATCH_D0_AVG_OLD);
    buffer->side = SHUNT_SIDE_SCRATCH;
    buffer->alloc_round = 0;
}

static void holdings_overlap(struct build *b)
{
    struct build_part *part = &b->parts[1];
    build_buffer(b, 1, 0, SHUNT_STATE_EXP_AVG, SHUNT_DTYPE_BF16, SHUNT_SIDE_SCRATCH, 2, I64(2, 4), 0);
    build_holding(part, 2, I64(0, 0), I64(1, 4), NULL, 0);
    build_holding(part, 2, I64(1, 0), I64(1, 4), NULL, 0);
}

static void counted_on_the_host(struct build *b)
{
    d1_avg(b)->tier = SHUNT_TIER_HOST;
}

static void counted_on_the_device(struct build *b)
{
    d0_norm(b)->tier = SHUNT_TIER_DEVICE;
}

static void over_the_cap(struct build *b)
{
    d1_avg(b)->bytes = 4096;
}

static void scratch_is_old(struct build *b)
{
    d0_norm(b)->side = SHUNT_SIDE_FROM;
    d0_norm(b)->alloc_round = SHUNT_PLAN_NONE;
}

static void wrong_relayed(struct build *b)
{
    b->summary.relayed = 0;
}

static void wrong_parked(struct build *b)
{
    b->summary.parked = b->summary.local;
}

static void wrong_host_peak(struct build *b)
{
    b->summary.host_peak--;
}

struct row {
    const char *name;
    void (*edit)(struct build *b);
    bool account; /* recompute the figures, so that they do not hide the fault */
    enum shunt_verify_rule rule;
    const char *want;
};

/* clang-format off */
static const struct row rows[] = {
    {"read too early", read_too_early, true, SHUNT_RULE_SOURCE, "device 0 round 1: copy reads [0,4) of scratch:param/norm, of which round 0 writes a part: expected writes in rounds up to -1"},
    {"read before alloc", read_before_alloc, true, SHUNT_RULE_SOURCE, "device 0 round 0: pack reads [0,2)x[0,4) of 4-byte elements at offset 0 of scratch:master/w, which a later round allocates"},
    {"read after free", read_after_free, true, SHUNT_RULE_SOURCE, "device 0 round 4: pack reads [0,2)x[0,4) of 4-byte elements at offset 0 of scratch:master/w, which an earlier round has freed"},
    {"written before alloc", written_before_alloc, true, SHUNT_RULE_TARGET, "device 1 round 0: unpack writes [0,4)x[0,4) of 2-byte elements at offset 0 of scratch:exp_avg/w, which a later round allocates"},
    {"written after free", written_after_free, true, SHUNT_RULE_TARGET, "device 0 round 1: copy writes [0,4) of 4-byte elements at offset 0 of scratch:param/norm, which an earlier round has freed"},
    {"never written", never_written, true, SHUNT_RULE_COVERAGE, "device 0: element [0] of scratch:param/norm, box [0,4), is written never"},
    {"written twice", written_twice, true, SHUNT_RULE_COVERAGE, "device 0: element [0] of scratch:param/norm, box [0,4), is written 2 times"},
    {"filled", filled, true, SHUNT_RULE_TARGET, "fill writes [0,4) of 4-byte elements at offset 16 of scratch:param/norm, which has no pads"},
    {"other rows parked", other_rows_parked, true, SHUNT_RULE_COORDINATE, "device 0 round 0: copy into scratch:master/w writes [2,4)x[0,4) of fp32 but device 0 reads [0,2)x[0,4) of fp32 from from:master/w"},
    {"other rows sent on", other_rows_sent_on, true, SHUNT_RULE_COORDINATE, "device 1 round 4: unpack into to:master/w writes [1,3)x[0,4) of fp32 but device 0 packed [0,2)x[0,4) of fp32 from scratch:master/w"},
    {"other state", other_state, true, SHUNT_RULE_COORDINATE, "device 1 round 0: unpack into scratch:exp_avg_sq/w writes"},
    {"origin forgotten", origin_forgotten, true, SHUNT_RULE_COORDINATE, "device 2 round 2: unpack into to:exp_avg/w writes [0,4)x[0,4) of bf16 but device 1 packed [0,4)x[0,4) of bf16 from scratch:exp_avg/w"},
    {"cast twice", cast_twice, true, SHUNT_RULE_COORDINATE, "device 1 round 0: unpack into scratch:exp_avg/w"},
    {"read past the holding", read_past_the_holding, true, SHUNT_RULE_SOURCE, "at offset 16 of scratch:master/w, which is not inside one of its holdings"},
    {"scratch at the end", scratch_at_the_end, true, SHUNT_RULE_COVERAGE, "box [2,4)x[0,4) of master/w is held by no new rank"},
    {"scratch at the start", scratch_at_the_start, true, SHUNT_RULE_COVERAGE, "device 0: element [0,0] of scratch:exp_avg/w, box [0,4)x[0,4), is written never"},
    {"scratch at the start, and no old side", scratch_at_the_start, true, SHUNT_RULE_COVERAGE, "box [0,4)x[0,4) of exp_avg/w is held by no old rank"},
    {"holdings overlap", holdings_overlap, true, SHUNT_RULE_HOLDING, "device 1: byte 0 of scratch:exp_avg/w belongs to two holdings"},
    {"counted on the host", counted_on_the_host, false, SHUNT_RULE_MEMORY, "device 1 round 0: live_bytes is 128, the replay has 96"},
    {"counted on the device", counted_on_the_device, false, SHUNT_RULE_MEMORY, "device 0 round 0: live_bytes is "},
    {"over the cap", over_the_cap, false, SHUNT_RULE_MEMORY, "device 1 round 0: 4192 bytes are live, the cap is "},
    {"scratch is old", scratch_is_old, true, SHUNT_RULE_TARGET, "of from:param/norm, which the old side still needs"},
    {"relayed", wrong_relayed, false, SHUNT_RULE_SUMMARY, "relayed is 0, the replay has 32"},
    {"parked", wrong_parked, false, SHUNT_RULE_SUMMARY, "parked is 64, the replay has 48"},
    {"host_peak", wrong_host_peak, false, SHUNT_RULE_SUMMARY, "host_peak is 47, the replay has 48"},
};
/* clang-format on */

static void faults_are_found(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct build *build = build_scratch();
        struct shunt_err err = {""};
        rows[i].edit(build);
        if (rows[i].account)
            build_account(build);
        enum shunt_status st = verify_build(build, &err);
        CHECK_MSG(st == SHUNT_ERR_VERIFY, "%s: status %s %s", rows[i].name, shunt_status_name(st), err.text);
        CHECK_MSG(reported(rows[i].rule, rows[i].want), "%s: no \"%s\" among", rows[i].name, rows[i].want);
        if (!reported(rows[i].rule, rows[i].want))
            print_problems();
        build_destroy(build);
    }
}

/* Written out, so that the builder's own sums are checked too. */
static void figures(void)
{
    struct build *build = build_scratch();
    const struct shunt_plan_summary *sum = &build->summary;
    struct shunt_err err = {""};
    CHECK_MSG(verify_build(build, &err) == SHUNT_OK, "%s", err.text);
    CHECK_EQ_U64(report.dropped_states, 0);
    CHECK_EQ_U64(sum->needed_remote, 32 + 32 + 32);
    CHECK_EQ_U64(sum->relayed, 32);
    CHECK_EQ_U64(sum->moved, sum->needed_remote + sum->relayed);
    CHECK_EQ_U64(sum->intra_node, 3 * 32);
    CHECK_EQ_U64(sum->parked, 32 + 16);
    CHECK_EQ_U64(sum->local, 32 + 2 * 16);
    CHECK_EQ_U64(sum->host_peak, 48);
    CHECK_EQ_U64(sum->peak, 32 + 32 + 64 + 16);
    CHECK_EQ_U64(sum->peak_device, 0);
    CHECK_EQ_U64(build->devices[0].from_bytes, 112);
    CHECK_EQ_U64(build->devices[0].to_bytes, 48);
    CHECK_EQ_U64(build->devices[1].peak_bytes, 64 + 32 + 32);
    CHECK_EQ_U64(sum->rollback_until_round, 0);
    CHECK_EQ_U64(sum->ops, 6 + 4 + 1 + (3 + 2 + 2 * 2) + (1 + 1 + 2) + 1);
    CHECK_EQ_U64(report.ops, sum->ops);
    CHECK_EQ_U64(report.bytes_local, sum->local);
    build_destroy(build);
}

/* A device may hold the same elements in scratch more than once: nothing is bound by name. */
static void many_of_one_binding(void)
{
    struct build *build = build_scratch();
    struct build_part *part = &build->parts[0];
    struct shunt_err err = {""};
    struct shunt_plan_op op = *build_op_at(build, 0, SCRATCH_D0_PARK_NORM);
    for (int i = 0; i < 2; i++) {
        uint32_t more =
            build_buffer(build, 0, 1, SHUNT_STATE_PARAM, SHUNT_DTYPE_FP32, SHUNT_SIDE_SCRATCH, 1, I64(4), 0);
        build_holding(part, 1, I64(0), I64(4), NULL, 0);
        build_op(part, 0, SHUNT_OP_COPY, op.src_buffer, op.src_view, 0, more, op.dst_view, 0);
    }
    build_account(build);
    CHECK_MSG(verify_build(build, &err) == SHUNT_OK, "%s", err.text);
    build_destroy(build);
}

/* Bytes of scratch that no holding covers are nobody's, and need no fill. */
static void room_behind_the_holding(void)
{
    struct build *build = build_scratch();
    struct shunt_err err = {""};
    d0_norm(build)->bytes = 4096;
    build_account(build);
    CHECK_MSG(verify_build(build, &err) == SHUNT_OK, "%s", err.text);
    CHECK_EQ_U64(build->summary.host_peak, 4096 + 32);
    build_destroy(build);
}

static const struct test_case cases[] = {
    {"faults_of_form_are_found", faults_of_form_are_found},
    {"faults_are_found", faults_are_found},
    {"figures", figures},
    {"many_of_one_binding", many_of_one_binding},
    {"room_behind_the_holding", room_behind_the_holding},
};

TEST_MAIN(cases)
