/* SPDX-License-Identifier: Apache-2.0 */
#include "field.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* A text that grows in a fixed buffer, and is cut when it is full. */
struct writer {
    char *buffer;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(w->buffer + w->used, w->size - w->used, format, args);
    va_end(args);
    if (length > 0)
        w->used += (size_t)length < w->size - w->used ? (size_t)length : w->size - w->used - 1;
}

bool cfg_field_choice(const struct cfg_field *field, uint32_t index, struct cfg_choice *choice_out)
{
    if (field->choice_name != NULL) {
        *choice_out = (struct cfg_choice){field->choice_name(index), (int32_t)index};
        return choice_out->name != NULL;
    }
    *choice_out = field->choices[index];
    return choice_out->name != NULL;
}

static void put_choices(struct writer *w, const struct cfg_field *field)
{
    struct cfg_choice choice, next;
    for (uint32_t i = 0; cfg_field_choice(field, i, &choice); i++) {
        bool last = !cfg_field_choice(field, i + 1, &next);
        put(w, "%s`%s`", i == 0 ? "" : last ? " or " : ", ", choice.name);
        if (last)
            break;
    }
}

static void put_keys(struct writer *w, const struct cfg_table *table)
{
    put(w, "a mapping with the keys ");
    for (uint32_t f = 0; f < table->field_count; f++)
        put(w, "%s%s", f == 0 ? "" : ", ", table->fields[f].key);
}

static void put_entries(struct writer *w, const struct cfg_field *field)
{
    if (field->max == INT64_MAX)
        put(w, "a list of at least %" PRId64, field->min);
    else
        put(w, "a list of %" PRId64 " to %" PRId64, field->min, field->max);
    put(w, "%s", field->table != NULL ? " mappings" : " counts");
}

static void put_size(struct writer *w, const struct cfg_field *field)
{
    put(w, "a size with a unit, such as 512 MiB");
    if (field->min > 0)
        put(w, ", of at least %" PRId64 " bytes", field->min);
    if (field->max < INT64_MAX)
        put(w, ", of at most %" PRId64 " bytes", field->max);
}

const char *cfg_field_expected(const struct cfg_field *field, char buffer[CFG_EXPECTED_BYTES])
{
    struct writer w = {buffer, CFG_EXPECTED_BYTES, 0};
    buffer[0] = '\0';
    switch (field->type) {
    case CFG_COUNT:
        put(&w, "a count from %" PRId64 " to %" PRId64, field->min, field->max);
        break;
    case CFG_BOOL:
        put(&w, "`true` or `false`");
        break;
    case CFG_CHOICE:
        put_choices(&w, field);
        break;
    case CFG_SIZE:
        put_size(&w, field);
        break;
    case CFG_RATE:
        put(&w, "a rate above 0 with a unit, such as 450 GB/s");
        break;
    case CFG_DURATION:
        put(&w, "a duration with a unit, such as 5 us, of at most 3600 s");
        break;
    case CFG_TABLE:
        put_keys(&w, field->table);
        break;
    case CFG_ARRAY:
    case CFG_LIST:
        put_entries(&w, field);
        break;
    default:
        put(&w, "%s", field->expected != NULL ? field->expected : "a text");
    }
    return buffer;
}
