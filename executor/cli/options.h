/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_OPTIONS_H
#define SHUNT_EXECUTOR_OPTIONS_H

/** The command line of shunt-exec. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shunt/status.h"

struct options {
    char **plans; /* in argv */
    uint32_t plan_count;
    uint32_t launch;       /* 0: not given */
    const char *transport; /* NULL: not given */
    const char *on;        /* where buffers are; NULL: not given */
    const char *load, *store;
    const char *journal, *read_journal, *statistics;
    const char *meet, *job;
    bool fill, check;
    uint64_t seed;
    double timeout_seconds;
    bool json, no_verify, checksum, replicas, dry_run;
    bool help, version, list;
};

#define OPTIONS_DEFAULT_TIMEOUT 60.0

/** Strings point into argv. @return SHUNT_ERR_USAGE */
enum shunt_status options_parse(int argc, char **argv, struct options *options_out, struct shunt_err *err);

void options_print_help(FILE *file);
void options_print_list(FILE *file); /* transports and devices of this build */

#endif
