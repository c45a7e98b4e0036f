/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CLI_H
#define SHUNT_PLANNER_CLI_H

/**
 * Frame of the `shunt` command: one verb per file (cmd_VERB.c), one table of verbs, one
 * option parser whose tables also print --help and the man page.
 * Results go to stdout, all else to stderr. Exit codes: 0 done, 1 refused, 2 usage, 3 environment.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shunt/status.h"

enum cli_type {
    CLI_FLAG,   /* bool *: set to true */
    CLI_STRING, /* const char ** */
    CLI_SIZE,   /* uint64_t *: "512 MiB", "512MiB" */
    CLI_UINT,   /* uint64_t *: decimal */
    CLI_DOUBLE, /* double *: > 0 */
    CLI_CHOICE, /* const char **: one of `choices` */
    CLI_LIST,   /* struct cli_list *: may be written again and again */
};

#define CLI_MAX_LIST 256

/** Values of an option that may be repeated, in the order written. */
struct cli_list {
    int count;
    const char *items[CLI_MAX_LIST];
};

struct cli_option {
    const char *name; /* without dashes: "staging" */
    char letter;      /* 'o' for -o, 0 if none */
    enum cli_type type;
    void *target;               /* default value is what it holds before parsing */
    const char *value_name;     /* "SIZE"; NULL for a flag and for choices, which name themselves */
    const char *help;           /* one line, without a full stop */
    const char *const *choices; /* NULL-terminated; CLI_CHOICE only */
    bool *given;                /* set to true when the option was written; may be NULL */
};

#define CLI_MAX_POSITIONAL 8

struct cli_command {
    const char *name;        /* "plan" */
    const char *synopsis;    /* "FROM.yaml TO.yaml -o PLAN [options]" */
    const char *summary;     /* one line, for the list of verbs */
    const char *description; /* a paragraph or more for --help and the man page */
    const struct cli_option *options;
    int option_count;
    int min_positional, max_positional;
};

/**
 * Parse argv[1..] of a verb. Options may stand anywhere; "--name=value" and "--name value" are
 * the same; "--" ends options; --help prints help on stdout.
 *
 * @param positional  at least CLI_MAX_POSITIONAL entries; NULL-padded
 * @return -1: go on; otherwise the exit code to return (0 after --help, 2 after a usage error,
 *         which names the option and the nearest known one)
 */
int cli_parse(const struct cli_command *command, int argc, char **argv, const char **positional);

/** Print "shunt: TEXT" on stderr and return the exit code of status. */
int cli_fail(enum shunt_status status, const struct shunt_err *err);

/** Print "shunt: VERB: TEXT" and the usage line on stderr and return 2. */
int cli_usage(const struct cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * The name nearest to `word`: fewest edits, a name that starts with `word` first, ties to the earlier one.
 *
 * @param records  `count` records of `stride` bytes, each starting with its name (const char *)
 * @return NULL if there are no records
 */
const char *cli_nearest(const char *word, const void *records, size_t count, size_t stride);

/** Write what stands for the option's value in texts: "SIZE", "auto|exact|greedy", "" for a flag. */
void cli_value_name(const struct cli_option *option, char *text, size_t size);

/** What `--help` (the people's text), `--help=man` and `--help=summary` of a verb print. */
void cli_print_help(const struct cli_command *command);
void cli_print_man(const struct cli_command *command);

/** Print text on stdout, wrapped at 88 columns and indented; blank lines and lines that start with a space stay. */
void cli_print_wrapped(const char *text, int indent);

/** Start of a man page of section 1, and text with roff's own characters escaped. */
void cli_man_head(const char *page, const char *summary);
void cli_man_text(const char *text);

/** "0.1.0" */
const char *cli_version(void);

/** Verbs: argv[0] is the verb. */
int cmd_plan(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_layout(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_precompile(int argc, char **argv);
int cmd_simulate(int argc, char **argv);

#endif
