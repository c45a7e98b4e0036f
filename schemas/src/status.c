/* SPDX-License-Identifier: Apache-2.0 */
#include "shunt/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "shunt/escape.h"

struct status_row {
    const char *name;
    int exit_code;
};

static const struct status_row status_rows[] = {
    [SHUNT_OK] = {"ok", 0},
    [SHUNT_ERR_INPUT] = {"input", 1},
    [SHUNT_ERR_UNSUPPORTED] = {"unsupported", 1},
    [SHUNT_ERR_INFEASIBLE] = {"infeasible", 1},
    [SHUNT_ERR_PLAN] = {"plan", 1},
    [SHUNT_ERR_VERIFY] = {"verify", 1},
    [SHUNT_ERR_CHECK] = {"check", 1},
    [SHUNT_ERR_MISMATCH] = {"mismatch", 1},
    [SHUNT_ERR_USAGE] = {"usage", 2},
    [SHUNT_ERR_IO] = {"io", 3},
    [SHUNT_ERR_NOMEM] = {"nomem", 3},
    [SHUNT_ERR_PEER] = {"peer", 3},
    [SHUNT_ERR_TIMEOUT] = {"timeout", 3},
    [SHUNT_ERR_TRANSPORT] = {"transport", 3},
    [SHUNT_ERR_CANCELLED] = {"cancelled", 3},
    [SHUNT_ERR_INTERNAL] = {"internal", 3},
};

/* A number outside the enum is a fault of ours: it reads like SHUNT_ERR_INTERNAL. */
static const struct status_row *status_row(enum shunt_status status)
{
    size_t index = (size_t)status;
    size_t count = sizeof(status_rows) / sizeof(status_rows[0]);
    return &status_rows[index < count ? index : (size_t)SHUNT_ERR_INTERNAL];
}

const char *shunt_status_name(enum shunt_status status)
{
    return status_row(status)->name;
}

int shunt_status_exit_code(enum shunt_status status)
{
    return status_row(status)->exit_code;
}

enum shunt_status shunt_fail(struct shunt_err *err, enum shunt_status status, const char *format, ...)
{
    if (err == NULL)
        return status;
    struct shunt_err raw; /* an argument may be err->text itself */
    va_list args;
    va_start(args, format);
    vsnprintf(raw.text, sizeof(raw.text), format, args);
    va_end(args);
    shunt_escape(err->text, sizeof(err->text), raw.text);
    return status;
}
