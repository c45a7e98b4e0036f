/* SPDX-License-Identifier: Apache-2.0 */
/** The `shunt` command: finds the verb in one table and runs it. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "config/suggest.h"
#include "shunt/plan_format.h"
#include "shunt/streams.h"

struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *planned; /* what it will do; NULL once it runs */
};

static const struct verb verbs[] = {
    {"plan", cmd_plan, NULL},
    {"inspect", cmd_inspect, NULL},
    {"verify", cmd_verify, NULL},
    {"layout", cmd_layout, NULL},
    {"diff", cmd_diff, NULL},
    {"precompile", cmd_precompile, NULL},
    {"simulate", cmd_simulate, NULL},
    {"salvage", NULL, "plan from where a broken move stopped"},
    {"serve", NULL, "answer requests for plans"},
};
#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static const char about[] =
    "Shunt changes the parallelism of a running training job. This command compiles two layouts into a plan, and shows "
    "and proves plans; shunt-exec replays them.";

static const char usage[] = "usage: shunt VERB [arguments] | shunt help [VERB] | shunt --help | shunt --version\n";

static int run_help_kind(const struct verb *verb, const char *option)
{
    char name[16], help[16];
    char *argv[] = {name, help, NULL};

    snprintf(name, sizeof(name), "%s", verb->name);
    snprintf(help, sizeof(help), "%s", option);
    return verb->run(2, argv);
}

static void print_verbs(bool planned)
{
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if ((verbs[i].planned != NULL) != planned)
            continue;
        printf("  %-12s", verbs[i].name);
        if (planned)
            puts(verbs[i].planned);
        else
            run_help_kind(&verbs[i], "--help=summary");
    }
}

static int print_help(void)
{
    printf("%s\n", usage);
    cli_print_wrapped(about, 0);
    printf("\nverbs:\n");
    print_verbs(false);
    printf("\nnot in this version:\n");
    print_verbs(true);
    printf("\nshunt help VERB prints the options of a verb.\n");
    return 0;
}

static int print_version(void)
{
    printf("shunt %s (plan format %u.%u)\n", cli_version(), SHUNT_PLAN_VERSION_MAJOR, SHUNT_PLAN_VERSION_MINOR);
    return 0;
}

/* One that begins so or is a typing error away; NULL: none. */
static const char *nearest_verb(const char *name)
{
    struct cfg_suggestion suggestion = {.text = name, .length = strlen(name)};

    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (suggestion.length > 1 && strncmp(verbs[i].name, name, suggestion.length) == 0)
            return verbs[i].name;
        cfg_suggest(&suggestion, verbs[i].name);
    }
    return suggestion.best;
}

static const struct verb *find_verb(const char *name)
{
    const char *nearest;

    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    nearest = nearest_verb(name);
    fprintf(stderr, "shunt: unknown verb \"%s\"", name);
    if (nearest != NULL)
        fprintf(stderr, "; the nearest is \"%s\"", nearest);
    fprintf(stderr, "\n%s", usage);
    return NULL;
}

/* shunt help [[--man] VERB]; the man pages of the verbs come from --man, shunt.1 is written by hand */
static int run_help(int argc, char **argv)
{
    bool man = argc > 1 && strcmp(argv[1], "--man") == 0;
    const char *name = argv[man ? 2 : 1];
    const struct verb *verb;

    if (name == NULL && man) {
        fprintf(stderr, "shunt: help: --man needs a verb\n%s", usage);
        return 2;
    }
    if (name == NULL)
        return print_help();
    verb = find_verb(name);
    if (verb == NULL)
        return 2;
    if (verb->planned != NULL) {
        printf("shunt %s: %s; not in this version\n", verb->name, verb->planned);
        return 0;
    }
    return run_help_kind(verb, man ? "--help=man" : "--help");
}

static int run_verb(int argc, char **argv)
{
    const struct verb *verb = find_verb(argv[0]);

    if (verb == NULL)
        return 2;
    if (verb->planned != NULL) {
        fprintf(stderr, "shunt: not supported: the verb \"%s\" is not in this version\n", verb->name);
        return 1;
    }
    return verb->run(argc, argv);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        fputs(usage, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return print_version();
    if (strcmp(argv[1], "help") == 0)
        return run_help(argc - 1, argv + 1);
    return run_verb(argc - 1, argv + 1);
}

/*
 * Results that did not reach stdout are an error, also when only the last flush finds out. An exit code that says
 * something already stays.
 */
static int close_stdout(int code)
{
    bool failed = ferror(stdout) != 0;
    int error = errno;

    if (fclose(stdout) != 0) {
        failed = true;
        error = errno;
    }
    if (!failed)
        return code;
    fprintf(stderr, "shunt: write to stdout: %s\n", error != 0 ? strerror(error) : "failed");
    return code != 0 ? code : 3;
}

int main(int argc, char **argv)
{
    int code;

    shunt_open_streams();
    errno = 0;
    code = dispatch(argc, argv);
    return close_stdout(code);
}
