/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Print the JSON schemas (draft 2020-12) of the kinds of YAML document from the tables that
 * the loader itself uses. Editors use them to complete and check; the loader checks more.
 *
 *     gen-json-schema DIR          write DIR/KIND.schema.json
 *     gen-json-schema --check DIR  compare instead: 0 the same, 1 different
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/scalar.h"
#include "config/tables.h"

/* ---- JSON ------------------------------------------------------------------------- */

struct writer {
    FILE *out;
    int depth;
    bool first; /* nothing written yet at this depth */
};

static void put_text(struct writer *w, const char *text)
{
    fputc('"', w->out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', w->out);
        fputc(*text, w->out);
    }
    fputc('"', w->out);
}

/* Start a member (or, with key NULL, an entry) on a line of its own. */
static void put_key(struct writer *w, const char *key)
{
    fprintf(w->out, "%s\n%*s", w->first ? "" : ",", 2 * w->depth, "");
    w->first = false;
    if (key != NULL) {
        put_text(w, key);
        fputs(": ", w->out);
    }
}

static void open_object(struct writer *w)
{
    fputc('{', w->out);
    w->depth++;
    w->first = true;
}

static void close_object(struct writer *w)
{
    w->depth--;
    fprintf(w->out, "\n%*s}", 2 * w->depth, "");
    w->first = false;
}

static void put_member(struct writer *w, const char *key, const char *text)
{
    put_key(w, key);
    put_text(w, text);
}

static void put_integer(struct writer *w, const char *key, int64_t value)
{
    put_key(w, key);
    fprintf(w->out, "%" PRId64, value);
}

/* Members that are JSON already; none for NULL. */
static void put_raw(struct writer *w, const char *members)
{
    if (members == NULL)
        return;
    put_key(w, NULL);
    fputs(members, w->out);
}

/* ---- fields by type ------------------------------------------------------------------ */

static void put_table(struct writer *w, const struct cfg_table *table);

static void put_count(struct writer *w, int64_t min, int64_t max)
{
    put_member(w, "type", "integer");
    put_integer(w, "minimum", min);
    put_integer(w, "maximum", max);
}

/* A number, at most one space, a unit. */
static void put_quantity(struct writer *w, const struct cfg_unit *units, const char *suffix)
{
    put_member(w, "type", "string");
    put_key(w, "pattern");
    fputs("\"^(0|[1-9][0-9]*)(\\\\.[0-9]+)? ?(", w->out);
    for (const struct cfg_unit *unit = units; unit->name != NULL; unit++)
        fprintf(w->out, "%s%s", unit == units ? "" : "|", unit->name);
    fprintf(w->out, ")%s$\"", suffix);
}

static void put_choices(struct writer *w, const struct cfg_field *field)
{
    struct cfg_choice choice;
    put_key(w, "enum");
    for (uint32_t i = 0; cfg_field_choice(field, i, &choice); i++) {
        fputs(i == 0 ? "[" : ", ", w->out);
        put_text(w, choice.name);
    }
    fputc(']', w->out);
}

static void put_list(struct writer *w, const struct cfg_field *field)
{
    put_member(w, "type", "array");
    put_integer(w, "minItems", field->min);
    put_integer(w, "maxItems", field->max);
    put_key(w, "items");
    open_object(w);
    if (field->table != NULL)
        put_table(w, field->table);
    else
        put_count(w, field->zero_too ? 0 : 1, field->element_max);
    close_object(w);
}

/* A list of some of the choices, each once. */
static void put_choice_list(struct writer *w, const struct cfg_field *field)
{
    put_member(w, "type", "array");
    put_integer(w, "minItems", 1);
    put_key(w, "uniqueItems");
    fputs("true", w->out);
    put_key(w, "items");
    open_object(w);
    put_choices(w, field);
    close_object(w);
}

/* A mapping, or what the field's own text says, or one of the choices. */
static void put_mapping_or(struct writer *w, const struct cfg_field *field)
{
    put_key(w, "anyOf");
    fputc('[', w->out);
    open_object(w);
    put_table(w, field->table);
    close_object(w);
    if (field->json != NULL) {
        fprintf(w->out, ", {%s}]", field->json);
        return;
    }
    fputs(", ", w->out);
    open_object(w);
    put_choices(w, field);
    close_object(w);
    fputc(']', w->out);
}

static void put_type(struct writer *w, const struct cfg_field *field)
{
    switch (field->type) {
    case CFG_TEXT:
        put_member(w, "type", "string");
        put_integer(w, "minLength", 1);
        break;
    case CFG_COUNT:
        put_count(w, field->min, field->max);
        break;
    case CFG_BOOL:
        put_member(w, "type", "boolean");
        break;
    case CFG_CHOICE:
        put_choices(w, field);
        break;
    case CFG_SIZE:
        put_quantity(w, cfg_byte_units, "");
        break;
    case CFG_RATE:
        put_quantity(w, cfg_byte_units, "/s");
        break;
    case CFG_DURATION:
        put_quantity(w, cfg_time_units, "");
        break;
    case CFG_TABLE:
        put_table(w, field->table);
        break;
    case CFG_ARRAY:
    case CFG_LIST:
        put_list(w, field);
        break;
    default:
        if (field->table != NULL)
            put_mapping_or(w, field);
        else if (field->choices != NULL || field->choice_name != NULL)
            put_choice_list(w, field);
        break;
    }
}

static void put_default(struct writer *w, const struct cfg_field *field)
{
    put_key(w, "default");
    if (field->type == CFG_COUNT || field->type == CFG_BOOL)
        fputs(field->fallback, w->out);
    else
        put_text(w, field->fallback);
}

static void put_field(struct writer *w, const struct cfg_field *field)
{
    put_key(w, field->key);
    open_object(w);
    put_member(w, "description", field->help);
    put_type(w, field);
    if (field->type != CFG_CUSTOM || field->table == NULL)
        put_raw(w, field->json);
    if (field->fallback != NULL)
        put_default(w, field);
    close_object(w);
}

/* ---- tables and documents ----------------------------------------------------------------- */

static void put_required(struct writer *w, const struct cfg_table *table)
{
    bool any = false;
    for (uint32_t f = 0; f < table->field_count; f++) {
        if (!table->fields[f].required)
            continue;
        if (!any)
            put_key(w, "required");
        fputs(any ? ", " : "[", w->out);
        put_text(w, table->fields[f].key);
        any = true;
    }
    if (any)
        fputc(']', w->out);
}

static void put_table(struct writer *w, const struct cfg_table *table)
{
    put_member(w, "type", "object");
    put_key(w, "additionalProperties");
    fputs("false", w->out);
    put_required(w, table);
    put_key(w, "properties");
    open_object(w);
    for (uint32_t f = 0; f < table->field_count; f++)
        put_field(w, &table->fields[f]);
    close_object(w);
    put_raw(w, table->json);
}

static void put_document(FILE *out, const struct cfg_document *document)
{
    struct writer w = {.out = out, .first = true};
    open_object(&w);
    put_member(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    put_member(&w, "title", document->title);
    put_member(&w, "description", document->table->help);
    put_table(&w, document->table);
    close_object(&w);
    fputc('\n', out);
}

/* ---- files ------------------------------------------------------------------------------------ */

enum { DONE = 0, DIFFERENT = 1, USAGE = 2, ENVIRONMENT = 3 };

static int write_file(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(text, 1, size, file) == size;
    if (file != NULL && fclose(file) != 0)
        good = false;
    if (!good)
        perror(path);
    return good ? DONE : ENVIRONMENT;
}

static int check_file(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return ENVIRONMENT;
    }
    char *found = malloc(size + 1);
    size_t found_size = found != NULL ? fread(found, 1, size + 1, file) : 0;
    fclose(file);
    bool same = found != NULL && found_size == size && memcmp(found, text, size) == 0;
    free(found);
    if (!same)
        fprintf(stderr, "%s: differs from what the tables say; write it again with gen-json-schema\n", path);
    return same ? DONE : DIFFERENT;
}

static int do_document(const struct cfg_document *document, const char *folder, bool check)
{
    char path[4096];
    char *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof(path), "%s/%s.schema.json", folder, document->kind);
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return ENVIRONMENT;
    put_document(memory, document);
    int result = fclose(memory) != 0 ? ENVIRONMENT
                 : check             ? check_file(path, text, size)
                                     : write_file(path, text, size);
    free(text);
    return result;
}

int main(int argc, char **argv)
{
    bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
    if (argc != 2 && !check) {
        fprintf(stderr, "usage: gen-json-schema [--check] DIR\n");
        return USAGE;
    }
    int worst = DONE;
    for (const struct cfg_document *const *document = cfg_documents; *document != NULL; document++) {
        int result = do_document(*document, argv[argc - 1], check);
        worst = result > worst ? result : worst;
    }
    return worst;
}
