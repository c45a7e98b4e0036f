/* SPDX-License-Identifier: Apache-2.0 */

/* The YAML loader: what it refuses, and with which words. */
#include "config/beside_rows.h"
#include "config/error_rows.h"
#include "config/form_rows.h"
#include "config/ladder_rows.h"
#include "config/rig.h"
#include "config/rule_rows.h"
#include "harness.h"

static void check_rows(const struct error_row *rows, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        const struct error_row *row = &rows[r];
        struct loaded loaded = load_text(row->kind, row->text);
        CHECK_MSG(loaded.status == SHUNT_ERR_INPUT, "row %zu: %s", r, row->text);
        CHECK_MSG(loaded.model == NULL && loaded.cluster == NULL && loaded.layout == NULL, "row %zu", r);
        CHECK_MSG(loaded.ladder == NULL && loaded.index == NULL, "row %zu", r);
        CHECK_MSG(strstr(loaded.log, row->want) != NULL, "row %zu: \"%s\" lacks \"%s\"", r, loaded.log, row->want);
        CHECK_MSG(strncmp(loaded.log, "t:", 2) == 0, "row %zu: %s", r, loaded.log);
        unload(&loaded);
    }
}

static void refuses(void)
{
    check_rows(error_rows, sizeof(error_rows) / sizeof(error_rows[0]));
}

static void refuses_forms(void)
{
    check_rows(form_rows, sizeof(form_rows) / sizeof(form_rows[0]));
}

static void refuses_ladders(void)
{
    check_rows(ladder_rows, sizeof(ladder_rows) / sizeof(ladder_rows[0]));
}

static void refuses_rules(void)
{
    check_rows(rule_rows, sizeof(rule_rows) / sizeof(rule_rows[0]));
}

static void refuses_beside(void)
{
    check_rows(beside_rows, sizeof(beside_rows) / sizeof(beside_rows[0]));
}

static void refuses_nul_bytes(void)
{
    static const char text[] = "kind: layout\nname: a\0b\nparallel: {}\n";
    struct loaded loaded = load_bytes(LAYOUT, text, sizeof(text) - 1);
    CHECK_EQ_U64(loaded.status, SHUNT_ERR_INPUT);
    CHECK_STR(loaded.log, "t:2:8: document: found a NUL byte, expected text\n");
    unload(&loaded);
}

static void reports_all_problems(void)
{
    struct loaded loaded = load_text(LAYOUT, "kind: layout\n"
                                             "name: no\n"
                                             "parallel: {tp: 010, pq: 2}\n"
                                             "order: tp-tp\n"
                                             "vocab: {padded: 1.5}\n");
    CHECK_EQ_U64(loaded.status, SHUNT_ERR_INPUT);
    CHECK_EQ_U64(count_lines(loaded.log), 5);
    CHECK_CONTAINS(loaded.log, "t:2:7: name:");
    CHECK_CONTAINS(loaded.log, "\nt:3:16: parallel.tp:");
    CHECK_CONTAINS(loaded.log, "\nt:3:21: parallel.pq:");
    CHECK_CONTAINS(loaded.log, "\nt:4:8: order:");
    CHECK_CONTAINS(loaded.log, "\nt:5:17: vocab.padded:");
    unload(&loaded);
}

/* A faulty tensor does not hide faults of others, nor those that only show in the whole model. */
static void reports_problems_of_all_tensors(void)
{
    struct loaded loaded = load_text(MODEL, "kind: model\nname: m\nlayers: 2\nheads: 3\nkv_heads: 2\ntensors:\n"
                                            "- {name: a, shape: [0], stage: all}\n"
                                            "- {name: \"b.{i}\", shape: [4], cut: {dim: 0, segments: [1, 2]}}\n"
                                            "- {name: b.1, shape: [4], stage: all}\n"
                                            "- {name: \"c.{i}\", shape: [4], layers: {to: 3}}\n");
    CHECK_EQ_U64(count_lines(loaded.log), 5);
    CHECK_CONTAINS(loaded.log, "tensors[0].shape[0]:");
    CHECK_CONTAINS(loaded.log, "tensors[1].cut.segments:");
    CHECK_CONTAINS(loaded.log, "tensors[2].name: found the name \"b.1\" a second time");
    CHECK_CONTAINS(loaded.log, "tensors[3].layers:");
    CHECK_CONTAINS(loaded.log, "kv_heads:");
    unload(&loaded);
}

static void bounds_the_report(void)
{
    char text[4096] = "kind: layout\nname: x\nparallel: {}\n";
    for (int i = 0; i < 60; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "key%d: 1\n", i);
    struct loaded loaded = load_text(LAYOUT, text);
    CHECK_EQ_U64(count_lines(loaded.log), 51);
    CHECK_CONTAINS(loaded.log, "\nt: 10 more problems\n");
    unload(&loaded);
}

static void cuts_long_texts(void)
{
    char text[2048] = "kind: layout\nname: x\nparallel: {tp: ";
    memset(text + strlen(text), 'w', 1000);
    strcat(text, "}\n");
    struct loaded loaded = load_text(LAYOUT, text);
    CHECK_CONTAINS(loaded.log, "wwww...\" (not a number), expected");
    CHECK(strlen(loaded.log) < 300);
    unload(&loaded);
}

static const struct test_case cases[] = {
    {"refuses", refuses},
    {"refuses-forms", refuses_forms},
    {"refuses-ladders", refuses_ladders},
    {"refuses-rules", refuses_rules},
    {"refuses-beside", refuses_beside},
    {"refuses-nul-bytes", refuses_nul_bytes},
    {"reports-all-problems", reports_all_problems},
    {"reports-problems-of-all-tensors", reports_problems_of_all_tensors},
    {"bounds-the-report", bounds_the_report},
    {"cuts-long-texts", cuts_long_texts},
};

TEST_MAIN(cases)
