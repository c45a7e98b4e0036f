/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"
#include "shunt/escape.h"
#include "shunt/status.h"
#include "shunt/types.h"

static void states_round_trip(void)
{
    static const char *const want[] = {"param",    "grad",   "master", "exp_avg", "exp_avg_sq",
                                       "momentum", "buffer", "scalar", "blob"};
    CHECK_EQ_U64(SHUNT_STATE_COUNT, sizeof(want) / sizeof(want[0]));
    for (unsigned i = 0; i < SHUNT_STATE_COUNT; i++) {
        CHECK_STR(shunt_state_name(i), want[i]);
        CHECK_EQ_U64(shunt_state_from_name(want[i]), i);
    }
}

static void dtypes_round_trip(void)
{
    static const struct {
        const char *name, *safetensors;
        uint32_t bytes;
    } want[SHUNT_DTYPE_COUNT] = {
        {"bf16", "BF16", 2},        {"fp16", "F16", 2},         {"fp32", "F32", 4}, {"fp64", "F64", 8},
        {"fp8_e4m3", "F8_E4M3", 1}, {"fp8_e5m2", "F8_E5M2", 1}, {"i8", "I8", 1},    {"i16", "I16", 2},
        {"i32", "I32", 4},          {"i64", "I64", 8},          {"u8", "U8", 1},    {"u16", "U16", 2},
        {"u32", "U32", 4},          {"u64", "U64", 8},          {"bool", "BOOL", 1}};
    for (unsigned i = 0; i < SHUNT_DTYPE_COUNT; i++) {
        CHECK_STR(shunt_dtype_name(i), want[i].name);
        CHECK_STR(shunt_dtype_safetensors_name(i), want[i].safetensors);
        CHECK_EQ_U64(shunt_dtype_bytes(i), want[i].bytes);
        CHECK_EQ_U64(shunt_dtype_from_name(want[i].name), i);
        CHECK_EQ_U64(shunt_dtype_from_safetensors_name(want[i].safetensors), i);
    }
}

static void outside_the_tables(void)
{
    CHECK(shunt_state_name(SHUNT_STATE_COUNT) == NULL);
    CHECK(shunt_state_name(UINT32_MAX) == NULL);
    CHECK(shunt_dtype_name(SHUNT_DTYPE_COUNT) == NULL);
    CHECK(shunt_dtype_safetensors_name(SHUNT_DTYPE_COUNT) == NULL);
    CHECK_EQ_U64(shunt_dtype_bytes(SHUNT_DTYPE_COUNT), 0);
    CHECK(shunt_state_from_name("Param") == -1);
    CHECK(shunt_state_from_name("") == -1);
    CHECK(shunt_dtype_from_name("BF16") == -1);
    CHECK(shunt_dtype_from_safetensors_name("bf16") == -1);
}

static void statuses(void)
{
    static const struct {
        enum shunt_status status;
        const char *name;
        int exit_code;
    } want[] = {{SHUNT_OK, "ok", 0},
                {SHUNT_ERR_INPUT, "input", 1},
                {SHUNT_ERR_UNSUPPORTED, "unsupported", 1},
                {SHUNT_ERR_INFEASIBLE, "infeasible", 1},
                {SHUNT_ERR_PLAN, "plan", 1},
                {SHUNT_ERR_VERIFY, "verify", 1},
                {SHUNT_ERR_CHECK, "check", 1},
                {SHUNT_ERR_MISMATCH, "mismatch", 1},
                {SHUNT_ERR_USAGE, "usage", 2},
                {SHUNT_ERR_IO, "io", 3},
                {SHUNT_ERR_NOMEM, "nomem", 3},
                {SHUNT_ERR_PEER, "peer", 3},
                {SHUNT_ERR_TIMEOUT, "timeout", 3},
                {SHUNT_ERR_TRANSPORT, "transport", 3},
                {SHUNT_ERR_CANCELLED, "cancelled", 3},
                {SHUNT_ERR_INTERNAL, "internal", 3},
                {(enum shunt_status)4711, "internal", 3}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        CHECK_STR(shunt_status_name(want[i].status), want[i].name);
        CHECK_EQ_U64(shunt_status_exit_code(want[i].status), want[i].exit_code);
    }
}

static void fail_writes_and_returns(void)
{
    struct shunt_err err = {"before"};
    CHECK(shunt_fail(&err, SHUNT_ERR_IO, "open \"%s\": %d", "a", 7) == SHUNT_ERR_IO);
    CHECK_STR(err.text, "open \"a\": 7");
    CHECK(shunt_fail(NULL, SHUNT_ERR_PEER, "nobody reads this") == SHUNT_ERR_PEER);
}

static void fail_truncates(void)
{
    static char big[3 * sizeof(struct shunt_err)];
    struct shunt_err err = {""};
    memset(big, 'x', sizeof(big) - 1);
    shunt_fail(&err, SHUNT_ERR_INPUT, "%s", big);
    CHECK_EQ_U64(strlen(err.text), sizeof(err.text) - 1);
}

static void errors_are_one_plain_line(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"plain \xc3\xa9 \xe2\x82\xac", "plain \xc3\xa9 \xe2\x82\xac"},
        {"\x1b[31m\r\n\x7f", "\\x1B[31m\\x0D\\x0A\\x7F"},
        {"\xc2\x80\xc2\x9f\xc2\xa0\xc2", "\\xC2\\x80\\xC2\\x9F\xc2\xa0\xc2"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shunt_err err;
        CHECK_EQ_U64(shunt_fail(&err, SHUNT_ERR_INPUT, "%s", rows[i].text), SHUNT_ERR_INPUT);
        CHECK_STR(err.text, rows[i].want);
        CHECK_EQ_U64(shunt_fail(&err, SHUNT_ERR_IO, "%s", err.text), SHUNT_ERR_IO); /* passed on, it stays */
        CHECK_STR(err.text, rows[i].want);
    }
    char small[7];
    CHECK_EQ_U64(shunt_escape(small, sizeof(small),
                              "ab\x1b"
                              "c"),
                 6);
    CHECK_STR(small, "ab\\x1B");
    CHECK_EQ_U64(shunt_escape(small, sizeof(small), "abc\x1b"), 3);
    CHECK_STR(small, "abc");
}

static const struct test_case cases[] = {
    {"errors_are_one_plain_line", errors_are_one_plain_line},
    {"states_round_trip", states_round_trip},
    {"dtypes_round_trip", dtypes_round_trip},
    {"outside_the_tables", outside_the_tables},
    {"statuses", statuses},
    {"fail_writes_and_returns", fail_writes_and_returns},
    {"fail_truncates", fail_truncates},
};
TEST_MAIN(cases)
