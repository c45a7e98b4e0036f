/* SPDX-License-Identifier: Apache-2.0 */
#include "beside_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

/* ---- plans ------------------------------------------------------------------------ */

static const char *statement(const struct shunt_plan *plan)
{
    return shunt_plan_string(plan, shunt_plan_get_summary(plan)->state_notes);
}

void beside_print_plan(const struct shunt_plan *plan)
{
    const char *at = statement(plan);
    struct shunt_plan_note note;
    if (*at != '\0')
        printf("\nstate beside tensors\n");
    while (shunt_plan_next_note(&at, &note))
        printf("  %-10.*s   %-28.*s %.*s\n", (int)note.action_bytes, note.action, (int)note.name_bytes, note.name,
               (int)note.why_bytes, note.why);
}

static void put_text(struct json *json, const char *key, const char *text, uint32_t bytes)
{
    char *copy = strndup(text, bytes);
    json_key_string(json, key, copy); /* null when memory ran out */
    free(copy);
}

void beside_json_plan(struct json *json, const struct shunt_plan *plan)
{
    const char *at = statement(plan);
    struct shunt_plan_note note;
    json_key(json, "beside_tensors");
    json_array_begin(json);
    while (shunt_plan_next_note(&at, &note)) {
        json_object_begin(json);
        put_text(json, "name", note.name, note.name_bytes);
        put_text(json, "action", note.action, note.action_bytes);
        put_text(json, "why", note.why, note.why_bytes);
        json_object_end(json);
    }
    json_array_end(json);
}

void beside_print_count(const struct shunt_plan *plan)
{
    static const char *const actions[] = {"copied", "reseeded", "recomputed", "left"};
    uint32_t counts[4] = {0}, other = 0;
    const char *at = statement(plan);
    struct shunt_plan_note note;
    while (shunt_plan_next_note(&at, &note)) {
        for (size_t a = 0; a < 4; a++)
            counts[a] += shunt_plan_note_is(note.action, note.action_bytes, actions[a]);
    }
    for (size_t a = 1; a < 4; a++)
        other += counts[a];
    if (other == 0)
        return;
    printf("beside   %u entries beside the tensors copied", counts[0]);
    for (size_t a = 1; a < 4; a++) {
        if (counts[a] > 0)
            printf(", %u %s", counts[a], actions[a]);
    }
    printf(" (inspect says which)\n");
}

/* ---- models ------------------------------------------------------------------------ */

/** An entry of either list. */
struct entry {
    const char *name;
    int32_t dtype; /* -1: a blob, or nothing */
    int64_t count;
    const struct cfg_other *other; /* NULL: a scalar */
};

static uint32_t entry_count(const struct cfg_model *model)
{
    return model->scalar_count + cfg_other_count(model);
}

static struct entry entry_at(const struct cfg_model *model, uint32_t index)
{
    if (index < model->scalar_count) {
        const struct cfg_scalar *scalar = &model->scalars[index];
        return (struct entry){scalar->name, scalar->dtype, scalar->count, NULL};
    }
    const struct cfg_other *other = cfg_other_at(model, index - model->scalar_count);
    return (struct entry){other->name, other->dtype, other->count, other};
}

static const char *policy_of(const struct entry *entry)
{
    return cfg_policy_names[entry->other == NULL ? CFG_POLICY_COPY : entry->other->policy];
}

static bool has_value(const struct entry *entry)
{
    return entry->other == NULL || cfg_other_may_move(entry->other);
}

static void print_entry(const struct entry *entry)
{
    char size[96] = "-", axes[64] = "";
    if (has_value(entry) && entry->dtype < 0)
        snprintf(size, sizeof(size), "%s B", fmt_count((uint64_t)entry->count).s);
    else if (has_value(entry))
        snprintf(size, sizeof(size), "%s [%lld]", shunt_dtype_name((unsigned)entry->dtype), (long long)entry->count);
    for (int k = 0; entry->other != NULL && k < CFG_KEY_COUNT; k++) {
        if (entry->other->per[k])
            snprintf(axes + strlen(axes), sizeof(axes) - strlen(axes), "%s%s", axes[0] == '\0' ? ", per " : " ",
                     cfg_key_names[k]);
    }
    printf("  %-28s %-12s %s%s\n", entry->name, size, policy_of(entry), axes);
}

void beside_print_model(const struct cfg_model *model)
{
    if (entry_count(model) > 0)
        printf("\nstate beside tensors\n");
    for (uint32_t e = 0; e < entry_count(model); e++) {
        const struct entry entry = entry_at(model, e);
        print_entry(&entry);
    }
}

static void json_entry(struct json *json, const struct entry *entry)
{
    json_object_begin(json);
    json_key_string(json, "name", entry->name);
    json_key_string(json, "policy", policy_of(entry));
    if (has_value(entry)) {
        json_key_string(json, "dtype", entry->dtype < 0 ? "u8" : shunt_dtype_name((unsigned)entry->dtype));
        json_key_u64(json, "count", (uint64_t)entry->count);
        json_key_bool(json, "blob", entry->dtype < 0);
    }
    json_key(json, "per");
    json_array_begin(json);
    for (int k = 0; entry->other != NULL && k < CFG_KEY_COUNT; k++) {
        if (entry->other->per[k])
            json_string(json, cfg_key_names[k]);
    }
    json_array_end(json);
    json_object_end(json);
}

void beside_json_model(struct json *json, const struct cfg_model *model)
{
    json_key(json, "beside_tensors");
    json_array_begin(json);
    for (uint32_t e = 0; e < entry_count(model); e++) {
        const struct entry entry = entry_at(model, e);
        json_entry(json, &entry);
    }
    json_array_end(json);
}
