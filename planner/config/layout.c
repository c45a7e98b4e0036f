/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "field.h"
#include "names.h"
#include "tables.h"

#define MOST_RANKS (INT64_C(1) << 20)

const char *const cfg_axis_names[CFG_AXIS_COUNT] = {
    [CFG_AXIS_TP] = "tp", [CFG_AXIS_CP] = "cp", [CFG_AXIS_EP] = "ep", [CFG_AXIS_DP] = "dp", [CFG_AXIS_PP] = "pp"};

int64_t cfg_layout_world(const struct cfg_layout *layout)
{
    int64_t world = 1;
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++)
        world *= layout->size[axis];
    return world;
}

/* ---- parallel ----------------------------------------------------------------------- */

static void check_parallel(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    int64_t world = 1;
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        if (__builtin_mul_overflow(world, layout->size[axis], &world))
            world = INT64_MAX;
    }
    if (world <= MOST_RANKS)
        return;
    cfg_report(scope->loader->diag, scope->node->pos, scope->path,
               "found axes whose product is more than %" PRId64 ", expected fewer ranks", MOST_RANKS);
}

#define AXIS_FIELD(axis, axis_key, axis_help)                                                                          \
    [axis] = {.key = axis_key,                                                                                         \
              .type = CFG_COUNT,                                                                                       \
              CFG_MEMBER(struct cfg_layout, size[axis]),                                                               \
              CFG_POS(struct cfg_layout, size_pos[axis]),                                                              \
              .min = 1,                                                                                                \
              .max = MOST_RANKS,                                                                                       \
              .fallback = "1",                                                                                         \
              .help = axis_help}

static const struct cfg_field parallel_fields[] = {
    AXIS_FIELD(CFG_AXIS_TP, "tp", "Tensor parallel size"),   AXIS_FIELD(CFG_AXIS_CP, "cp", "Context parallel size"),
    AXIS_FIELD(CFG_AXIS_EP, "ep", "Expert parallel size"),   AXIS_FIELD(CFG_AXIS_DP, "dp", "Data parallel size"),
    AXIS_FIELD(CFG_AXIS_PP, "pp", "Pipeline parallel size"),
};

static const struct cfg_table parallel_table = {
    .help = "Sizes of the axes; their product is the number of ranks",
    .fields = parallel_fields,
    .field_count = CFG_AXIS_COUNT,
    .check = check_parallel,
};

/* ---- order ------------------------------------------------------------------------------ */

struct axis_order {
    enum cfg_axis axes[CFG_AXIS_COUNT];
    int count;
};

static bool order_has(const struct axis_order *order, int axis)
{
    for (int k = 0; k < order->count; k++) {
        if ((int)order->axes[k] == axis)
            return true;
    }
    return false;
}

/* "tp-dp-pp"; NULL, or why it is none */
static const char *scan_order(const struct cfg_node *node, struct axis_order *out)
{
    const char *at = node->text, *end = at + node->length;
    out->count = 0;
    for (bool more = true; more;) {
        const char *dash = memchr(at, '-', (size_t)(end - at));
        size_t length = (size_t)((dash != NULL ? dash : end) - at);
        int axis = 0;
        while (axis < CFG_AXIS_COUNT && (length != 2 || memcmp(at, cfg_axis_names[axis], 2) != 0))
            axis++;
        if (axis == CFG_AXIS_COUNT)
            return "not an axis between the dashes";
        if (order_has(out, axis))
            return "an axis twice";
        out->axes[out->count++] = (enum cfg_axis)axis;
        more = dash != NULL;
        at = more ? dash + 1 : end;
    }
    return NULL;
}

static bool read_order(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_layout *layout = object;
    struct axis_order order;
    if (!cfg_site_scalar(site, field))
        return false;
    const char *reason = scan_order(site->node, &order);
    if (reason != NULL)
        return cfg_site_refuse(site, field, site->node->length != 0 ? reason : NULL);
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        if (!order_has(&order, axis))
            order.axes[order.count++] = (enum cfg_axis)axis;
    }
    memcpy(layout->order, order.axes, sizeof(layout->order));
    return true;
}

/* An axis that the order leaves out has no place in the numbering: its size must be 1. */
static void check_order(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    const struct cfg_node *node = cfg_node_find(scope->node, "order");
    struct axis_order order;
    if (node == NULL || scan_order(node, &order) != NULL)
        return;
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        if (layout->size[axis] > 1 && !order_has(&order, axis))
            cfg_scope_report(scope, "order",
                             "found no `%s`, whose size is %" PRId64 ", expected every axis above 1 to be listed",
                             cfg_axis_names[axis], layout->size[axis]);
    }
}

/* ---- pipeline, vocab, state -------------------------------------------------------------- */

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
};

static const struct cfg_table pipeline_table = {
    .help = "Uneven pipeline; stages not named share the other layers evenly",
    .fields = pipeline_fields,
    .field_count = sizeof(pipeline_fields) / sizeof(pipeline_fields[0]),
};

enum { VOCAB_DIVISIBLE_BY, VOCAB_PADDED };

static const struct cfg_field vocab_fields[] = {
    [VOCAB_DIVISIBLE_BY] = {.key = "divisible_by",
                            .type = CFG_COUNT,
                            CFG_MEMBER(struct cfg_layout, vocab_divisible_by),
                            .min = 1,
                            .max = MOST_RANKS,
                            .fallback = "128",
                            .help = "Rows are padded to a multiple of this times tp"},
    [VOCAB_PADDED] = {.key = "padded",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_layout, vocab_padded),
                      .min = 1,
                      .max = INT64_C(1) << 40,
                      .absent = 0,
                      .help = "Padded number of rows, in place of a computed one; a multiple of tp"},
};

static const struct cfg_table vocab_table = {
    .help = "Padding of tensors whose cut says `pad: vocab`",
    .fields = vocab_fields,
    .field_count = sizeof(vocab_fields) / sizeof(vocab_fields[0]),
};

#define STATE_FIELD(state, state_key, state_help)                                                                      \
    {                                                                                                                  \
        .key = state_key, .type = CFG_CHOICE, .required = (state) == SHUNT_STATE_PARAM,                                \
        CFG_MEMBER(struct cfg_layout, state_dtype[state]), .choice_name = shunt_dtype_name, .absent = -1,              \
        .help = state_help                                                                                             \
    }

static const struct cfg_field state_fields[] = {
    STATE_FIELD(SHUNT_STATE_PARAM, "param", "The weights"),
    STATE_FIELD(SHUNT_STATE_GRAD, "grad", "Gradients"),
    STATE_FIELD(SHUNT_STATE_MASTER, "master", "Master copy of the weights"),
    STATE_FIELD(SHUNT_STATE_EXP_AVG, "exp_avg", "First moment of Adam"),
    STATE_FIELD(SHUNT_STATE_EXP_AVG_SQ, "exp_avg_sq", "Second moment of Adam"),
    STATE_FIELD(SHUNT_STATE_MOMENTUM, "momentum", "Momentum of SGD-like optimizers"),
};

static const struct cfg_table state_table = {
    .help = "Element type of each state that is kept",
    .fields = state_fields,
    .field_count = sizeof(state_fields) / sizeof(state_fields[0]),
};

static void default_state(struct cfg_layout *layout)
{
    layout->state_dtype[SHUNT_STATE_PARAM] = SHUNT_DTYPE_BF16;
    layout->state_dtype[SHUNT_STATE_MASTER] = SHUNT_DTYPE_FP32;
    layout->state_dtype[SHUNT_STATE_EXP_AVG] = SHUNT_DTYPE_FP32;
    layout->state_dtype[SHUNT_STATE_EXP_AVG_SQ] = SHUNT_DTYPE_FP32;
}

#define DEFAULT_STATE_JSON                                                                                             \
    "\"default\": {\"param\": \"bf16\", \"master\": \"fp32\", \"exp_avg\": \"fp32\", \"exp_avg_sq\": \"fp32\"}"

/* ---- the document -------------------------------------------------------------------------- */

enum {
    LAYOUT_KIND,
    LAYOUT_NAME,
    LAYOUT_MODEL,
    LAYOUT_CLUSTER,
    LAYOUT_PARALLEL,
    LAYOUT_ORDER,
    LAYOUT_PIPELINE,
    LAYOUT_VOCAB,
    LAYOUT_STATE,
    LAYOUT_DEVICES,
    LAYOUT_FIELD_COUNT
};

static void check_device_count(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    int64_t world = cfg_layout_world(layout);
    if (layout->device_count != 0 && layout->device_count != world)
        cfg_scope_report(scope, "devices",
                         "found %" PRIu32 " devices, expected %" PRId64 ", one for each rank of `parallel`",
                         layout->device_count, world);
}

static void check_padded(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    int64_t tp = layout->size[CFG_AXIS_TP];
    if (layout->vocab_padded % tp != 0)
        cfg_scope_report(scope, "vocab.padded", "found %" PRId64 ", expected a multiple of tp, which is %" PRId64,
                         layout->vocab_padded, tp);
}

static void check_layout(struct cfg_scope *scope)
{
    struct cfg_layout *layout = scope->object;
    layout->state_dtype[SHUNT_STATE_BUFFER] = -1;
    layout->state_dtype[SHUNT_STATE_SCALAR] = -1;
    layout->state_dtype[SHUNT_STATE_BLOB] = -1;
    if (cfg_node_find(scope->node, "state") == NULL)
        default_state(layout);
    if (!cfg_scope_usable(scope, CFG_BIT(LAYOUT_PARALLEL)))
        return;
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_ORDER)))
        check_order(scope);
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_DEVICES)))
        check_device_count(scope);
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_VOCAB)))
        check_padded(scope);
}

static void release_layout(void *object)
{
    struct cfg_layout *layout = object;
    free(layout->devices);
}

static const struct cfg_choice kinds[] = {{"layout", 0}, {NULL, 0}};

static const struct cfg_field layout_fields[] = {
    [LAYOUT_KIND] = CFG_KIND_FIELD(kinds),
    [LAYOUT_NAME] = {.key = "name",
                     .type = CFG_TEXT,
                     .required = true,
                     CFG_MEMBER(struct cfg_layout, name),
                     .accept = cfg_accept_name,
                     .help = "Name of the layout"},
    [LAYOUT_MODEL] = {.key = "model",
                      .type = CFG_TEXT,
                      CFG_MEMBER(struct cfg_layout, model),
                      CFG_POS(struct cfg_layout, model_pos),
                      .accept = cfg_accept_reference,
                      .help = "Model: a path relative to this document, or a built-in's name"},
    [LAYOUT_CLUSTER] = {.key = "cluster",
                        .type = CFG_TEXT,
                        CFG_MEMBER(struct cfg_layout, cluster),
                        CFG_POS(struct cfg_layout, cluster_pos),
                        .accept = cfg_accept_reference,
                        .help = "Cluster: a path relative to this document, or a built-in's name"},
    [LAYOUT_PARALLEL] = {.key = "parallel",
                         .type = CFG_TABLE,
                         .required = true,
                         .table = &parallel_table,
                         .help = "Sizes of the axes; their product is the number of ranks"},
    [LAYOUT_ORDER] = {.key = "order",
                      .type = CFG_CUSTOM,
                      .read = read_order,
                      CFG_POS(struct cfg_layout, order_pos),
                      .fallback = "tp-cp-ep-dp-pp",
                      .expected = "axes from the fastest on, such as tp-cp-ep-dp-pp",
                      .json = "\"type\": \"string\", \"pattern\": \"^(tp|cp|ep|dp|pp)(-(tp|cp|ep|dp|pp)){0,4}$\"",
                      .help = "How ranks are numbered: axes from the fastest on; one left out has size 1"},
    [LAYOUT_PIPELINE] = {.key = "pipeline",
                         .type = CFG_TABLE,
                         .table = &pipeline_table,
                         .help = "Uneven pipeline; stages not named share the other layers evenly"},
    [LAYOUT_VOCAB] = {.key = "vocab",
                      .type = CFG_TABLE,
                      CFG_POS(struct cfg_layout, vocab_pos),
                      .table = &vocab_table,
                      .help = "Padding of tensors whose cut says `pad: vocab`"},
    [LAYOUT_STATE] = {.key = "state",
                      .type = CFG_TABLE,
                      CFG_POS(struct cfg_layout, state_pos),
                      .table = &state_table,
                      .json = DEFAULT_STATE_JSON,
                      .help = "Element type of each state that is kept"},
    [LAYOUT_DEVICES] = {.key = "devices",
                        .type = CFG_CUSTOM,
                        .read = cfg_devices_read,
                        CFG_POS(struct cfg_layout, devices_pos),
                        .expected = "devices below 1048576, such as 0-7, \"0-3,8-11\" or [8, 9, 10, 11]",
                        .json = CFG_DEVICES_JSON,
                        .help = "Device of each rank, in rank order; absent: rank r runs on device r"},
};

static const struct cfg_table layout_table = {
    .help = "How a model is spread over ranks, and which device each rank runs on",
    .fields = layout_fields,
    .field_count = LAYOUT_FIELD_COUNT,
    .size = sizeof(struct cfg_layout),
    .check = check_layout,
    .release = release_layout,
};

const struct cfg_document cfg_layout_document = {"layout", "Shunt layout", &layout_table};
