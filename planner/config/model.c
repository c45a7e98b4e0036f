/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "collide.h"
#include "field.h"
#include "heads.h"
#include "names.h"
#include "other.h"
#include "tables.h"

#define MOST_EXTENT   (INT64_C(1) << 40)
#define MOST_ELEMENTS (INT64_C(1) << 56) /* of the whole model: bytes of all states stay below 2^62 */

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

/* ---- cut ----------------------------------------------------------------------------- */

enum { CUT_DIM, CUT_SEGMENTS, CUT_PAD, CUT_HEADS, CUT_HEAD_DIM };

static void check_cut(struct cfg_scope *scope)
{
    const struct cfg_tensor *tensor = scope->object;
    cfg_heads_check_cut(scope);
    if (!tensor->pad_vocab)
        return;
    if (cfg_scope_usable(scope, CFG_BIT(CUT_DIM)) && tensor->cut_dim != 0)
        cfg_scope_report(scope, "pad", "found `vocab` with dim %" PRId32 ", expected it with dim 0 only",
                         tensor->cut_dim);
    if (cfg_node_find(scope->node, "segments") != NULL)
        cfg_scope_report(scope, "pad", "found `vocab` beside segments, expected one or the other");
}

static const struct cfg_choice pads[] = {{"vocab", 1}, {NULL, 0}};

static const struct cfg_field cut_fields[] = {
    [CUT_DIM] = {.key = "dim",
                 .type = CFG_COUNT,
                 .required = true,
                 CFG_MEMBER(struct cfg_tensor, cut_dim),
                 .max = SHUNT_MAX_DIMS - 1,
                 .absent = -1,
                 .help = "Dimension that is split over tp, or over etp in a tensor with {e}"},
    [CUT_SEGMENTS] = {.key = "segments",
                      .type = CFG_LIST,
                      CFG_MEMBER(struct cfg_tensor, segments),
                      CFG_NUMBER(struct cfg_tensor, segment_count),
                      .min = 1,
                      .max = 4096,
                      .element_max = MOST_EXTENT,
                      .help = "Lengths of fused parts along dim, each split by itself; absent: one part"},
    [CUT_PAD] = {.key = "pad",
                 .type = CFG_CHOICE,
                 CFG_MEMBER(struct cfg_tensor, pad_vocab),
                 .choices = pads,
                 .absent = 0,
                 .help = "`vocab`: dim 0 is padded as the layout's `vocab` says before it is split"},
    [CUT_HEADS] = {.key = "heads",
                   .type = CFG_CHOICE,
                   CFG_MEMBER(struct cfg_tensor, heads),
                   .choices = cfg_heads_choices,
                   .absent = CFG_HEADS_NONE,
                   .help = "Attention heads along dim. `qkv`: for each group its query heads, its key head, its value "
                           "head; `qgkv`: an output gate for each query head behind them; `q-k-v`: three segments; "
                           "`kv`: key or value heads alone, all of them in each segment"},
    [CUT_HEAD_DIM] = {.key = "head_dim",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_tensor, head_dim),
                      .min = 1,
                      .max = MOST_EXTENT,
                      .absent = 0,
                      .help = "Rows of a head along dim; with `heads`"},
};

static const struct cfg_table cut_table = {
    .help = "How a tensor is split over tp",
    .fields = cut_fields,
    .field_count = sizeof(cut_fields) / sizeof(cut_fields[0]),
    .check = check_cut,
};

/* ---- layers of one tensor ------------------------------------------------------------- */

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

static const struct cfg_table range_table = {
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

/* A range {from, to}, or a list such as "0,2,4-6". */
static bool read_layers(const struct cfg_site *site, const struct cfg_field *field, void *object)
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

/* ---- copies that follow the embedding -------------------------------------------------- */

enum { TIE_LAST, TIE_MTP };

static const struct cfg_choice ties[] = {{"last", TIE_LAST}, {"mtp", TIE_MTP}, {NULL, 0}};

static bool read_tie(const struct cfg_site *site, struct cfg_tensor *tensor)
{
    const struct cfg_field field = {.type = CFG_CHOICE, .size = sizeof(int32_t), .choices = ties};
    int32_t tie = TIE_LAST;
    if (!cfg_field_read(site, &field, &tie))
        return false;
    bool *member = tie == TIE_LAST ? &tensor->tied_last : &tensor->tied_mtp;
    if (*member)
        return cfg_site_refuse(site, &field, "a second time");
    *member = true;
    return true;
}

/* "last", "mtp", or a list of them */
static bool read_ties(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    bool good = true;
    uint64_t index = 0;
    if (site->node->kind == CFG_NODE_SCALAR)
        return read_tie(site, object);
    if (site->node->kind != CFG_NODE_LIST || site->node->count == 0)
        return cfg_site_refuse(site, field, site->node->kind == CFG_NODE_LIST ? "of none" : NULL);
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!read_tie(&inner, object))
            good = false;
    }
    return good;
}

/* ---- tensors ----------------------------------------------------------------------------- */

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

/* Product of the extents; more than MOST_ELEMENTS if it is too large for an int64_t. */
static int64_t tensor_elements(const struct cfg_tensor *tensor)
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
    if (cfg_scope_usable(scope, CFG_BIT(TENSOR_SHAPE)) && tensor_elements(tensor) >= MOST_ELEMENTS)
        cfg_scope_report(scope, "shape", "found %" PRId64 " elements or more, expected fewer than 2^56", MOST_ELEMENTS);
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
                      .element_max = MOST_EXTENT,
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
                    .table = &cut_table,
                    .help =
                        "How it is split over tp (over etp in a tensor with {e}); absent: every rank has all of it"},
    [TENSOR_TIED] = {.key = "tied",
                     .type = CFG_CUSTOM,
                     .read = read_ties,
                     .expected = "`last`, `mtp` or a list of them",
                     .json = "\"oneOf\": [{\"enum\": [\"last\", \"mtp\"]}, {\"type\": \"array\", \"minItems\": 1, "
                             "\"uniqueItems\": true, \"items\": {\"enum\": [\"last\", \"mtp\"]}}]",
                     .help = "A copy elsewhere too, when pp is above 1: `last`: with the loss; `mtp`: with the "
                             "multi-token prediction block"},
    [TENSOR_LAYERS] = {.key = "layers",
                       .type = CFG_CUSTOM,
                       .read = read_layers,
                       .max = CFG_MOST_LAYERS - 1,
                       .table = &range_table,
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

static const struct cfg_table tensor_table = {
    .help = "A tensor, or one tensor per layer, per expert or both",
    .fields = tensor_fields,
    .field_count = TENSOR_FIELD_COUNT,
    .size = sizeof(struct cfg_tensor),
    CFG_POS(struct cfg_tensor, pos),
    .check = check_tensor,
    .release = release_tensor,
};

/* ---- scalars ------------------------------------------------------------------------------- */

static const struct cfg_field scalar_fields[] = {
    {.key = "name",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_scalar, name),
     .accept = cfg_accept_scalar_name,
     .help = "Global name"},
    {.key = "dtype",
     .type = CFG_CHOICE,
     .required = true,
     CFG_MEMBER(struct cfg_scalar, dtype),
     .choice_name = shunt_dtype_name,
     .help = "Element type"},
    {.key = "count",
     .type = CFG_COUNT,
     CFG_MEMBER(struct cfg_scalar, count),
     .min = 1,
     .max = 1 << 24,
     .fallback = "1",
     .help = "Elements"},
};

static const struct cfg_table scalar_table = {
    .help = "A small value that every rank holds whole",
    .fields = scalar_fields,
    .field_count = sizeof(scalar_fields) / sizeof(scalar_fields[0]),
    .size = sizeof(struct cfg_scalar),
    CFG_POS(struct cfg_scalar, pos),
};

/* ---- the document ---------------------------------------------------------------------------- */

enum {
    MODEL_KIND,
    MODEL_NAME,
    MODEL_LAYERS,
    MODEL_HEADS,
    MODEL_KV_HEADS,
    MODEL_EXPERTS,
    MODEL_TENSORS,
    MODEL_SCALARS,
    MODEL_OTHER_STATE,
    MODEL_PARAM_GROUPS,
    MODEL_INCLUDE,
    MODEL_FIELD_COUNT
};

static void check_heads(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    if (!cfg_scope_usable(scope, CFG_BIT(MODEL_HEADS) | CFG_BIT(MODEL_KV_HEADS)) || model->kv_heads == 0)
        return;
    if (model->heads == 0)
        cfg_scope_report(scope, "kv_heads", "found %" PRId64 " without `heads`, expected both or `heads` alone",
                         model->kv_heads);
    else if (model->heads % model->kv_heads != 0)
        cfg_scope_report(scope, "kv_heads", "found %" PRId64 ", expected a divisor of heads, which is %" PRId64,
                         model->kv_heads, model->heads);
}

/* Report a problem of one tensor that shows in the whole model only. */
__attribute__((format(printf, 4, 5))) static void report_tensor(struct cfg_scope *scope, uint32_t index,
                                                                const char *key, const char *format, ...)
{
    const struct cfg_model *model = scope->object;
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const struct cfg_path list = {.up = scope->path, .key = "tensors"};
    const struct cfg_path entry = {.up = &list, .index = index};
    const struct cfg_path path = {.up = &entry, .key = key};
    cfg_report(scope->loader->diag, model->tensors[index].pos, &path, "%s", text);
}

/* from < to <= the model's layers */
static void check_layers(struct cfg_scope *scope, uint32_t index)
{
    const struct cfg_model *model = scope->object;
    struct cfg_tensor *tensor = &model->tensors[index];
    if (tensor->layer_end < 0)
        tensor->layer_end = model->layers;
    if (tensor->layer_begin < tensor->layer_end && tensor->layer_end <= model->layers)
        return;
    if (tensor->layer_list != NULL)
        report_tensor(scope, index, "layers", "found layer %" PRId64 ", expected layers below %" PRId64,
                      tensor->layer_end - 1, model->layers);
    else
        report_tensor(scope, index, "layers",
                      "found layers from %" PRId64 " to %" PRId64 ", expected from < to <= layers, which is %" PRId64,
                      tensor->layer_begin, tensor->layer_end, model->layers);
}

/* Experts are numbered where there are some, and a copy goes where there is an MTP block. */
static void check_company(struct cfg_scope *scope)
{
    struct cfg_model *model = scope->object;
    for (uint32_t t = 0; t < model->tensor_count; t++)
        model->mtp |= model->tensors[t].stage == CFG_STAGE_MTP;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        if (model->tensors[t].expert && model->experts == 0 && cfg_scope_usable(scope, CFG_BIT(MODEL_EXPERTS)))
            report_tensor(scope, t, "name", "found {e} in a model without `experts`, expected how many there are");
        if (model->tensors[t].tied_mtp && !model->mtp && cfg_scope_usable(scope, CFG_BIT(MODEL_TENSORS)))
            report_tensor(scope, t, "tied", "found `mtp`, expected it beside tensors of stage `mtp` only");
    }
}

/* Heads must fill what the tensor says they do. */
static void check_head_rows(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    char text[256];
    if (!cfg_scope_usable(scope, CFG_BIT(MODEL_HEADS) | CFG_BIT(MODEL_KV_HEADS) | CFG_BIT(MODEL_TENSORS)))
        return;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        int64_t kv_heads = model->kv_heads > 0 ? model->kv_heads : model->heads;
        if (!cfg_heads_fit(&model->tensors[t], kv_heads, text, sizeof(text)))
            report_tensor(scope, t, "cut.heads", "%s", text);
    }
}

static void check_elements(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    int64_t sum = 0;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct cfg_tensor *tensor = &model->tensors[t];
        int64_t copies = cfg_tensor_layers(tensor) * (tensor->expert ? model->experts : 1), elements;
        if (__builtin_mul_overflow(tensor_elements(tensor), copies, &elements) ||
            __builtin_add_overflow(sum, elements, &sum) || sum >= MOST_ELEMENTS) {
            cfg_scope_report(scope, "tensors", "found %" PRId64 " elements or more in all, expected fewer than 2^56",
                             MOST_ELEMENTS);
            return;
        }
    }
}

static void check_model(struct cfg_scope *scope)
{
    struct cfg_model *model = scope->object;
    check_heads(scope);
    check_head_rows(scope);
    check_company(scope);
    cfg_include_others(model);
    if (cfg_scope_usable(scope, CFG_BIT(MODEL_TENSORS) | CFG_BIT(MODEL_EXPERTS) | CFG_BIT(MODEL_OTHER_STATE) |
                                    CFG_BIT(MODEL_PARAM_GROUPS)))
        cfg_others_check(scope);
    if (!cfg_scope_usable(scope, CFG_BIT(MODEL_LAYERS) | CFG_BIT(MODEL_EXPERTS)))
        return;
    for (uint32_t t = 0; t < model->tensor_count; t++)
        check_layers(scope, t);
    cfg_check_names(scope);
    if (cfg_scope_usable(scope, CFG_BIT(MODEL_TENSORS)))
        check_elements(scope);
}

static const struct cfg_choice kinds[] = {{"model", 0}, {NULL, 0}};

static const struct cfg_field model_fields[] = {
    [MODEL_KIND] = CFG_KIND_FIELD(kinds),
    [MODEL_NAME] = {.key = "name",
                    .type = CFG_TEXT,
                    .required = true,
                    CFG_MEMBER(struct cfg_model, name),
                    .accept = cfg_accept_name,
                    .help = "Name of the model"},
    [MODEL_LAYERS] = {.key = "layers",
                      .type = CFG_COUNT,
                      .required = true,
                      CFG_MEMBER(struct cfg_model, layers),
                      .min = 1,
                      .max = CFG_MOST_LAYERS,
                      .help = "Layers of the network"},
    [MODEL_HEADS] = {.key = "heads",
                     .type = CFG_COUNT,
                     CFG_MEMBER(struct cfg_model, heads),
                     .min = 1,
                     .max = MOST_EXTENT,
                     .absent = 0,
                     .help = "Query heads; tp must divide them"},
    [MODEL_KV_HEADS] = {.key = "kv_heads",
                        .type = CFG_COUNT,
                        CFG_MEMBER(struct cfg_model, kv_heads),
                        .min = 1,
                        .max = MOST_EXTENT,
                        .absent = 0,
                        .help = "Key and value heads; a divisor of heads"},
    [MODEL_EXPERTS] = {.key = "experts",
                       .type = CFG_COUNT,
                       CFG_MEMBER(struct cfg_model, experts),
                       .min = 1,
                       .max = CFG_MOST_EXPERTS,
                       .absent = 0,
                       .help = "Experts of a layer, and of the MTP block; needed when a name has {e}"},
    [MODEL_TENSORS] = {.key = "tensors",
                       .type = CFG_LIST,
                       .required = true,
                       CFG_MEMBER(struct cfg_model, tensors),
                       CFG_NUMBER(struct cfg_model, tensor_count),
                       .min = 1,
                       .max = CFG_MOST_TENSORS,
                       .table = &tensor_table,
                       .help = "The tensors, with global names"},
    [MODEL_SCALARS] = {.key = "scalars",
                       .type = CFG_LIST,
                       CFG_MEMBER(struct cfg_model, scalars),
                       CFG_NUMBER(struct cfg_model, scalar_count),
                       .max = CFG_MOST_TENSORS,
                       .table = &scalar_table,
                       .help = "Small values that every rank holds whole, and that are always copied"},
    [MODEL_OTHER_STATE] = {.key = "other_state",
                           .type = CFG_LIST,
                           CFG_MEMBER(struct cfg_model, others),
                           CFG_NUMBER(struct cfg_model, other_count),
                           .max = 4096,
                           .table = &cfg_other_table,
                           .help = "More state beside the tensors, each with a policy: random streams, loss scales, "
                                   "what is recomputed or left"},
    [MODEL_PARAM_GROUPS] = {.key = "param_groups",
                            .type = CFG_LIST,
                            CFG_MEMBER(struct cfg_model, groups),
                            CFG_NUMBER(struct cfg_model, group_count),
                            .max = 4096,
                            .table = &cfg_group_table,
                            .help = "Parameter groups of the optimizer, with their hyper-parameters"},
    [MODEL_INCLUDE] = {.key = "include",
                       .type = CFG_CHOICE,
                       CFG_MEMBER(struct cfg_model, include),
                       CFG_POS(struct cfg_model, include_pos),
                       .choices = cfg_includes,
                       .absent = 0,
                       .help = "Built-in entries of `other_state`, but for those whose name the model has itself"},
};

static const struct cfg_table model_table = {
    .help = "The tensors of a network",
    .fields = model_fields,
    .field_count = MODEL_FIELD_COUNT,
    .size = sizeof(struct cfg_model),
    .check = check_model,
};

const struct cfg_document cfg_model_document = {.kind = "model", .title = "Shunt model", .table = &model_table};
