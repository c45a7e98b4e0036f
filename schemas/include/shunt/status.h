/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_STATUS_H
#define SHUNT_STATUS_H

/**
 * Statuses and error text shared by every room.
 *
 * Convention: a function that can fail returns enum shunt_status and takes a
 * `struct shunt_err *` last. Whoever detects the error writes the text once;
 * callers pass the status up. Outputs are set on SHUNT_OK only.
 */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHUNT_API __attribute__((visibility("default")))

enum shunt_status {
    SHUNT_OK = 0,
    /* refused: the input is at fault (exit 1) */
    SHUNT_ERR_INPUT,       /* a document or value is malformed or out of range */
    SHUNT_ERR_UNSUPPORTED, /* well formed, but this version cannot do it */
    SHUNT_ERR_INFEASIBLE,  /* no plan under the given cap */
    SHUNT_ERR_PLAN,        /* a plan file is malformed, truncated or corrupt */
    SHUNT_ERR_VERIFY,      /* a well-formed plan breaks a rule */
    SHUNT_ERR_CHECK,       /* moved bytes are wrong or were never written */
    SHUNT_ERR_MISMATCH,    /* parties disagree: plan id, version, buffer table */
    /* called wrongly (exit 2) */
    SHUNT_ERR_USAGE,
    /* environment (exit 3) */
    SHUNT_ERR_IO,        /* a file or system call failed */
    SHUNT_ERR_NOMEM,     /* an allocation failed */
    SHUNT_ERR_PEER,      /* a peer is lost */
    SHUNT_ERR_TIMEOUT,   /* a deadline passed */
    SHUNT_ERR_TRANSPORT, /* a transport library reported an error */
    SHUNT_ERR_CANCELLED, /* the caller asked to stop */
    /* our own fault (exit 3) */
    SHUNT_ERR_INTERNAL,
};

/** Error text: one line without control characters; always NUL-terminated, empty when nothing failed. */
struct shunt_err {
    char text[1024];
};

/** Short lower-case name of a status, for instance "infeasible". Never NULL. */
SHUNT_API const char *shunt_status_name(enum shunt_status status);

/** Process exit code of a status: 0 done, 1 refused, 2 usage, 3 environment. */
SHUNT_API int shunt_status_exit_code(enum shunt_status status);

/**
 * Write a formatted text to err (which may be NULL) and return status, so that
 * a failing line reads `return shunt_fail(err, SHUNT_ERR_INPUT, "...", ...);`.
 */
SHUNT_API enum shunt_status shunt_fail(struct shunt_err *err, enum shunt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif
#endif
