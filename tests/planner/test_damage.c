/* SPDX-License-Identifier: Apache-2.0 */
/** Real plans, damaged: flipped bytes, cut short, and grown. None may pass as the plan it was. */

#include <stdlib.h>

#include "compile.h"
#include "harness.h"
#include "shunt/verify.h"

static unsigned char *plan_bytes;
static size_t plan_size;

/** @param cap  0: none; else one that is met by spilling */
static unsigned char *compile(uint64_t cap, size_t *size_out)
{
    struct compile_documents documents;
    struct shunt_err err = {0};
    void *bytes = NULL;
    const struct compile_options options = {.from_path = SHUNT_SOURCE_PLANS "/layouts/gpt2-tp4-pp2.yaml",
                                            .to_path = SHUNT_SOURCE_PLANS "/layouts/gpt2-tp2-pp4.yaml",
                                            .cap_given = cap > 0,
                                            .cap = cap,
                                            .spill_host = cap > 0};
    CHECK(compile_load(&options, &documents, stderr) == SHUNT_OK);
    CHECK_MSG(compile_plan(&options, &documents, &bytes, size_out, &err) == SHUNT_OK, "%s", err.text);
    compile_unload(&documents);
    return bytes;
}

static void make_plan(void)
{
    if (plan_bytes == NULL)
        plan_bytes = compile(0, &plan_size);
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

static void flip_bytes(unsigned char *bytes, size_t size, int count)
{
    struct shunt_verify_report *report = malloc(sizeof(*report));
    uint64_t state = 42;
    int passed = 0;
    CHECK(report != NULL && accepted(bytes, size, report));
    for (int i = 0; report != NULL && i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t at = (size_t)((state >> 11) % size);
        unsigned char flip = (unsigned char)(1 + (state >> 3) % 255);
        bytes[at] ^= flip;
        if (accepted(bytes, size, report)) {
            printf("# byte %zu xor %u was accepted\n", at, flip);
            passed++;
        }
        bytes[at] ^= flip;
    }
    CHECK_EQ_U64(passed, 0);
    CHECK(report != NULL && accepted(bytes, size, report));
    free(report);
}

static void flipped_bytes(void)
{
    make_plan();
    flip_bytes(plan_bytes, plan_size, 10000);
}

static void flipped_bytes_of_spilling(void)
{
    size_t size = 0;
    unsigned char *bytes = compile(UINT64_C(434000000), &size);
    CHECK(bytes != NULL && ((const struct shunt_plan_header *)(const void *)bytes)->version_minor == 3);
    if (bytes != NULL)
        flip_bytes(bytes, size, 2000);
    free(bytes);
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
    {"2,000 flipped bytes of a plan that spills", flipped_bytes_of_spilling},
    {"cut short at every length", cut_short},
    {"grown", grown},
};
TEST_MAIN(cases)
