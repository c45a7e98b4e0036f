/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_VERIFY_RIG_H
#define SHUNT_TESTS_VERIFY_RIG_H

/** Verify a plan that a test has built, and look at what was reported. */

#include <string.h>

#include "harness.h"
#include "plan_builder.h"
#include "verify_internal.h"

static struct shunt_verify_report report;

/* The same, as if the plan were too large to be held: by digests first, by one thread or several, and then with every
 * part dropped at once. */
static inline void verify_as_large(const struct shunt_plan *plan, enum shunt_status want,
                                   const struct shunt_err *want_err)
{
    static struct shunt_verify_report large;
    struct shunt_err err = {""};
    uint64_t keep = schema_verify_keep_bytes;
    schema_verify_keep_bytes = 0;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        CHECK_EQ_U64(shunt_plan_verify_shared(plan, threads, &large, &err), want);
        CHECK_STR(err.text, want_err->text);
        CHECK(memcmp(&large, &report, sizeof(report)) == 0);
    }
    schema_verify_keep_bytes = keep;
}

static inline enum shunt_status verify_image(const struct image *image, struct shunt_err *err)
{
    struct shunt_plan *plan = NULL;
    enum shunt_status st = shunt_plan_open_memory(image->bytes, image->size, &plan, err);
    CHECK_MSG(st == SHUNT_OK, "%s", err->text);
    if (st == SHUNT_OK)
        st = shunt_plan_verify(plan, &report, err);
    if (plan != NULL)
        verify_as_large(plan, st, st == SHUNT_OK ? &(struct shunt_err){""} : err);
    shunt_plan_close(plan);
    return st;
}

static inline enum shunt_status verify_build(struct build *build, struct shunt_err *err)
{
    struct image image = build_encode(build);
    enum shunt_status st = verify_image(&image, err);
    image_finish(&image);
    return st;
}

static inline bool reported(enum shunt_verify_rule rule, const char *text)
{
    for (uint32_t i = 0; i < report.problem_count; i++) {
        if (report.problems[i].rule == rule && strstr(report.problems[i].text, text) != NULL)
            return true;
    }
    return false;
}

static inline void print_problems(void)
{
    for (uint32_t i = 0; i < report.problem_count; i++)
        printf("#   %s: %s\n", shunt_verify_rule_name(report.problems[i].rule), report.problems[i].text);
}

#endif
