/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Option parser. One pass over argv: options are looked up in the verb's table and stored
 * through their targets, everything else is positional. cli_help.c prints the same tables.
 */

#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/suggest.h"

struct scan {
    const struct cli_command *command;
    int argc;
    char **argv;
    int next; /* index of the argument after the current one */
    const char **positional;
    int positional_count;
};

int cli_fail(enum shunt_status status, const struct shunt_err *err)
{
    fprintf(stderr, "shunt: %s\n", err->text[0] != '\0' ? err->text : shunt_status_name(status));
    return shunt_status_exit_code(status);
}

int cli_usage(const struct cli_command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "shunt: %s: ", command->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nusage: shunt %s %s\n", command->name, command->synopsis);
    va_end(args);
    return 2;
}

/* ---- nearest name ------------------------------------------------------------ */

#define LONGEST_NAME       64u
#define LONGEST_VALUE_NAME 64u

const char *cli_nearest(const char *word, const void *records, size_t count, size_t stride)
{
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX, length = strlen(word);

    for (size_t i = 0; i < count; i++) {
        const char *name = *(const char *const *)((const char *)records + i * stride);
        size_t distance =
            length > 0 && strncmp(name, word, length) == 0 ? 0 : cfg_edit_distance(word, length, name, strlen(name));
        if (nearest == NULL || distance < nearest_distance) {
            nearest = name;
            nearest_distance = distance;
        }
    }
    return nearest;
}

/* ---- values ------------------------------------------------------------------ */

static bool parse_uint(const char *text, uint64_t *out)
{
    uint64_t value = 0;

    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
            return false;
    }
    *out = value;
    return text[0] != '\0';
}

static bool parse_positive_double(const char *text, double *out)
{
    char *end;
    double value;

    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') /* no hexadecimal, inf, nan, blanks */
        return false;
    value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value) || value <= 0)
        return false;
    *out = value;
    return true;
}

static size_t count_choices(const struct cli_option *option)
{
    size_t count = 0;

    while (option->choices[count] != NULL)
        count++;
    return count;
}

static bool parse_choice(const struct cli_option *option, const char *text)
{
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(const char **)option->target = option->choices[i];
            return true;
        }
    }
    return false;
}

static int append(const struct scan *scan, const struct cli_option *option, const char *text)
{
    struct cli_list *list = option->target;

    if (list->count == CLI_MAX_LIST)
        return cli_usage(scan->command, "--%s: found more than %d, expected fewer", option->name, CLI_MAX_LIST);
    list->items[list->count++] = text;
    return -1;
}

static int store_value(const struct scan *scan, const struct cli_option *option, const char *text)
{
    struct shunt_err err;
    char name[LONGEST_VALUE_NAME];

    switch (option->type) {
    case CLI_FLAG:
        *(bool *)option->target = true;
        return -1;
    case CLI_STRING:
        *(const char **)option->target = text;
        return -1;
    case CLI_SIZE:
        if (cfg_parse_size(text, option->target, &err) == SHUNT_OK)
            return -1;
        return cli_usage(scan->command, "--%s: %s", option->name, err.text);
    case CLI_UINT:
        if (parse_uint(text, option->target))
            return -1;
        return cli_usage(scan->command, "--%s: found \"%s\", expected a whole number", option->name, text);
    case CLI_DOUBLE:
        if (parse_positive_double(text, option->target))
            return -1;
        return cli_usage(scan->command, "--%s: found \"%s\", expected a number above 0", option->name, text);
    case CLI_CHOICE:
        if (parse_choice(option, text))
            return -1;
        cli_value_name(option, name, sizeof(name));
        return cli_usage(scan->command, "--%s: found \"%s\", expected %s; the nearest is \"%s\"", option->name, text,
                         name, cli_nearest(text, option->choices, count_choices(option), sizeof(option->choices[0])));
    case CLI_LIST:
        return append(scan, option, text);
    }
    return 2;
}

/* ---- options ----------------------------------------------------------------- */

/* `text` is the value that was attached to the option, or NULL. */
static int take_option(struct scan *scan, const struct cli_option *option, const char *text)
{
    char name[LONGEST_VALUE_NAME];
    int code;

    if (option->type == CLI_FLAG && text != NULL)
        return cli_usage(scan->command, "--%s takes no value, found \"%s\"", option->name, text);
    if (option->type != CLI_FLAG && text == NULL) {
        if (scan->next >= scan->argc || strncmp(scan->argv[scan->next], "--", 2) == 0) {
            cli_value_name(option, name, sizeof(name));
            return cli_usage(scan->command, "--%s needs a value: %s", option->name, name);
        }
        text = scan->argv[scan->next++];
    }
    code = store_value(scan, option, text);
    if (code < 0 && option->given != NULL)
        *option->given = true;
    return code;
}

static int take_help(const struct scan *scan, const char *kind)
{
    if (kind == NULL)
        cli_print_help(scan->command);
    else if (strcmp(kind, "man") == 0)
        cli_print_man(scan->command);
    else if (strcmp(kind, "summary") == 0)
        puts(scan->command->summary);
    else
        return cli_usage(scan->command, "--help: found \"%s\", expected \"man\" or \"summary\"", kind);
    return 0;
}

static int take_long(struct scan *scan, const char *argument)
{
    const struct cli_command *command = scan->command;
    const char *name = argument + 2, *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const char *text = equals != NULL ? equals + 1 : NULL;
    char word[LONGEST_NAME];
    const char *nearest;

    if (length == 4 && strncmp(name, "help", length) == 0)
        return take_help(scan, text);
    for (int i = 0; i < command->option_count; i++) {
        const struct cli_option *option = &command->options[i];
        if (strlen(option->name) == length && strncmp(option->name, name, length) == 0)
            return take_option(scan, option, text);
    }
    snprintf(word, sizeof(word), "%.*s", (int)(length < sizeof(word) ? length : sizeof(word) - 1), name);
    nearest = cli_nearest(word, command->options, (size_t)command->option_count, sizeof(command->options[0]));
    return cli_usage(command, "unknown option \"--%s\"; the nearest is \"--%s\"", word,
                     nearest != NULL ? nearest : "help");
}

/* -o VALUE or -oVALUE */
static int take_letter(struct scan *scan, const char *argument)
{
    const struct cli_command *command = scan->command;

    if (strcmp(argument, "-h") == 0)
        return take_help(scan, NULL);
    for (int i = 0; i < command->option_count; i++) {
        const struct cli_option *option = &command->options[i];
        if (option->letter != 0 && option->letter == argument[1])
            return take_option(scan, option, argument[2] != '\0' ? argument + 2 : NULL);
    }
    return cli_usage(command, "unknown option \"%s\"", argument);
}

static int take_positional(struct scan *scan, const char *argument)
{
    if (scan->positional_count >= scan->command->max_positional || scan->positional_count >= CLI_MAX_POSITIONAL)
        return cli_usage(scan->command, "unexpected argument \"%s\"", argument);
    scan->positional[scan->positional_count++] = argument;
    return -1;
}

int cli_parse(const struct cli_command *command, int argc, char **argv, const char **positional)
{
    struct scan scan = {.command = command, .argc = argc, .argv = argv, .next = 1, .positional = positional};
    bool options_ended = false;
    int code = -1;

    for (int i = 0; i < CLI_MAX_POSITIONAL; i++)
        positional[i] = NULL;
    while (code < 0 && scan.next < argc) {
        const char *argument = argv[scan.next++];
        if (options_ended || argument[0] != '-' || argument[1] == '\0')
            code = take_positional(&scan, argument);
        else if (strcmp(argument, "--") == 0)
            options_ended = true;
        else if (argument[1] == '-')
            code = take_long(&scan, argument);
        else
            code = take_letter(&scan, argument);
    }
    if (code < 0 && scan.positional_count < command->min_positional)
        code = cli_usage(command, "found %d argument%s, expected %s%d", scan.positional_count,
                         scan.positional_count == 1 ? "" : "s",
                         command->min_positional < command->max_positional ? "at least " : "", command->min_positional);
    return code;
}
