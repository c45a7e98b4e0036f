/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt diff`: what is different between two plans, figure by figure. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "figures.h"

struct diff_options {
    bool json;
    const char *paths[2];
};

struct pair {
    struct figures a, b;
    bool identical; /* the files, byte for byte */
};

/* What both plans were made from: equal digests mean the same input. */
static const struct {
    const char *key;
    size_t digest, name;
} inputs[] = {
    {"model", offsetof(struct figures, model_digest), offsetof(struct figures, model)},
    {"from", offsetof(struct figures, from_digest), offsetof(struct figures, from)},
    {"to", offsetof(struct figures, to_digest), offsetof(struct figures, to)},
    {"cluster", offsetof(struct figures, cluster_digest), offsetof(struct figures, cluster)},
};
#define INPUT_COUNT (sizeof(inputs) / sizeof(inputs[0]))

static const char description[] =
    "Print the figures of two plans side by side: bytes, time, memory, schedule and safety, with the change from A to "
    "B. Says which inputs differ, and when both are the same plan. Exit code 0 means that both were read, also when "
    "they differ.";

static int parse(int argc, char **argv, struct diff_options *o)
{
    const struct cli_option options[] = {
        {"json", .type = CLI_FLAG, .target = &o->json, .help = "print one JSON object"},
    };
    const struct cli_command command = {
        .name = "diff",
        .synopsis = "A B [--json]",
        .summary = "compare the figures of two plans",
        .description = description,
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 2,
        .max_positional = 2,
    };
    const char *positional[CLI_MAX_POSITIONAL];
    int code = cli_parse(&command, argc, argv, positional);

    o->paths[0] = positional[0];
    o->paths[1] = positional[1];
    return code;
}

/* ---- comparing ---------------------------------------------------------------------- */

static const char *digest_of(const struct figures *figures, size_t input)
{
    return ((const struct fmt_text *)((const char *)figures + inputs[input].digest))->s;
}

static const char *name_of(const struct figures *figures, size_t input)
{
    return *(const char *const *)((const char *)figures + inputs[input].name);
}

static bool same_input(const struct pair *pair, size_t input)
{
    return strcmp(digest_of(&pair->a, input), digest_of(&pair->b, input)) == 0;
}

/* Of two plans whose fronts, and with them the sizes of all parts, are the same. */
static enum shunt_status compare_part(const struct shunt_plan *a, const struct shunt_plan *b, uint32_t device,
                                      bool *same, struct shunt_err *err)
{
    struct shunt_plan_part x, y;
    enum shunt_status status = shunt_plan_get_part(a, device, &x, err);
    if (status == SHUNT_OK)
        status = shunt_plan_get_part(b, device, &y, err);
    if (status == SHUNT_OK)
        *same = memcmp(x.header, y.header, shunt_plan_get_device(a, device)->part_bytes) == 0;
    shunt_plan_drop_part(a, device);
    shunt_plan_drop_part(b, device);
    return status;
}

static enum shunt_status get_pair(const struct shunt_plan *a, const struct shunt_plan *b, struct pair *pair,
                                  struct shunt_err *err)
{
    uint64_t front = shunt_plan_get_device(a, 0)->part_offset;
    enum shunt_status status = SHUNT_OK;
    figures_get(a, &pair->a);
    figures_get(b, &pair->b);
    pair->identical = shunt_plan_get_device(b, 0)->part_offset == front &&
                      memcmp(shunt_plan_get_header(a), shunt_plan_get_header(b), front) == 0;
    for (uint32_t d = 0; d < shunt_plan_get_header(a)->device_count && pair->identical && status == SHUNT_OK; d++)
        status = compare_part(a, b, d, &pair->identical, err);
    return status;
}

/* Rows of the table: what a plan says in numbers and words, without names, digests and what it does not record. */
static bool is_row(const struct figure *figure)
{
    if (figure->section[0] == '\0')
        return figure_is_whole(figure);
    return strcmp(figure->section, "digests") != 0 && strcmp(figure->key, "plan_seconds") != 0;
}

/* Not a number: both sides lack the figure, or one of them does. */
static double change_of(const struct pair *pair, const struct figure *figure)
{
    return figure_number(&pair->b, figure) - figure_number(&pair->a, figure);
}

/* Exact size of the change of a whole figure. */
static uint64_t whole_change(const struct pair *pair, const struct figure *figure)
{
    uint64_t a = figure_whole(&pair->a, figure), b = figure_whole(&pair->b, figure);

    return a > b ? a - b : b - a;
}

static double ratio_of(const struct pair *pair, const struct figure *figure)
{
    double a = figure_number(&pair->a, figure);

    return a > 0 ? figure_number(&pair->b, figure) / a - 1 : NAN;
}

/* ---- text --------------------------------------------------------------------------- */

static void print_inputs(const struct pair *pair, const struct diff_options *o)
{
    printf("A  plan %.12s  %s\nB  plan %.12s  %s\n\n", pair->a.plan_id.s, o->paths[0], pair->b.plan_id.s, o->paths[1]);
    for (size_t i = 0; i < INPUT_COUNT; i++) {
        printf("  %-8s ", inputs[i].key);
        fmt_put_name(stdout, "", name_of(&pair->a, i), "");
        if (same_input(pair, i)) {
            printf("  same (%.12s)\n", digest_of(&pair->a, i));
            continue;
        }
        printf(" (%.12s)", digest_of(&pair->a, i));
        fmt_put_name(stdout, " -> ", name_of(&pair->b, i), "");
        printf(" (%.12s)  differs\n", digest_of(&pair->b, i));
    }
}

/* Size of the change in the figure's own unit; percentage points for a ratio. */
static struct fmt_text format_change(const struct pair *pair, const struct figure *figure)
{
    double change = change_of(pair, figure);
    uint64_t size;

    if (figure->type == FIGURE_SECONDS)
        return fmt_seconds(fabs(change));
    if (figure->type == FIGURE_RATIO)
        return fmt_points(fabs(change));
    size = whole_change(pair, figure);
    return figure->type == FIGURE_BYTES ? fmt_bytes(size) : fmt_count(size);
}

static void print_numbers(const struct pair *pair, const struct figure *figure)
{
    double change = change_of(pair, figure), ratio = ratio_of(pair, figure);

    if (change == 0) {
        printf(" %14s", "same");
    } else if (isfinite(change)) {
        char text[80];
        snprintf(text, sizeof(text), "%c%s", change < 0 ? '-' : '+', format_change(pair, figure).s);
        printf(" %14s", text);
        if (isfinite(ratio) && figure->type != FIGURE_RATIO)
            printf("  %s%s", ratio < 0 ? "" : "+", fmt_percent(ratio).s);
    }
}

static void print_row(const struct pair *pair, const struct figure *figure)
{
    printf("  %-24s %14s %14s", figure->key, figure_format(&pair->a, figure).s, figure_format(&pair->b, figure).s);
    if (!figure_is_text(figure))
        print_numbers(pair, figure);
    else
        printf(" %14s",
               strcmp(figure_string(&pair->a, figure), figure_string(&pair->b, figure)) == 0 ? "same" : "differs");
    putchar('\n');
}

static void print_text(const struct pair *pair, const struct diff_options *o)
{
    const char *section = NULL;

    print_inputs(pair, o);
    if (pair->identical) {
        printf("\nidentical: the same plan, byte for byte\n");
        return;
    }
    for (size_t i = 0; i < figure_count; i++) {
        const struct figure *figure = &figure_table[i];
        if (!is_row(figure))
            continue;
        if (section == NULL || strcmp(figure->section, section) != 0) {
            section = figure->section;
            printf("\n%-26s %14s %14s %14s\n", section[0] != '\0' ? section : "plan", "A", "B", "change");
        }
        print_row(pair, figure);
    }
}

/* ---- JSON --------------------------------------------------------------------------- */

static void put_inputs(struct json *json, const struct pair *pair)
{
    json_key(json, "same");
    json_object_begin(json);
    for (size_t i = 0; i < INPUT_COUNT; i++) {
        json_key_bool(json, inputs[i].key, same_input(pair, i));
    }
    json_object_end(json);
}

static void put_change(struct json *json, const struct pair *pair, const struct figure *figure)
{
    double change = change_of(pair, figure);
    uint64_t size = figure_is_whole(figure) ? whole_change(pair, figure) : UINT64_MAX;

    if (size <= INT64_MAX)
        json_i64(json, change < 0 ? -(int64_t)size : (int64_t)size);
    else
        json_double(json, change);
}

static void put_figure(struct json *json, const struct pair *pair, const struct figure *figure)
{
    json_object_begin(json);
    json_key_string(json, "section", figure->section);
    json_key_string(json, "key", figure->key);
    json_key(json, "a");
    figure_json(json, &pair->a, figure);
    json_key(json, "b");
    figure_json(json, &pair->b, figure);
    if (!figure_is_text(figure)) {
        json_key(json, "change");
        put_change(json, pair, figure);
        json_key(json, "percent");
        json_double(json, 100 * ratio_of(pair, figure));
    }
    json_object_end(json);
}

static void print_json(const struct pair *pair)
{
    struct json json;

    json_init(&json, stdout, true);
    json_object_begin(&json);
    json_key_string(&json, "a", pair->a.plan_id.s);
    json_key_string(&json, "b", pair->b.plan_id.s);
    json_key_bool(&json, "identical", pair->identical);
    put_inputs(&json, pair);
    json_key(&json, "figures");
    json_array_begin(&json);
    for (size_t i = 0; i < figure_count; i++) {
        if (is_row(&figure_table[i]))
            put_figure(&json, pair, &figure_table[i]);
    }
    json_array_end(&json);
    json_object_end(&json);
    json_finish(&json);
}

int cmd_diff(int argc, char **argv)
{
    struct diff_options options = {0};
    struct shunt_plan *a = NULL, *b = NULL;
    struct shunt_err err = {""};
    struct pair pair;
    enum shunt_status status;
    int code = parse(argc, argv, &options);

    if (code >= 0)
        return code;
    status = shunt_plan_open(options.paths[0], &a, &err);
    if (status == SHUNT_OK)
        status = shunt_plan_open(options.paths[1], &b, &err);
    if (status == SHUNT_OK)
        status = get_pair(a, b, &pair, &err);
    if (status == SHUNT_OK) {
        if (options.json)
            print_json(&pair);
        else
            print_text(&pair, &options);
    }
    shunt_plan_close(a);
    shunt_plan_close(b);
    return status == SHUNT_OK ? 0 : cli_fail(status, &err);
}
