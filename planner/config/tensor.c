/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "model.h"
#include "names.h"

enum {
    TENSOR_NAME,
    TENSOR_SHAPE,
    TENSOR_STAGE,
    TENSOR_CUT,
    TENSOR_TIED,
    TENSOR_LAYERS,
    TENSOR_KIND,
    TENSOR_DTYPE,
    TENSOR_GROUP,
    TENSOR_FIELD_COUNT
};

int64_t cfg_tensor_elements(const struct cfg_tensor *tensor)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        if (__builtin_mul_overflow(elements, tensor->shape[d], &elements))
            return INT64_MAX;
    }
    return elements;
}

/*
 * The stage follows from the name if it is not written; "{i}" and stage `layer` go together, and experts are
 * numbered in layers and in the MTP block only.
 */
static void check_stage(struct cfg_scope *scope)
{
    const struct cfg_tensor *tensor = scope->object;
    const char *wanted = tensor->expert ? "`mtp`" : "`first`, `last`, `final`, `mtp` or `all`";
    bool per_layer = strstr(tensor->name, CFG_LAYER_MARK) != NULL;
    if (cfg_node_find(scope->node, "stage") == NULL) {
        if (!per_layer)
            cfg_scope_report(scope, "stage", "found no such key, expected %s (the name has no {i})", wanted);
    } else if (per_layer) {
        if (tensor->stage != CFG_STAGE_LAYER)
            cfg_scope_report(scope, "stage", "found a stage for a name with {i}, expected `layer`");
    } else if (tensor->stage == CFG_STAGE_LAYER) {
        cfg_scope_report(scope, "stage", "found `layer` for a name without {i}, expected %s", wanted);
    } else if (tensor->expert && tensor->stage != CFG_STAGE_MTP) {
        cfg_scope_report(scope, "stage", "found a stage for a name with {e}, expected `layer` or `mtp`");
    }
}

/* What belongs to one stage only. */
static void check_stage_company(struct cfg_scope *scope)
{
    const struct cfg_tensor *tensor = scope->object;
    bool per_layer = strstr(tensor->name, CFG_LAYER_MARK) != NULL;
    if (tensor->stage != CFG_STAGE_FIRST && (tensor->tied_last || tensor->tied_mtp))
        cfg_scope_report(scope, "tied", "found `%s`, expected it with stage `first` only",
                         tensor->tied_last ? "last" : "mtp");
    if (!per_layer && cfg_node_find(scope->node, "layers") != NULL)
        cfg_scope_report(scope, "layers", "found layers for a name without {i}, expected none");
}

static void check_segments(struct cfg_scope *scope)
{
    const struct cfg_tensor *tensor = scope->object;
    int64_t sum = 0, extent = tensor->shape[tensor->cut_dim];
    for (uint32_t s = 0; s < tensor->segment_count; s++)
        sum += tensor->segments[s];
    if (sum != extent)
        cfg_scope_report(scope, "cut.segments",
                         "found a sum of %" PRId64 ", expected the extent of dimension %" PRId32 ", which is %" PRId64,
                         sum, tensor->cut_dim, extent);
}

/* One segment over the whole dimension when the document names none. */
static void default_segment(struct cfg_scope *scope)
{
    struct cfg_tensor *tensor = scope->object;
    tensor->segments = cfg_alloc(sizeof(*tensor->segments));
    if (tensor->segments == NULL) {
        scope->loader->out_of_memory = true;
        return;
    }
    tensor->segments[0] = tensor->shape[tensor->cut_dim];
    tensor->segment_count = 1;
}

static void check_cut_of_shape(struct cfg_scope *scope)
{
    const struct cfg_tensor *tensor = scope->object;
    if (!cfg_scope_usable(scope, CFG_BIT(TENSOR_SHAPE) | CFG_BIT(TENSOR_CUT)) || tensor->cut_dim < 0)
        return;
    if (tensor->cut_dim >= (int32_t)tensor->ndim)
        cfg_scope_report(scope, "cut.dim", "found %" PRId32 ", expected a dimension of the shape, below %" PRIu32,
                         tensor->cut_dim, tensor->ndim);
    else if (tensor->segments != NULL)
        check_segments(scope);
    else
        default_segment(scope);
}

static void check_tensor(struct cfg_scope *scope)
{
    struct cfg_tensor *tensor = scope->object;
    if (cfg_scope_usable(scope, CFG_BIT(TENSOR_NAME)))
        tensor->expert = strstr(tensor->name, CFG_EXPERT_MARK) != NULL;
    if (cfg_scope_usable(scope, CFG_BIT(TENSOR_NAME) | CFG_BIT(TENSOR_STAGE))) {
        check_stage(scope);
        check_stage_company(scope);
    }
    check_cut_of_shape(scope);
    if (tensor->expert && tensor->heads != CFG_HEADS_NONE)
        cfg_scope_report(scope, "cut.heads", "found heads in a tensor with {e}, expected them in attention only");
    if (cfg_scope_usable(scope, CFG_BIT(TENSOR_SHAPE)) && cfg_tensor_elements(tensor) >= CFG_MOST_ELEMENTS)
        cfg_scope_report(scope, "shape", "found %" PRId64 " elements or more, expected fewer than 2^56",
                         CFG_MOST_ELEMENTS);
}

static void release_tensor(void *object)
{
    struct cfg_tensor *tensor = object;
    free(tensor->layer_list);
}

static const struct cfg_choice stages[] = {{"layer", CFG_STAGE_LAYER},
                                           {"first", CFG_STAGE_FIRST},
                                           {"last", CFG_STAGE_LAST},
                                           {"final", CFG_STAGE_FINAL},
                                           {"mtp", CFG_STAGE_MTP},
                                           {"all", CFG_STAGE_ALL},
                                           {NULL, 0}};
static const struct cfg_choice tensor_kinds[] = {{"weight", CFG_KIND_WEIGHT}, {"buffer", CFG_KIND_BUFFER}, {NULL, 0}};

static const struct cfg_field tensor_fields[] = {
    [TENSOR_NAME] = {.key = "name",
                     .type = CFG_TEXT,
                     .required = true,
                     CFG_MEMBER(struct cfg_tensor, name),
                     .accept = cfg_accept_tensor_name,
                     .help = "Global name; {i} stands for the layer number, {e} for the expert number"},
    [TENSOR_SHAPE] = {.key = "shape",
                      .type = CFG_ARRAY,
                      .required = true,
                      CFG_MEMBER(struct cfg_tensor, shape),
                      CFG_NUMBER(struct cfg_tensor, ndim),
                      .min = 1,
                      .max = SHUNT_MAX_DIMS,
                      .element_max = CFG_MOST_EXTENT,
                      .help = "Logical shape, without padding"},
    [TENSOR_STAGE] = {.key = "stage",
                      .type = CFG_CHOICE,
                      CFG_MEMBER(struct cfg_tensor, stage),
                      .choices = stages,
                      .absent = CFG_STAGE_LAYER,
                      .help = "Pipeline stage that has it; may be left out when the name has {i}. `first`: with the "
                              "embedding; `last`: with the loss; `final`: with the last layer's norm; `mtp`: with the "
                              "multi-token prediction block"},
    [TENSOR_CUT] = {.key = "cut",
                    .type = CFG_TABLE,
                    .table = &cfg_cut_table,
                    .help =
                        "How it is split over tp (over etp in a tensor with {e}); absent: every rank has all of it"},
    [TENSOR_TIED] = {.key = "tied",
                     .type = CFG_CUSTOM,
                     .read = cfg_ties_read,
                     .expected = "`last`, `mtp` or a list of them",
                     .json = "\"oneOf\": [{\"enum\": [\"last\", \"mtp\"]}, {\"type\": \"array\", \"minItems\": 1, "
                             "\"uniqueItems\": true, \"items\": {\"enum\": [\"last\", \"mtp\"]}}]",
                     .help = "A copy elsewhere too, when pp is above 1: `last`: with the loss; `mtp`: with the "
                             "multi-token prediction block"},
    [TENSOR_LAYERS] = {.key = "layers",
                       .type = CFG_CUSTOM,
                       .read = cfg_layers_read,
                       .max = CFG_MOST_LAYERS - 1,
                       .table = &cfg_layer_range_table,
                       .expected = "a range such as {from: 3, to: 12}, or ascending layers below 65536, such as "
                                   "\"0,2,4-6\" or [0, 2, 4, 5, 6]",
                       .json = CFG_NUMBERS_JSON,
                       .help = "Layers that have it; absent: all"},
    [TENSOR_KIND] = {.key = "kind",
                     .type = CFG_CHOICE,
                     CFG_MEMBER(struct cfg_tensor, kind),
                     .choices = tensor_kinds,
                     .absent = CFG_KIND_WEIGHT,
                     .help = "A weight has the layout's states, a buffer only its value; absent: `weight`"},
    [TENSOR_DTYPE] = {.key = "dtype",
                      .type = CFG_CHOICE,
                      CFG_MEMBER(struct cfg_tensor, dtype),
                      .choice_name = shunt_dtype_name,
                      .absent = -1,
                      .help = "Element type of the weight or buffer; absent: the layout's `state.param`"},
    [TENSOR_GROUP] = {.key = "group",
                      .type = CFG_TEXT,
                      CFG_MEMBER(struct cfg_tensor, group),
                      .accept = cfg_accept_scalar_name,
                      .help = "Parameter group of a weight; needed when the model has `param_groups`"},
};

const struct cfg_table cfg_tensor_table = {
    .help = "A tensor, or one tensor per layer, per expert or both",
    .fields = tensor_fields,
    .field_count = TENSOR_FIELD_COUNT,
    .size = sizeof(struct cfg_tensor),
    CFG_POS(struct cfg_tensor, pos),
    .check = check_tensor,
    .release = release_tensor,
};
