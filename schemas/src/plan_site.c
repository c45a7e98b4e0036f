/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "plan_internal.h"

bool schema_refuse(const struct plan_site *site, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (site->record != NULL)
        shunt_fail(site->err, SHUNT_ERR_PLAN, "%s: %s %s %" PRIu64 ": %s", site->file, site->section, site->record,
                   site->index, text);
    else
        shunt_fail(site->err, SHUNT_ERR_PLAN, "%s: %s: %s", site->file, site->section, text);
    return false;
}

bool schema_in_range(const struct plan_site *site, const char *field, uint64_t value, uint64_t lo, uint64_t hi)
{
    if (value >= lo && value <= hi)
        return true;
    return schema_refuse(site, "%s is %" PRIu64 ", allowed %" PRIu64 "..%" PRIu64, field, value, lo, hi);
}

bool schema_equals(const struct plan_site *site, const char *field, uint64_t value, uint64_t want)
{
    if (value == want)
        return true;
    return schema_refuse(site, "%s is %" PRIu64 ", expected %" PRIu64, field, value, want);
}

bool schema_multiple(const struct plan_site *site, const char *field, uint64_t value, uint64_t unit)
{
    if (value % unit == 0)
        return true;
    return schema_refuse(site, "%s is %" PRIu64 ", expected a multiple of %" PRIu64, field, value, unit);
}

bool schema_zeros(const struct plan_site *site, const char *field, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        if (at[i] != 0)
            return schema_refuse(site, "%s: byte %zu is %u, expected 0", field, i, at[i]);
    }
    return true;
}

bool schema_checksum(const struct plan_site *site, const void *bytes, size_t size, uint32_t want)
{
    uint32_t got = shunt_crc32c(0, bytes, size);
    if (got == want)
        return true;
    return schema_refuse(site, "checksum is %08" PRIx32 ", recorded %08" PRIx32, got, want);
}
