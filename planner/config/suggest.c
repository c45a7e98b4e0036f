/* SPDX-License-Identifier: Apache-2.0 */
#include "suggest.h"

#include <string.h>

#define MAX_LENGTH ((size_t)63)

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment, three rows at a time. */
size_t cfg_edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][MAX_LENGTH + 1];
    if (a_length > MAX_LENGTH || b_length > MAX_LENGTH)
        return MAX_LENGTH;
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3], *before_that = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(least(before[j], row[j - 1]) + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before_that[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

void cfg_suggest(struct cfg_suggestion *suggestion, const char *candidate)
{
    size_t length = strlen(candidate);
    size_t distance = cfg_edit_distance(suggestion->text, suggestion->length, candidate, length);
    size_t limit = length < 6 ? 1 : length / 3;
    if (distance > limit || (suggestion->best != NULL && distance >= suggestion->distance))
        return;
    suggestion->best = candidate;
    suggestion->distance = distance;
}
