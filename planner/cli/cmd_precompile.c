/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt precompile`: a ladder in, one proved plan a step out. One step after the other: a plan can be gigabytes. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "precompile.h"

static const char description[] =
    "Compile every move of a ladder ahead of time: one plan a step, DIR/STEP.plan, and DIR/index.json, which names "
    "them with their ids, what they were made from, and their figures. Each plan is verified before it is written, "
    "and appears only when it is complete. DIR is made if need be.\n\n"
    "A step that fails does not stop the others; it is not in the index, and an older plan of its name is left alone. "
    "A plan is kept if this same program made it from the same documents under the same options and the file is still "
    "what was written; --force compiles it again. --cap and --cluster stand in place of what the steps say. With "
    "--place optimal, DIR/STEP.layout.yaml is the layout that a plan leaves, for the next ladder to start from.\n\n"
    "Each step is reported on stderr when it is done.";

static const char *const places[] = {"fixed", "optimal", NULL};

static int parse(int argc, char **argv, struct precompile_options *o)
{
    const struct cli_option options[] = {
        {"output", 'o', CLI_STRING, &o->folder, "DIR", "folder for the plans and their index"},
        {"cluster", .type = CLI_STRING, .target = &o->cluster, .value_name = "C.yaml",
         .help = "cluster document, in place of the ladder's and the layouts' own"},
        {"cap", .type = CLI_SIZE, .target = &o->cap, .value_name = "SIZE",
         .help = "most memory per device, everything included", .given = &o->cap_given},
        {"place", .type = CLI_CHOICE, .target = &o->place, .value_name = "NAME",
         .help = "which device takes which new rank: as the layouts say, or so that least is moved", .choices = places},
        {"only", .type = CLI_LIST, .target = &o->only, .value_name = "STEP",
         .help = "compile this step; may be repeated. The others' plans stay in the index"},
        {"force", .type = CLI_FLAG, .target = &o->force,
         .help = "compile steps whose plans are current, too, and replace an index of other plans"},
        {"json", .type = CLI_FLAG, .target = &o->json, .help = "print the figures of all steps as one JSON object"},
    };
    const struct cli_command command = {
        .name = "precompile",
        .synopsis = "LADDER.yaml -o DIR [options]",
        .summary = "compile the plans of a ladder of layouts",
        .description = description,
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .min_positional = 1,
        .max_positional = 1,
    };
    const char *positional[CLI_MAX_POSITIONAL];
    int code = cli_parse(&command, argc, argv, positional);
    if (code < 0 && o->folder == NULL)
        return cli_usage(&command, "-o DIR is missing: the folder for the plans");
    o->ladder = positional[0];
    return code;
}

/* ---- choosing steps ------------------------------------------------------------------- */

static enum shunt_status choose(struct precompile *run, const char *name, struct shunt_err *err)
{
    const struct cfg_ladder *ladder = run->ladder;
    for (uint32_t s = 0; s < ladder->step_count; s++) {
        if (strcmp(ladder->steps[s].name, name) != 0)
            continue;
        run->chosen[s] = true;
        return SHUNT_OK;
    }
    const char **names = calloc(ladder->step_count, sizeof(*names));
    for (uint32_t s = 0; names != NULL && s < ladder->step_count; s++)
        names[s] = ladder->steps[s].name;
    const char *nearest = names != NULL ? cli_nearest(name, names, ladder->step_count, sizeof(*names)) : "";
    free(names);
    return shunt_fail(err, SHUNT_ERR_USAGE,
                      "precompile: --only: found \"%s\", expected a step of %s; the nearest is \"%s\"", name,
                      ladder->path, nearest);
}

static enum shunt_status choose_steps(struct precompile *run, struct shunt_err *err)
{
    const struct precompile_options *o = run->options;
    run->chosen = calloc(run->ladder->step_count, sizeof(*run->chosen));
    run->outcomes = calloc(run->ladder->step_count, sizeof(*run->outcomes));
    if (run->chosen == NULL || run->outcomes == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    enum shunt_status status = SHUNT_OK;
    for (int i = 0; status == SHUNT_OK && i < o->only.count; i++)
        status = choose(run, o->only.items[i], err);
    for (uint32_t s = 0; s < run->ladder->step_count; s++) {
        run->chosen[s] = run->chosen[s] || o->only.count == 0;
        if (!run->chosen[s])
            continue;
        int width = (int)strlen(run->ladder->steps[s].name);
        run->chosen_count++;
        run->name_width = width > run->name_width ? width : run->name_width;
    }
    return status;
}

static enum shunt_status make_folder(const char *folder, struct shunt_err *err)
{
    struct stat info;
    if (mkdir(folder, 0777) == 0 || (errno == EEXIST && stat(folder, &info) == 0 && S_ISDIR(info.st_mode)))
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_IO, "make folder \"%s\": %s", folder, strerror(errno));
}

/* ---- all steps ------------------------------------------------------------------------------ */

/* The index is written after each step: what a run that is broken off has made, it has. */
static void write_index(struct precompile *run)
{
    struct shunt_err err = {""};
    enum shunt_status status = plan_index_write(&run->index, &err);
    if (status == SHUNT_OK)
        return;
    precompile_wipe_bar(run);
    cli_fail(status, &err);
    precompile_note_failure(run, status);
}

static void run_steps(struct precompile *run)
{
    precompile_begin_report(run);
    for (uint32_t s = 0; s < run->ladder->step_count; s++) {
        if (!run->chosen[s])
            continue;
        struct precompile_result result = {0};
        precompile_show_bar(run, run->ladder->steps[s].name);
        precompile_step(run, s, &result);
        precompile_report_step(run, s, &result);
        precompile_free_result(&result);
        write_index(run);
    }
    precompile_end_report(run);
    precompile_report_failures(run);
}

static enum shunt_status prepare(struct precompile *run, struct shunt_err *err)
{
    const struct precompile_options *o = run->options;
    enum shunt_status status = cfg_ladder_load(o->ladder, &run->ladder, stderr);
    if (status == SHUNT_OK)
        status = choose_steps(run, err);
    if (status == SHUNT_OK)
        status = make_folder(o->folder, err);
    if (status == SHUNT_OK)
        status = plan_index_open(run->ladder, o->folder, o->force, &run->index, stderr);
    return status;
}

int cmd_precompile(int argc, char **argv)
{
    struct precompile_options options = {.place = "fixed"};
    struct precompile run = {.options = &options, .is_terminal = isatty(STDERR_FILENO) == 1};
    struct shunt_err err = {""};
    int code = parse(argc, argv, &options);
    if (code >= 0)
        return code;
    enum shunt_status status = prepare(&run, &err);
    if (status == SHUNT_OK)
        run_steps(&run);
    else /* problems of documents have been printed one by one, with file and line */
        run.exit_code = err.text[0] == '\0' ? shunt_status_exit_code(status) : cli_fail(status, &err);
    plan_index_close(&run.index);
    cfg_ladder_free(run.ladder);
    free(run.chosen);
    free(run.outcomes);
    return run.exit_code;
}
