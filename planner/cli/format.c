/* SPDX-License-Identifier: Apache-2.0 */
#include "format.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shunt/escape.h"
#include "shunt/plan_format.h"

struct fmt_text fmt_bytes(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;
    struct fmt_text text;

    if (bytes < 1024) {
        snprintf(text.s, sizeof(text.s), "%" PRIu64 " B", bytes);
        return text;
    }
    for (; value >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        value /= 1024;
    snprintf(text.s, sizeof(text.s), "%.1f %s", value, units[unit]);
    return text;
}

struct fmt_text fmt_count(uint64_t value)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, value), at = 0;
    struct fmt_text text;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text.s[at++] = ',';
        text.s[at++] = digits[i];
    }
    text.s[at] = '\0';
    return text;
}

struct fmt_text fmt_seconds(double seconds)
{
    static const struct {
        double least, scale;
        const char *unit;
    } units[] = {{1, 1, "s"}, {1e-3, 1e3, "ms"}, {0, 1e6, "us"}};
    size_t unit = 0;
    struct fmt_text text;

    while (unit < 2 && seconds < units[unit].least)
        unit++;
    if (!isfinite(seconds))
        snprintf(text.s, sizeof(text.s), "-");
    else if (seconds == 0)
        snprintf(text.s, sizeof(text.s), "0 s");
    else
        snprintf(text.s, sizeof(text.s), "%.3f %s", seconds * units[unit].scale, units[unit].unit);
    return text;
}

struct fmt_text fmt_percent(double ratio)
{
    struct fmt_text text;

    if (isfinite(ratio))
        snprintf(text.s, sizeof(text.s), "%.1f %%", ratio * 100);
    else
        snprintf(text.s, sizeof(text.s), "-");
    return text;
}

struct fmt_text fmt_points(double ratio)
{
    struct fmt_text text;

    snprintf(text.s, sizeof(text.s), "%.1f pp", ratio * 100);
    return text;
}

struct fmt_text fmt_hex(const uint8_t *bytes, size_t n)
{
    struct fmt_text text;

    assert(2 * n < sizeof(text.s));
    for (size_t i = 0; i < n; i++)
        snprintf(text.s + 2 * i, 3, "%02x", bytes[i]);
    text.s[2 * n] = '\0';
    return text;
}

struct fmt_text fmt_rank(uint32_t rank, const char *none)
{
    struct fmt_text text;

    if (rank == SHUNT_PLAN_NONE)
        snprintf(text.s, sizeof(text.s), "%s", none);
    else
        snprintf(text.s, sizeof(text.s), "%" PRIu32, rank);
    return text;
}

void fmt_put_name(FILE *file, const char *before, const char *name, const char *behind)
{
    fputs(before, file);
    while (*name != '\0') {
        char piece[256], raw[64];
        size_t bytes = strlen(name) < sizeof(raw) - 1 ? strlen(name) : sizeof(raw) - 2;
        if ((unsigned char)name[bytes - 1] == 0xC2 && name[bytes] != '\0') /* a control character may begin so */
            bytes++;
        memcpy(raw, name, bytes);
        raw[bytes] = '\0';
        shunt_escape(piece, sizeof(piece), raw);
        fputs(piece, file);
        name += bytes;
    }
    fputs(behind, file);
}
