/* SPDX-License-Identifier: Apache-2.0 */
/** Streaming JSON writer. Unlocked stdio: a report is written by one thread. */

#include "json.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put(struct json *json, const char *text, size_t length)
{
    fwrite_unlocked(text, 1, length, json->file);
}

static void put_text(struct json *json, const char *text)
{
    put(json, text, strlen(text));
}

static void new_line(struct json *json)
{
    if (!json->pretty)
        return;
    putc_unlocked('\n', json->file);
    for (int i = 0; i < json->depth; i++)
        put(json, "  ", 2);
}

/* Comma and line break before a key of an object or an element of an array. */
static void next_item(struct json *json)
{
    if (json->depth == 0)
        return;
    if (!json->first[json->depth - 1])
        putc_unlocked(',', json->file);
    json->first[json->depth - 1] = false;
    new_line(json);
}

static void before_value(struct json *json)
{
    if (!json->after_key) {
        assert(json->depth == 0 || json->array[json->depth - 1]);
        next_item(json);
    }
    json->after_key = false;
}

void json_init(struct json *json, FILE *file, bool pretty)
{
    memset(json, 0, sizeof(*json));
    json->file = file;
    json->pretty = pretty;
}

void json_end_line(struct json *json)
{
    assert(json->depth == 0 && !json->after_key);
    putc_unlocked('\n', json->file);
}

bool json_finish(struct json *json)
{
    json_end_line(json);
    return fflush(json->file) == 0 && !ferror(json->file);
}

static void begin(struct json *json, char bracket, bool array)
{
    before_value(json);
    assert(json->depth < JSON_MAX_DEPTH);
    putc_unlocked(bracket, json->file);
    json->first[json->depth] = true;
    json->array[json->depth] = array;
    json->depth++;
}

static void end(struct json *json, char bracket, bool array)
{
    bool empty;

    assert(json->depth > 0 && json->array[json->depth - 1] == array && !json->after_key);
    (void)array;
    json->depth--;
    empty = json->first[json->depth];
    if (!empty)
        new_line(json);
    putc_unlocked(bracket, json->file);
}

void json_object_begin(struct json *json)
{
    begin(json, '{', false);
}

void json_object_end(struct json *json)
{
    end(json, '}', false);
}

void json_array_begin(struct json *json)
{
    begin(json, '[', true);
}

void json_array_end(struct json *json)
{
    end(json, ']', true);
}

/* ---- strings ------------------------------------------------------------------- */

static void put_escape(struct json *json, unsigned char byte)
{
    static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* byte, letter */

    for (size_t i = 0; i < sizeof(names) - 1; i += 2) {
        if ((unsigned char)names[i] == byte) {
            putc_unlocked('\\', json->file);
            putc_unlocked(names[i + 1], json->file);
            return;
        }
    }
    fprintf(json->file, "\\u%04x", byte);
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f;
}

static void put_escaped(struct json *json, const char *text)
{
    while (*text != '\0') {
        size_t length = 0;
        while (is_plain((unsigned char)text[length]))
            length++;
        put(json, text, length);
        text += length;
        if (*text != '\0')
            put_escape(json, (unsigned char)*text++);
    }
}

void json_strings(struct json *json, const char *const *parts, int count)
{
    before_value(json);
    putc_unlocked('"', json->file);
    for (int i = 0; i < count; i++)
        put_escaped(json, parts[i]);
    putc_unlocked('"', json->file);
}

void json_string(struct json *json, const char *text)
{
    if (text == NULL)
        json_null(json);
    else
        json_strings(json, &text, 1);
}

void json_key(struct json *json, const char *key)
{
    assert(json->depth > 0 && !json->array[json->depth - 1] && !json->after_key);
    next_item(json);
    putc_unlocked('"', json->file);
    put_escaped(json, key);
    put(json, "\": ", json->pretty ? 3 : 2);
    json->after_key = true;
}

/* ---- numbers and the rest ------------------------------------------------------- */

static void put_u64(struct json *json, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put(json, digits + at, sizeof(digits) - at);
}

void json_u64(struct json *json, uint64_t value)
{
    before_value(json);
    put_u64(json, value);
}

void json_i64(struct json *json, int64_t value)
{
    before_value(json);
    if (value < 0)
        putc_unlocked('-', json->file);
    put_u64(json, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_double(struct json *json, double value)
{
    char text[32];

    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    before_value(json);
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    put_text(json, text);
}

void json_bool(struct json *json, bool value)
{
    before_value(json);
    put_text(json, value ? "true" : "false");
}

void json_null(struct json *json)
{
    before_value(json);
    put_text(json, "null");
}

void json_key_u64(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_u64(json, value);
}

void json_key_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void json_key_string(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_string(json, text);
}
