/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt verify`: prove a plan, independently of the compiler that made it. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare.h"
#include "emit/digest.h"
#include "format.h"
#include "json.h"
#include "shunt/verify.h"
#include "shunt/workers.h"

struct verify_options {
    bool json;
    uint64_t threads; /* 0: as many as there are processors, at most 8 */
    const char *plan, *from, *to;
};

/* What was found; the verifier's report and the checks that are made here. */
struct findings {
    struct fmt_text plan_id; /* empty: the plan does not open */
    struct shunt_verify_report report;
    const char *own_rule; /* rule of own_text: "file", "plan_id", "layout"; NULL: no problem of that kind */
    struct shunt_err own_text;
    bool layouts; /* compared, and equal */
    bool placed;  /* but for the devices of the new ranks, which the plan chose */
};

static const struct {
    const char *key;
    size_t offset;
} checked[] = {
    {"devices", offsetof(struct shunt_verify_report, devices)},
    {"rounds", offsetof(struct shunt_verify_report, rounds)},
    {"ops", offsetof(struct shunt_verify_report, ops)},
    {"messages", offsetof(struct shunt_verify_report, messages)},
    {"bytes_moved", offsetof(struct shunt_verify_report, bytes_moved)},
    {"bytes_local", offsetof(struct shunt_verify_report, bytes_local)},
    {"bytes_filled", offsetof(struct shunt_verify_report, bytes_filled)},
    {"peak", offsetof(struct shunt_verify_report, peak)},
};

static const char description[] =
    "Replay a plan symbolically and prove that the new side is written completely and exactly once, with the right "
    "coordinates, from memory that still holds them; that every send meets its receive in the same round; and that "
    "memory stays under the cap. The checksums and the plan id are recomputed.\n\n"
    "With FROM.yaml and TO.yaml the two sides of the plan are also compared with these layouts.";

static int parse(int argc, char **argv, struct verify_options *o)
{
    const struct cli_option options[] = {
        {"threads", .type = CLI_UINT, .target = &o->threads, .value_name = "N",
         .help = "threads to work with; what is found does not depend on it"},
        {"json", .type = CLI_FLAG, .target = &o->json, .help = "print one JSON object"},
    };
    const struct cli_command command = {
        .name = "verify",
        .synopsis = "PLAN [FROM.yaml TO.yaml] [options]",
        .summary = "prove that a plan is correct",
        .description = description,
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 1,
        .max_positional = 3,
    };
    const char *positional[CLI_MAX_POSITIONAL];
    int code = cli_parse(&command, argc, argv, positional);

    if (code < 0 && positional[1] != NULL && positional[2] == NULL)
        code = cli_usage(&command, "found one layout, expected none or two: FROM.yaml TO.yaml");
    o->plan = positional[0];
    o->from = positional[1];
    o->to = positional[2];
    return code;
}

/* ---- checks ------------------------------------------------------------------------- */

static bool is_refusal(enum shunt_status status)
{
    return shunt_status_exit_code(status) == 1;
}

/* Keep a refusal as a problem of the plan and go on; anything else ends the verb. */
static enum shunt_status note(struct findings *findings, const char *rule, enum shunt_status status)
{
    if (!is_refusal(status))
        return status;
    findings->own_rule = rule;
    return SHUNT_OK;
}

static enum shunt_status check_plan_id(const struct shunt_plan *plan, struct findings *findings)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(plan);
    uint8_t id[SHUNT_PLAN_DIGEST_BYTES];
    struct shunt_err err = {""};
    enum shunt_status status = digest_open_plan(plan, id, &err);

    findings->plan_id = fmt_hex(header->plan_id, SHUNT_PLAN_DIGEST_BYTES);
    if (is_refusal(status)) /* a part does not read: the rules say so */
        return SHUNT_OK;
    if (status != SHUNT_OK)
        return shunt_fail(&findings->own_text, status, "verify: %s", err.text);
    if (memcmp(id, header->plan_id, sizeof(id)) == 0)
        return SHUNT_OK;
    return shunt_fail(&findings->own_text, SHUNT_ERR_VERIFY, "plan_id is %s, the file's digest is %s",
                      findings->plan_id.s, fmt_hex(id, sizeof(id)).s);
}

/* Problems stay in the report. */
static enum shunt_status check_rules(const struct shunt_plan *plan, const struct verify_options *o,
                                     struct findings *findings)
{
    struct shunt_err err = {""};
    uint32_t threads = o->threads < SHUNT_MAX_WORKERS ? (uint32_t)o->threads : SHUNT_MAX_WORKERS;
    enum shunt_status status =
        shunt_plan_verify_shared(plan, threads > 0 ? threads : shunt_default_workers(), &findings->report, &err);

    if (is_refusal(status) && findings->report.problem_total > 0)
        return SHUNT_OK;
    if (status != SHUNT_OK)
        findings->own_text = err;
    return note(findings, "part", status);
}

static enum shunt_status check_layouts(const struct shunt_plan *plan, const struct verify_options *o,
                                       struct findings *findings)
{
    enum shunt_status status = SHUNT_OK;
    struct shunt_plan_placement placement;

    if (o->from == NULL)
        return SHUNT_OK;
    status = cli_compare_layouts(plan, o->from, o->to, stderr, &findings->own_text);
    if (status != SHUNT_OK && findings->own_text.text[0] == '\0')
        shunt_fail(&findings->own_text, status, "%s or %s does not load: see the lines above", o->from, o->to);
    findings->layouts = status == SHUNT_OK;
    findings->placed = shunt_plan_get_placement(plan, &placement);
    return status;
}

/* All checks, the cheap one first. Problems are in the findings; @return a status that ends the verb, with err set. */
static enum shunt_status check(const struct shunt_plan *plan, const struct verify_options *o, struct findings *findings,
                               struct shunt_err *err)
{
    enum shunt_status status = note(findings, "plan_id", check_plan_id(plan, findings));

    if (status == SHUNT_OK)
        status = check_rules(plan, o, findings);
    if (status == SHUNT_OK && findings->own_rule == NULL)
        status = note(findings, "layout", check_layouts(plan, o, findings));
    if (status != SHUNT_OK)
        *err = findings->own_text;
    return status;
}

static enum shunt_status open_and_check(const struct verify_options *o, struct findings *findings,
                                        struct shunt_err *err)
{
    struct shunt_plan *plan = NULL;
    enum shunt_status status = shunt_plan_open(o->plan, &plan, err);

    if (is_refusal(status)) {
        findings->own_text = *err;
        return note(findings, "file", status);
    }
    if (status == SHUNT_OK)
        status = check(plan, o, findings, err);
    shunt_plan_close(plan);
    return status;
}

/* ---- output ------------------------------------------------------------------------- */

static bool is_ok(const struct findings *findings)
{
    return findings->own_rule == NULL && findings->report.problem_total == 0;
}

static void put_problem(struct json *json, const char *rule, const char *text)
{
    json_object_begin(json);
    json_key_string(json, "rule", rule);
    json_key_string(json, "text", text);
    json_object_end(json);
}

static void put_problems(struct json *json, const struct findings *findings)
{
    json_key(json, "problems");
    json_array_begin(json);
    if (findings->own_rule != NULL)
        put_problem(json, findings->own_rule, findings->own_text.text);
    for (uint32_t i = 0; i < findings->report.problem_count; i++) {
        const struct shunt_verify_problem *problem = &findings->report.problems[i];
        put_problem(json, shunt_verify_rule_name(problem->rule), problem->text);
    }
    json_array_end(json);
}

static void put_checked(struct json *json, const struct findings *findings)
{
    json_key(json, "checked");
    json_object_begin(json);
    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
        json_key_u64(json, checked[i].key, *(const uint64_t *)((const char *)&findings->report + checked[i].offset));
    }
    json_key_bool(json, "layouts", findings->layouts);
    json_key(json, "dropped_states");
    json_array_begin(json);
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if ((findings->report.dropped_states >> s & 1) != 0)
            json_string(json, shunt_state_name(s));
    }
    json_array_end(json);
    json_object_end(json);
}

static void print_json(const struct findings *findings)
{
    struct json json;

    json_init(&json, stdout, true);
    json_object_begin(&json);
    json_key_string(&json, "plan_id", findings->plan_id.s[0] != '\0' ? findings->plan_id.s : NULL);
    json_key_bool(&json, "ok", is_ok(findings));
    json_key_u64(&json, "problem_total", findings->report.problem_total + (findings->own_rule != NULL));
    put_problems(&json, findings);
    put_checked(&json, findings);
    json_object_end(&json);
    json_finish(&json);
}

static void print_dropped(uint32_t states)
{
    const char *before = "  the new side does not keep ";
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if ((states >> s & 1) == 0)
            continue;
        printf("%s%s", before, shunt_state_name(s));
        before = ", ";
    }
    if (states != 0)
        putchar('\n');
}

static void print_proof(const struct findings *findings)
{
    const struct shunt_verify_report *r = &findings->report;

    printf("verified: plan %.12s: %s device%s, %s round%s, %s ops, %s messages\n", findings->plan_id.s,
           fmt_count(r->devices).s, r->devices == 1 ? "" : "s", fmt_count(r->rounds).s, r->rounds == 1 ? "" : "s",
           fmt_count(r->ops).s, fmt_count(r->messages).s);
    printf("  moved %s, found on the device %s, filled %s, peak %s\n", fmt_bytes(r->bytes_moved).s,
           fmt_bytes(r->bytes_local).s, fmt_bytes(r->bytes_filled).s, fmt_bytes(r->peak).s);
    printf("  checksums and plan id agree; coverage, coordinates, messages, lifetimes, memory: all rules hold\n");
    print_dropped(r->dropped_states);
    if (findings->layouts)
        printf("  both sides are what the layouts say%s\n",
               findings->placed ? "; the plan chose the devices of the new ranks" : "");
}

static void print_problems(const struct findings *findings)
{
    const struct shunt_verify_report *r = &findings->report;

    if (findings->own_rule != NULL)
        fprintf(stderr, "shunt: verify: %s: %s\n", findings->own_rule, findings->own_text.text);
    for (uint32_t i = 0; i < r->problem_count; i++)
        fprintf(stderr, "shunt: verify: %s: %s\n", shunt_verify_rule_name(r->problems[i].rule), r->problems[i].text);
    if (r->problem_total > r->problem_count)
        fprintf(stderr, "shunt: verify: and %s problems more\n", fmt_count(r->problem_total - r->problem_count).s);
}

int cmd_verify(int argc, char **argv)
{
    struct verify_options options = {0};
    struct shunt_err err = {""};
    struct findings *findings;
    enum shunt_status status;
    int code = parse(argc, argv, &options);

    if (code >= 0)
        return code;
    findings = calloc(1, sizeof(*findings));
    if (findings == NULL)
        return cli_fail(shunt_fail(&err, SHUNT_ERR_NOMEM, "verify: out of memory"), &err);
    status = open_and_check(&options, findings, &err);
    if (status != SHUNT_OK) {
        code = cli_fail(status, &err);
    } else {
        code = is_ok(findings) ? 0 : 1;
        if (options.json)
            print_json(findings);
        else if (code == 0)
            print_proof(findings);
        else
            print_problems(findings);
    }
    free(findings);
    return code;
}
