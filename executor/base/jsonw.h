/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_JSONW_H
#define SHUNT_EXECUTOR_JSONW_H

/** Small JSON writer for reports: one line, commas kept by the writer. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct jsonw {
    FILE *file;
    bool comma; /* the next value or key is not the first of its object or array */
};

/* key is NULL inside arrays and at the top */
void jsonw_open(struct jsonw *json, const char *key, char bracket);       /* '{' or '[' */
void jsonw_close(struct jsonw *json, char bracket);                       /* '}' or ']' */
void jsonw_string(struct jsonw *json, const char *key, const char *text); /* NULL prints null */
void jsonw_u64(struct jsonw *json, const char *key, uint64_t value);
void jsonw_double(struct jsonw *json, const char *key, double value);
void jsonw_bool(struct jsonw *json, const char *key, bool value);
void jsonw_hex(struct jsonw *json, const char *key, const uint8_t *bytes, size_t count);

#endif
