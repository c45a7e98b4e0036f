/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_NUMBER_H
#define SHUNT_EXECUTOR_NUMBER_H

/** Strict numbers from command lines and environments. */

#include <stdbool.h>
#include <stdint.h>

/** Decimal digits only, no sign, no leading zero (but "0"), below 2^64. */
bool number_parse_u64(const char *text, uint64_t *value_out);

/** Digits with an optional fraction: "60", "0.5". Finite and at least 0. */
bool number_parse_seconds(const char *text, double *seconds_out);

#endif
