/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "model.h"

int64_t cfg_tensor_layers(const struct cfg_tensor *tensor)
{
    if (tensor->stage != CFG_STAGE_LAYER)
        return 1;
    return tensor->layer_list != NULL ? tensor->layer_count : tensor->layer_end - tensor->layer_begin;
}

int64_t cfg_tensor_layer(const struct cfg_tensor *tensor, int64_t index)
{
    if (tensor->stage != CFG_STAGE_LAYER)
        return 0;
    return tensor->layer_list != NULL ? tensor->layer_list[index] : tensor->layer_begin + index;
}

static const struct cfg_field range_fields[] = {
    {.key = "from",
     .type = CFG_COUNT,
     CFG_MEMBER(struct cfg_tensor, layer_begin),
     .max = CFG_MOST_LAYERS,
     .fallback = "0",
     .help = "First layer that has the tensor"},
    {.key = "to",
     .type = CFG_COUNT,
     CFG_MEMBER(struct cfg_tensor, layer_end),
     .min = 1,
     .max = CFG_MOST_LAYERS,
     .absent = -1, /* the model's layers, once they are known */
     .help = "First layer that has it no more; absent: the model's `layers`"},
};

const struct cfg_table cfg_layer_range_table = {
    .help = "Layers that have the tensor, half-open",
    .fields = range_fields,
    .field_count = sizeof(range_fields) / sizeof(range_fields[0]),
};

/* Layers listed so far. The first walk counts and checks, the second one writes. */
struct layer_walk {
    int64_t *list; /* NULL in the first walk */
    uint32_t count;
    int64_t last; /* -1: none yet */
};

static bool add_layer(void *context, const struct cfg_site *site, uint64_t layer)
{
    struct layer_walk *walk = context;
    if (walk->list != NULL)
        walk->list[walk->count] = (int64_t)layer;
    if ((int64_t)layer <= walk->last) {
        cfg_report(site->loader->diag, site->node->pos, site->path,
                   "found layer %" PRIu64 " behind layer %" PRId64 ", expected ascending layers", layer, walk->last);
        return false;
    }
    walk->last = (int64_t)layer;
    walk->count++;
    return true;
}

bool cfg_layers_read(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_tensor *tensor = object;
    struct layer_walk walk = {.last = -1};
    if (site->node->kind == CFG_NODE_MAPPING)
        return cfg_table_fill(field->table, site, object);
    if (!cfg_site_numbers(site, field, add_layer, &walk))
        return false;
    walk.list = cfg_site_alloc(site, walk.count * sizeof(*walk.list));
    if (walk.list == NULL)
        return false;
    tensor->layer_list = walk.list;
    walk.count = 0;
    walk.last = -1;
    if (!cfg_site_numbers(site, field, add_layer, &walk))
        return false;
    tensor->layer_count = walk.count;
    tensor->layer_begin = walk.list[0];
    tensor->layer_end = walk.last + 1;
    return true;
}
