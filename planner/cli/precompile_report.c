/* SPDX-License-Identifier: Apache-2.0 */
#include "precompile.h"

#include <inttypes.h>
#include <stdio.h>

#include "beside_print.h"
#include "dropped.h"
#include "explain_print.h"
#include "figures.h"
#include "spilled.h"

static const char *const outcome_names[PRECOMPILE_OUTCOMES] = {"made", "kept", "failed"};

#define BAR_WIDTH 24

void precompile_show_bar(const struct precompile *run, const char *name)
{
    uint32_t filled = BAR_WIDTH * run->done_count / run->chosen_count;
    if (!run->is_terminal)
        return;
    fprintf(stderr, "[%.*s%*s] %" PRIu32 "/%" PRIu32 "  %s", (int)filled, "########################",
            (int)(BAR_WIDTH - filled), "", run->done_count, run->chosen_count, name);
    fflush(stderr);
}

void precompile_wipe_bar(const struct precompile *run)
{
    if (run->is_terminal)
        fputs("\r\033[K", stderr);
}

static const struct shunt_plan *plan_of(const struct precompile_result *result)
{
    return result->outcome == PRECOMPILE_KEPT ? result->old : result->made.plan;
}

static void print_line(const struct precompile *run, const char *name, const struct precompile_result *result)
{
    struct figures figures;
    precompile_wipe_bar(run);
    if (result->outcome == PRECOMPILE_FAILED) {
        bool has_text = result->problems != NULL && result->problems[0] != '\0';
        fprintf(stderr, "%-*s  failed after %s\n%s%s", run->name_width, name, fmt_seconds(result->seconds).s,
                has_text ? result->problems : shunt_status_name(result->status), has_text ? "" : "\n");
        return;
    }
    figures_get(plan_of(result), &figures);
    fprintf(stderr, "%-*s  %10s moved  %10s predicted (bound %s)  %10s  %s in %s\n", run->name_width, name,
            fmt_bytes(figures.summary.moved).s, fmt_seconds(figures.summary.predicted_seconds).s,
            fmt_seconds(figures.summary.lower_bound_seconds).s, fmt_bytes(figures.file_bytes).s,
            outcome_names[result->outcome], fmt_seconds(result->seconds).s);
}

static void print_json_step(struct precompile *run, const char *name, const struct precompile_result *result)
{
    struct json *json = &run->json;
    struct figures figures;
    json_object_begin(json);
    json_key_string(json, "name", name);
    json_key_string(json, "result", outcome_names[result->outcome]);
    if (result->outcome == PRECOMPILE_FAILED) {
        json_key_string(json, "status", shunt_status_name(result->status));
        json_key_string(json, "error", result->problems);
    } else {
        json_key_string(json, "plan", result->path);
        figures_get(plan_of(result), &figures);
        figures.plan_seconds = result->outcome == PRECOMPILE_MADE ? result->seconds : figures.plan_seconds;
        figures_json(json, &figures);
        explain_json_plan(json, plan_of(result));
        spilled_json(json, plan_of(result));
        dropped_json(json, plan_of(result));
        beside_json_plan(json, plan_of(result));
    }
    json_object_end(json);
}

void precompile_note_failure(struct precompile *run, enum shunt_status status)
{
    int code = shunt_status_exit_code(status);
    run->exit_code = code > run->exit_code ? code : run->exit_code;
}

void precompile_report_step(struct precompile *run, uint32_t s, const struct precompile_result *result)
{
    const char *name = run->ladder->steps[s].name;
    run->done_count++;
    run->outcomes[s] = result->outcome;
    run->counts[result->outcome]++;
    print_line(run, name, result);
    if (run->options->json)
        print_json_step(run, name, result);
    if (result->outcome == PRECOMPILE_FAILED)
        precompile_note_failure(run, result->status);
}

void precompile_report_failures(const struct precompile *run)
{
    const char *between = "";
    if (run->counts[PRECOMPILE_FAILED] == 0)
        return;
    fprintf(stderr, "shunt: precompile: %" PRIu32 " of %" PRIu32 " steps failed: ", run->counts[PRECOMPILE_FAILED],
            run->chosen_count);
    for (uint32_t s = 0; s < run->ladder->step_count; s++) {
        if (!run->chosen[s] || run->outcomes[s] != PRECOMPILE_FAILED)
            continue;
        fprintf(stderr, "%s%s", between, run->ladder->steps[s].name);
        between = ", ";
    }
    fputc('\n', stderr);
}

void precompile_begin_report(struct precompile *run)
{
    struct json *json = &run->json;
    if (!run->options->json)
        return;
    json_init(json, stdout, true);
    json_object_begin(json);
    json_key_string(json, "ladder", run->ladder->name);
    json_key_string(json, "index", run->index.path);
    json_key(json, "steps");
    json_array_begin(json);
}

void precompile_end_report(struct precompile *run)
{
    struct json *json = &run->json;
    if (!run->options->json) {
        printf("ladder   %s: %" PRIu32 " of %" PRIu32 " steps, %" PRIu32 " made, %" PRIu32 " kept, %" PRIu32
               " failed\n",
               run->ladder->name, run->chosen_count, run->ladder->step_count, run->counts[PRECOMPILE_MADE],
               run->counts[PRECOMPILE_KEPT], run->counts[PRECOMPILE_FAILED]);
        printf("index    %s\n", run->index.path);
        return;
    }
    json_array_end(json);
    for (int o = 0; o < PRECOMPILE_OUTCOMES; o++)
        json_key_u64(json, outcome_names[o], run->counts[o]);
    json_object_end(json);
    json_finish(json);
}
