/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_SUGGEST_H
#define SHUNT_PLANNER_CONFIG_SUGGEST_H

/** The nearest known word, for "did you mean". */

#include <stddef.h>

/** Insertions, deletions, substitutions and swaps of neighbours that turn one text into the other; longer than 63 bytes: 63. */
size_t cfg_edit_distance(const char *a, size_t a_length, const char *b, size_t b_length);

/** Keeps the best of the candidates it is shown. Start with {text, length, NULL, 0}. */
struct cfg_suggestion {
    const char *text;
    size_t length;
    const char *best; /* NULL: nothing near enough */
    size_t distance;
};

/** The first of equally near candidates wins. Near enough is a third of the candidate's length, but at least 1. */
void cfg_suggest(struct cfg_suggestion *suggestion, const char *candidate);

#endif
