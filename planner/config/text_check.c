/* SPDX-License-Identifier: Apache-2.0 */
#include "text_check.h"

#include <string.h>

/* Bytes of the character that starts at `at`, or 0 if it is not UTF-8 (overlong and surrogates included). */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char lead_low, lead_high, second_low, second_high;
        size_t length;
    } forms[] = {
        {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        if (at[0] < forms[f].lead_low || at[0] > forms[f].lead_high)
            continue;
        size_t length = forms[f].length;
        if (length > left || (length > 1 && (at[1] < forms[f].second_low || at[1] > forms[f].second_high)))
            return 0;
        for (size_t i = 2; i < length; i++) {
            if ((at[i] & 0xC0) != 0x80)
                return 0;
        }
        return length;
    }
    return 0;
}

static uint32_t code_point(const unsigned char *at, size_t length)
{
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = at[0] & lead_bits[length];
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (at[i] & 0x3F);
    return code;
}

static bool is_break(uint32_t code)
{
    return code == '\n' || code == '\r' || code == 0x2028 || code == 0x2029;
}

/* Controls (but for tab and line ends) and the two non-characters that YAML leaves out. */
static bool is_forbidden(uint32_t code)
{
    return (code < 0x20 && code != '\t' && !is_break(code)) || (code >= 0x7F && code < 0xA0) || code == 0xFFFE ||
           code == 0xFFFF;
}

static bool report_forbidden(struct cfg_diag *diag, struct cfg_pos pos, uint32_t code)
{
    if (code == 0)
        cfg_report(diag, pos, NULL, "found a NUL byte, expected text");
    else
        cfg_report(diag, pos, NULL, "found control character U+%04X, expected text", (unsigned)code);
    return false;
}

/*
 * A directive is a line that starts with `%`. None is of use here, and libyaml takes time that grows
 * with the square of their number.
 */
static bool check_line_start(struct cfg_diag *diag, struct cfg_pos pos, unsigned char byte)
{
    if (pos.column != 1 || byte != '%')
        return true;
    cfg_report(diag, pos, NULL, "found a line that starts with `%%` (a directive), expected none");
    return false;
}

/* Most bytes are: printable ASCII. */
static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7F;
}

static bool check_characters(struct cfg_diag *diag, const unsigned char *bytes, size_t size)
{
    struct cfg_pos pos = {1, 1};
    size_t length;
    for (size_t i = 0; i < size; i += length) {
        if (is_plain(bytes[i]) && pos.column != 1) {
            length = 1;
            pos.column++;
            continue;
        }
        length = utf8_length(bytes + i, size - i);
        if (length == 0) {
            cfg_report(diag, pos, NULL, "found byte 0x%02X, which is not UTF-8, expected UTF-8 text", bytes[i]);
            return false;
        }
        uint32_t code = code_point(bytes + i, length);
        if (is_forbidden(code))
            return report_forbidden(diag, pos, code);
        if (!check_line_start(diag, pos, bytes[i]))
            return false;
        bool crlf = code == '\r' && i + 1 < size && bytes[i + 1] == '\n';
        if (is_break(code) && !crlf)
            pos = (struct cfg_pos){pos.line + 1, 1};
        else if (!crlf)
            pos.column++;
    }
    return true;
}

bool cfg_text_check(struct cfg_diag *diag, const unsigned char *bytes, size_t size, size_t most, size_t *skip_out)
{
    const struct cfg_pos start = {1, 1};
    *skip_out = 0;
    if (size > most) {
        cfg_report(diag, start, NULL, "found more than %zu bytes, expected a smaller document", most);
        return false;
    }
    if (size >= 2 && (memcmp(bytes, "\xFF\xFE", 2) == 0 || memcmp(bytes, "\xFE\xFF", 2) == 0)) {
        cfg_report(diag, start, NULL, "found UTF-16 text, expected UTF-8");
        return false;
    }
    if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
        *skip_out = 3;
    return check_characters(diag, bytes + *skip_out, size - *skip_out);
}
