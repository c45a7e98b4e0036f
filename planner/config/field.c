/* SPDX-License-Identifier: Apache-2.0 */
#include "field.h"

#include <string.h>

#include "scalar.h"
#include "suggest.h"

/* ---- refusing -------------------------------------------------------------------- */

bool cfg_site_refuse(const struct cfg_site *site, const struct cfg_field *field, const char *reason)
{
    char found[CFG_QUOTE_BYTES], expected[CFG_EXPECTED_BYTES];
    cfg_node_describe(site->node, found);
    cfg_field_expected(field, expected);
    if (reason != NULL)
        cfg_report(site->loader->diag, site->node->pos, site->path, "found %s (%s), expected %s", found, reason,
                   expected);
    else
        cfg_report(site->loader->diag, site->node->pos, site->path, "found %s, expected %s", found, expected);
    return false;
}

bool cfg_site_scalar(const struct cfg_site *site, const struct cfg_field *field)
{
    if (site->node->kind == CFG_NODE_SCALAR)
        return true;
    return cfg_site_refuse(site, field, NULL);
}

bool cfg_site_plain(const struct cfg_site *site, const struct cfg_field *field)
{
    if (!cfg_site_scalar(site, field))
        return false;
    return site->node->plain || cfg_site_refuse(site, field, "a text in quotes");
}

void *cfg_site_alloc(const struct cfg_site *site, size_t bytes)
{
    void *memory = cfg_alloc(bytes);
    if (memory == NULL)
        site->loader->out_of_memory = true;
    return memory;
}

/* ---- storing ----------------------------------------------------------------------- */

void cfg_store_integer(const struct cfg_field *field, void *object, int64_t value)
{
    char *member = (char *)object + field->offset;
    int32_t narrow = (int32_t)value;
    bool flag = value != 0;
    if (field->size == sizeof(value))
        memcpy(member, &value, sizeof(value));
    else if (field->size == sizeof(narrow))
        memcpy(member, &narrow, sizeof(narrow));
    else if (field->size == sizeof(flag))
        memcpy(member, &flag, sizeof(flag));
}

static void store(const struct cfg_field *field, void *object, const void *value)
{
    memcpy((char *)object + field->offset, value, field->size);
}

static void store_number(const struct cfg_field *field, void *object, uint32_t count)
{
    if (field->count_member != 0)
        memcpy((char *)object + field->count_member - 1, &count, sizeof(count));
}

/* ---- scalars ----------------------------------------------------------------------- */

static bool read_text(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    const struct cfg_node *node = site->node;
    if (!cfg_site_scalar(site, field))
        return false;
    const char *implicit = node->plain ? cfg_yaml_implicit_type(node->text, node->length) : NULL;
    char found[CFG_QUOTE_BYTES];
    if (implicit != NULL) {
        cfg_report(site->loader->diag, node->pos, site->path,
                   "found %s, which YAML reads as %s, expected a text; put it in quotes if it is one",
                   cfg_node_describe(node, found), implicit);
        return false;
    }
    const char *wanted = field->accept != NULL ? field->accept(node->text, node->length) : NULL;
    if (wanted != NULL) {
        cfg_report(site->loader->diag, node->pos, site->path, "found %s, expected %s", cfg_node_describe(node, found),
                   wanted);
        return false;
    }
    char *copy = cfg_copy_text(node->text, node->length);
    if (copy == NULL) {
        site->loader->out_of_memory = true;
        return false;
    }
    store(field, object, &copy);
    return true;
}

/* A count between min and max, reported as `field` expects it. */
static bool scan_count(const struct cfg_site *site, const struct cfg_field *field, int64_t min, int64_t max,
                       int64_t *out)
{
    uint64_t value = 0;
    if (!cfg_site_plain(site, field))
        return false;
    const char *reason = cfg_scan_count(site->node->text, site->node->length, &value);
    if (reason == NULL && (value < (uint64_t)min || value > (uint64_t)max))
        reason = cfg_out_of_range;
    if (reason != NULL)
        return cfg_site_refuse(site, field, site->node->length != 0 ? reason : NULL);
    *out = (int64_t)value;
    return true;
}

static bool read_count(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    int64_t value = 0;
    if (!scan_count(site, field, field->min, field->max, &value))
        return false;
    cfg_store_integer(field, object, value);
    return true;
}

static bool read_bool(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    bool value = false;
    if (!cfg_site_plain(site, field))
        return false;
    if (cfg_scan_bool(site->node->text, site->node->length, &value) != NULL)
        return cfg_site_refuse(site, field, NULL);
    cfg_store_integer(field, object, value);
    return true;
}

static bool read_choice(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    if (!cfg_site_scalar(site, field))
        return false;
    struct cfg_suggestion suggestion = {.text = site->node->text, .length = site->node->length};
    struct cfg_choice choice;
    for (uint32_t i = 0; cfg_field_choice(field, i, &choice); i++) {
        if (cfg_node_is(site->node, choice.name)) {
            cfg_store_integer(field, object, choice.value);
            return true;
        }
        cfg_suggest(&suggestion, choice.name);
    }
    if (suggestion.best == NULL)
        return cfg_site_refuse(site, field, NULL);
    char reason[80];
    snprintf(reason, sizeof(reason), "did you mean `%s`?", suggestion.best);
    return cfg_site_refuse(site, field, reason);
}

static bool read_size(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    uint64_t bytes = 0;
    if (!cfg_site_scalar(site, field))
        return false;
    const char *reason = cfg_scan_size(site->node->text, site->node->length, &bytes);
    if (reason == NULL && (bytes < (uint64_t)field->min || bytes > (uint64_t)field->max))
        reason = cfg_out_of_range;
    if (reason != NULL)
        return cfg_site_refuse(site, field, reason);
    store(field, object, &bytes);
    return true;
}

static bool read_rate(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    double rate = 0;
    if (!cfg_site_scalar(site, field))
        return false;
    const char *reason = cfg_scan_rate(site->node->text, site->node->length, &rate);
    if (reason == NULL && !(rate > 0))
        reason = cfg_out_of_range;
    if (reason != NULL)
        return cfg_site_refuse(site, field, reason);
    store(field, object, &rate);
    return true;
}

static bool read_duration(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    double seconds = 0;
    if (!cfg_site_scalar(site, field))
        return false;
    const char *reason = cfg_scan_duration(site->node->text, site->node->length, &seconds);
    if (reason == NULL && seconds > 3600)
        reason = cfg_out_of_range;
    if (reason != NULL)
        return cfg_site_refuse(site, field, reason);
    store(field, object, &seconds);
    return true;
}

/* ---- collections --------------------------------------------------------------------- */

static bool read_table(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    return cfg_table_fill(field->table, site, (char *)object + field->offset);
}

bool cfg_site_list(const struct cfg_site *site, const struct cfg_field *field)
{
    if (site->node->kind != CFG_NODE_LIST)
        return cfg_site_refuse(site, field, NULL);
    uint64_t count = site->node->count;
    if (count >= (uint64_t)field->min && count <= (uint64_t)field->max)
        return true;
    char reason[48];
    snprintf(reason, sizeof(reason), "of %llu", (unsigned long long)count);
    return cfg_site_refuse(site, field, reason);
}

/* Entries that are counts, into a vector that is large enough. */
static bool read_counts(const struct cfg_site *site, const struct cfg_field *field, int64_t *values)
{
    const struct cfg_field entry = {.type = CFG_COUNT, .min = field->zero_too ? 0 : 1, .max = field->element_max};
    bool good = true;
    uint64_t index = 0;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!scan_count(&inner, &entry, entry.min, entry.max, &values[index]))
            good = false;
    }
    return good;
}

static bool read_array(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    if (!cfg_site_list(site, field))
        return false;
    store_number(field, object, (uint32_t)site->node->count);
    return read_counts(site, field, (int64_t *)(void *)((char *)object + field->offset));
}

static bool read_tables(const struct cfg_site *site, const struct cfg_field *field, char *objects)
{
    bool good = true;
    uint64_t index = 0;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!cfg_table_fill(field->table, &inner, objects + index * field->table->size))
            good = false;
    }
    return good;
}

static bool read_list(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    if (!cfg_site_list(site, field))
        return false;
    size_t entry_size = field->table != NULL ? field->table->size : sizeof(int64_t);
    void *entries = cfg_site_alloc(site, site->node->count * entry_size);
    if (entries == NULL)
        return false;
    store(field, object, &entries);
    store_number(field, object, (uint32_t)site->node->count);
    return field->table != NULL ? read_tables(site, field, entries) : read_counts(site, field, entries);
}

static bool read_custom(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    return field->read(site, field, object);
}

bool cfg_field_read(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    static cfg_read_function *const readers[CFG_TYPE_COUNT] = {
        [CFG_TEXT] = read_text,   [CFG_COUNT] = read_count, [CFG_BOOL] = read_bool,         [CFG_CHOICE] = read_choice,
        [CFG_SIZE] = read_size,   [CFG_RATE] = read_rate,   [CFG_DURATION] = read_duration, [CFG_TABLE] = read_table,
        [CFG_ARRAY] = read_array, [CFG_LIST] = read_list,   [CFG_CUSTOM] = read_custom,
    };
    return readers[field->type](site, field, object);
}
