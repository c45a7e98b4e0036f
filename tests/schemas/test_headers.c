/* SPDX-License-Identifier: Apache-2.0 */
/** That each header compiles alone is proved by building header_alone.in; here, what they promise at compile time. */
#include "harness.h"
#include "shunt/plan.h"
#include "shunt/verify.h"

int header_alone_plan_in_c(void);
int header_alone_plan_format_in_c(void);
int header_alone_status_in_c(void);
int header_alone_types_in_c(void);
int header_alone_verify_in_c(void);

static void compile_alone(void)
{
    CHECK(header_alone_plan_in_c() == 1);
    CHECK(header_alone_plan_format_in_c() == 1);
    CHECK(header_alone_status_in_c() == 1);
    CHECK(header_alone_types_in_c() == 1);
    CHECK(header_alone_verify_in_c() == 1);
}

/* A record without holes has the sum of its members as size: no byte of a plan is undefined. */
static void records_have_no_holes(void)
{
    CHECK_EQ_U64(sizeof(struct shunt_plan_header), 8 + 4 * 4 + 8 + 5 * 32 + 7 * 4 + 36);
    CHECK_EQ_U64(sizeof(struct shunt_plan_section), 2 * 4 + 2 * 8 + 2 * 4);
    CHECK_EQ_U64(sizeof(struct shunt_plan_summary), 8 * 4 + 11 * 8 + 3 * 8 + 9 * 8 + 6 * 4 + 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_tensor), 2 * 4 + 2 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_device), 4 * 4 + 2 * 8 + 2 * 4 + 3 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_part_header), 8 * 4 + 2 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_buffer), 4 + 4 + 8 + 6 * 4);
    CHECK_EQ_U64(sizeof(struct shunt_plan_holding), 2 * 4 + 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_view), 2 * 4 + 12 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_corner), 6 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_round), 4 * 4 + 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_op), 4 + 5 * 4 + 2 * 8);
    CHECK_EQ_U64(sizeof(struct shunt_plan_message), 4 * 4 + 2 * 8);
}

static const struct test_case cases[] = {
    {"compile_alone", compile_alone},
    {"records_have_no_holes", records_have_no_holes},
};
TEST_MAIN(cases)
