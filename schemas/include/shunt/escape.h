/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_ESCAPE_H
#define SHUNT_ESCAPE_H

/** For the rooms of this project, and not installed. */

#include <stddef.h>

/**
 * Bytes of the control character at the start of a NUL-terminated text: 1 below 0x20 and for 0x7F, 2 for 0x80 to 0x9F
 * in UTF-8, 0 if it begins otherwise.
 */
size_t shunt_control_bytes(const char *text);

/**
 * Copy a text that may come from anywhere, a plan's names for instance, so that it cannot steer a terminal
 * or feign a line: each byte of a control character
 * becomes "\xNN". What does not fit is cut off. Never more than 4 bytes come of one.
 *
 * @return bytes written, without the NUL
 */
size_t shunt_escape(char *out, size_t size, const char *text);

#endif
