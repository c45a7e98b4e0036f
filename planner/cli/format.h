/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_FORMAT_H
#define SHUNT_PLANNER_FORMAT_H

/**
 * Figures as people read them. Returned by value, so that a call stands among the arguments
 * of one printf: `printf("%s\n", fmt_bytes(n).s)`.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct fmt_text {
    char s[72];
};

struct fmt_text fmt_bytes(uint64_t bytes);               /* "512 B", "12.3 GiB" */
struct fmt_text fmt_count(uint64_t value);               /* "13,207,024,435" */
struct fmt_text fmt_seconds(double seconds);             /* "1.234 s", "17.000 ms", "3.200 us" */
struct fmt_text fmt_percent(double ratio);               /* 0.123: "12.3 %"; "-" if not a number */
struct fmt_text fmt_points(double ratio);                /* difference of two ratios, in percentage points: "12.3 pp" */
struct fmt_text fmt_hex(const uint8_t *bytes, size_t n); /* n <= 32 */
struct fmt_text fmt_rank(uint32_t rank, const char *none); /* "7", or `none` for SHUNT_PLAN_NONE */

/** A name from a plan, of any length, with its control characters escaped; `before` and `behind` as they are. */
void fmt_put_name(FILE *file, const char *before, const char *name, const char *behind);

#endif
