/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "suggest.h"

#define MAX_FIELDS 64

/* ---- values that are not written ----------------------------------------------------- */

static void fill_absent_table(const struct cfg_table *table, struct cfg_loader *loader, void *object);

static void fill_absent(const struct cfg_field *field, struct cfg_loader *loader, void *object)
{
    if (field->fallback != NULL) {
        const struct cfg_node node = {.kind = CFG_NODE_SCALAR,
                                      .plain = field->type != CFG_TEXT,
                                      .text = field->fallback,
                                      .length = strlen(field->fallback)};
        const struct cfg_site site = {loader, &node, NULL};
        cfg_field_read(&site, field, object);
    } else if (field->type == CFG_COUNT || field->type == CFG_CHOICE) {
        cfg_store_integer(field, object, field->absent);
    } else if (field->table != NULL && field->type != CFG_LIST) {
        fill_absent_table(field->table, loader, (char *)object + field->offset);
    }
}

static void fill_absent_table(const struct cfg_table *table, struct cfg_loader *loader, void *object)
{
    for (uint32_t f = 0; f < table->field_count; f++)
        fill_absent(&table->fields[f], loader, object);
}

/* ---- keys ---------------------------------------------------------------------------- */

static const struct cfg_field *find_field(const struct cfg_table *table, const struct cfg_node *key)
{
    for (uint32_t f = 0; f < table->field_count; f++) {
        if (cfg_node_is(key, table->fields[f].key))
            return &table->fields[f];
    }
    return NULL;
}

static void report_unknown_key(const struct cfg_table *table, const struct cfg_site *site, const struct cfg_node *key)
{
    char expected[CFG_EXPECTED_BYTES];
    const struct cfg_field as_field = {.type = CFG_TABLE, .table = table};
    const struct cfg_path path = {.up = site->path, .key = key->text, .key_length = key->length};
    struct cfg_suggestion suggestion = {.text = key->text, .length = key->length};
    for (uint32_t f = 0; f < table->field_count; f++)
        cfg_suggest(&suggestion, table->fields[f].key);
    cfg_field_expected(&as_field, expected);
    if (suggestion.best != NULL)
        cfg_report(site->loader->diag, key->pos, &path, "found an unknown key (did you mean `%s`?), expected %s",
                   suggestion.best, expected);
    else
        cfg_report(site->loader->diag, key->pos, &path, "found an unknown key, expected %s", expected);
}

/* The field that a key names, or NULL when the key was reported. */
static const struct cfg_field *resolve_key(const struct cfg_table *table, const struct cfg_site *site,
                                           const struct cfg_node *key)
{
    char found[CFG_QUOTE_BYTES];
    if (key->kind != CFG_NODE_SCALAR || key->length == 0) {
        cfg_report(site->loader->diag, key->pos, site->path, "found %s as a key, expected a name",
                   key->length == 0 && key->kind == CFG_NODE_SCALAR ? "an empty text" : cfg_node_describe(key, found));
        return NULL;
    }
    if (key->plain && cfg_node_is(key, "<<")) {
        cfg_report(site->loader->diag, key->pos, site->path,
                   "found a merge key `<<`, expected the keys written out (an alias may stand for a whole value)");
        return NULL;
    }
    const struct cfg_field *field = find_field(table, key);
    if (field == NULL)
        report_unknown_key(table, site, key);
    return field;
}

/* ---- filling -------------------------------------------------------------------------- */

static void store_pos(size_t pos_member, const struct cfg_node *node, void *object)
{
    if (pos_member != 0)
        memcpy((char *)object + pos_member - 1, &node->pos, sizeof(node->pos));
}

/* One written pair. Bits of fields that went wrong are added to *bad. */
static void fill_pair(const struct cfg_table *table, const struct cfg_site *site, const struct cfg_item *item,
                      const struct cfg_node **seen, uint64_t *bad, void *object)
{
    const struct cfg_field *field = resolve_key(table, site, item->key);
    if (field == NULL)
        return;
    size_t index = (size_t)(field - table->fields);
    const struct cfg_path path = {.up = site->path, .key = field->key};
    if (seen[index] != NULL) {
        cfg_report(site->loader->diag, item->key->pos, &path,
                   "found this key a second time (first on line %" PRIu32 "), expected it once", seen[index]->pos.line);
        return;
    }
    seen[index] = item->key;
    const struct cfg_site inner = {site->loader, item->value, &path};
    store_pos(field->pos_member, item->value, object);
    if (cfg_field_read(&inner, field, object))
        return;
    *bad |= CFG_BIT(index);
    if (field->type != CFG_TABLE) /* a table has filled what it could */
        fill_absent(field, site->loader, object);
}

static void report_missing(const struct cfg_site *site, const struct cfg_field *field)
{
    char expected[CFG_EXPECTED_BYTES];
    const struct cfg_path path = {.up = site->path, .key = field->key};
    cfg_report(site->loader->diag, site->node->pos, &path, "found no such key, expected %s",
               cfg_field_expected(field, expected));
}

bool cfg_table_fill(const struct cfg_table *table, const struct cfg_site *site, void *object)
{
    const struct cfg_node *seen[MAX_FIELDS] = {NULL};
    uint64_t problems = site->loader->diag->count, bad = 0;
    const struct cfg_field as_field = {.type = CFG_TABLE, .table = table};
    if (site->node->kind != CFG_NODE_MAPPING) {
        fill_absent_table(table, site->loader, object);
        return cfg_site_refuse(site, &as_field, NULL);
    }
    store_pos(table->pos_member, site->node, object);
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next)
        fill_pair(table, site, item, seen, &bad, object);
    for (uint32_t f = 0; f < table->field_count; f++) {
        const struct cfg_field *field = &table->fields[f];
        if (seen[f] != NULL)
            continue;
        fill_absent(field, site->loader, object);
        if (field->required) {
            report_missing(site, field);
            bad |= CFG_BIT(f);
        }
    }
    struct cfg_scope scope = {site->loader, site->node, site->path, object, ~bad};
    if (table->check != NULL && !site->loader->out_of_memory)
        table->check(&scope);
    return site->loader->diag->count == problems && !site->loader->out_of_memory;
}

/* ---- releasing --------------------------------------------------------------------------- */

static void *load_pointer(const void *object, size_t offset)
{
    void *pointer;
    memcpy(&pointer, (const char *)object + offset, sizeof(pointer));
    return pointer;
}

static void release_list(const struct cfg_field *field, void *object)
{
    char *entries = load_pointer(object, field->offset);
    uint32_t count = 0;
    if (field->count_member != 0)
        memcpy(&count, (char *)object + field->count_member - 1, sizeof(count));
    for (uint32_t i = 0; field->table != NULL && entries != NULL && i < count; i++)
        cfg_table_release(field->table, entries + i * field->table->size);
    free(entries);
}

void cfg_table_release(const struct cfg_table *table, void *object)
{
    for (uint32_t f = 0; f < table->field_count; f++) {
        const struct cfg_field *field = &table->fields[f];
        if (field->type == CFG_TEXT)
            free(load_pointer(object, field->offset));
        else if (field->type == CFG_LIST)
            release_list(field, object);
        else if (field->type == CFG_TABLE)
            cfg_table_release(field->table, (char *)object + field->offset);
    }
    if (table->release != NULL)
        table->release(object);
}

/* ---- for the checks of tables --------------------------------------------------------------- */

bool cfg_scope_usable(const struct cfg_scope *scope, uint64_t bits)
{
    return (scope->usable & bits) == bits;
}

/* Position of the innermost mapping entry that dotted keys lead to. */
static struct cfg_pos find_pos(const struct cfg_node *node, const char *field)
{
    struct cfg_pos pos = node->pos;
    while (*field != '\0' && node != NULL) {
        char key[64];
        size_t length = strcspn(field, ".");
        snprintf(key, sizeof(key), "%.*s", (int)length, field);
        node = cfg_node_find(node, key);
        if (node != NULL)
            pos = node->pos;
        field += length + (field[length] == '.');
    }
    return pos;
}

void cfg_scope_report(const struct cfg_scope *scope, const char *field, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const struct cfg_path path = {.up = scope->path, .key = field};
    cfg_report(scope->loader->diag, find_pos(scope->node, field), &path, "%s", text);
}
