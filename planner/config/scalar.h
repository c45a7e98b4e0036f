/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_SCALAR_H
#define SHUNT_PLANNER_CONFIG_SCALAR_H

/**
 * What a scalar means. One rule: a plain scalar is typed by what its field expects, never by
 * YAML's implicit typing.
 *
 * - count: decimal digits only, without a leading zero. No sign, point, exponent, underscore,
 *   colon or base prefix, and no quotes.
 * - size, rate, duration: a decimal number, at most one space, and a unit, which is never left
 *   out: `512 MiB`, `1.5 GiB`, `450 GB/s`, `5 us`. A size must come out as a whole number of bytes.
 * - text: anything in quotes. Without quotes, what YAML 1.1 or 1.2 would read as null, a boolean,
 *   a number or a date is refused, and the message asks for quotes.
 * - boolean: `true` or `false`.
 *
 * The scan functions are pure. They return NULL when they set *out, else the reason of the
 * refusal, to stand in brackets behind the text that was found.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cfg_unit {
    const char *name;    /* NULL ends a list */
    uint64_t multiplier; /* bytes in it; or how many of it are a second */
};

extern const struct cfg_unit cfg_byte_units[]; /* B, KiB, MiB, GiB, TiB, kB, MB, GB, TB */
extern const struct cfg_unit cfg_time_units[]; /* ns, us, ms, s */

/** Any value up to UINT64_MAX; the caller checks the field's range. */
const char *cfg_scan_count(const char *text, size_t length, uint64_t *out);

const char *cfg_scan_bool(const char *text, size_t length, bool *out);

/** With one of cfg_byte_units. */
const char *cfg_scan_size(const char *text, size_t length, uint64_t *bytes_out);

/** With one of cfg_byte_units and "/s". */
const char *cfg_scan_rate(const char *text, size_t length, double *bytes_per_second_out);

/** With one of cfg_time_units. */
const char *cfg_scan_duration(const char *text, size_t length, double *seconds_out);

/** What YAML 1.1 or the core schema of 1.2 makes of a plain scalar: "null", "a boolean", "a number", "a date"; NULL: text. */
const char *cfg_yaml_implicit_type(const char *text, size_t length);

/** Reason given by cfg_scan_count for a value that is a number but no uint64_t. */
extern const char cfg_out_of_range[];

#endif
