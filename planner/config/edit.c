/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The parser's events say where keys and values stand:
 *
 *     # a layout             <- as it is
 *     kind: layout           <- the first key: new fields are put in front of it
 *     devices: [0, 1,        <- an old field, from its key to the end of its value, is replaced
 *               2, 3]
 */
#include "edit.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "config.h"

/* Characters from `begin` to `end`; end 0: the document has no such field. */
struct span {
    size_t begin, end;
};

struct scan {
    const struct cfg_edit *edits;
    size_t edit_count;
    struct span spans[CFG_MOST_EDITS];
    size_t first_key, first_column; /* of the document's own table */
    bool is_flow, has_key;
    int depth;       /* of open collections */
    bool at_key;     /* of the document's own table: what comes next is a key */
    size_t field;    /* the edit whose value is at hand; edit_count: none */
    size_t text_end; /* behind the last thing written */
};

static void begin_field(struct scan *scan, const yaml_event_t *event)
{
    if (!scan->has_key) {
        scan->has_key = true;
        scan->first_key = event->start_mark.index;
        scan->first_column = event->start_mark.column;
    }
    for (scan->field = 0; scan->field < scan->edit_count; scan->field++) {
        if (event->type == YAML_SCALAR_EVENT &&
            strcmp((const char *)event->data.scalar.value, scan->edits[scan->field].key) == 0)
            break;
    }
    if (scan->field < scan->edit_count)
        scan->spans[scan->field].begin = event->start_mark.index;
}

/* A key or a value of the document's own table ended. */
static void end_entry(struct scan *scan)
{
    if (!scan->at_key && scan->field < scan->edit_count)
        scan->spans[scan->field].end = scan->text_end;
    scan->at_key = !scan->at_key;
}

static bool begins_collection(const yaml_event_t *event)
{
    return event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
}

/* A block collection ends where the next thing begins, or the document: what was written last is its end. */
static bool ends_visibly(const yaml_event_t *event)
{
    return event->end_mark.index > event->start_mark.index;
}

static void take_event(struct scan *scan, const yaml_event_t *event)
{
    bool ends = event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
    bool is_node = event->type == YAML_SCALAR_EVENT || event->type == YAML_ALIAS_EVENT;
    if (scan->depth == 1 && scan->at_key && (is_node || begins_collection(event)))
        begin_field(scan, event);
    if (scan->depth > 0 && (is_node || begins_collection(event) || (ends && ends_visibly(event))))
        scan->text_end = event->end_mark.index;
    if (begins_collection(event)) {
        if (scan->depth++ == 0) {
            scan->at_key = true;
            scan->is_flow =
                event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
        }
        return;
    }
    if (ends)
        scan->depth--;
    if (scan->depth == 1 && (ends || is_node))
        end_entry(scan);
}

static bool scan_document(const char *text, size_t size, struct scan *scan)
{
    yaml_parser_t parser;
    yaml_event_t event;
    bool done = false, good = yaml_parser_initialize(&parser) == 1;
    if (!good)
        return false;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    while (good && !done) {
        good = yaml_parser_parse(&parser, &event) == 1;
        if (!good)
            break;
        take_event(scan, &event);
        done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return good && scan->has_key;
}

/* ---- writing ------------------------------------------------------------------------- */

/* In braces a key may have to be JSON's. */
static void put_field(FILE *file, const struct scan *scan, const struct cfg_edit *edit)
{
    fprintf(file, scan->is_flow ? "\"%s\": \"" : "%s: \"", edit->key);
    for (const char *at = edit->value; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fputc('\\', file);
        fputc(*at, file);
    }
    fputc('"', file);
}

static void put_new_fields(FILE *file, const struct scan *scan)
{
    for (size_t e = 0; e < scan->edit_count; e++) {
        if (scan->spans[e].end > 0)
            continue;
        put_field(file, scan, &scan->edits[e]);
        if (scan->is_flow)
            fputs(", ", file);
        else
            fprintf(file, "\n%*s", (int)scan->first_column, "");
    }
}

/* The parser counts characters, not bytes, and no byte order mark. */
static void write_edited(FILE *file, const char *text, size_t size, const struct scan *scan)
{
    size_t at = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0, character = 0, skip_to = 0;
    fwrite(text, 1, at, file);
    for (; at < size; character++) {
        size_t length = 1;
        while (at + length < size && ((unsigned char)text[at + length] & 0xC0) == 0x80)
            length++;
        if (character == scan->first_key)
            put_new_fields(file, scan);
        for (size_t e = 0; e < scan->edit_count; e++) {
            if (scan->spans[e].end == 0 || scan->spans[e].begin != character)
                continue;
            put_field(file, scan, &scan->edits[e]);
            skip_to = scan->spans[e].end;
        }
        if (character >= skip_to)
            fwrite(text + at, 1, length, file);
        at += length;
    }
}

char *cfg_edit_document(const char *text, size_t size, const struct cfg_edit *edits, size_t edit_count,
                        size_t *size_out)
{
    struct scan scan = {.edits = edits, .edit_count = edit_count, .field = edit_count};
    char *edited = NULL;
    if (edit_count > CFG_MOST_EDITS || !scan_document(text, size, &scan))
        return NULL;
    FILE *file = open_memstream(&edited, size_out);
    if (file == NULL)
        return NULL;
    write_edited(file, text, size, &scan);
    bool written = !ferror(file);
    written = fclose(file) == 0 && written;
    if (written)
        return edited;
    free(edited);
    return NULL;
}
