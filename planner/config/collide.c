/* SPDX-License-Identifier: Apache-2.0 */

/*
 * "layer.{i}.a" and a literal "layer.3.a" collide, and so can two patterns: "a{i}" for i = 12 and
 * "a1{i}" for i = 2. Expand every name, sort by hash and text, and compare neighbours. With n
 * expanded names (at most CFG_MOST_TENSORS) this takes n log n steps and 16 n bytes.
 */
#include "collide.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

/* Tensors are numbered first, scalars behind them. */
struct expanded {
    uint64_t hash;
    uint32_t entry;
    uint32_t layer;
};

/* A name is at most 255 bytes; "{i}" becomes at most 5 digits. */
#define NAME_BYTES 264

static const char *entry_name(const struct cfg_model *model, uint32_t entry)
{
    return entry < model->tensor_count ? model->tensors[entry].name : model->scalars[entry - model->tensor_count].name;
}

static struct cfg_pos entry_pos(const struct cfg_model *model, uint32_t entry)
{
    return entry < model->tensor_count ? model->tensors[entry].pos : model->scalars[entry - model->tensor_count].pos;
}

static void expand(const struct cfg_model *model, uint32_t entry, uint32_t layer, char buffer[NAME_BYTES])
{
    const char *name = entry_name(model, entry);
    const char *mark = entry < model->tensor_count ? strstr(name, CFG_LAYER_MARK) : NULL;
    if (mark == NULL)
        snprintf(buffer, NAME_BYTES, "%s", name);
    else
        snprintf(buffer, NAME_BYTES, "%.*s%" PRIu32 "%s", (int)(mark - name), name, layer,
                 mark + strlen(CFG_LAYER_MARK));
}

/* FNV-1a; names that meet by chance are told apart by text */
static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Layers of an entry; one for what has no layers, none for what could not be read. */
static void entry_layers(const struct cfg_model *model, uint32_t entry, int64_t *begin_out, int64_t *end_out)
{
    *begin_out = 0;
    *end_out = entry_name(model, entry) != NULL;
    if (entry >= model->tensor_count || *end_out == 0 || strstr(entry_name(model, entry), CFG_LAYER_MARK) == NULL)
        return;
    const struct cfg_tensor *tensor = &model->tensors[entry];
    *begin_out = tensor->layer_begin;
    *end_out = tensor->layer_end < model->layers ? tensor->layer_end : model->layers;
}

static uint64_t count_expanded(const struct cfg_model *model, uint32_t entries)
{
    uint64_t count = 0;
    for (uint32_t e = 0; e < entries; e++) {
        int64_t begin, end;
        entry_layers(model, e, &begin, &end);
        count += end > begin ? (uint64_t)(end - begin) : 0;
    }
    return count;
}

/* By name, hash first; equal names by entry and layer. */
static int compare(const void *a_, const void *b_, void *model)
{
    const struct expanded *a = a_, *b = b_;
    char a_name[NAME_BYTES], b_name[NAME_BYTES];
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    expand(model, a->entry, a->layer, a_name);
    expand(model, b->entry, b->layer, b_name);
    int order = strcmp(a_name, b_name);
    if (order != 0)
        return order;
    if (a->entry != b->entry)
        return a->entry < b->entry ? -1 : 1;
    return a->layer < b->layer ? -1 : a->layer > b->layer;
}

static void list_expanded(const struct cfg_model *model, uint32_t entries, struct expanded *list)
{
    char name[NAME_BYTES];
    for (uint32_t e = 0; e < entries; e++) {
        int64_t begin, end;
        entry_layers(model, e, &begin, &end);
        for (int64_t layer = begin; layer < end; layer++) {
            expand(model, e, (uint32_t)layer, name);
            *list++ = (struct expanded){hash_text(name), e, (uint32_t)layer};
        }
    }
}

static void report_collision(const struct cfg_scope *scope, const struct expanded *first, const struct expanded *second)
{
    const struct cfg_model *model = scope->object;
    bool is_tensor = second->entry < model->tensor_count;
    char name[NAME_BYTES], quoted[CFG_QUOTE_BYTES];
    expand(model, second->entry, second->layer, name);
    const struct cfg_path list = {.up = scope->path, .key = is_tensor ? "tensors" : "scalars"};
    const struct cfg_path entry = {.up = &list, .index = second->entry - (is_tensor ? 0 : model->tensor_count)};
    const struct cfg_path path = {.up = &entry, .key = "name"};
    cfg_report(scope->loader->diag, entry_pos(model, second->entry), &path,
               "found the name %s a second time, layers expanded (first on line %" PRIu32 "), expected unique names",
               cfg_quote(quoted, name, strlen(name)), entry_pos(model, first->entry).line);
}

/* In document order, each later entry once, at its lowest layer that collides. */
static void report_collisions(const struct cfg_scope *scope, const struct expanded *list, uint64_t count,
                              const struct expanded **partner)
{
    const struct cfg_model *model = scope->object;
    char a[NAME_BYTES], b[NAME_BYTES];
    for (uint64_t i = 1; i < count; i++) {
        if (list[i].hash != list[i - 1].hash || list[i].entry == list[i - 1].entry)
            continue;
        expand(model, list[i - 1].entry, list[i - 1].layer, a);
        expand(model, list[i].entry, list[i].layer, b);
        const struct expanded **best = &partner[list[i].entry];
        if (strcmp(a, b) == 0 && (*best == NULL || list[i].layer < (*best)->layer))
            *best = &list[i];
    }
    for (uint32_t e = 0; e < model->tensor_count + model->scalar_count; e++) {
        if (partner[e] != NULL)
            report_collision(scope, partner[e] - 1, partner[e]);
    }
}

void cfg_check_names(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    uint32_t entries = model->tensor_count + model->scalar_count;
    uint64_t count = count_expanded(model, entries);
    if (count > CFG_MOST_TENSORS) {
        cfg_scope_report(scope, "tensors",
                         "found %" PRIu64 " tensors and scalars, layers expanded, expected at most %d", count,
                         CFG_MOST_TENSORS);
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
