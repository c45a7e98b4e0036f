/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_NAMES_H
#define SHUNT_PLANNER_CONFIG_NAMES_H

/** Which texts may name what. `accept` functions of fields: NULL, or what is expected instead. */

#include <stddef.h>

/** Of a document: 1 to 255 bytes, no control characters, no space at either end. */
const char *cfg_accept_name(const char *text, size_t length);

/** Of a tensor or scalar: as a name, without '/', since "STATE/TENSOR" is its full name, and without "..". */
const char *cfg_accept_scalar_name(const char *text, size_t length);

/** As a scalar name, with at most one "{i}", at most one "{e}" and no other brace. */
const char *cfg_accept_tensor_name(const char *text, size_t length);

/** Of a file or a built-in: 1 to 4095 bytes without control characters. */
const char *cfg_accept_reference(const char *text, size_t length);

/** Of a file that is named after it: 1 to 100 letters, digits, `.`, `_` and `-`, not starting with `.` or `-`. */
const char *cfg_accept_file_name(const char *text, size_t length);
const char *cfg_accept_plan_file(const char *text, size_t length);

/** 64 hexadecimal digits, small letters. */
const char *cfg_accept_digest(const char *text, size_t length);

#define CFG_LAYER_MARK  "{i}"
#define CFG_EXPERT_MARK "{e}"

/** Of a pipeline layout: 1 to 65536 bytes without control characters. What it says is settled in space/. */
const char *cfg_accept_pipeline(const char *text, size_t length);

#endif
