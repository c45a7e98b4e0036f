/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonw.h"

#include <inttypes.h>
#include <math.h>

static void print_quoted(FILE *file, const char *text)
{
    putc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(file, "\\u%04x", *c);
        else
            putc(*c, file);
    }
    putc('"', file);
}

static void begin_value(struct jsonw *json, const char *key)
{
    if (json->comma)
        fputs(", ", json->file);
    json->comma = true;
    if (key == NULL)
        return;
    print_quoted(json->file, key);
    fputs(": ", json->file);
}

void jsonw_open(struct jsonw *json, const char *key, char bracket)
{
    begin_value(json, key);
    putc(bracket, json->file);
    json->comma = false;
}

void jsonw_close(struct jsonw *json, char bracket)
{
    putc(bracket, json->file);
    json->comma = true;
}

void jsonw_string(struct jsonw *json, const char *key, const char *text)
{
    begin_value(json, key);
    if (text == NULL)
        fputs("null", json->file);
    else
        print_quoted(json->file, text);
}

void jsonw_u64(struct jsonw *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    fprintf(json->file, "%" PRIu64, value);
}

void jsonw_double(struct jsonw *json, const char *key, double value)
{
    begin_value(json, key);
    if (isfinite(value))
        fprintf(json->file, "%.9g", value);
    else
        fputs("null", json->file);
}

void jsonw_bool(struct jsonw *json, const char *key, bool value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", json->file);
}

void jsonw_hex(struct jsonw *json, const char *key, const uint8_t *bytes, size_t count)
{
    begin_value(json, key);
    putc('"', json->file);
    for (size_t i = 0; i < count; i++)
        fprintf(json->file, "%02x", bytes[i]);
    putc('"', json->file);
}
