/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <inttypes.h>
#include <stdarg.h>

#include "collide.h"
#include "heads.h"
#include "names.h"
#include "other.h"

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
        if (__builtin_mul_overflow(cfg_tensor_elements(tensor), copies, &elements) ||
            __builtin_add_overflow(sum, elements, &sum) || sum >= CFG_MOST_ELEMENTS) {
            cfg_scope_report(scope, "tensors", "found %" PRId64 " elements or more in all, expected fewer than 2^56",
                             CFG_MOST_ELEMENTS);
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
                     .max = CFG_MOST_EXTENT,
                     .absent = 0,
                     .help = "Query heads; tp must divide them"},
    [MODEL_KV_HEADS] = {.key = "kv_heads",
                        .type = CFG_COUNT,
                        CFG_MEMBER(struct cfg_model, kv_heads),
                        .min = 1,
                        .max = CFG_MOST_EXTENT,
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
                       .table = &cfg_tensor_table,
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
