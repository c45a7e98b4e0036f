/* SPDX-License-Identifier: Apache-2.0 */
#include "shunt/escape.h"

size_t shunt_control_bytes(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if ((at[0] < 0x20 && at[0] != '\0') || at[0] == 0x7F)
        return 1;
    return at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0 ? 2 : 0;
}

size_t shunt_escape(char *out, size_t size, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *at = (const unsigned char *)text;
    size_t used = 0;
    for (size_t left = 0; *at != '\0'; at++) {
        if (left == 0)
            left = shunt_control_bytes((const char *)at);
        if (used + (left > 0 ? 4 : 1) >= size)
            break;
        if (left == 0) {
            out[used++] = (char)*at;
            continue;
        }
        left--;
        out[used++] = '\\';
        out[used++] = 'x';
        out[used++] = digits[*at >> 4];
        out[used++] = digits[*at & 0xF];
    }
    if (size > 0)
        out[used] = '\0';
    return used;
}
