/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <inttypes.h>
#include <stdlib.h>

#include "collide.h"
#include "devices.h"
#include "names.h"

int64_t cfg_layout_world(const struct cfg_layout *layout)
{
    const int64_t *size = layout->size;
    if (layout->form == CFG_FORM_HOLDINGS)
        return layout->ranks;
    if (layout->form == CFG_FORM_MESH)
        return cfg_mesh_ranks(&layout->mesh);
    return size[CFG_AXIS_TP] * size[CFG_AXIS_CP] * size[CFG_AXIS_DP] * size[CFG_AXIS_PP];
}

/* ---- vocab, heads and state -------------------------------------------------------------------------- */

enum { VOCAB_DIVISIBLE_BY, VOCAB_PADDED };

static const struct cfg_field vocab_fields[] = {
    [VOCAB_DIVISIBLE_BY] = {.key = "divisible_by",
                            .type = CFG_COUNT,
                            CFG_MEMBER(struct cfg_layout, vocab_divisible_by),
                            .min = 1,
                            .max = CFG_MOST_RANKS,
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

static const struct cfg_choice kv_choices[] = {{"cut", 0}, {"replicate", 1}, {NULL, 0}};

static const struct cfg_field attention_fields[] = {
    {.key = "kv",
     .type = CFG_CHOICE,
     CFG_MEMBER(struct cfg_layout, kv_replicate),
     .choices = kv_choices,
     .absent = 0,
     .help = "Key and value heads when tp is above their number. `cut`: rows are cut as they are; `replicate`: each "
             "rank has the whole head that its query heads belong to; absent: `cut`"},
};

static const struct cfg_table attention_table = {
    .help = "How attention heads are spread over tp, in tensors whose cut says `heads`",
    .fields = attention_fields,
    .field_count = sizeof(attention_fields) / sizeof(attention_fields[0]),
};

static void default_state(struct cfg_layout *layout)
{
    layout->state_pos = (struct cfg_pos){.line = 1, .column = 1};
    layout->state_dtype[SHUNT_STATE_PARAM] = SHUNT_DTYPE_BF16;
    layout->state_dtype[SHUNT_STATE_MASTER] = SHUNT_DTYPE_FP32;
    layout->state_dtype[SHUNT_STATE_EXP_AVG] = SHUNT_DTYPE_FP32;
    layout->state_dtype[SHUNT_STATE_EXP_AVG_SQ] = SHUNT_DTYPE_FP32;
}

#define DEFAULT_STATE_JSON                                                                                             \
    "\"default\": {\"param\": \"bf16\", \"master\": \"fp32\", \"exp_avg\": \"fp32\", \"exp_avg_sq\": \"fp32\"}"

/* ---- forms --------------------------------------------------------------------------------- */

/* The key that makes a document one of each form. */
static const char *const form_keys[] = {
    [CFG_FORM_PARALLEL] = "parallel", [CFG_FORM_MESH] = "mesh", [CFG_FORM_HOLDINGS] = "holdings"};

#define FORM_COUNT (sizeof(form_keys) / sizeof(form_keys[0]))

/* Keys that belong to one form only. */
static const struct {
    const char *key;
    enum cfg_layout_form form;
    const char *needed; /* NULL: it may be left out */
} form_company[] = {
    {"order", CFG_FORM_PARALLEL, NULL},
    {"pipeline", CFG_FORM_PARALLEL, NULL},
    {"shard", CFG_FORM_PARALLEL, NULL},
    {"attention", CFG_FORM_PARALLEL, NULL},
    {"vocab", CFG_FORM_PARALLEL, NULL},
    {"storage", CFG_FORM_PARALLEL, NULL},
    {"placements", CFG_FORM_MESH, "what the axes of `mesh` do to each tensor"},
    {"ranks", CFG_FORM_HOLDINGS, "the number of ranks of `holdings`"},
    {"axes", CFG_FORM_HOLDINGS, NULL},
};

#define FORMS_JSON                                                                                                     \
    "\"oneOf\": [{\"required\": [\"parallel\"], \"properties\": {\"mesh\": false, \"placements\": false, "             \
    "\"ranks\": false, \"holdings\": false, \"axes\": false}}, {\"required\": [\"mesh\", \"placements\"], "            \
    "\"properties\": "                                                                                                 \
    "{\"parallel\": false, \"order\": false, \"pipeline\": false, \"shard\": false, \"attention\": false, \"vocab\": " \
    "false, "                                                                                                          \
    "\"ranks\": false, \"holdings\": false, \"axes\": false}}, {\"required\": [\"ranks\", \"holdings\"], "             \
    "\"properties\": "                                                                                                 \
    "{\"parallel\": false, \"order\": false, \"pipeline\": false, \"shard\": false, \"attention\": false, \"vocab\": " \
    "false, "                                                                                                          \
    "\"mesh\": false, \"placements\": false}}]"

/* Sets the form. @return whether there is exactly one */
static bool check_form_keys(struct cfg_scope *scope)
{
    struct cfg_layout *layout = scope->object;
    unsigned found = 0;
    for (unsigned form = 0; form < FORM_COUNT; form++) {
        if (cfg_node_find(scope->node, form_keys[form]) == NULL)
            continue;
        if (found++ == 0)
            layout->form = (enum cfg_layout_form)form;
        else
            cfg_scope_report(scope, form_keys[form],
                             "found it beside `%s`, expected exactly one of `parallel`, `mesh` and `holdings`",
                             form_keys[layout->form]);
    }
    if (found == 0)
        cfg_report(scope->loader->diag, scope->node->pos, scope->path,
                   "found none of `parallel`, `mesh` and `holdings`, expected exactly one of them");
    return found == 1;
}

/* Exactly one form, what it needs, and nothing that belongs to another one. */
static bool check_form(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    if (!check_form_keys(scope))
        return false;
    for (size_t k = 0; k < sizeof(form_company) / sizeof(form_company[0]); k++) {
        bool written = cfg_node_find(scope->node, form_company[k].key) != NULL;
        if (written && form_company[k].form != layout->form)
            cfg_scope_report(scope, form_company[k].key, "found it in a layout with `%s`, expected it with `%s` only",
                             form_keys[layout->form], form_keys[form_company[k].form]);
        if (!written && form_company[k].form == layout->form && form_company[k].needed != NULL)
            cfg_scope_report(scope, form_company[k].key, "found no such key, expected %s", form_company[k].needed);
    }
    return true;
}

/* ---- the document -------------------------------------------------------------------------- */

static void check_device_count(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    static const char *const ranks[] = {
        [CFG_FORM_PARALLEL] = "`parallel`", [CFG_FORM_MESH] = "`mesh`", [CFG_FORM_HOLDINGS] = "`ranks`"};
    int64_t world = cfg_layout_world(layout);
    if (layout->device_count != 0 && world != 0 && layout->device_count != world)
        cfg_scope_report(scope, "devices", "found %" PRIu32 " devices, expected %" PRId64 ", one for each rank of %s",
                         layout->device_count, world, ranks[layout->form]);
}

static void check_padded(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    int64_t tp = layout->size[CFG_AXIS_TP];
    if (layout->vocab_padded % tp != 0)
        cfg_scope_report(scope, "vocab.padded", "found %" PRId64 ", expected a multiple of tp, which is %" PRId64,
                         layout->vocab_padded, tp);
}

static void check_instances(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    int64_t ranks = layout->size[CFG_AXIS_CP] * layout->size[CFG_AXIS_DP];
    if (ranks % layout->shard.instances != 0)
        cfg_scope_report(scope, "shard.instances",
                         "found %" PRId64 ", expected a divisor of cp times dp, which is %" PRId64,
                         layout->shard.instances, ranks);
}

static void check_parallel_form(struct cfg_scope *scope)
{
    if (!cfg_scope_usable(scope, CFG_BIT(LAYOUT_PARALLEL)))
        return;
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_ORDER)))
        cfg_order_check(scope);
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_VOCAB)))
        check_padded(scope);
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_SHARD)))
        check_instances(scope);
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_STORAGE)))
        cfg_storage_check(scope);
}

static void check_gradients(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    if (cfg_node_find(scope->node, "gradients") == NULL)
        return;
    if (layout->gradients == CFG_GRADIENTS_PARTIAL)
        cfg_scope_report(scope, "gradients",
                         "found `partial`, expected `reduced` (not supported: sums of a step that is under way, which "
                         "differ on every rank; finish their reduction, or leave `grad` out of `state`)");
    else if (layout->state_dtype[SHUNT_STATE_GRAD] < 0)
        cfg_scope_report(scope, "gradients", "found it in a layout without `state.grad`, expected it beside that only");
}

static void check_layout(struct cfg_scope *scope)
{
    static const uint64_t world_field[] = {[CFG_FORM_PARALLEL] = CFG_BIT(LAYOUT_PARALLEL),
                                           [CFG_FORM_MESH] = CFG_BIT(LAYOUT_MESH),
                                           [CFG_FORM_HOLDINGS] = CFG_BIT(LAYOUT_RANKS)};
    struct cfg_layout *layout = scope->object;
    if (layout->ranks_pos.line == 0)
        layout->ranks_pos = layout->mesh.pos;
    layout->state_dtype[SHUNT_STATE_BUFFER] = -1;
    layout->state_dtype[SHUNT_STATE_SCALAR] = -1;
    layout->state_dtype[SHUNT_STATE_BLOB] = -1;
    layout->state_default = cfg_node_find(scope->node, "state") == NULL;
    if (layout->state_default)
        default_state(layout);
    else if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_STATE)))
        cfg_state_settle(scope);
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_STATE) | CFG_BIT(LAYOUT_GRADIENTS)))
        check_gradients(scope);
    if (!check_form(scope))
        return;
    if (layout->form == CFG_FORM_PARALLEL)
        check_parallel_form(scope);
    else if (layout->form == CFG_FORM_MESH)
        cfg_mesh_rules_check(scope);
    else
        cfg_holdings_check(scope);
    if (cfg_scope_usable(scope, world_field[layout->form] | CFG_BIT(LAYOUT_DEVICES)))
        check_device_count(scope);
}

static void release_layout(void *object)
{
    struct cfg_layout *layout = object;
    free(layout->devices);
    free(layout->pipeline_layout);
}

static const struct cfg_choice currency[] = {{"all", 0}, {"owner", 1}, {NULL, 0}};
static const struct cfg_choice kinds[] = {{"layout", 0}, {NULL, 0}};
static const struct cfg_choice gradients[] = {
    {"reduced", CFG_GRADIENTS_REDUCED}, {"partial", CFG_GRADIENTS_PARTIAL}, {NULL, 0}};

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
                         CFG_POS(struct cfg_layout, ranks_pos),
                         .table = &cfg_parallel_table,
                         .help = "Sizes of the axes; tp, cp, dp and pp multiply to the number of ranks. This, `mesh` "
                                 "or `holdings`"},
    [LAYOUT_ORDER] = {.key = "order",
                      .type = CFG_CUSTOM,
                      .read = cfg_order_read,
                      CFG_POS(struct cfg_layout, order_pos),
                      .fallback = "tp-cp-ep-dp-pp",
                      .expected = "axes from the fastest on, such as tp-cp-ep-dp-pp",
                      .json = "\"type\": \"string\", \"pattern\": \"^(tp|cp|ep|dp|pp)(-(tp|cp|ep|dp|pp)){0,4}$\"",
                      .help = "How ranks are numbered: axes from the fastest on; one left out has size 1"},
    [LAYOUT_PIPELINE] = {.key = "pipeline",
                         .type = CFG_TABLE,
                         .table = &cfg_pipeline_table,
                         .help = "How layers are spread over the stages; absent: evenly"},
    [LAYOUT_SHARD] = {.key = "shard",
                      .type = CFG_TABLE,
                      CFG_MEMBER(struct cfg_layout, shard),
                      CFG_POS(struct cfg_layout, shard.pos),
                      .table = &cfg_shard_table,
                      .help = "How states are cut over the data-parallel ranks; absent: not at all"},
    [LAYOUT_ATTENTION] = {.key = "attention",
                          .type = CFG_TABLE,
                          CFG_POS(struct cfg_layout, attention_pos),
                          .table = &attention_table,
                          .help = "How attention heads are spread over tp, in tensors whose cut says `heads`"},
    [LAYOUT_VOCAB] = {.key = "vocab",
                      .type = CFG_TABLE,
                      CFG_POS(struct cfg_layout, vocab_pos),
                      .table = &vocab_table,
                      .help = "Padding of tensors whose cut says `pad: vocab`"},
    [LAYOUT_STORAGE] = {.key = "storage",
                        .type = CFG_LIST,
                        CFG_MEMBER(struct cfg_layout, storage),
                        CFG_NUMBER(struct cfg_layout, storage_count),
                        .min = 1,
                        .max = CFG_MOST_TENSORS,
                        .table = &cfg_storage_table,
                        .help = "Tensors whose dimensions lie in memory in another order than the model's"},
    [LAYOUT_MESH] = {.key = "mesh",
                     .type = CFG_TABLE,
                     CFG_MEMBER(struct cfg_layout, mesh),
                     CFG_POS(struct cfg_layout, mesh.pos),
                     .table = &cfg_mesh_table,
                     .help = "Named axes of the ranks, for placements of DTensors"},
    [LAYOUT_PLACEMENTS] = {.key = "placements",
                           .type = CFG_LIST,
                           CFG_MEMBER(struct cfg_layout, mesh.rules),
                           CFG_NUMBER(struct cfg_layout, mesh.rule_count),
                           .min = 1,
                           .max = CFG_MOST_TENSORS,
                           .table = &cfg_mesh_rule_table,
                           .help = "What the axes of `mesh` do to each tensor"},
    [LAYOUT_RANKS] = {.key = "ranks",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_layout, ranks),
                      CFG_POS(struct cfg_layout, ranks_pos),
                      .min = 1,
                      .max = CFG_MOST_RANKS,
                      .absent = 0,
                      .help = "Number of ranks of `holdings`"},
    [LAYOUT_HOLDINGS] = {.key = "holdings",
                         .type = CFG_LIST,
                         CFG_MEMBER(struct cfg_layout, holdings),
                         CFG_NUMBER(struct cfg_layout, holding_count),
                         .min = 1,
                         .max = 1 << 20,
                         .table = &cfg_holding_table,
                         .help = "Every buffer of every rank, box by box"},
    [LAYOUT_AXES] = {.key = "axes",
                     .type = CFG_TABLE,
                     .table = &cfg_axes_table,
                     .help = "Sizes of the axes that the entries of `other_state` go by; they place nothing"},
    [LAYOUT_STATE] = {.key = "state",
                      .type = CFG_TABLE,
                      CFG_POS(struct cfg_layout, state_pos),
                      .table = &cfg_state_table,
                      .json = DEFAULT_STATE_JSON,
                      .help = "Each state that is kept: its element type, or a mapping with more"},
    [LAYOUT_GRADIENTS] = {.key = "gradients",
                          .type = CFG_CHOICE,
                          CFG_MEMBER(struct cfg_layout, gradients),
                          .choices = gradients,
                          .absent = CFG_GRADIENTS_REDUCED,
                          .help = "What `state.grad` holds: sums over all ranks (absent: these), or `partial` sums, "
                                  "which are refused"},
    [LAYOUT_CURRENT] = {.key = "current",
                        .type = CFG_CHOICE,
                        CFG_MEMBER(struct cfg_layout, current_owner),
                        CFG_POS(struct cfg_layout, current_pos),
                        .choices = currency,
                        .absent = 0,
                        .help = "Which copies of a weight may be read on the old side of a move. `owner`: on each rank "
                                "only what its own optimizer shard covers, as between a step and a deferred "
                                "all-gather; absent: `all`"},
    [LAYOUT_DEVICES] = {.key = "devices",
                        .type = CFG_CUSTOM,
                        .read = cfg_devices_read,
                        .max = CFG_MAX_DEVICES - 1,
                        CFG_POS(struct cfg_layout, devices_pos),
                        .expected = "devices below 1048576, such as 0-7, \"0-3,8-11\" or [8, 9, 10, 11]",
                        .json = CFG_NUMBERS_JSON,
                        .help = "Device of each rank, in rank order; absent: rank r runs on device r"},
};

static const struct cfg_table layout_table = {
    .help = "How a model is spread over ranks, and which device each rank runs on",
    .fields = layout_fields,
    .field_count = LAYOUT_FIELD_COUNT,
    .size = sizeof(struct cfg_layout),
    .json = FORMS_JSON,
    .check = check_layout,
    .release = release_layout,
};

const struct cfg_document cfg_layout_document = {
    .kind = "layout", .title = "Shunt layout", .table = &layout_table, .bulk = "holdings"};
