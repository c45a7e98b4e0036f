/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_HARNESS_H
#define SHUNT_TESTS_HARNESS_H

/**
 * Smallest possible test runner: a table of named cases, TAP on stdout.
 *
 *     static void adds(void) { CHECK_EQ_U64(1 + 1, 2); }
 *     static const struct test_case cases[] = {{"adds", adds}};
 *     TEST_MAIN(cases)
 *
 * A failing CHECK prints file, line and values, and the case goes on. With arguments,
 * only the named cases run. A case that calls test_skip() is reported as skipped.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct test_case {
    const char *name;
    void (*run)(void);
};

static int test_failures;
static const char *test_skip_reason;

__attribute__((unused)) static void test_skip(const char *reason)
{
    test_skip_reason = reason;
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("# %s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                         \
            test_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

/* The same with a formatted remark that tells table rows apart. */
#define CHECK_MSG(condition, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("# %s:%d: not true: %s: ", __FILE__, __LINE__, #condition);                                         \
            printf(__VA_ARGS__);                                                                                       \
            putchar('\n');                                                                                             \
            test_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

#define CHECK_EQ_U64(got, want)                                                                                        \
    do {                                                                                                               \
        uint64_t got_ = (uint64_t)(got), want_ = (uint64_t)(want);                                                     \
        if (got_ != want_) {                                                                                           \
            printf("# %s:%d: %s is %" PRIu64 ", want %" PRIu64 "\n", __FILE__, __LINE__, #got, got_, want_);           \
            test_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

#define CHECK_STR(got, want)                                                                                           \
    do {                                                                                                               \
        const char *got_ = (got), *want_ = (want);                                                                     \
        if (got_ == NULL || strcmp(got_, want_) != 0) {                                                                \
            printf("# %s:%d: %s is \"%s\", want \"%s\"\n", __FILE__, __LINE__, #got, got_ ? got_ : "(null)", want_);   \
            test_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

#define CHECK_CONTAINS(text, part)                                                                                     \
    do {                                                                                                               \
        const char *text_ = (text), *part_ = (part);                                                                   \
        if (text_ == NULL || strstr(text_, part_) == NULL) {                                                           \
            printf("# %s:%d: \"%s\" does not contain \"%s\"\n", __FILE__, __LINE__, text_ ? text_ : "(null)", part_);  \
            test_failures++;                                                                                           \
        }                                                                                                              \
    } while (0)

static bool test_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return argc < 2;
}

static int test_run_all(const struct test_case *cases, size_t count, int argc, char **argv)
{
    int failed = 0, number = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < count; i++) {
        if (!test_wanted(cases[i].name, argc, argv))
            continue;
        test_failures = 0;
        test_skip_reason = NULL;
        cases[i].run();
        number++;
        if (test_failures != 0)
            printf("not ok %d - %s\n", number, cases[i].name);
        else if (test_skip_reason != NULL)
            printf("ok %d - %s # SKIP %s\n", number, cases[i].name, test_skip_reason);
        else
            printf("ok %d - %s\n", number, cases[i].name);
        failed += test_failures != 0;
    }
    printf("1..%d\n", number);
    return failed != 0;
}

#define TEST_MAIN(cases)                                                                                               \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        return test_run_all(cases, sizeof(cases) / sizeof((cases)[0]), argc, argv);                                    \
    }

#endif
