/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt simulate`: how long a plan would take on another cluster than the one that it was made for. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "config/config.h"
#include "explain_print.h"
#include "figures.h"
#include "simulate.h"

struct simulate_options {
    const char *plan, *cluster;
    bool json;
};

static const char description[] =
    "Predict how long a plan takes on a cluster, by the rule that predicted it when it was made: its own messages and "
    "copies, on the links of that cluster; and say which port binds, where the time goes, and whether its memory is "
    "enough. The plan stays what it is: a plan that is made for that cluster may be faster.";

static int parse(int argc, char **argv, struct simulate_options *o)
{
    const struct cli_option options[] = {
        {"cluster", .type = CLI_STRING, .target = &o->cluster, .value_name = "C.yaml",
         .help = "the cluster: a file, or the name of a built-in one"},
        {"json", .type = CLI_FLAG, .target = &o->json, .help = "print one JSON object"},
    };
    const struct cli_command command = {
        .name = "simulate",
        .synopsis = "PLAN --cluster C.yaml [--json]",
        .summary = "predict the time of a plan on another cluster",
        .description = description,
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 1,
        .max_positional = 1,
    };
    const char *positional[CLI_MAX_POSITIONAL];
    int code = cli_parse(&command, argc, argv, positional);

    if (code < 0 && o->cluster == NULL)
        code = cli_usage(&command, "found no --cluster, expected the cluster to simulate the plan on");
    o->plan = positional[0];
    return code;
}

/* ---- results ------------------------------------------------------------------------- */

struct results {
    struct figures figures; /* of the plan */
    const struct cfg_cluster *cluster;
    struct simulation simulation;
    struct explanation explanation;
    struct explained explained;
};

/* Where the time goes. What a plan says of memory when it is made holds wherever it runs. */
static void explain(const struct shunt_plan *plan, struct results *results)
{
    struct explanation made = {0};
    bool says = explain_read(shunt_plan_explanation(plan), shunt_plan_get_header(plan)->device_count, &made);

    results->simulation.timing.least_rounds = made.least_rounds;
    results->explanation = explain_build(&results->simulation.timing, 0, says && made.holds_old);
    results->explained = (struct explained){.plan = plan,
                                            .predicted = results->simulation.timing.predicted_seconds,
                                            .lower_bound = NAN,
                                            .explanation = &results->explanation};
}

static bool fits(const struct results *results)
{
    return results->simulation.memory.peak <= results->simulation.memory.memory;
}

static void print_text(const struct shunt_plan *plan, const struct results *results)
{
    const struct simulated_memory *memory = &results->simulation.memory;
    double planned = results->figures.summary.predicted_seconds;
    double predicted = results->simulation.timing.predicted_seconds;

    fmt_put_name(stdout, "plan for ", results->figures.cluster, "");
    fmt_put_name(stdout, " on ", results->cluster->name, "\n");
    printf("  %-18s %11s", "predicted", fmt_seconds(predicted).s);
    if (planned > 0)
        printf("   %.2f times the %s that it was made for", predicted / planned, fmt_seconds(planned).s);
    printf("\n  %-18s %11s   on device %" PRIu32 ", which has %s%s\n", "peak", fmt_bytes(memory->peak).s,
           shunt_plan_get_device(plan, memory->device)->id, fmt_bytes(memory->memory).s,
           fits(results) ? "" : ": that is not enough");
    explain_print(&results->explained);
}

static void print_json(const struct shunt_plan *plan, const struct results *results)
{
    const struct simulated_memory *memory = &results->simulation.memory;
    struct json json;

    json_init(&json, stdout, true);
    json_object_begin(&json);
    json_key_string(&json, "plan_id", results->figures.plan_id.s);
    json_key_string(&json, "made_for", results->figures.cluster);
    json_key_string(&json, "cluster", results->cluster->name);
    json_key(&json, "time");
    json_object_begin(&json);
    json_key(&json, "predicted");
    json_double(&json, results->simulation.timing.predicted_seconds);
    json_key(&json, "made_for");
    json_double(&json, results->figures.summary.predicted_seconds);
    json_object_end(&json);
    json_key(&json, "memory");
    json_object_begin(&json);
    json_key_bool(&json, "fits", fits(results));
    json_key_u64(&json, "device", shunt_plan_get_device(plan, memory->device)->id);
    json_key_u64(&json, "peak", memory->peak);
    json_key_u64(&json, "memory", memory->memory);
    json_object_end(&json);
    explain_json(&json, &results->explained);
    json_object_end(&json);
    json_finish(&json);
}

/* ---- the verb ------------------------------------------------------------------------- */

static enum shunt_status run_simulation(const struct shunt_plan *plan, const struct cfg_cluster *cluster,
                                        struct simulation *simulation, struct shunt_err *err)
{
    struct arena *arena = malloc(sizeof(*arena));
    enum shunt_status status;

    if (arena == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    arena_init(arena);
    if (setjmp(arena->on_failure) != 0)
        status = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory while simulating the plan");
    else
        status = simulate(arena, plan, cluster, simulation, err);
    arena_finish(arena);
    free(arena);
    return status;
}

static int show(const struct simulate_options *o, const struct cfg_cluster *cluster)
{
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    struct results results = {.cluster = cluster};
    enum shunt_status status = shunt_plan_open(o->plan, &plan, &err);

    if (status == SHUNT_OK)
        status = run_simulation(plan, cluster, &results.simulation, &err);
    if (status == SHUNT_OK) {
        figures_get(plan, &results.figures);
        explain(plan, &results);
        (o->json ? print_json : print_text)(plan, &results);
    }
    shunt_plan_close(plan);
    return status == SHUNT_OK ? 0 : cli_fail(status, &err);
}

int cmd_simulate(int argc, char **argv)
{
    struct simulate_options options = {0};
    struct cfg_cluster *cluster = NULL;
    enum shunt_status status = SHUNT_ERR_IO;
    int code = parse(argc, argv, &options);

    if (code >= 0)
        return code;
    char *path = cfg_resolve_at("--cluster", NULL, options.cluster, "clusters", stderr);
    if (path != NULL)
        status = cfg_cluster_load(path, &cluster, stderr);
    free(path);
    code = status == SHUNT_OK ? show(&options, cluster) : shunt_status_exit_code(status);
    cfg_cluster_free(cluster);
    return code;
}
