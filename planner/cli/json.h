/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_JSON_H
#define SHUNT_PLANNER_JSON_H

/**
 * Streaming JSON writer over a FILE, for reports. Commas and nesting are kept by the writer;
 * a wrong nesting is a programming error (assert). Doubles print with 17 significant digits at
 * most, shortest form that reads back; not-a-number and infinities print as null.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 32

struct json {
    FILE *file;
    bool pretty; /* newlines and two-space indents; false: one line */
    int depth;
    bool first[JSON_MAX_DEPTH];
    bool array[JSON_MAX_DEPTH];
    bool after_key;
};

void json_init(struct json *json, FILE *file, bool pretty);
/** End the document with a newline and flush; false when writing failed at any point. */
bool json_finish(struct json *json);
/** End one document of JSON lines with a newline; the next may begin. Does not flush. */
void json_end_line(struct json *json);

/* In an object each value is preceded by its key; in an array and at the top there is none. */
void json_key(struct json *json, const char *key);
void json_object_begin(struct json *json);
void json_object_end(struct json *json);
void json_array_begin(struct json *json);
void json_array_end(struct json *json);
void json_string(struct json *json, const char *text); /* escapes; NULL prints null */
/** One string made of `count` parts, none of them NULL. */
void json_strings(struct json *json, const char *const *parts, int count);
void json_u64(struct json *json, uint64_t value);
void json_i64(struct json *json, int64_t value);
void json_double(struct json *json, double value);
void json_bool(struct json *json, bool value);
void json_null(struct json *json);

/* A key with its value. */
void json_key_u64(struct json *json, const char *key, uint64_t value);
void json_key_bool(struct json *json, const char *key, bool value);
void json_key_string(struct json *json, const char *key, const char *text);

#endif
