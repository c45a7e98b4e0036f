/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_ESCAPE_H
#define SHUNT_ESCAPE_H

/** For the rooms of this project, and not installed. */

#include <stddef.h>

/**
 * Copy a text that may come from anywhere, a plan's names for instance, so that it cannot steer a terminal
 * or feign a line: each byte of a control character (below 0x20, 0x7F, and 0x80 to 0x9F in UTF-8)
 * becomes "\xNN". What does not fit is cut off. Never more than 4 bytes come of one.
 *
 * @return bytes written, without the NUL
 */
size_t shunt_escape(char *out, size_t size, const char *text);

#endif
