/* SPDX-License-Identifier: Apache-2.0 */

/* The YAML loader: what scalars mean, and the engine with a table of its own. */
#include <math.h>
#include <stdlib.h>

#include "config/engine.h"
#include "config/scalar.h"
#include "config/suggest.h"
#include "harness.h"

/* ---- scalars -------------------------------------------------------------------------------- */

static void scans_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t want; /* UINT64_MAX: refused */
    } rows[] = {
        {"0 B", 0},
        {"1B", 1},
        {"1 KiB", 1024},
        {"1 MiB", 1048576},
        {"1 GiB", 1073741824},
        {"1 TiB", UINT64_C(1099511627776)},
        {"1 kB", 1000},
        {"1 MB", 1000000},
        {"1 GB", 1000000000},
        {"1 TB", UINT64_C(1000000000000)},
        {"1.5 GiB", 1610612736},
        {"0.5 KiB", 512},
        {"1.0 B", 1},
        {"1.000000000000000000000 B", 1},
        {"0.1 KiB", UINT64_MAX},
        {"0.5 B", UINT64_MAX},
        {"1", UINT64_MAX},
        {"", UINT64_MAX},
        {"B", UINT64_MAX},
        {"1 KB", UINT64_MAX},
        {"1 K", UINT64_MAX},
        {"1 GB ", UINT64_MAX},
        {" 1 GB", UINT64_MAX},
        {"+1 GB", UINT64_MAX},
        {"1,5 GB", UINT64_MAX},
        {"1e3 B", UINT64_MAX},
        {"0x10 B", UINT64_MAX},
        {"1_000 B", UINT64_MAX},
        {"18446744073709551615 B", UINT64_MAX},
        {"16777216 TiB", UINT64_MAX},
        {"16777215 TiB", UINT64_C(18446742974197923840)},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        uint64_t bytes = UINT64_MAX;
        struct shunt_err err = {""};
        enum shunt_status status = cfg_parse_size(rows[r].text, &bytes, &err);
        CHECK_MSG(status == (rows[r].want == UINT64_MAX ? SHUNT_ERR_INPUT : SHUNT_OK), "%s", rows[r].text);
        CHECK_MSG(bytes == rows[r].want, "%s: %" PRIu64, rows[r].text, bytes);
        CHECK_MSG((err.text[0] != '\0') == (status != SHUNT_OK), "%s", rows[r].text);
    }
}

static void scans_durations_and_rates(void)
{
    static const struct {
        const char *text;
        double want;
    } durations[] = {{"5 us", 5e-6}, {"1 ms", 1e-3}, {"2 s", 2}, {"100 ns", 1e-7}, {"0.25us", 0.25e-6}, {"0 s", 0}};
    double value;
    for (size_t r = 0; r < sizeof(durations) / sizeof(durations[0]); r++) {
        value = NAN;
        CHECK(cfg_scan_duration(durations[r].text, strlen(durations[r].text), &value) == NULL);
        CHECK_MSG(value == durations[r].want, "%s: %.17g", durations[r].text, value);
    }
    CHECK_STR(cfg_scan_duration("5 m", 3, &value), "not a known unit");
    CHECK(cfg_scan_rate("12.5 GB/s", 9, &value) == NULL && value == 12.5e9);
    CHECK(cfg_scan_rate("1 KiB/s", 7, &value) == NULL && value == 1024);
    CHECK_STR(cfg_scan_rate("1 GB/h", 6, &value), "not a known unit");
    CHECK_STR(cfg_scan_rate("1 /s", 4, &value), "not a known unit");
}

static void knows_implicit_types(void)
{
    static const struct {
        const char *text, *want; /* want NULL: a text */
    } rows[] = {
        {"", "null"},
        {"~", "null"},
        {"NULL", "null"},
        {"nUll", NULL},
        {"y", "a boolean"},
        {"N", "a boolean"},
        {"OFF", "a boolean"},
        {"oFF", NULL},
        {"0", "a number"},
        {"-12", "a number"},
        {"+1_0", "a number"},
        {"1.", "a number"},
        {".5", "a number"},
        {".", NULL},
        {"-", NULL},
        {"1e3", "a number"},
        {"1e", NULL},
        {"1.5E+3", "a number"},
        {"e3", NULL},
        {"0x1F", "a number"},
        {"0xG", NULL},
        {"0b10", "a number"},
        {"0o17", "a number"},
        {"1:30", "a number"},
        {":30", NULL},
        {"-.inf", "a number"},
        {".NaN", "a number"},
        {"inf", NULL},
        {"_1", NULL},
        {"1-2", NULL},
        {"2024-1-5", "a date"},
        {"2024-01-05T10:00:00Z", "a date"},
        {"2024-01", NULL},
        {"gpt2", NULL},
        {"0-7", NULL},
        {"1.2.3", NULL},
        {"tp4", NULL},
        {"7b", NULL},
        {"1 2", NULL},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const char *got = cfg_yaml_implicit_type(rows[r].text, strlen(rows[r].text));
        CHECK_MSG((got == NULL) == (rows[r].want == NULL), "%s", rows[r].text);
        if (got != NULL && rows[r].want != NULL)
            CHECK_STR(got, rows[r].want);
    }
}

static void suggests(void)
{
    CHECK_EQ_U64(cfg_edit_distance("", 0, "", 0), 0);
    CHECK_EQ_U64(cfg_edit_distance("abc", 3, "", 0), 3);
    CHECK_EQ_U64(cfg_edit_distance("kitten", 6, "sitting", 7), 3);
    CHECK_EQ_U64(cfg_edit_distance("tp", 2, "pt", 2), 1);
    CHECK_EQ_U64(cfg_edit_distance("segments", 8, "segemnts", 8), 1);
    struct cfg_suggestion suggestion = {.text = "segmens", .length = 7};
    cfg_suggest(&suggestion, "dim");
    CHECK(suggestion.best == NULL);
    cfg_suggest(&suggestion, "segments");
    cfg_suggest(&suggestion, "segment");
    CHECK_STR(suggestion.best, "segments");
}

/* ---- the engine, with a table of its own ------------------------------------------------------- */

struct sample {
    bool flag;
    char *text;
    uint32_t count;
    int64_t *values;
};

static const struct cfg_field sample_fields[] = {
    {.key = "flag", .type = CFG_BOOL, CFG_MEMBER(struct sample, flag), .fallback = "true"},
    {.key = "text", .type = CFG_TEXT, CFG_MEMBER(struct sample, text), .fallback = "no"},
    {.key = "values",
     .type = CFG_LIST,
     CFG_MEMBER(struct sample, values),
     CFG_NUMBER(struct sample, count),
     .max = INT64_MAX,
     .min = 1,
     .element_max = 9},
};

static const struct cfg_table sample_table = {.fields = sample_fields, .field_count = 3, .size = sizeof(struct sample)};

static bool fill_sample(const char *text, struct sample *sample, char **log)
{
    size_t length;
    FILE *diag_file = open_memstream(log, &length);
    struct cfg_diag diag = {.out = diag_file, .file = "t"};
    struct cfg_tree tree;
    struct cfg_loader loader = {.diag = &diag};
    *sample = (struct sample){0};
    bool good = cfg_tree_parse(&tree, text, strlen(text), NULL, &diag) == SHUNT_OK;
    if (good)
        good = cfg_table_fill(&sample_table, &(struct cfg_site){&loader, tree.root, NULL}, sample);
    cfg_tree_finish(&tree);
    fclose(diag_file);
    return good;
}

static void fills_any_table(void)
{
    struct sample sample;
    char *log;
    CHECK(fill_sample("{flag: false, text: \"yes\", values: [1, 9]}", &sample, &log));
    CHECK(!sample.flag && sample.count == 2 && sample.values[0] == 1 && sample.values[1] == 9);
    CHECK_STR(sample.text, "yes");
    cfg_table_release(&sample_table, &sample);
    free(log);
    CHECK(fill_sample("{}", &sample, &log));
    CHECK(sample.flag && sample.count == 0 && sample.values == NULL);
    CHECK_STR(sample.text, "no");
    cfg_table_release(&sample_table, &sample);
    free(log);
    CHECK(!fill_sample("{flag: yes, text: on, values: []}", &sample, &log));
    CHECK_CONTAINS(log, "t:1:8: flag: found \"yes\", expected `true` or `false`\n");
    CHECK_CONTAINS(log, "t:1:19: text: found \"on\", which YAML reads as a boolean");
    CHECK_CONTAINS(log, "t:1:31: values: found a list (of 0), expected a list of at least 1 counts\n");
    cfg_table_release(&sample_table, &sample);
    free(log);
    CHECK(!fill_sample("{flag: \"true\", values: [1, 10]}", &sample, &log));
    CHECK_CONTAINS(log, "flag: found \"true\" (a text in quotes), expected `true` or `false`\n");
    CHECK_CONTAINS(log, "values[1]: found \"10\" (out of range), expected a count from 1 to 9\n");
    cfg_table_release(&sample_table, &sample);
    free(log);
}

static const struct test_case cases[] = {
    {"scans-sizes", scans_sizes},
    {"scans-durations-and-rates", scans_durations_and_rates},
    {"knows-implicit-types", knows_implicit_types},
    {"suggests", suggests},
    {"fills-any-table", fills_any_table},
};

TEST_MAIN(cases)
