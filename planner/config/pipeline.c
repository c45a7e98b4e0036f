/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "layout.h"
#include "names.h"

/* ---- pipeline ------------------------------------------------------------------------------ */

/* What a chunk may hold, as words and as the letters of the text form. */
static const struct cfg_choice chunk_words[] = {{"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'},
                                                {"loss", 'L'},      {"E", 'E'},       {"t", 't'},
                                                {"m", 'm'},         {"L", 'L'},       {NULL, 0}};

/* The text form of a list, under way. */
struct chunk_text {
    char *text;
    size_t used;
    bool full; /* it would be longer than a text may be */
};

static void put_letter(struct chunk_text *out, int32_t letter)
{
    out->full = out->full || out->used == CFG_MAX_SCALAR_BYTES;
    if (!out->full)
        out->text[out->used++] = (char)letter;
}

static bool read_chunk_word(const struct cfg_site *site, struct chunk_text *out)
{
    const struct cfg_field field = {.type = CFG_CHOICE, .size = sizeof(int32_t), .choices = chunk_words};
    int32_t letter = 0;
    if (!cfg_field_read(site, &field, &letter))
        return false;
    put_letter(out, letter);
    return true;
}

/* Letters ("Ettt"), or a word, or a list of words; [] and "" hold nothing. */
static bool read_chunk(const struct cfg_site *site, struct chunk_text *out)
{
    const struct cfg_node *node = site->node;
    static const struct cfg_field field = {
        .type = CFG_CUSTOM, .expected = "letters such as Ett, or a list such as [embedding, decoder, decoder]"};
    bool good = true;
    uint64_t index = 0;
    if (node->kind == CFG_NODE_MAPPING || (node->plain && node->length == 0 && node->kind == CFG_NODE_SCALAR))
        return cfg_site_refuse(site, &field, NULL);
    if (node->kind == CFG_NODE_SCALAR) {
        if (strspn(node->text, "EtmL") != node->length)
            return read_chunk_word(site, out);
        for (size_t i = 0; i < node->length; i++)
            put_letter(out, node->text[i]);
        return true;
    }
    for (const struct cfg_item *item = node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!read_chunk_word(&inner, out))
            good = false;
    }
    return good;
}

static bool read_chunks(const struct cfg_site *site, const struct cfg_field *field, struct chunk_text *out)
{
    bool good = true;
    uint64_t index = 0;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (index != 0)
            put_letter(out, '|');
        if (!read_chunk(&inner, out))
            good = false;
    }
    if (good && out->full)
        return cfg_site_refuse(site, field, "of more than 65536 letters");
    return good && (out->used != 0 || cfg_site_refuse(site, field, "of nothing"));
}

/* A text such as "Et*3|(tt|)*29,m|L", or a list with an entry for each of its parts, turned into such a text. */
static bool read_pipeline_layout(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_layout *layout = object;
    const struct cfg_field as_text = {
        .type = CFG_TEXT, CFG_MEMBER(struct cfg_layout, pipeline_layout), .accept = cfg_accept_pipeline};
    if (site->node->kind == CFG_NODE_SCALAR)
        return cfg_field_read(site, &as_text, object);
    if (site->node->kind == CFG_NODE_MAPPING)
        return cfg_site_refuse(site, field, NULL);
    struct chunk_text out = {.text = cfg_site_alloc(site, CFG_MAX_SCALAR_BYTES)};
    if (out.text != NULL && read_chunks(site, field, &out)) {
        layout->pipeline_layout = cfg_copy_text(out.text, out.used);
        site->loader->out_of_memory |= layout->pipeline_layout == NULL;
    }
    free(out.text);
    return layout->pipeline_layout != NULL;
}

static void refuse_pair(struct cfg_scope *scope, const char *key, const char *other)
{
    cfg_scope_report(scope, key, "found it beside `%s`, expected `%s` or `%s`, not both", other, key, other);
}

/* Three ways to say how layers are spread: by the end stages, by counting embedding and loss, or in full. */
static void check_pipeline(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    const struct {
        const char *key;
        bool given;
    } ends[] = {{"first", layout->first_stage_layers >= 0}, {"last", layout->last_stage_layers >= 0}},
      counts[] = {{"count_embedding", layout->count_embedding}, {"count_loss", layout->count_loss}};
    for (int k = 0; k < 2; k++) {
        if (ends[k].given && layout->pipeline_layout != NULL)
            refuse_pair(scope, ends[k].key, "layout");
        if (counts[k].given && layout->pipeline_layout != NULL)
            refuse_pair(scope, counts[k].key, "layout");
        if (counts[k].given && (ends[0].given || ends[1].given))
            refuse_pair(scope, counts[k].key, ends[0].given ? "first" : "last");
    }
}

static const struct cfg_field pipeline_fields[] = {
    {.key = "first",
     .type = CFG_COUNT,
     CFG_MEMBER(struct cfg_layout, first_stage_layers),
     CFG_POS(struct cfg_layout, first_stage_pos),
     .max = CFG_MOST_LAYERS,
     .absent = -1,
     .help = "Layers on the first stage"},
    {.key = "last",
     .type = CFG_COUNT,
     CFG_MEMBER(struct cfg_layout, last_stage_layers),
     CFG_POS(struct cfg_layout, last_stage_pos),
     .max = CFG_MOST_LAYERS,
     .absent = -1,
     .help = "Layers on the last stage"},
    {.key = "count_embedding",
     .type = CFG_BOOL,
     CFG_MEMBER(struct cfg_layout, count_embedding),
     .fallback = "false",
     .help = "The embedding takes the place of one layer on the first chunk; not beside first and last"},
    {.key = "count_loss",
     .type = CFG_BOOL,
     CFG_MEMBER(struct cfg_layout, count_loss),
     .fallback = "false",
     .help = "The loss takes the place of one layer on the last chunk; not beside first and last"},
    {.key = "layout",
     .type = CFG_CUSTOM,
     .read = read_pipeline_layout,
     CFG_POS(struct cfg_layout, pipeline_layout_pos),
     .expected = "a text such as \"Et*3|(tt|)*29,m|L\", or a list such as [[embedding, decoder], [decoder, loss]]",
     .json = "\"oneOf\": [{\"type\": \"string\", \"minLength\": 1, \"maxLength\": 65536}, {\"type\": \"array\", "
             "\"minItems\": 1, \"items\": {\"oneOf\": [{\"type\": \"string\", \"pattern\": "
             "\"^([EtmL]*|embedding|decoder|mtp|loss)$\"}, {\"type\": \"array\", \"items\": {\"enum\": "
             "[\"embedding\", \"decoder\", \"mtp\", \"loss\", \"E\", \"t\", \"m\", \"L\"]}}]}}]",
     .help = "All chunks: E embedding, t layer, m multi-token prediction block, L loss, `|` between chunks; chunk k is "
             "on stage k mod pp. In place of the other keys"},
};

const struct cfg_table cfg_pipeline_table = {
    .help = "How layers are spread over the stages; absent: evenly",
    .fields = pipeline_fields,
    .field_count = sizeof(pipeline_fields) / sizeof(pipeline_fields[0]),
    .check = check_pipeline,
};
