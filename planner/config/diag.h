/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_DIAG_H
#define SHUNT_PLANNER_CONFIG_DIAG_H

/** Problems of one document, written as they are found: `FILE:LINE:COL: path.to.field: found X, expected Y`. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config.h"

/** Problems written in full; the rest are counted. */
#define CFG_MAX_PROBLEMS 50

struct cfg_diag {
    FILE *out; /* may be NULL: count only */
    const char *file;
    uint64_t count;
};

/** Where in the document a value lies: a chain from the value up to the document, kept on the stack. */
struct cfg_path {
    const struct cfg_path *up; /* NULL: the document itself */
    const char *key;           /* NULL: an entry of a list */
    size_t key_length;         /* 0: key is NUL-terminated */
    uint64_t index;
};

/** path NULL stands for the document. */
void cfg_report(struct cfg_diag *diag, struct cfg_pos pos, const struct cfg_path *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Say how many problems were not written, if any. */
void cfg_diag_finish(struct cfg_diag *diag);

#define CFG_QUOTE_BYTES 96

/** Write text in double quotes, control characters escaped and cut to fit; returns buffer. */
const char *cfg_quote(char buffer[CFG_QUOTE_BYTES], const char *text, size_t length);

#endif
