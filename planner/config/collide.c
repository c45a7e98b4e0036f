/* SPDX-License-Identifier: Apache-2.0 */

/*
 * "layer.{i}.a" and a literal "layer.3.a" collide, and so can two patterns: "a{i}" for i = 12 and
 * "a1{i}" for i = 2; even one pattern can meet itself: "a{i}{e}" is "a111" for (1, 11) and (11, 1).
 * Expand every name, sort by hash and text, and compare neighbours. With n expanded names (at most
 * CFG_MOST_TENSORS) this takes n log n steps and 16 n bytes.
 */
#include "collide.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "tables.h"

/* Tensors are numbered first, scalars behind them, then the other entries. */
struct expanded {
    uint64_t hash;
    uint32_t entry;
    uint16_t layer, expert;
};

_Static_assert(CFG_MOST_LAYERS <= UINT16_MAX + 1 && CFG_MOST_EXPERTS <= UINT16_MAX + 1, "layer and expert fit");

/* A name is at most 255 bytes; "{i}" and "{e}" become at most 5 digits each. */
#define NAME_BYTES 264

static uint32_t entry_count(const struct cfg_model *model)
{
    return model->tensor_count + model->scalar_count + cfg_other_count(model);
}

static const char *entry_name(const struct cfg_model *model, uint32_t entry)
{
    if (entry < model->tensor_count)
        return model->tensors[entry].name;
    entry -= model->tensor_count;
    return entry < model->scalar_count ? model->scalars[entry].name
                                       : cfg_other_at(model, entry - model->scalar_count)->name;
}

/* Where an entry is written: list and index in it; what is included is written nowhere. */
static const char *entry_place(const struct cfg_model *model, uint32_t entry, uint32_t *index_out,
                               struct cfg_pos *pos_out)
{
    *index_out = entry;
    if (entry < model->tensor_count) {
        *pos_out = model->tensors[entry].pos;
        return "tensors";
    }
    *index_out = entry -= model->tensor_count;
    if (entry < model->scalar_count) {
        *pos_out = model->scalars[entry].pos;
        return "scalars";
    }
    *index_out = entry -= model->scalar_count;
    if (entry >= model->other_count + model->group_count) {
        *pos_out = model->include_pos;
        return "include";
    }
    *pos_out = cfg_other_at(model, entry)->pos;
    if (entry < model->other_count)
        return "other_state";
    *index_out = entry - model->other_count;
    return "param_groups";
}

/* Decimal digits of a number below 65536; returns their end. */
static char *put_digits(char *at, uint16_t number)
{
    unsigned divisor = 10000;
    while (divisor > 1 && number < divisor)
        divisor /= 10;
    for (; divisor > 0; divisor /= 10)
        *at++ = (char)('0' + number / divisor % 10);
    return at;
}

static void expand(const struct cfg_model *model, const struct expanded *one, char buffer[NAME_BYTES])
{
    const char *name = entry_name(model, one->entry);
    bool is_tensor = one->entry < model->tensor_count;
    char *at = buffer;
    while (*name != '\0') {
        bool mark = is_tensor && *name == '{'; /* looked at first: a million names have few braces */
        if (mark && strncmp(name, CFG_LAYER_MARK, 3) == 0) {
            at = put_digits(at, one->layer);
            name += 3;
        } else if (mark && strncmp(name, CFG_EXPERT_MARK, 3) == 0) {
            at = put_digits(at, one->expert);
            name += 3;
        } else {
            *at++ = *name++;
        }
    }
    *at = '\0';
}

/* FNV-1a; names that meet by chance are told apart by text */
static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Layers of an entry; one for what has no layers, none for what could not be read or has layers that are not there. */
static int64_t entry_layers(const struct cfg_model *model, uint32_t entry)
{
    const char *name = entry_name(model, entry);
    if (name == NULL)
        return 0;
    if (entry >= model->tensor_count || strstr(name, CFG_LAYER_MARK) == NULL)
        return 1;
    const struct cfg_tensor *tensor = &model->tensors[entry];
    bool there = tensor->layer_begin < tensor->layer_end && tensor->layer_end <= model->layers;
    return there ? cfg_tensor_layers(tensor) : 0;
}

static int64_t entry_layer(const struct cfg_model *model, uint32_t entry, int64_t index)
{
    return entry < model->tensor_count ? cfg_tensor_layer(&model->tensors[entry], index) : 0;
}

static int64_t entry_experts(const struct cfg_model *model, uint32_t entry)
{
    return entry < model->tensor_count && model->tensors[entry].expert ? model->experts : 1;
}

static uint64_t count_expanded(const struct cfg_model *model, uint32_t entries)
{
    uint64_t count = 0;
    for (uint32_t e = 0; e < entries; e++)
        count += (uint64_t)entry_layers(model, e) * (uint64_t)entry_experts(model, e);
    return count;
}

static uint32_t place(const struct expanded *one)
{
    return (uint32_t)one->layer << 16 | one->expert;
}

/* By name, hash first; equal names by entry, layer and expert. */
static int compare(const void *a_, const void *b_, void *model)
{
    const struct expanded *a = a_, *b = b_;
    char a_name[NAME_BYTES], b_name[NAME_BYTES];
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    expand(model, a, a_name);
    expand(model, b, b_name);
    int order = strcmp(a_name, b_name);
    if (order != 0)
        return order;
    if (a->entry != b->entry)
        return a->entry < b->entry ? -1 : 1;
    return place(a) < place(b) ? -1 : place(a) > place(b);
}

static void list_expanded(const struct cfg_model *model, uint32_t entries, struct expanded *list)
{
    char name[NAME_BYTES];
    for (uint32_t e = 0; e < entries; e++) {
        int64_t layers = entry_layers(model, e), experts = entry_experts(model, e);
        for (int64_t k = 0; k < layers * experts; k++, list++) {
            *list = (struct expanded){
                .entry = e,
                .layer = (uint16_t)entry_layer(model, e, k / experts),
                .expert = (uint16_t)(k % experts),
            };
            expand(model, list, name);
            list->hash = hash_text(name);
        }
    }
}

static void report_collision(const struct cfg_scope *scope, const struct expanded *first, const struct expanded *second)
{
    const struct cfg_model *model = scope->object;
    char name[NAME_BYTES], quoted[CFG_QUOTE_BYTES];
    uint32_t index, first_index;
    struct cfg_pos pos, first_pos;
    (void)entry_place(model, first->entry, &first_index, &first_pos);
    const char *key = entry_place(model, second->entry, &index, &pos);
    expand(model, second, name);
    const struct cfg_path list = {.up = scope->path, .key = key};
    const struct cfg_path entry = {.up = &list, .index = index};
    const struct cfg_path path = {.up = &entry, .key = "name"};
    bool included = strcmp(key, "include") == 0;
    cfg_report(scope->loader->diag, pos, included ? &list : &path,
               "found the name %s a second time, layers and experts expanded (first on line %" PRIu32
               "), expected unique names",
               cfg_quote(quoted, name, strlen(name)), first_pos.line);
}

/* In document order, each later entry once, at its lowest layer and expert that collide. */
static void report_collisions(const struct cfg_scope *scope, const struct expanded *list, uint64_t count,
                              const struct expanded **partner)
{
    const struct cfg_model *model = scope->object;
    char a[NAME_BYTES], b[NAME_BYTES];
    for (uint64_t i = 1; i < count; i++) {
        if (list[i].hash != list[i - 1].hash)
            continue;
        expand(model, &list[i - 1], a);
        expand(model, &list[i], b);
        const struct expanded **best = &partner[list[i].entry];
        if (strcmp(a, b) == 0 && (*best == NULL || place(&list[i]) < place(*best)))
            *best = &list[i];
    }
    for (uint32_t e = 0; e < entry_count(model); e++) {
        if (partner[e] != NULL)
            report_collision(scope, partner[e] - 1, partner[e]);
    }
}

void cfg_check_names(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    uint32_t entries = entry_count(model);
    uint64_t count = count_expanded(model, entries);
    if (count > CFG_MOST_TENSORS) {
        cfg_scope_report(scope, "tensors",
                         "found %" PRIu64 " tensors and scalars, layers and experts expanded, expected at most %d",
                         count, CFG_MOST_TENSORS);
        return;
    }
    struct expanded *list = cfg_alloc(count * sizeof(*list));
    const struct expanded **partner = cfg_alloc(entries * sizeof(*partner));
    if (list != NULL && partner != NULL) {
        list_expanded(model, entries, list);
        qsort_r(list, count, sizeof(*list), compare, (void *)(uintptr_t)model);
        report_collisions(scope, list, count, partner);
    } else {
        scope->loader->out_of_memory = true;
    }
    free(list);
    free(partner);
}
