/* SPDX-License-Identifier: Apache-2.0 */
#include "cursor.h"

#include "scalar.h"

static void skip_spaces(struct cfg_cursor *cursor)
{
    while (cursor->at < cursor->end && *cursor->at == ' ')
        cursor->at++;
}

static bool is_word_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_';
}

bool cfg_cursor_at_end(struct cfg_cursor *cursor)
{
    skip_spaces(cursor);
    return cursor->at == cursor->end;
}

bool cfg_cursor_take(struct cfg_cursor *cursor, char wanted)
{
    if (cfg_cursor_at_end(cursor) || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

size_t cfg_cursor_word(struct cfg_cursor *cursor, const char **word_out)
{
    bool none = cfg_cursor_at_end(cursor) || (*cursor->at >= '0' && *cursor->at <= '9');
    *word_out = cursor->at;
    if (none)
        return 0;
    while (cursor->at < cursor->end && is_word_byte(*cursor->at))
        cursor->at++;
    return (size_t)(cursor->at - *word_out);
}

const char *cfg_cursor_count(struct cfg_cursor *cursor, int64_t min, int64_t max, int64_t *out)
{
    uint64_t value = 0;
    skip_spaces(cursor);
    const char *start = cursor->at;
    if (cursor->at < cursor->end && *cursor->at == '-')
        cursor->at++;
    while (cursor->at < cursor->end && is_word_byte(*cursor->at))
        cursor->at++;
    const char *reason = cfg_scan_count(start, (size_t)(cursor->at - start), &value);
    if (reason == NULL && (value < (uint64_t)min || value > (uint64_t)max))
        reason = cfg_out_of_range;
    *out = (int64_t)value;
    return reason;
}
