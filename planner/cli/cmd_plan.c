/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt plan`: two layouts in, a proved plan out. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "beside_print.h"
#include "cli.h"
#include "device_list.h"
#include "dropped.h"
#include "explain_print.h"
#include "figures.h"
#include "make_plan.h"
#include "placed.h"
#include "shunt/workers.h"
#include "solve/lp.h"
#include "spilled.h"

struct plan_options {
    struct compile_options compile;
    const char *output;
    const char *method, *place, *place_on, *place_out, *spill;
    uint64_t threads;
    bool time_limit_given, json, no_verify;
};

static const char *const methods[] = {"auto", "exact", "greedy", NULL};
static const char *const places[] = {"fixed", "optimal", NULL};
static const char *const spills[] = {"none", "host", NULL};

static const char description[] =
    "Compile the move from one layout to another into a plan: which bytes go where, in which rounds, under which "
    "memory. The plan is verified before it is written; PLAN appears only when it is complete. Without --cap the "
    "memory of the cluster's devices is the cap. FROM and TO are files or the names of built-in layouts. A plan is "
    "made "
    "for one cluster: both layouts name the same, or one of them none; if neither does it is \"local\". A cap or "
    "staging that is too small is refused with the rank, the "
    "bytes missing and the least figure that would do; --spill host lets old buffers wait in host memory where the "
    "cap would be too small without.";

static enum schedule_method method_of(const char *name)
{
    return strcmp(name, "greedy") == 0 ? METHOD_GREEDY : strcmp(name, "exact") == 0 ? METHOD_EXACT : METHOD_AUTO;
}

static int parse(int argc, char **argv, struct plan_options *o)
{
    const struct cli_option options[] = {
        {"output", 'o', CLI_STRING, &o->output, "PLAN", "plan file to write"},
        {"model", .type = CLI_STRING, .target = &o->compile.model, .value_name = "M.yaml",
         .help = "model document, in place of the layouts' own"},
        {"cluster", .type = CLI_STRING, .target = &o->compile.cluster, .value_name = "C.yaml",
         .help = "cluster document, in place of the layouts' own"},
        {"cap", .type = CLI_SIZE, .target = &o->compile.cap, .value_name = "SIZE",
         .help = "most memory per device, everything included", .given = &o->compile.cap_given},
        {"staging", .type = CLI_SIZE, .target = &o->compile.staging, .value_name = "SIZE",
         .help = "most memory per device for staging, inside the cap", .given = &o->compile.staging_given},
        {"spill", .type = CLI_CHOICE, .target = &o->spill, .value_name = "TIER",
         .help = "where old bytes may wait if the cap is too small otherwise", .choices = spills},
        {"method", .type = CLI_CHOICE, .target = &o->method, .value_name = "NAME",
         .help =
             "how to schedule: auto takes the fastest that it finds, exact searches on from there with whole-number "
             "programs where they are small enough, greedy takes what is quickly found",
         .choices = methods},
        {"place", .type = CLI_CHOICE, .target = &o->place, .value_name = "NAME",
         .help = "which device takes which new rank: as the layouts say, or so that least is moved", .choices = places},
        {"place-on", .type = CLI_STRING, .target = &o->place_on, .value_name = "DEVICES",
         .help = "devices that --place optimal may use, such as 0-39,48-63"},
        {"place-out", .type = CLI_STRING, .target = &o->place_out, .value_name = "FILE.yaml",
         .help = "write TO.yaml with the devices of the new ranks, to plan on from"},
        {"time-limit", .type = CLI_DOUBLE, .target = &o->compile.time_limit, .value_name = "SECONDS",
         .help = "most time for each search of --method exact; the plan may then depend on the machine",
         .given = &o->time_limit_given},
        {"threads", .type = CLI_UINT, .target = &o->threads, .value_name = "N",
         .help = "threads to work with; the plan does not depend on it"},
        {"json", .type = CLI_FLAG, .target = &o->json, .help = "print the figures as one JSON object"},
        {"no-verify", .type = CLI_FLAG, .target = &o->no_verify, .help = "write the plan without verifying it"},
    };
    const struct cli_command command = {
        .name = "plan",
        .synopsis = "FROM.yaml TO.yaml -o PLAN [options]",
        .summary = "compile the move between two layouts",
        .description = description,
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 2,
        .max_positional = 2,
    };
    const char *positional[CLI_MAX_POSITIONAL];
    int code = cli_parse(&command, argc, argv, positional);
    if (code < 0 && o->output == NULL)
        return cli_usage(&command, "-o PLAN is missing: the plan file to write");
    if (code < 0 && o->place_on != NULL && strcmp(o->place, "optimal") != 0)
        return cli_usage(&command,
                         "found --place-on, expected --place optimal with it: it says which devices may be used");
    o->compile.threads = o->threads < SHUNT_MAX_WORKERS ? (uint32_t)o->threads : SHUNT_MAX_WORKERS;
    o->compile.from_path = positional[0];
    o->compile.to_path = positional[1];
    o->compile.place_optimal = strcmp(o->place, "optimal") == 0;
    o->compile.method = method_of(o->method);
    if (code < 0 && o->time_limit_given && o->compile.method != METHOD_EXACT)
        return cli_usage(&command,
                         "found --time-limit, expected --method exact with it: other methods stop on counts alone");
    o->compile.spill_host = strcmp(o->spill, "host") == 0;
    return code;
}

/** What is written must not replace a document that the plan is made from. */
static enum shunt_status check_output(const struct plan_options *o, const char *option, const char *path,
                                      struct shunt_err *err)
{
    const char *const inputs[] = {o->compile.from_path, o->compile.to_path};
    struct stat output, input;
    for (size_t i = 0; i < 2 && stat(path, &output) == 0; i++) {
        if (stat(inputs[i], &input) == 0 && input.st_dev == output.st_dev && input.st_ino == output.st_ino)
            return shunt_fail(err, SHUNT_ERR_USAGE, "plan: %s: found \"%s\", which is an input, expected another file",
                              option, path);
    }
    return SHUNT_OK;
}

static enum shunt_status check_outputs(const struct plan_options *o, struct shunt_err *err)
{
    enum shunt_status status = check_output(o, "-o", o->output, err);
    if (status != SHUNT_OK || o->place_out == NULL)
        return status;
    if (strcmp(o->place_out, o->output) == 0)
        return shunt_fail(err, SHUNT_ERR_USAGE, "plan: --place-out: found \"%s\", the plan, expected another file",
                          o->place_out);
    return check_output(o, "--place-out", o->place_out, err);
}

static enum shunt_status check_supported(const struct plan_options *o, struct shunt_err *err)
{
    if (o->compile.method == METHOD_EXACT && lp_solver_name() == NULL)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "not supported: --method exact: built without GLPK; use auto or greedy");
    return SHUNT_OK;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void print_text(const struct figures *figures, const struct compile_documents *documents,
                       const struct plan_options *o)
{
    bool named = o->compile.cluster != NULL || documents->from->cluster != NULL || documents->to->cluster != NULL;
    printf("plan     %s\n", o->output);
    printf("move     %s -> %s of %s, %s device%s, %s round%s (%s)\n", figures->from, figures->to, figures->model,
           fmt_count(figures->devices).s, figures->devices == 1 ? "" : "s", fmt_count(figures->rounds).s,
           figures->rounds == 1 ? "" : "s", figures->method);
    printf("cluster  %s%s\n", figures->cluster, named ? "" : " (the layouts name none)");
    printf("bytes    %s needed from other devices, %s moved, %s found on the device\n",
           fmt_bytes(figures->summary.needed_remote).s, fmt_bytes(figures->summary.moved).s,
           fmt_bytes(figures->summary.local).s);
    if (figures->placed)
        printf("place    %s would be needed as %s says, %s are (%s, %s above the bound on cost)\n",
               fmt_bytes(figures->place_moved_fixed).s, figures->to, fmt_bytes(figures->summary.needed_remote).s,
               figures->place_method, fmt_percent(figures->place_gap).s);
    if (figures->summary.saved > 0)
        printf("saved    %s not sent, as devices make it from another state\n", fmt_bytes(figures->summary.saved).s);
    printf("time     %s predicted, no plan is faster than %s\n", fmt_seconds(figures->summary.predicted_seconds).s,
           fmt_seconds(figures->summary.lower_bound_seconds).s);
    printf("memory   %s peak under a cap of %s (least cap %s)\n", fmt_bytes(figures->summary.peak).s,
           fmt_bytes(figures->summary.cap).s, fmt_bytes(figures->summary.least_cap).s);
    printf("size     %s, planned in %s\n", fmt_bytes(figures->file_bytes).s, fmt_seconds(figures->plan_seconds).s);
}

/* The plan is the result, and it is written: what was said about it may be lost. */
static enum shunt_status give_up_text(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return SHUNT_OK;
    fprintf(stderr, "shunt: write to stdout: %s; the plan is written\n", strerror(errno));
    return freopen("/dev/null", "w", stdout) != NULL ? SHUNT_OK : SHUNT_ERR_IO;
}

/** The plan, if the new layout lacks a state of the old one; else NULL, so that its parts need not be read for that. */
static const struct shunt_plan *plan_that_drops(const struct compile_documents *documents,
                                                const struct shunt_plan *plan)
{
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if (documents->from->state_dtype[s] >= 0 && documents->to->state_dtype[s] < 0)
            return plan;
    }
    return NULL;
}

static enum shunt_status report(const struct plan_options *o, const struct compile_documents *documents,
                                const struct shunt_plan *plan, double seconds)
{
    struct figures figures;
    figures_get(plan, &figures);
    figures.plan_seconds = seconds;
    if (!o->json) {
        print_text(&figures, documents, o);
        spilled_print("spilled  ", plan);
        dropped_print("states   ", plan_that_drops(documents, plan));
        beside_print_count(plan);
        return give_up_text();
    }
    struct json json;
    json_init(&json, stdout, true);
    json_object_begin(&json);
    json_key(&json, "plan");
    json_string(&json, o->output);
    figures_json(&json, &figures);
    explain_json_plan(&json, plan);
    spilled_json(&json, plan);
    dropped_json(&json, plan_that_drops(documents, plan));
    beside_json_plan(&json, plan);
    json_object_end(&json);
    return json_finish(&json) ? SHUNT_OK : SHUNT_ERR_IO;
}

static enum shunt_status make_and_report(struct plan_options *o, struct compile_documents *documents, double start,
                                         struct shunt_err *err)
{
    struct made_plan made = {0};
    enum shunt_status status = make_plan(&o->compile, documents, !o->no_verify, o->output, &made, err);
    if (status == SHUNT_OK && o->place_out != NULL)
        status = placed_write(made.plan, documents->to, o->place_out, err);
    if (status == SHUNT_OK) {
        status = report(o, documents, made.plan, now() - start);
        if (status != SHUNT_OK)
            shunt_fail(err, status, "write to stdout failed");
    }
    made_plan_free(&made);
    return status;
}

static enum shunt_status run(struct plan_options *o, struct shunt_err *err)
{
    double start = now();
    struct compile_documents documents;
    uint32_t *devices = NULL;
    enum shunt_status status = check_supported(o, err);
    if (status == SHUNT_OK)
        status = check_outputs(o, err);
    if (status == SHUNT_OK && o->place_on != NULL)
        status = device_list_parse("plan: --place-on", o->place_on, &devices, &o->compile.place_device_count, err);
    o->compile.place_devices = devices;
    if (status == SHUNT_OK)
        status = compile_load(&o->compile, &documents, stderr);
    if (status == SHUNT_OK) {
        status = make_and_report(o, &documents, start, err);
        compile_unload(&documents);
    }
    free(devices);
    return status;
}

int cmd_plan(int argc, char **argv)
{
    struct plan_options options = {.method = "auto", .place = "fixed", .spill = "none"};
    struct shunt_err err = {0};
    int code = parse(argc, argv, &options);
    if (code >= 0)
        return code;
    enum shunt_status status = run(&options, &err);
    if (status == SHUNT_OK)
        return 0;
    /* problems of documents have been printed one by one, with file and line */
    return err.text[0] == '\0' ? shunt_status_exit_code(status) : cli_fail(status, &err);
}
