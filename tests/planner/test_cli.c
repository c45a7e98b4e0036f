/* SPDX-License-Identifier: Apache-2.0 */
/** Option parser, nearest name, help texts, JSON writer and the formats of figures. */

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "format.h"
#include "harness.h"
#include "json.h"
#include "shunt/plan_format.h"

/* ---- what the parser fills ---------------------------------------------------------- */

struct parsed {
    bool json, device_given;
    const char *output, *method;
    uint64_t cap, device;
    double limit;
};

struct captured {
    char out[4096], err[4096];
};

static const char *const methods[] = {"auto", "exact", "greedy", NULL};

static int parse(int argc, char **argv, struct parsed *p, const char **positional)
{
    const struct cli_option options[] = {
        {"json", .type = CLI_FLAG, .target = &p->json, .help = "print JSON"},
        {"output", 'o', CLI_STRING, &p->output, "PLAN", "plan to write"},
        {"cap", .type = CLI_SIZE, .target = &p->cap, .value_name = "SIZE", .help = "most bytes on a device"},
        {"device", .type = CLI_UINT, .target = &p->device, .value_name = "D", .help = "one device",
         .given = &p->device_given},
        {"time-limit", .type = CLI_DOUBLE, .target = &p->limit, .value_name = "SECONDS", .help = "stop after"},
        {"method", .type = CLI_CHOICE, .target = &p->method, .help = "way to search", .choices = methods},
    };
    const struct cli_command command = {
        .name = "move",
        .synopsis = "A [B] [options]",
        .summary = "move things",
        .description = "First paragraph.\n\n  move a -o b\n\nSecond.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 1,
        .max_positional = 2,
    };

    return cli_parse(&command, argc, argv, positional);
}

/* ---- capturing ---------------------------------------------------------------------- */

static void read_back(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static int swap_in(FILE *stream, FILE *file)
{
    int saved;

    fflush(stream);
    saved = dup(fileno(stream));
    dup2(fileno(file), fileno(stream));
    return saved;
}

static void swap_back(FILE *stream, int saved)
{
    fflush(stream);
    dup2(saved, fileno(stream));
    close(saved);
}

static int parse_captured(int argc, char **argv, struct parsed *p, const char **positional, struct captured *captured)
{
    FILE *out = tmpfile(), *err = tmpfile();
    int saved_out, saved_err, code;

    if (out == NULL || err == NULL)
        abort();
    saved_out = swap_in(stdout, out);
    saved_err = swap_in(stderr, err);
    code = parse(argc, argv, p, positional);
    swap_back(stdout, saved_out);
    swap_back(stderr, saved_err);
    read_back(out, captured->out, sizeof(captured->out));
    read_back(err, captured->err, sizeof(captured->err));
    return code;
}

/* ---- accepted and refused argument lists ---------------------------------------------- */

#define MAX_ARGS 8

struct row {
    const char *args[MAX_ARGS];
    int code;        /* -1: accepted */
    const char *err; /* part of what stderr says; NULL: nothing */
    struct parsed want;
    const char *first, *second; /* positional */
};

static const struct row rows[] = {
    {{"a"}, -1, NULL, {0}, "a"},
    {{"a", "b"}, -1, NULL, {0}, "a", "b"},
    {{"--json", "a"}, -1, NULL, {.json = true}, "a"},
    {{"a", "--json", "b"}, -1, NULL, {.json = true}, "a", "b"},
    {{"-o", "p", "a"}, -1, NULL, {.output = "p"}, "a"},
    {{"-op", "a"}, -1, NULL, {.output = "p"}, "a"},
    {{"--output", "p", "a"}, -1, NULL, {.output = "p"}, "a"},
    {{"--output=p", "a"}, -1, NULL, {.output = "p"}, "a"},
    {{"--output=", "a"}, -1, NULL, {.output = ""}, "a"},
    {{"--output=--odd", "a"}, -1, NULL, {.output = "--odd"}, "a"},
    {{"--output=x=y", "a"}, -1, NULL, {.output = "x=y"}, "a"},
    {{"-o", "p", "-o", "q", "a"}, -1, NULL, {.output = "q"}, "a"},
    {{"--", "--json"}, -1, NULL, {0}, "--json"},
    {{"--json", "--", "-o", "b"}, -1, NULL, {.json = true}, "-o", "b"},
    {{"-"}, -1, NULL, {0}, "-"},
    {{"a", "-o", "-"}, -1, NULL, {.output = "-"}, "a"},
    {{"a", "--cap", "512 MiB"}, -1, NULL, {.cap = UINT64_C(512) << 20}, "a"},
    {{"a", "--cap=80GiB"}, -1, NULL, {.cap = UINT64_C(80) << 30}, "a"},
    {{"a", "--device", "0"}, -1, NULL, {.device_given = true}, "a"},
    {{"a", "--device=18446744073709551615"}, -1, NULL, {.device_given = true, .device = UINT64_MAX}, "a"},
    {{"a", "--time-limit", "1.5"}, -1, NULL, {.limit = 1.5}, "a"},
    {{"a", "--time-limit=2e-3"}, -1, NULL, {.limit = 2e-3}, "a"},
    {{"a", "--method", "greedy"}, -1, NULL, {.method = "greedy"}, "a"},

    {{0}, 2, "found 0 arguments, expected at least 1"},
    {{"a", "b", "c"}, 2, "unexpected argument \"c\""},
    {{"a", "--jsn"}, 2, "unknown option \"--jsn\"; the nearest is \"--json\""},
    {{"a", "--tim"}, 2, "unknown option \"--tim\"; the nearest is \"--time-limit\""},
    {{"a", "--outptu=3"}, 2, "unknown option \"--outptu\"; the nearest is \"--output\""},
    {{"a", "-x"}, 2, "unknown option \"-x\""},
    {{"a", "--json=1"}, 2, "--json takes no value, found \"1\""},
    {{"a", "-o"}, 2, "--output needs a value: PLAN"},
    {{"a", "--cap", "--json"}, 2, "--cap needs a value: SIZE"},
    {{"a", "--cap", "many"}, 2, "--cap: "},
    {{"a", "--device", "-1"}, 2, "--device: found \"-1\", expected a whole number"},
    {{"a", "--device", ""}, 2, "--device: found \"\""},
    {{"a", "--device", "0x10"}, 2, "--device: found \"0x10\""},
    {{"a", "--device", "18446744073709551616"}, 2, "--device: found"},
    {{"a", "--time-limit", "0"}, 2, "expected a number above 0"},
    {{"a", "--time-limit", "-2"}, 2, "expected a number above 0"},
    {{"a", "--time-limit", "inf"}, 2, "expected a number above 0"},
    {{"a", "--time-limit", "1e999"}, 2, "expected a number above 0"},
    {{"a", "--time-limit", "1s"}, 2, "expected a number above 0"},
    {{"a", "--method", "exct"}, 2, "--method: found \"exct\", expected auto|exact|greedy; the nearest is \"exact\""},
    {{"a", "--method"}, 2, "--method needs a value: auto|exact|greedy"},
    {{"--help=pdf"}, 2, "--help: found \"pdf\""},
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void check_values(const struct row *row, const struct parsed *got, const char *const *positional, const char *at)
{
    CHECK_MSG(got->json == row->want.json, "%s", at);
    CHECK_MSG(got->device_given == row->want.device_given, "%s", at);
    CHECK_MSG(same_text(got->output, row->want.output), "%s", at);
    CHECK_MSG(same_text(got->method, row->want.method), "%s", at);
    CHECK_MSG(got->cap == row->want.cap, "%s", at);
    CHECK_MSG(got->device == row->want.device, "%s", at);
    CHECK_MSG(got->limit == row->want.limit, "%s", at);
    CHECK_MSG(same_text(positional[0], row->first), "%s", at);
    CHECK_MSG(same_text(positional[1], row->second), "%s", at);
    CHECK_MSG(positional[2] == NULL, "%s", at);
}

static void check_row(const struct row *row)
{
    struct parsed got = {0};
    struct captured captured;
    const char *positional[CLI_MAX_POSITIONAL];
    char *argv[MAX_ARGS + 2] = {(char[]){"move"}};
    char at[128] = "move";
    int argc = 1, code;

    for (; argc <= MAX_ARGS && row->args[argc - 1] != NULL; argc++) {
        argv[argc] = strdup(row->args[argc - 1]);
        snprintf(at + strlen(at), sizeof(at) - strlen(at), " %s", argv[argc]);
    }
    code = parse_captured(argc, argv, &got, positional, &captured);
    CHECK_MSG(code == row->code, "%s: code %d, want %d", at, code, row->code);
    CHECK_MSG(captured.out[0] == '\0', "%s", at);
    CHECK_MSG(row->err != NULL ? strstr(captured.err, row->err) != NULL : captured.err[0] == '\0',
              "%s: stderr is \"%s\", want \"%s\"", at, captured.err, row->err != NULL ? row->err : "");
    if (row->code == 2)
        CHECK_MSG(strstr(captured.err, "usage: shunt move A [B] [options]\n") != NULL, "%s", at);
    else
        check_values(row, &got, positional, at);
    while (--argc > 0) {
        free(argv[argc]);
    }
}

static void arguments(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_row(&rows[i]);
}

/* ---- help ----------------------------------------------------------------------------- */

static void help_of(const char *option, struct captured *captured)
{
    struct parsed got = {0};
    const char *positional[CLI_MAX_POSITIONAL];
    char *argument = strdup(option);
    char *argv[] = {(char[]){"move"}, argument, NULL};

    CHECK(parse_captured(2, argv, &got, positional, captured) == 0);
    CHECK_STR(captured->err, "");
    free(argument);
}

static void help_text(void)
{
    struct captured captured;

    help_of("--help", &captured);
    CHECK_CONTAINS(captured.out, "usage: shunt move A [B] [options]\n\nFirst paragraph.\n\n  move a -o b\n");
    CHECK_CONTAINS(captured.out, "\n  -o, --output PLAN       plan to write\n");
    CHECK_CONTAINS(captured.out, "\n  --method auto|exact|greedy\n                          way to search\n");
    CHECK_CONTAINS(captured.out, "\n  -h, --help ");
    for (const char *line = captured.out; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1)
        CHECK(strcspn(line, "\n") <= 100);
}

static void man_page(void)
{
    struct captured captured;

    help_of("--help=man", &captured);
    CHECK_CONTAINS(captured.out, ".TH SHUNT-MOVE 1 ");
    CHECK_CONTAINS(captured.out, ".SH NAME\nshunt\\-move \\- move things\n");
    CHECK_CONTAINS(captured.out, ".nf\n  move a \\-o b\n.fi\n");
    CHECK_CONTAINS(captured.out, ".TP\n.B \\-\\-cap SIZE\nmost bytes on a device\n");
    CHECK_CONTAINS(captured.out, ".SH EXIT STATUS\n");
}

static void summary_line(void)
{
    struct captured captured;

    help_of("--help=summary", &captured);
    CHECK_STR(captured.out, "move things\n");
}

static void nearest(void)
{
    static const char *const names[] = {"plan", "inspect", "verify", "layout", "diff", "salvage", "serve"};
    static const struct {
        const char *word, *want;
    } table[] = {{"inspct", "inspect"}, {"plna", "plan"},  {"ver", "verify"}, {"s", "salvage"},
                 {"dif", "diff"},       {"lay", "layout"}, {"", "plan"},      {"serv", "serve"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        CHECK_STR(cli_nearest(table[i].word, names, 7, sizeof(names[0])), table[i].want);
    CHECK(cli_nearest("plan", names, 0, sizeof(names[0])) == NULL);
}

/* ---- JSON ------------------------------------------------------------------------------- */

struct text {
    char *text;
    size_t size;
    struct json json;
};

static void text_open(struct text *t, bool pretty)
{
    FILE *file = open_memstream(&t->text, &t->size);

    if (file == NULL)
        abort();
    json_init(&t->json, file, pretty);
}

static void text_close(struct text *t, const char *want)
{
    CHECK(json_finish(&t->json));
    fclose(t->json.file);
    CHECK_STR(t->text, want);
    free(t->text);
}

static void json_strings_escape(void)
{
    static const struct {
        const char *text, *want;
    } table[] = {
        {"", "\"\"\n"},
        {"plain", "\"plain\"\n"},
        {"a\"b\\c/", "\"a\\\"b\\\\c/\"\n"},
        {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"\n"},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"\n"},
        {"caf\xc3\xa9 \xe2\x86\x92", "\"caf\xc3\xa9 \xe2\x86\x92\"\n"},
        {NULL, "null\n"},
    };
    struct text t;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        text_open(&t, false);
        json_string(&t.json, table[i].text);
        text_close(&t, table[i].want);
    }
}

static void json_doubles(void)
{
    static const struct {
        double value;
        const char *want;
    } table[] = {
        {0, "0\n"},
        {1, "1\n"},
        {-2.5, "-2.5\n"},
        {0.1, "0.1\n"},
        {1.0 / 3, "0.3333333333333333\n"},
        {0.1 + 0.2, "0.30000000000000004\n"},
        {1e300, "1e+300\n"},
        {5e-324, "4.94065645841247e-324\n"},
        {NAN, "null\n"},
        {INFINITY, "null\n"},
        {-INFINITY, "null\n"},
        {123456789012345.0, "123456789012345\n"},
    };
    struct text t;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        text_open(&t, false);
        json_double(&t.json, table[i].value);
        text_close(&t, table[i].want);
    }
}

static void json_integers(void)
{
    struct text t;

    text_open(&t, false);
    json_array_begin(&t.json);
    json_u64(&t.json, 0);
    json_u64(&t.json, UINT64_MAX);
    json_i64(&t.json, INT64_MIN);
    json_i64(&t.json, INT64_MAX);
    json_i64(&t.json, -1);
    json_array_end(&t.json);
    text_close(&t, "[0,18446744073709551615,-9223372036854775808,9223372036854775807,-1]\n");
}

/* {"a": 1, "b": [true, null], "c": {}, "d": []} */
static void put_document(struct json *json)
{
    const char *const parts[] = {"from:", "x\"", "/y"};

    json_object_begin(json);
    json_key(json, "a");
    json_strings(json, parts, 3);
    json_key(json, "b");
    json_array_begin(json);
    json_bool(json, true);
    json_null(json);
    json_array_end(json);
    json_key(json, "c");
    json_object_begin(json);
    json_object_end(json);
    json_key(json, "d\n");
    json_array_begin(json);
    json_array_end(json);
    json_object_end(json);
}

static void json_nesting(void)
{
    struct text t;

    text_open(&t, false);
    put_document(&t.json);
    json_end_line(&t.json);
    put_document(&t.json);
    text_close(&t, "{\"a\":\"from:x\\\"/y\",\"b\":[true,null],\"c\":{},\"d\\n\":[]}\n"
                   "{\"a\":\"from:x\\\"/y\",\"b\":[true,null],\"c\":{},\"d\\n\":[]}\n");
    text_open(&t, true);
    put_document(&t.json);
    text_close(&t, "{\n  \"a\": \"from:x\\\"/y\",\n  \"b\": [\n    true,\n    null\n  ],\n  \"c\": {},\n"
                   "  \"d\\n\": []\n}\n");
}

static void json_write_failure(void)
{
    FILE *full = fopen("/dev/full", "w");
    struct json json;

    if (full == NULL) {
        test_skip("no /dev/full");
        return;
    }
    json_init(&json, full, false);
    json_u64(&json, 1);
    CHECK(!json_finish(&json));
    fclose(full);
}

/* ---- formats of figures -------------------------------------------------------------------- */

static void formats(void)
{
    static const uint8_t digest[] = {0x00, 0x9f, 0xff};

    CHECK_STR(fmt_bytes(0).s, "0 B");
    CHECK_STR(fmt_bytes(1023).s, "1023 B");
    CHECK_STR(fmt_bytes(1024).s, "1.0 KiB");
    CHECK_STR(fmt_bytes(1536).s, "1.5 KiB");
    CHECK_STR(fmt_bytes((UINT64_C(1) << 20) - 1).s, "1.0 MiB");
    CHECK_STR(fmt_bytes(UINT64_C(80) << 30).s, "80.0 GiB");
    CHECK_STR(fmt_bytes(UINT64_MAX).s, "16.0 EiB");
    CHECK_STR(fmt_count(0).s, "0");
    CHECK_STR(fmt_count(999).s, "999");
    CHECK_STR(fmt_count(1000).s, "1,000");
    CHECK_STR(fmt_count(UINT64_MAX).s, "18,446,744,073,709,551,615");
    CHECK_STR(fmt_seconds(0).s, "0 s");
    CHECK_STR(fmt_seconds(12.3456).s, "12.346 s");
    CHECK_STR(fmt_seconds(0.0173).s, "17.300 ms");
    CHECK_STR(fmt_seconds(3.2e-6).s, "3.200 us");
    CHECK_STR(fmt_seconds(NAN).s, "-");
    CHECK_STR(fmt_percent(0.1234).s, "12.3 %");
    CHECK_STR(fmt_percent(NAN).s, "-");
    CHECK_STR(fmt_hex(digest, sizeof(digest)).s, "009fff");
    CHECK_STR(fmt_rank(7, "none").s, "7");
    CHECK_STR(fmt_rank(SHUNT_PLAN_NONE, "none").s, "none");
}

static const struct test_case cases[] = {
    {"arguments", arguments},       {"help-text", help_text},
    {"man-page", man_page},         {"summary-line", summary_line},
    {"nearest", nearest},           {"json-strings", json_strings_escape},
    {"json-doubles", json_doubles}, {"json-integers", json_integers},
    {"json-nesting", json_nesting}, {"json-write-failure", json_write_failure},
    {"formats", formats},
};
TEST_MAIN(cases)
