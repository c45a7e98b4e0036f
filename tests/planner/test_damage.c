/* SPDX-License-Identifier: Apache-2.0 */
/** A real plan, damaged: flipped bytes, cut short, and grown. None may pass as the plan it was. */

#include <stdlib.h>

#include "compile.h"
#include "harness.h"
#include "shunt/verify.h"

static unsigned char *plan_bytes;
static size_t plan_size;

static void make_plan(void)
{
    struct compile_documents documents;
    struct shunt_err err = {0};
    void *bytes = NULL;
    const struct compile_options options = {.from_path = SHUNT_SOURCE_PLANS "/layouts/gpt2-tp4-pp2.yaml",
                                            .to_path = SHUNT_SOURCE_PLANS "/layouts/gpt2-tp2-pp4.yaml"};
    if (plan_bytes != NULL)
        return;
    CHECK(compile_load(&options, &documents, stderr) == SHUNT_OK);
    CHECK_MSG(compile_plan(&options, &documents, &bytes, &plan_size, &err) == SHUNT_OK, "%s", err.text);
    compile_unload(&documents);
    plan_bytes = bytes;
}

/** Whether the bytes open, every part reads and the verifier agrees. */
static bool accepted(const void *bytes, size_t size, struct shunt_verify_report *report)
{
    struct shunt_plan *plan;
    struct shunt_err err;
    if (shunt_plan_open_memory(bytes, size, &plan, &err) != SHUNT_OK)
        return false;
    bool good = shunt_plan_verify(plan, report, &err) == SHUNT_OK;
    shunt_plan_close(plan);
    return good;
}

static void flipped_bytes(void)
{
    struct shunt_verify_report *report = malloc(sizeof(*report));
    uint64_t state = 42;
    int passed = 0;
    make_plan();
    CHECK(report != NULL && accepted(plan_bytes, plan_size, report));
    for (int i = 0; report != NULL && i < 10000; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t at = (size_t)((state >> 11) % plan_size);
        unsigned char flip = (unsigned char)(1 + (state >> 3) % 255);
        plan_bytes[at] ^= flip;
        if (accepted(plan_bytes, plan_size, report)) {
            printf("# byte %zu xor %u was accepted\n", at, flip);
            passed++;
        }
        plan_bytes[at] ^= flip;
    }
    CHECK_EQ_U64(passed, 0);
    CHECK(report != NULL && accepted(plan_bytes, plan_size, report));
    free(report);
}

static void cut_short(void)
{
    struct shunt_plan *plan;
    struct shunt_err err;
    make_plan();
    for (size_t size = 0; size < plan_size; size++) {
        enum shunt_status status = shunt_plan_open_memory(plan_bytes, size, &plan, &err);
        CHECK_MSG(status == SHUNT_ERR_PLAN, "%zu of %zu bytes", size, plan_size);
        if (status == SHUNT_OK)
            shunt_plan_close(plan);
    }
}

static void grown(void)
{
    make_plan();
    unsigned char *larger = calloc(1, plan_size + 64);
    CHECK(larger != NULL);
    if (larger == NULL)
        return;
    memcpy(larger, plan_bytes, plan_size);
    struct shunt_plan *plan;
    struct shunt_err err;
    CHECK(shunt_plan_open_memory(larger, plan_size + 64, &plan, &err) == SHUNT_ERR_PLAN);
    free(larger);
}

static const struct test_case cases[] = {
    {"10,000 flipped bytes", flipped_bytes},
    {"cut short at every length", cut_short},
    {"grown", grown},
};
TEST_MAIN(cases)
