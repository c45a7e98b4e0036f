/* SPDX-License-Identifier: Apache-2.0 */
/** What new states are made from, which are dropped, and what is sent on: plans written out by hand. */
#include <time.h>

#include "verify_rig.h"

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define BIT(s)   (UINT32_C(1) << (s))

/* One device on which w [4,4] changes. */
static struct build *build_one(uint32_t rounds)
{
    struct build *build = build_create(1, rounds, 1);
    build->header.from_rank_count = build->header.to_rank_count = 1;
    build->devices[0].from_rank = build->devices[0].to_rank = 0;
    build->summary.model = build_string(build, "one");
    build_tensor(build, "w", 2, I64(4, 4));
    return build;
}

/* All of w, as one buffer. Returns its index. */
static uint32_t add_whole(struct build *build, uint32_t device, unsigned state, unsigned dtype,
                          enum shunt_plan_side side, uint32_t round)
{
    uint32_t buffer = build_buffer(build, device, 0, state, dtype, side, 2, I64(4, 4), round);
    build_holding(&build->parts[device], 2, I64(0, 0), I64(4, 4), NULL, 0);
    return buffer;
}

static uint32_t whole_view(struct build *build, uint32_t device, unsigned dtype)
{
    return build_view(&build->parts[device], shunt_dtype_bytes(dtype), 2, I64(4, 4), NULL);
}

/* A copy of all of w from one buffer into another, which says that it is made from it. */
static void make_from(struct build *build, uint32_t from, uint32_t to)
{
    const struct shunt_plan_buffer source = *build_buffer_at(build, 0, from);
    struct shunt_plan_buffer *target = build_buffer_at(build, 0, to);
    const unsigned dtype = target->dtype;
    target->origin_state = source.state != target->state ? (uint8_t)(1 + source.state) : 0;
    target->origin_dtype = source.dtype != dtype ? (uint8_t)(1 + source.dtype) : 0;
    uint32_t op = build_op(&build->parts[0], 0, SHUNT_OP_COPY, from, whole_view(build, 0, source.dtype), 0, to,
                           whole_view(build, 0, dtype), 0);
    if (source.dtype != dtype)
        build_op_at(build, 0, op)->cast = dtype == SHUNT_DTYPE_BF16 ? SHUNT_CAST_FP32_BF16 : SHUNT_CAST_BF16_FP32;
}

/* Weights stay, and masters are made from them. */
static struct build *build_new_master(bool had_one)
{
    struct build *build = build_one(1);
    uint32_t param = add_whole(build, 0, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_SIDE_BOTH, 0);
    uint32_t master = add_whole(build, 0, SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, SHUNT_SIDE_TO, 0);
    if (had_one)
        add_whole(build, 0, SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 0);
    make_from(build, param, master);
    build_account(build);
    build->summary.saved = had_one ? 0 : 16 * 2; /* nobody could have sent it */
    return build;
}

static void masters_are_made_once(void)
{
    struct shunt_err err = {""};
    struct build *build = build_new_master(false);
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_OK);
    CHECK_STR(err.text, "");
    build_destroy(build);
    build = build_new_master(true);
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_COVERAGE, "master/w is made from param, and the old side has it itself"));
    CHECK_EQ_U64(report.problem_total, 1);
    build_destroy(build);
}

/* Two states change places: whatever a buffer says of itself, no other numbers are its own. */
static void no_state_becomes_another(void)
{
    unsigned accepted = 0;
    for (unsigned a = 0; a < SHUNT_STATE_COUNT; a++) {
        for (unsigned b = a + 1; b < SHUNT_STATE_COUNT; b++) {
            struct build *build = build_one(1);
            struct shunt_err err = {""};
            uint32_t old_a = add_whole(build, 0, a, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 0);
            uint32_t old_b = add_whole(build, 0, b, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 0);
            make_from(build, old_b, add_whole(build, 0, a, SHUNT_DTYPE_FP32, SHUNT_SIDE_TO, 0));
            make_from(build, old_a, add_whole(build, 0, b, SHUNT_DTYPE_FP32, SHUNT_SIDE_TO, 0));
            build_account(build);
            enum shunt_status st = verify_build(build, &err);
            accepted += st == SHUNT_OK;
            bool both = a == SHUNT_STATE_PARAM && b == SHUNT_STATE_MASTER; /* refused for its master */
            CHECK_MSG(reported(both ? SHUNT_RULE_COVERAGE : SHUNT_RULE_PART, both ? "" : "made from each other"),
                      "%u %u: %s", a, b, err.text);
            build_destroy(build);
        }
    }
    CHECK_EQ_U64(accepted, 0);
}

/* ---- dropped states ------------------------------------------------------------------ */

static void drop_none(struct build *build)
{
    struct build_part *part = &build->parts[0];
    build_buffer_at(build, 0, CAST_D0_MOMENTUM)->free_round = 1;
    uint32_t view = build_view(part, 4, 2, I64(4, 4), NULL);
    build_buffer(build, 0, 0, SHUNT_STATE_MOMENTUM, SHUNT_DTYPE_FP32, SHUNT_SIDE_TO, 2, I64(4, 4), 0);
    build_holding(part, 2, I64(0, 0), I64(4, 4), NULL, 0);
    build_op(part, 0, SHUNT_OP_COPY, CAST_D0_MOMENTUM, view, 0, part->buffers.count - 1, view, 0);
    build_cast_account(build);
}

static void drop_two(struct build *build)
{
    add_whole(build, 0, SHUNT_STATE_GRAD, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 0);
    build_cast_account(build);
}

/* A tensor of the old side alone drops nothing: there is none any more. */
static void drop_a_tensor(struct build *build)
{
    uint32_t tensor = build_tensor(build, "gone", 1, I64(4));
    build_buffer(build, 0, tensor, SHUNT_STATE_GRAD, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 1, I64(4), 0);
    build_holding(&build->parts[0], 1, I64(0), I64(4), NULL, 0);
    build_cast_account(build);
}

static void leave_alone(struct build *build)
{
    (void)build;
}

static void dropped_states_are_told(void)
{
    static const struct {
        const char *name;
        void (*edit)(struct build *build);
        uint32_t want;
    } drops[] = {{"as it is", leave_alone, BIT(SHUNT_STATE_MOMENTUM)},
                 {"none", drop_none, 0},
                 {"two", drop_two, BIT(SHUNT_STATE_MOMENTUM) | BIT(SHUNT_STATE_GRAD)},
                 {"a tensor", drop_a_tensor, BIT(SHUNT_STATE_MOMENTUM)}};
    for (size_t i = 0; i < sizeof(drops) / sizeof(drops[0]); i++) {
        struct build *build = build_cast();
        struct shunt_err err = {""};
        drops[i].edit(build);
        CHECK_MSG(verify_build(build, &err) == SHUNT_OK, "%s: %s", drops[i].name, err.text);
        CHECK_MSG(report.dropped_states == drops[i].want, "%s: %x", drops[i].name, report.dropped_states);
        build_destroy(build);
    }
}

/* ---- many reads of the new side ---------------------------------------------------------- */

enum { MANY = 40000 };

static uint32_t add_line(struct build *build, unsigned state, unsigned dtype, enum shunt_plan_side side, uint32_t round)
{
    uint32_t buffer = build_buffer(build, 0, 0, state, dtype, side, 1, I64(MANY), round);
    build_holding(&build->parts[0], 1, I64(0), I64(MANY), NULL, 0);
    return buffer;
}

/*
 * Element by element: even masters move in round 0 and odd ones in round 2; even weights are made in round 1 of new
 * masters and odd ones in round 0 of old ones. Each read lies between two writes that come later.
 */
static struct build *build_many(void)
{
    struct build *build = build_create(1, 3, 1);
    struct build_part *part = &build->parts[0];
    build->header.from_rank_count = build->header.to_rank_count = 1;
    build->devices[0].from_rank = build->devices[0].to_rank = 0;
    build_tensor(build, "w", 1, I64(MANY));
    uint32_t old = add_line(build, SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 2);
    uint32_t master = add_line(build, SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, SHUNT_SIDE_TO, 0);
    uint32_t param = add_line(build, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_SIDE_TO, 0);
    uint32_t wide = build_view(part, 4, 1, I64(1), NULL), narrow = build_view(part, 2, 1, I64(1), NULL);
    build_buffer_at(build, 0, param)->origin_state = 1 + SHUNT_STATE_MASTER;
    build_buffer_at(build, 0, param)->origin_dtype = 1 + SHUNT_DTYPE_FP32;
    for (uint64_t i = 0; i < MANY; i++) {
        build_op(part, i % 2 == 0 ? 0 : 2, SHUNT_OP_COPY, old, wide, 4 * i, master, wide, 4 * i);
        uint32_t op = build_op(part, i % 2 == 0 ? 1 : 0, SHUNT_OP_COPY, i % 2 == 0 ? master : old, wide, 4 * i, param,
                               narrow, 2 * i);
        build_op_at(build, 0, op)->cast = SHUNT_CAST_FP32_BF16;
    }
    build_account(build);
    build->summary.saved = MANY * 2; /* there was no weight */
    return build;
}

static void many_reads_of_the_new_side(void)
{
    struct build *build = build_many();
    struct shunt_err err = {""};
    clock_t begin = clock();
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_OK);
    CHECK_STR(err.text, "");
    CHECK((double)(clock() - begin) / CLOCKS_PER_SEC < 5);
    for (uint32_t i = 0; i < 2 * MANY; i++) { /* the one between: its master comes in round 2 */
        struct build_op *op = &((struct build_op *)build->parts[0].ops.at)[i];
        if (op->op.dst_buffer == 2 && op->op.dst_offset == 2 * 12345) {
            op->op.src_buffer = 1;
            op->round = 1;
        }
    }
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_SOURCE, "copy reads [12345,12346) of to:master/w, of which round 2 writes a part"));
    build_destroy(build);
}

/* ---- figures that do not fit ---------------------------------------------------------------- */

/* Weights of 2^44 elements, 2^18 of them, each made from a master: 2^63 bytes need not be sent. */
static void much_is_saved(void)
{
    enum { DEVICES = 64, TENSORS = 4096 };
    const int64_t side = 1 << 22;
    struct build *build = build_create(DEVICES, 1, 1);
    struct shunt_err err = {""};
    build->header.from_rank_count = build->header.to_rank_count = DEVICES;
    for (uint32_t t = 0; t < TENSORS; t++) {
        char name[16];
        snprintf(name, sizeof(name), "w%u", t);
        build_tensor(build, name, 2, I64(side, side));
    }
    for (uint32_t d = 0; d < DEVICES; d++) {
        struct build_part *part = &build->parts[d];
        build->devices[d].from_rank = build->devices[d].to_rank = d;
        uint32_t wide = build_view(part, 4, 2, I64(side, side), NULL);
        uint32_t narrow = build_view(part, 2, 2, I64(side, side), NULL);
        for (uint32_t t = 0; t < TENSORS; t++) {
            uint32_t old =
                build_buffer(build, d, t, SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 2, I64(side, side), 0);
            build_holding(part, 2, I64(0, 0), I64(side, side), NULL, 0);
            uint32_t fresh =
                build_buffer(build, d, t, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_SIDE_TO, 2, I64(side, side), 0);
            build_holding(part, 2, I64(0, 0), I64(side, side), NULL, 0);
            build_buffer_at(build, d, fresh)->origin_state = 1 + SHUNT_STATE_MASTER;
            build_buffer_at(build, d, fresh)->origin_dtype = 1 + SHUNT_DTYPE_FP32;
            uint32_t op = build_op(part, 0, SHUNT_OP_COPY, old, wide, 0, fresh, narrow, 0);
            build_op_at(build, d, op)->cast = SHUNT_CAST_FP32_BF16;
        }
    }
    build_account(build);
    build->summary.saved = UINT64_C(1) << 63;
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_OK);
    CHECK_STR(err.text, "");
    build->summary.saved = 0;
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_SUMMARY, "saved is 0, the replay has 9223372036854775808"));
    build_destroy(build);
}

/* 2^18 copies of 2^46 bytes each: a sum that begins at 0 again could be claimed. */
static void sums_stop(void)
{
    enum { COPIES = 1 << 18 };
    const int64_t side = 1 << 22;
    struct build *build = build_create(1, 1, 1);
    struct build_part *part = &build->parts[0];
    struct shunt_err err = {""};
    build->header.from_rank_count = build->header.to_rank_count = 1;
    build->devices[0].from_rank = build->devices[0].to_rank = 0;
    build_tensor(build, "w", 2, I64(side, side));
    for (unsigned s = SHUNT_SIDE_FROM; s <= SHUNT_SIDE_TO; s++) {
        build_buffer(build, 0, 0, SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, s, 2, I64(side, side), 0);
        build_holding(part, 2, I64(0, 0), I64(side, side), NULL, 0);
    }
    uint32_t view = build_view(part, 4, 2, I64(side, side), NULL);
    for (uint32_t i = 0; i < COPIES; i++)
        build_op(part, 0, SHUNT_OP_COPY, 0, view, 0, 1, view, 0);
    build_account(build);
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_SUMMARY, "local is 0, the replay has 18446744073709551615"));
    build->summary.local = UINT64_MAX;
    CHECK_EQ_U64(verify_build(build, &err), SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_SUMMARY, "local is above 18446744073709551614"));
    build_destroy(build);
}

/* ---- relays ------------------------------------------------------------------------------ */

/* w goes from device 0 to device 1 in round 0, and from there to device 2 in round 1. */
static struct build *build_relay(void)
{
    struct build *build = build_create(3, 2, 1);
    build->header.from_rank_count = 1;
    build->header.to_rank_count = 2;
    for (uint32_t d = 0; d < 3; d++) {
        build->devices[d].from_rank = d == 0 ? 0 : SHUNT_PLAN_NONE;
        build->devices[d].to_rank = d == 0 ? SHUNT_PLAN_NONE : d - 1;
        build->parts[d].staging_bytes[0] = 32;
    }
    build->summary.model = build_string(build, "relay");
    build_tensor(build, "w", 2, I64(4, 4));
    for (uint32_t d = 0; d < 3; d++)
        add_whole(build, d, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, d == 0 ? SHUNT_SIDE_FROM : SHUNT_SIDE_TO, 0);
    for (uint32_t d = 0; d < 2; d++) {
        uint32_t here = whole_view(build, d, SHUNT_DTYPE_BF16), there = whole_view(build, d + 1, SHUNT_DTYPE_BF16);
        build_op(&build->parts[d], d, SHUNT_OP_PACK, 0, here, 0, SHUNT_PLAN_STAGING, here, 0);
        build_op(&build->parts[d + 1], d, SHUNT_OP_UNPACK, SHUNT_PLAN_STAGING, there, 0, 0, there, 0);
        build_message(build, d, d, SHUNT_SEND, d + 1, 0, 32);
        build_message(build, d + 1, d, SHUNT_RECV, d, 0, 32);
    }
    build_account(build);
    return build;
}

static void forwards_are_counted(void)
{
    static const struct {
        uint64_t forwarded, relayed;
        enum shunt_status want;
        const char *text;
    } claims[] = {{32, 0, SHUNT_OK, ""},
                  {0, 0, SHUNT_ERR_VERIFY, "forwarded is 0, the replay has 32"},
                  {64, 0, SHUNT_ERR_VERIFY, "forwarded is 64, the replay has 32"},
                  {32, 32, SHUNT_ERR_VERIFY, "relayed is 32, the replay has 0"}};
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        struct build *build = build_relay();
        struct shunt_err err = {""};
        CHECK_EQ_U64(build->summary.moved, 64);
        CHECK_EQ_U64(build->summary.forwarded, 32);
        build->summary.forwarded = claims[i].forwarded;
        build->summary.relayed = claims[i].relayed;
        CHECK_EQ_U64(verify_build(build, &err), claims[i].want);
        CHECK_STR(err.text, claims[i].text);
        build_destroy(build);
    }
}

static const struct test_case cases[] = {
    {"masters_are_made_once", masters_are_made_once},
    {"no_state_becomes_another", no_state_becomes_another},
    {"dropped_states_are_told", dropped_states_are_told},
    {"many_reads_of_the_new_side", many_reads_of_the_new_side},
    {"much_is_saved", much_is_saved},
    {"sums_stop", sums_stop},
    {"forwards_are_counted", forwards_are_counted},
};

TEST_MAIN(cases)
