/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool number_parse_u64(const char *text, uint64_t *value_out)
{
    uint64_t value = 0;
    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *value_out = value;
    return true;
}

bool number_parse_seconds(const char *text, double *seconds_out)
{
    size_t digits = strspn(text, "0123456789");
    const char *rest = text + digits;
    if (digits == 0 || digits > 9)
        return false;
    if (*rest == '.') {
        size_t fraction = strspn(rest + 1, "0123456789");
        if (fraction == 0 || fraction > 9)
            return false;
        rest += 1 + fraction;
    }
    if (*rest != '\0')
        return false;
    *seconds_out = strtod(text, NULL);
    return true;
}
