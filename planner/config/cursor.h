/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_CURSOR_H
#define SHUNT_PLANNER_CONFIG_CURSOR_H

/** Reading a text of words, counts and single characters from left to right, with spaces between them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cfg_cursor {
    const char *at, *end;
};

/** Is this, behind spaces, the end? */
bool cfg_cursor_at_end(struct cfg_cursor *cursor);

/** Step over this character, and spaces before it, if it comes next. */
bool cfg_cursor_take(struct cfg_cursor *cursor, char wanted);

/** Step over a word of letters, digits and underscores that starts with no digit. @return its length; 0 if none comes next */
size_t cfg_cursor_word(struct cfg_cursor *cursor, const char **word_out);

/** Step over a count from min to max. @return NULL, or why none comes next */
const char *cfg_cursor_count(struct cfg_cursor *cursor, int64_t min, int64_t max, int64_t *out);

#endif
