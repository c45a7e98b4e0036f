/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"

#include <string.h>

#include "config.h"
#include "diag.h"

const char cfg_out_of_range[] = "out of range";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool equals(const char *text, size_t length, const char *want)
{
    return strlen(want) == length && memcmp(text, want, length) == 0;
}

/* ---- counts ------------------------------------------------------------------------ */

/* Why this is not a count, in words. */
static const char *count_refusal(const char *text, size_t length)
{
    static const struct {
        char mark;
        const char *reason;
    } marks[] = {
        {'_', "an underscore"}, {':', "a colon"},       {'.', "a decimal point"}, {'x', "a base prefix"},
        {'X', "a base prefix"}, {'o', "a base prefix"}, {'b', "a base prefix"},   {'e', "an exponent"},
        {'E', "an exponent"},   {',', "a comma"},       {' ', "a space"},
    };
    if (length == 0 || !is_digit(text[0]))
        return length > 1 && text[0] == '+' && is_digit(text[1]) ? "a sign" : "not a number";
    for (size_t i = 1; i < length; i++) {
        for (size_t m = 0; !is_digit(text[i]) && m < sizeof(marks) / sizeof(marks[0]); m++) {
            if (text[i] == marks[m].mark)
                return marks[m].reason;
        }
        if (!is_digit(text[i]))
            break;
    }
    return "not a number";
}

static size_t digit_count(const char *text, size_t length)
{
    size_t n = 0;
    while (n < length && is_digit(text[n]))
        n++;
    return n;
}

const char *cfg_scan_count(const char *text, size_t length, uint64_t *out)
{
    if (length > 1 && text[0] == '-' && digit_count(text + 1, length - 1) == length - 1)
        return cfg_out_of_range;
    if (length == 0 || digit_count(text, length) != length)
        return count_refusal(text, length);
    if (length > 1 && text[0] == '0')
        return "a leading zero";
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return cfg_out_of_range;
    }
    *out = value;
    return NULL;
}

const char *cfg_scan_bool(const char *text, size_t length, bool *out)
{
    bool is_true = equals(text, length, "true");
    if (!is_true && !equals(text, length, "false"))
        return "not a boolean";
    *out = is_true;
    return NULL;
}

/* ---- numbers with a unit ------------------------------------------------------------ */

#define MAX_DIGITS 18 /* 10^18 < 2^63 */

/* mantissa / 10^fraction_digits, without trailing zeros behind the point */
struct decimal {
    uint64_t mantissa;
    unsigned fraction_digits;
};

static const char *scan_decimal(const char *text, size_t length, struct decimal *out, size_t *used_out)
{
    size_t whole = digit_count(text, length), used = whole, fraction = 0;
    if (whole == 0)
        return length != 0 && text[0] == '-' ? cfg_out_of_range : "not a number";
    if (whole > 1 && text[0] == '0')
        return "a leading zero";
    if (used < length && text[used] == '.') {
        fraction = digit_count(text + used + 1, length - used - 1);
        if (fraction == 0)
            return "no digit behind the decimal point";
        used += 1 + fraction;
    }
    *used_out = used;
    while (fraction > 0 && text[whole + fraction] == '0')
        fraction--;
    if (whole + fraction > MAX_DIGITS)
        return "too many digits";
    *out = (struct decimal){0, (unsigned)fraction};
    for (size_t i = 0; i < whole + fraction; i++)
        out->mantissa = out->mantissa * 10 + (uint64_t)(text[i < whole ? i : i + 1] - '0');
    return NULL;
}

const struct cfg_unit cfg_byte_units[] = {
    {"B", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"kB", UINT64_C(1000)},
    {"MB", UINT64_C(1000000)},
    {"GB", UINT64_C(1000000000)},
    {"TB", UINT64_C(1000000000000)},
    {NULL, 0},
};

const struct cfg_unit cfg_time_units[] = {
    {"ns", UINT64_C(1000000000)}, {"us", UINT64_C(1000000)}, {"ms", UINT64_C(1000)}, {"s", 1}, {NULL, 0},
};

/* "NUMBER UNIT SUFFIX"; suffix is "" or "/s" */
static const char *scan_with_unit(const char *text, size_t length, const struct cfg_unit *units, const char *suffix,
                                  struct decimal *number_out, uint64_t *multiplier_out)
{
    size_t used;
    const char *reason = scan_decimal(text, length, number_out, &used);
    if (reason != NULL)
        return reason;
    if (used < length && text[used] == ' ')
        used++;
    if (used == length)
        return "no unit";
    size_t suffix_length = strlen(suffix), left = length - used;
    if (left < suffix_length || memcmp(text + length - suffix_length, suffix, suffix_length) != 0)
        return "not a known unit";
    for (const struct cfg_unit *unit = units; unit->name != NULL; unit++) {
        if (equals(text + used, left - suffix_length, unit->name)) {
            *multiplier_out = unit->multiplier;
            return NULL;
        }
    }
    return "not a known unit";
}

const char *cfg_scan_size(const char *text, size_t length, uint64_t *bytes_out)
{
    struct decimal number;
    uint64_t multiplier;
    const char *reason = scan_with_unit(text, length, cfg_byte_units, "", &number, &multiplier);
    if (reason != NULL)
        return reason;
    __extension__ typedef unsigned __int128 wide;
    wide bytes = (wide)number.mantissa * multiplier;
    for (unsigned d = 0; d < number.fraction_digits; d++) {
        if (bytes % 10 != 0)
            return "not a whole number of bytes";
        bytes /= 10;
    }
    if (bytes > UINT64_MAX)
        return cfg_out_of_range;
    *bytes_out = (uint64_t)bytes;
    return NULL;
}

/* Exact up to 10^18, so that a division by it rounds once. */
static double power_of_ten(unsigned exponent)
{
    uint64_t power = 1;
    while (exponent-- > 0)
        power *= 10;
    return (double)power;
}

const char *cfg_scan_rate(const char *text, size_t length, double *bytes_per_second_out)
{
    struct decimal number;
    uint64_t multiplier;
    const char *reason = scan_with_unit(text, length, cfg_byte_units, "/s", &number, &multiplier);
    if (reason != NULL)
        return reason;
    *bytes_per_second_out = (double)number.mantissa * (double)multiplier / power_of_ten(number.fraction_digits);
    return NULL;
}

const char *cfg_scan_duration(const char *text, size_t length, double *seconds_out)
{
    struct decimal number;
    uint64_t per_second;
    const char *reason = scan_with_unit(text, length, cfg_time_units, "", &number, &per_second);
    if (reason != NULL)
        return reason;
    *seconds_out = (double)number.mantissa / (power_of_ten(number.fraction_digits) * (double)per_second);
    return NULL;
}

enum shunt_status cfg_parse_size(const char *text, uint64_t *bytes_out, struct shunt_err *err)
{
    char quoted[CFG_QUOTE_BYTES];
    const char *reason = cfg_scan_size(text, strlen(text), bytes_out);
    if (reason == NULL)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_INPUT, "found %s (%s), expected a size with a unit, such as \"512 MiB\"",
                      cfg_quote(quoted, text, strlen(text)), reason);
}

/* ---- YAML's implicit types ---------------------------------------------------------- */

static size_t span(const char *text, size_t length, const char *set)
{
    size_t n = 0;
    while (n < length && text[n] != '\0' && strchr(set, text[n]) != NULL)
        n++;
    return n;
}

static bool is_one_of(const char *text, size_t length, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (equals(text, length, *words))
            return true;
    }
    return false;
}

static bool looks_like_date(const char *text, size_t length)
{
    static const char *const forms[] = {"dddd-d-d", "dddd-d-dd", "dddd-dd-d", "dddd-dd-dd", NULL};
    for (const char *const *form = forms; *form != NULL; form++) {
        size_t n = strlen(*form), i = 0;
        while (i < n && i < length && ((*form)[i] == 'd' ? is_digit(text[i]) : text[i] == '-'))
            i++;
        if (i == n && (length == n || text[n] == 'T' || text[n] == 't' || text[n] == ' '))
            return true;
    }
    return false;
}

/* 0x1F, 0b1, 0o7 */
static bool looks_prefixed(const char *text, size_t length)
{
    if (length < 3 || text[0] != '0')
        return false;
    const char *digits = text[1] == 'x'   ? "0123456789abcdefABCDEF_"
                         : text[1] == 'b' ? "01_"
                         : text[1] == 'o' ? "01234567"
                                          : "";
    return span(text + 2, length - 2, digits) == length - 2;
}

/* 1, 1_000, 1:30, 1.5, .5, 1e3, 1.5e+3 */
static bool looks_decimal(const char *text, size_t length)
{
    size_t used = span(text, length, "0123456789_:");
    bool digits = used > 0 && is_digit(text[0]);
    if (used > 0 && !digits)
        return false;
    if (used < length && text[used] == '.') {
        size_t fraction = span(text + used + 1, length - used - 1, "0123456789_");
        digits = digits || (fraction > 0 && is_digit(text[used + 1]));
        used += 1 + fraction;
    }
    if (digits && used < length && (text[used] == 'e' || text[used] == 'E')) {
        size_t sign = span(text + used + 1, length - used - 1, "+-");
        size_t exponent = digit_count(text + used + 1 + sign, length - used - 1 - sign);
        used += sign <= 1 && exponent > 0 ? 1 + sign + exponent : 0;
    }
    return digits && used == length;
}

static bool looks_like_number(const char *text, size_t length)
{
    static const char *const specials[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL};
    size_t sign = length > 0 && (text[0] == '+' || text[0] == '-') ? 1 : 0;
    text += sign;
    length -= sign;
    return is_one_of(text, length, specials) || looks_prefixed(text, length) || looks_decimal(text, length);
}

const char *cfg_yaml_implicit_type(const char *text, size_t length)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const booleans[] = {"y",     "Y",     "yes",   "Yes",  "YES",  "n",   "N",  "no",
                                           "No",    "NO",    "true",  "True", "TRUE", "on",  "On", "ON",
                                           "false", "False", "FALSE", "off",  "Off",  "OFF", NULL};
    if (is_one_of(text, length, nulls))
        return "null";
    if (is_one_of(text, length, booleans))
        return "a boolean";
    if (looks_like_date(text, length))
        return "a date";
    return looks_like_number(text, length) ? "a number" : NULL;
}
