/* SPDX-License-Identifier: Apache-2.0 */
#include "io/safetensors_header.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    char *begin, *at, *end;
    struct safetensors_index index;
    uint32_t room;
    enum shunt_status status;
    struct shunt_err *err;
};

/* ---- characters ------------------------------------------------------------------ */

static bool refuse(struct scan *scan, const char *at, const char *expected)
{
    char found[16] = "the end";
    if (at<scan->end && * at> 0x20 && *at < 0x7f)
        snprintf(found, sizeof(found), "'%c'", *at);
    else if (at < scan->end)
        snprintf(found, sizeof(found), "byte 0x%02x", (unsigned char)*at);
    scan->status = shunt_fail(scan->err, SHUNT_ERR_INPUT, "header byte %zu: found %s, expected %s",
                              (size_t)(at - scan->begin), found, expected);
    return false;
}

/* Length of the well-formed UTF-8 sequence at `at`; 0 if there is none. */
static size_t utf8_length(const unsigned char *at, size_t left);

/* A string of the file as it may go to a terminal: control characters as JSON escapes, no more than fits. */
static const char *printable(const char *name, char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)name;
    size_t left = strlen(name), used = 0;
    while (left > 0 && used + 10 < size) {
        size_t n = utf8_length(at, left);
        bool c1 = n == 2 && at[0] == 0xC2 && at[1] < 0xA0;
        if (n == 0)
            break;
        if (at[0] < 0x20 || at[0] == 0x7F || c1)
            used += (size_t)snprintf(text + used, size - used, "\\u%04x", at[n - 1]);
        else
            memcpy(text + used, at, n), used += n;
        at += n;
        left -= n;
    }
    snprintf(text + used, size - used, "%s", left > 0 ? "..." : "");
    return text;
}

__attribute__((format(printf, 3, 4))) static bool refuse_entry(struct scan *scan, const char *name, const char *format,
                                                               ...)
{
    char shown[200], what[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    scan->status =
        shunt_fail(scan->err, SHUNT_ERR_INPUT, "entry \"%s\": %s", printable(name, shown, sizeof(shown)), what);
    return false;
}

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
        scan->at++;
}

/* Skip space, then take one character if it is this one. */
static bool take(struct scan *scan, char c)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static bool expect(struct scan *scan, char c, const char *expected)
{
    return take(scan, c) || refuse(scan, scan->at, expected);
}

/* ---- strings --------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hex digits at scan->at. */
static bool take_hex(struct scan *scan, uint32_t *value_out)
{
    uint32_t value = 0;
    if (scan->end - scan->at < 4)
        return refuse(scan, scan->end, "four hex digits");
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(scan->at[i]);
        if (digit < 0)
            return refuse(scan, scan->at + i, "a hex digit");
        value = value << 4 | (uint32_t)digit;
    }
    scan->at += 4;
    *value_out = value;
    return true;
}

static char *put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    *out++ = (char)(lead[more] | code >> (6 * more));
    while (more-- > 0)
        *out++ = (char)(0x80 | ((code >> (6 * more)) & 0x3F));
    return out;
}

/* After "\u": one code point, two escapes when it is a pair of surrogates. */
static bool take_unicode(struct scan *scan, char **out)
{
    uint32_t code, low;
    const char *at = scan->at;
    if (!take_hex(scan, &code))
        return false;
    if (code >= 0xD800 && code < 0xDC00) {
        if (scan->end - scan->at < 2 || scan->at[0] != '\\' || scan->at[1] != 'u')
            return refuse(scan, at, "a surrogate pair");
        scan->at += 2;
        if (!take_hex(scan, &low))
            return false;
        if (low < 0xDC00 || low > 0xDFFF)
            return refuse(scan, at, "a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code == 0 || (code >= 0xDC00 && code <= 0xDFFF)) {
        return refuse(scan, at, "a character other than NUL and lone surrogates");
    }
    *out = put_utf8(*out, code);
    return true;
}

static bool take_escape(struct scan *scan, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (scan->at == scan->end)
        return refuse(scan, scan->at, "an escape");
    char c = *scan->at++;
    if (c == 'u')
        return take_unicode(scan, out);
    const char *found = c == '\0' ? NULL : strchr(from, c);
    if (found == NULL)
        return refuse(scan, scan->at - 1, "an escape");
    *(*out)++ = to[found - from];
    return true;
}

static size_t utf8_length(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
    for (size_t n = 0; n < 4; n++) {
        if ((at[0] & forms[n].mask) != forms[n].lead)
            continue;
        if (n >= left)
            return 0;
        uint32_t code = at[0] & (unsigned char)~forms[n].mask;
        for (size_t i = 1; i <= n; i++) {
            if ((at[i] & 0xC0) != 0x80)
                return 0;
            code = code << 6 | (at[i] & 0x3F);
        }
        bool good = code >= forms[n].least && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        return good ? n + 1 : 0;
    }
    return 0;
}

/* Decoded in place: what is read is never shorter than what is written, and the quote gives room for the NUL. */
static bool take_string(struct scan *scan, const char **text_out)
{
    if (!expect(scan, '"', "a string"))
        return false;
    char *text = scan->at, *out = text;
    while (scan->at < scan->end && *scan->at != '"') {
        if ((unsigned char)*scan->at < 0x20)
            return refuse(scan, scan->at, "no control character inside a string");
        if (*scan->at == '\\') {
            scan->at++;
            if (!take_escape(scan, &out))
                return false;
            continue;
        }
        size_t n = utf8_length((const unsigned char *)scan->at, (size_t)(scan->end - scan->at));
        if (n == 0)
            return refuse(scan, scan->at, "UTF-8");
        memmove(out, scan->at, n);
        out += n;
        scan->at += n;
    }
    if (scan->at == scan->end)
        return refuse(scan, scan->at, "the end of a string");
    scan->at++;
    if ((size_t)(out - text) > SAFETENSORS_MAX_NAME)
        return refuse(scan, text, "a string of at most 4096 bytes");
    *out = '\0';
    *text_out = text;
    return true;
}

/* ---- numbers --------------------------------------------------------------------- */

static bool take_number(struct scan *scan, uint64_t *value_out)
{
    skip_space(scan);
    char *first = scan->at;
    uint64_t value = 0;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*scan->at - '0'), &value))
            return refuse(scan, first, "a number below 2^64");
        scan->at++;
    }
    if (scan->at == first || (*first == '0' && scan->at - first > 1))
        return refuse(scan, first, "a whole number without sign or leading zero");
    *value_out = value;
    return true;
}

/* "[a, b, ...]" with at most `most` numbers. */
static bool take_numbers(struct scan *scan, uint64_t *values, uint32_t most, uint32_t *count_out)
{
    *count_out = 0;
    if (!expect(scan, '[', "'['"))
        return false;
    if (take(scan, ']'))
        return true;
    do {
        if (*count_out == most)
            return refuse(scan, scan->at, "fewer numbers");
        if (!take_number(scan, &values[*count_out]))
            return false;
        ++*count_out;
    } while (take(scan, ','));
    return expect(scan, ']', "',' or ']'");
}

/* ---- entries --------------------------------------------------------------------- */

enum field { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4 };

static const char *print_dtypes(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < SHUNT_DTYPE_COUNT && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", shunt_dtype_safetensors_name(i));
    return text;
}

static bool take_dtype(struct scan *scan, struct safetensors_entry *entry)
{
    const char *dtype;
    char shown[64], names[256];
    if (!take_string(scan, &dtype))
        return false;
    int number = shunt_dtype_from_safetensors_name(dtype);
    if (number < 0)
        return refuse_entry(scan, entry->name, "dtype: found \"%s\", expected one of %s",
                            printable(dtype, shown, sizeof(shown)), print_dtypes(names, sizeof(names)));
    entry->dtype = (uint32_t)number;
    return true;
}

static bool take_field(struct scan *scan, struct safetensors_entry *entry, unsigned *seen)
{
    const char *key;
    char shown[64];
    unsigned field;
    uint64_t offsets[2];
    uint32_t count;
    if (!take_string(scan, &key) || !expect(scan, ':', "':'"))
        return false;
    if (strcmp(key, "dtype") == 0)
        field = FIELD_DTYPE;
    else if (strcmp(key, "shape") == 0)
        field = FIELD_SHAPE;
    else if (strcmp(key, "data_offsets") == 0)
        field = FIELD_OFFSETS;
    else
        return refuse_entry(scan, entry->name, "found a field \"%s\", expected dtype, shape and data_offsets",
                            printable(key, shown, sizeof(shown)));
    if (*seen & field)
        return refuse_entry(scan, entry->name, "has a field twice: %s", key);
    *seen |= field;
    if (field == FIELD_DTYPE)
        return take_dtype(scan, entry);
    if (field == FIELD_SHAPE)
        return take_numbers(scan, entry->shape, SHUNT_MAX_DIMS, &entry->ndim);
    if (!take_numbers(scan, offsets, 2, &count))
        return false;
    if (count != 2)
        return refuse_entry(scan, entry->name, "data_offsets: found %u numbers, expected [begin, end]", count);
    if (offsets[0] > offsets[1])
        return refuse_entry(scan, entry->name,
                            "data_offsets: found [%" PRIu64 ", %" PRIu64 "], expected [begin, end] in this order",
                            offsets[0], offsets[1]);
    entry->begin = offsets[0];
    entry->end = offsets[1];
    return true;
}

static bool check_size(struct scan *scan, const struct safetensors_entry *entry)
{
    uint64_t bytes = shunt_dtype_bytes(entry->dtype);
    for (uint32_t d = 0; d < entry->ndim; d++) {
        if (__builtin_mul_overflow(bytes, entry->shape[d], &bytes))
            return refuse_entry(scan, entry->name, "shape is too large");
    }
    if (bytes != entry->end - entry->begin)
        return refuse_entry(scan, entry->name,
                            "data_offsets: found [%" PRIu64 ", %" PRIu64 "], %" PRIu64 " bytes, expected the %" PRIu64
                            " bytes of its shape and dtype %s",
                            entry->begin, entry->end, entry->end - entry->begin, bytes,
                            shunt_dtype_safetensors_name(entry->dtype));
    return true;
}

static bool add_entry(struct scan *scan, const struct safetensors_entry *entry)
{
    if (scan->index.count == SAFETENSORS_MAX_ENTRIES)
        return refuse(scan, scan->at, "at most 1000000 entries");
    if (scan->index.count == scan->room) {
        uint32_t room = scan->room < 64 ? 64 : 2 * scan->room;
        struct safetensors_entry *entries = realloc(scan->index.entries, room * sizeof(*entries));
        if (entries == NULL) {
            scan->status = shunt_fail(scan->err, SHUNT_ERR_NOMEM, "out of memory for %u entries", room);
            return false;
        }
        scan->index.entries = entries;
        scan->room = room;
    }
    scan->index.entries[scan->index.count++] = *entry;
    return true;
}

static bool take_entry(struct scan *scan, const char *name)
{
    struct safetensors_entry entry = {.name = name};
    unsigned seen = 0;
    if (!expect(scan, '{', "'{'"))
        return false;
    do {
        if (!take_field(scan, &entry, &seen))
            return false;
    } while (take(scan, ','));
    if (!expect(scan, '}', "',' or '}'"))
        return false;
    if (seen != (FIELD_DTYPE | FIELD_SHAPE | FIELD_OFFSETS))
        return refuse_entry(scan, name, "lacks dtype, shape or data_offsets");
    return check_size(scan, &entry) && add_entry(scan, &entry);
}

static bool take_metadata(struct scan *scan)
{
    const char *text;
    if (!expect(scan, '{', "'{'"))
        return false;
    if (take(scan, '}'))
        return true;
    do {
        if (!take_string(scan, &text) || !expect(scan, ':', "':'") || !take_string(scan, &text))
            return false;
    } while (take(scan, ','));
    return expect(scan, '}', "',' or '}'");
}

static bool take_header(struct scan *scan)
{
    bool metadata = false;
    if (scan->at == scan->end || *scan->at != '{') /* the format allows no space before it */
        return refuse(scan, scan->at, "'{'");
    scan->at++;
    if (!take(scan, '}')) {
        do {
            const char *name;
            if (!take_string(scan, &name) || !expect(scan, ':', "':'"))
                return false;
            bool is_metadata = strcmp(name, "__metadata__") == 0;
            if (is_metadata && metadata)
                return refuse_entry(scan, name, "is there twice");
            metadata = metadata || is_metadata;
            if (!(is_metadata ? take_metadata(scan) : take_entry(scan, name)))
                return false;
        } while (take(scan, ','));
        if (!expect(scan, '}', "',' or '}'"))
            return false;
    }
    skip_space(scan);
    return scan->at == scan->end || refuse(scan, scan->at, "nothing but space behind the header");
}

/* ---- the whole ------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_entry *)a)->name, ((const struct safetensors_entry *)b)->name);
}

static bool check_tiling(struct scan *scan, uint64_t data_bytes)
{
    struct safetensors_index *index = &scan->index;
    uint64_t at = 0;
    if (index->count > 0)
        qsort(index->entries, index->count, sizeof(*index->entries), by_place);
    for (uint32_t i = 0; i < index->count; i++) {
        const struct safetensors_entry *entry = &index->entries[i];
        if (entry->begin != at)
            return refuse_entry(scan, entry->name, "%s: found its begin at byte %" PRIu64 ", expected %" PRIu64,
                                entry->begin < at ? "overlaps another entry" : "has a hole before it", entry->begin,
                                at);
        at = entry->end;
    }
    if (at == data_bytes)
        return true;
    scan->status = shunt_fail(scan->err, SHUNT_ERR_INPUT,
                              "the entries end at byte %" PRIu64 " of the data, the file has %" PRIu64, at, data_bytes);
    return false;
}

static bool check_names(struct scan *scan)
{
    struct safetensors_index *index = &scan->index;
    if (index->count > 0)
        qsort(index->entries, index->count, sizeof(*index->entries), by_name);
    for (uint32_t i = 1; i < index->count; i++) {
        if (strcmp(index->entries[i - 1].name, index->entries[i].name) == 0)
            return refuse_entry(scan, index->entries[i].name, "is there twice");
    }
    return true;
}

enum shunt_status safetensors_parse(char *text, size_t text_bytes, uint64_t data_bytes,
                                    struct safetensors_index *index_out, struct shunt_err *err)
{
    struct scan scan = {.begin = text, .at = text, .end = text + text_bytes, .err = err};
    if (take_header(&scan) && check_tiling(&scan, data_bytes) && check_names(&scan)) {
        *index_out = scan.index;
        return SHUNT_OK;
    }
    free(scan.index.entries);
    return scan.status;
}

void safetensors_index_finish(struct safetensors_index *index)
{
    free(index->entries);
    *index = (struct safetensors_index){0};
}

const struct safetensors_entry *safetensors_find(const struct safetensors_index *index, const char *name)
{
    struct safetensors_entry key = {.name = name};
    if (index->count == 0)
        return NULL;
    return bsearch(&key, index->entries, index->count, sizeof(key), by_name);
}
