/* SPDX-License-Identifier: Apache-2.0 */
/** --help texts and man pages, printed from the tables that the parser uses. */

#include "cli.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WIDTH       88 /* columns of --help */
#define HELP_COLUMN 26 /* where the help of an option starts */

#ifndef SHUNT_VERSION
#define SHUNT_VERSION "unknown"
#endif

static const struct cli_option help_option = {
    .name = "help", .letter = 'h', .type = CLI_FLAG, .help = "print this text"};

static const struct {
    const char *code, *meaning;
} exit_codes[] = {
    {"0", "done"},
    {"1", "refused or a check failed: bad input, infeasible, verification failed"},
    {"2", "usage"},
    {"3", "environment: no such file, out of memory, output cannot be written"},
};
#define EXIT_CODE_COUNT ((int)(sizeof(exit_codes) / sizeof(exit_codes[0])))

const char *cli_version(void)
{
    return SHUNT_VERSION;
}

/* ---- wrapping ------------------------------------------------------------------ */

/* Print the words of one paragraph line, starting at `column`; return the column reached. */
static int print_words(const char *begin, const char *end, int indent, int column)
{
    while (begin < end) {
        size_t length;
        begin += strspn(begin, " ");
        length = strcspn(begin, " \n");
        if (begin >= end || length == 0)
            break;
        if (column > indent && column + 1 + (int)length > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)length, begin);
        column += (int)length;
        begin += length;
    }
    return column;
}

/* The caller has already printed `indent` columns of the first line. */
static void wrap(const char *text, int indent)
{
    int column = indent;

    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');
        bool verbatim = *text == ' ', blank = text == end;
        if (column > indent && (verbatim || blank)) {
            printf("\n%*s", blank ? 0 : indent, "");
            column = indent;
        }
        if (verbatim)
            printf("%.*s\n%*s", (int)(end - text), text, indent, "");
        else if (blank)
            printf("\n%*s", indent, "");
        else
            column = print_words(text, end, indent, column);
        text = *end == '\n' ? end + 1 : end;
    }
    putchar('\n');
}

void cli_print_wrapped(const char *text, int indent)
{
    printf("%*s", indent, "");
    wrap(text, indent);
}

/* ---- --help -------------------------------------------------------------------- */

void cli_value_name(const struct cli_option *option, char *text, size_t size)
{
    size_t length = 0;

    if (option->type != CLI_CHOICE) {
        snprintf(text, size, "%s", option->value_name != NULL ? option->value_name : "");
        return;
    }
    for (int i = 0; option->choices[i] != NULL && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? "|" : "", option->choices[i]);
}

/* "-o, --output PLAN" */
static void option_usage(const struct cli_option *option, char *text, size_t size)
{
    char letter[8] = "", value[64];

    if (option->letter != 0)
        snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    cli_value_name(option, value, sizeof(value));
    snprintf(text, size, "%s--%s%s%s", letter, option->name, value[0] != '\0' ? " " : "", value);
}

static void print_option(const struct cli_option *option)
{
    char usage[120];

    option_usage(option, usage, sizeof(usage));
    printf("  %-*s", HELP_COLUMN - 3, usage);
    if (strlen(usage) > HELP_COLUMN - 3)
        printf("\n%*s", HELP_COLUMN, "");
    else
        putchar(' ');
    wrap(option->help, HELP_COLUMN);
}

void cli_print_help(const struct cli_command *command)
{
    printf("usage: shunt %s %s\n\n", command->name, command->synopsis);
    cli_print_wrapped(command->description, 0);
    printf("\noptions:\n");
    for (int i = 0; i < command->option_count; i++)
        print_option(&command->options[i]);
    print_option(&help_option);
    printf("\nexit codes:\n");
    for (int i = 0; i < EXIT_CODE_COUNT; i++)
        printf("  %s  %s\n", exit_codes[i].code, exit_codes[i].meaning);
}

/* ---- man pages ------------------------------------------------------------------- */

static void man_span(const char *begin, const char *end)
{
    if (begin < end && (*begin == '.' || *begin == '\''))
        fputs("\\&", stdout);
    for (; begin < end; begin++) {
        if (*begin == '-')
            fputs("\\-", stdout);
        else if (*begin == '\\')
            fputs("\\e", stdout);
        else
            putchar(*begin);
    }
}

void cli_man_text(const char *text)
{
    bool verbatim = false;

    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');
        if ((*text == ' ') != verbatim) {
            verbatim = !verbatim;
            puts(verbatim ? ".nf" : ".fi");
        }
        if (text == end)
            fputs(".PP", stdout);
        else
            man_span(text, end);
        putchar('\n');
        text = *end == '\n' ? end + 1 : end;
    }
    if (verbatim)
        puts(".fi");
}

void cli_man_head(const char *page, const char *summary)
{
    fputs(".TH ", stdout);
    for (const char *c = page; *c != '\0'; c++)
        putchar(toupper((unsigned char)*c));
    printf(" 1 \"\" \"shunt %s\" \"Shunt manual\"\n.SH NAME\n", cli_version());
    man_span(page, page + strlen(page));
    fputs(" \\- ", stdout);
    cli_man_text(summary);
}

static void man_option(const struct cli_option *option)
{
    char usage[120];

    option_usage(option, usage, sizeof(usage));
    puts(".TP");
    fputs(".B ", stdout);
    cli_man_text(usage);
    cli_man_text(option->help);
}

void cli_print_man(const struct cli_command *command)
{
    char page[64];

    snprintf(page, sizeof(page), "shunt-%s", command->name);
    cli_man_head(page, command->summary);
    printf(".SH SYNOPSIS\n.B shunt %s\n", command->name);
    cli_man_text(command->synopsis);
    puts(".SH DESCRIPTION");
    cli_man_text(command->description);
    puts(".SH OPTIONS");
    for (int i = 0; i < command->option_count; i++)
        man_option(&command->options[i]);
    man_option(&help_option);
    puts(".SH EXIT STATUS");
    for (int i = 0; i < EXIT_CODE_COUNT; i++)
        printf(".TP\n.B %s\n%s\n", exit_codes[i].code, exit_codes[i].meaning);
    puts(".SH SEE ALSO\n.BR shunt (1)");
}
