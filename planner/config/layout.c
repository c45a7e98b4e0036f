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
    const int64_t *size = layout->size;
    return size[CFG_AXIS_TP] * size[CFG_AXIS_CP] * size[CFG_AXIS_DP] * size[CFG_AXIS_PP];
}

/* ---- parallel ----------------------------------------------------------------------- */

enum { PARALLEL_ETP = CFG_AXIS_COUNT, PARALLEL_VPP, PARALLEL_FIELD_COUNT };

/* tp * cp * dp * pp, at most MOST_RANKS + 1 */
static int64_t bounded_world(const struct cfg_layout *layout)
{
    int64_t world = 1;
    for (int axis = 0; axis < CFG_AXIS_COUNT; axis++) {
        if (axis != CFG_AXIS_EP && world <= MOST_RANKS)
            world *= layout->size[axis];
    }
    return world <= MOST_RANKS ? world : MOST_RANKS + 1;
}

/* The expert grid (etp, ep, expert dp, pp) has the same ranks. */
static void check_expert_grid(struct cfg_scope *scope, int64_t world)
{
    const struct cfg_layout *layout = scope->object;
    int64_t pp = layout->size[CFG_AXIS_PP], ep = layout->size[CFG_AXIS_EP];
    int64_t etp = layout->etp != 0 ? layout->etp : layout->size[CFG_AXIS_TP];
    if (world / pp % ep == 0 && world / pp / ep % etp == 0)
        return;
    cfg_scope_report(scope, cfg_node_find(scope->node, "ep") != NULL ? "ep" : "etp",
                     "found etp %" PRId64 " times ep %" PRId64 " times pp %" PRId64
                     ", expected a divisor of the number of ranks, tp times cp times dp times pp, which is %" PRId64,
                     etp, ep, pp, world);
}

static void check_parallel(struct cfg_scope *scope)
{
    int64_t world = bounded_world(scope->object);
    if (world > MOST_RANKS)
        cfg_report(scope->loader->diag, scope->node->pos, scope->path,
                   "found tp, cp, dp and pp whose product is more than %" PRId64 ", expected fewer ranks", MOST_RANKS);
    else if (cfg_scope_usable(scope, CFG_BIT(PARALLEL_FIELD_COUNT) - 1))
        check_expert_grid(scope, world);
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
    AXIS_FIELD(CFG_AXIS_TP, "tp", "Tensor parallel size"),
    AXIS_FIELD(CFG_AXIS_CP, "cp", "Context parallel size"),
    AXIS_FIELD(CFG_AXIS_EP, "ep", "Expert parallel size"),
    AXIS_FIELD(CFG_AXIS_DP, "dp", "Data parallel size"),
    AXIS_FIELD(CFG_AXIS_PP, "pp", "Pipeline parallel size"),
    [PARALLEL_ETP] = {.key = "etp",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_layout, etp),
                      CFG_POS(struct cfg_layout, etp_pos),
                      .min = 1,
                      .max = MOST_RANKS,
                      .absent = 0,
                      .help = "Tensor parallel size inside an expert; absent: as tp"},
    [PARALLEL_VPP] = {.key = "vpp",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_layout, vpp),
                      CFG_POS(struct cfg_layout, vpp_pos),
                      .min = 1,
                      .max = CFG_MOST_LAYERS,
                      .fallback = "1",
                      .help = "Chunks of layers per pipeline stage"},
};

static const struct cfg_table parallel_table = {
    .help = "Sizes of the axes; tp, cp, dp and pp multiply to the number of ranks",
    .fields = parallel_fields,
    .field_count = PARALLEL_FIELD_COUNT,
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

static const struct cfg_table pipeline_table = {
    .help = "How layers are spread over the stages; absent: evenly",
    .fields = pipeline_fields,
    .field_count = sizeof(pipeline_fields) / sizeof(pipeline_fields[0]),
    .check = check_pipeline,
};

/* ---- shard --------------------------------------------------------------------------------- */

enum { SHARD_RULE, SHARD_INSTANCES, SHARD_BUCKET, SHARD_PAD, SHARD_ORIGINAL, SHARD_ORDER, SHARD_FIELD_COUNT };

#define RULE_BIT(rule) (1u << (rule))

/* Which rules a field belongs to. */
static const struct {
    const char *key;
    unsigned rules;
    const char *expected;
} shard_company[] = {
    {"instances", RULE_BIT(CFG_SHARD_MEGATRON) | RULE_BIT(CFG_SHARD_FSDP2) | RULE_BIT(CFG_SHARD_FSDP1),
     "`megatron`, `fsdp2` or `fsdp1`"},
    {"bucket", RULE_BIT(CFG_SHARD_MEGATRON), "`megatron`"},
    {"pad_high_bandwidth", RULE_BIT(CFG_SHARD_MEGATRON), "`megatron`"},
    {"use_orig_params", RULE_BIT(CFG_SHARD_FSDP1), "`fsdp1`"},
    {"order", RULE_BIT(CFG_SHARD_MEGATRON) | RULE_BIT(CFG_SHARD_ZERO1) | RULE_BIT(CFG_SHARD_FSDP1),
     "`megatron`, `zero1`, `zero2` or `fsdp1`"},
};

static void check_shard(struct cfg_scope *scope)
{
    const struct cfg_shard *shard = scope->object;
    const struct cfg_node *rule = cfg_node_find(scope->node, "rule");
    if (!cfg_scope_usable(scope, CFG_BIT(SHARD_RULE)))
        return;
    for (size_t k = 0; k < sizeof(shard_company) / sizeof(shard_company[0]); k++) {
        if (cfg_node_find(scope->node, shard_company[k].key) == NULL ||
            (shard_company[k].rules & RULE_BIT(shard->rule)) != 0)
            continue;
        cfg_scope_report(scope, shard_company[k].key, "found it with rule `%s`, expected it with %s only",
                         rule != NULL ? rule->text : "none", shard_company[k].expected);
    }
}

/* An entry of `order`, to find one that comes twice. */
struct order_entry {
    const struct cfg_node *node;
    uint32_t index;
};

static int compare_order(const void *a_, const void *b_)
{
    const struct order_entry *a = a_, *b = b_;
    int order = strcmp(a->node->text, b->node->text);
    return order != 0 ? order : a->index < b->index ? -1 : a->index > b->index;
}

/* Fill the list, which the shard owns already. */
static bool read_order_names(const struct cfg_site *site, struct order_entry *entries, struct cfg_shard *shard)
{
    bool good = true;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next) {
        const struct cfg_field name = {.type = CFG_TEXT, .size = sizeof(char *), .accept = cfg_accept_tensor_name};
        const struct cfg_path path = {.up = site->path, .index = shard->order_count};
        const struct cfg_site inner = {site->loader, item->value, &path};
        if (!cfg_field_read(&inner, &name, &shard->order[shard->order_count]))
            good = false;
        entries[shard->order_count] = (struct order_entry){item->value, shard->order_count};
        shard->order_count++;
    }
    return good;
}

static bool check_order_names(const struct cfg_site *site, struct order_entry *entries, uint32_t count)
{
    bool good = true;
    qsort(entries, count, sizeof(*entries), compare_order);
    for (uint32_t k = 1; k < count; k++) {
        if (strcmp(entries[k - 1].node->text, entries[k].node->text) != 0)
            continue;
        char quoted[CFG_QUOTE_BYTES];
        const struct cfg_path path = {.up = site->path, .index = entries[k].index};
        cfg_report(site->loader->diag, entries[k].node->pos, &path, "found %s a second time, expected distinct names",
                   cfg_node_describe(entries[k].node, quoted));
        good = false;
    }
    return good;
}

static bool read_shard_order(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_shard *shard = object;
    if (site->node->kind != CFG_NODE_LIST || site->node->count == 0)
        return cfg_site_refuse(site, field, site->node->kind == CFG_NODE_LIST ? "of none" : NULL);
    struct order_entry *entries = cfg_site_alloc(site, site->node->count * sizeof(*entries));
    shard->order = cfg_site_alloc(site, site->node->count * sizeof(*shard->order));
    bool good = entries != NULL && shard->order != NULL && read_order_names(site, entries, shard) &&
                check_order_names(site, entries, shard->order_count);
    free(entries);
    return good;
}

static void release_shard(void *object)
{
    struct cfg_shard *shard = object;
    for (uint32_t k = 0; shard->order != NULL && k < shard->order_count; k++)
        free(shard->order[k]);
    free(shard->order);
}

static const struct cfg_choice shard_rules[] = {{"none", CFG_SHARD_NONE},   {"megatron", CFG_SHARD_MEGATRON},
                                                {"zero1", CFG_SHARD_ZERO1}, {"zero2", CFG_SHARD_ZERO1},
                                                {"zero3", CFG_SHARD_ZERO3}, {"fsdp2", CFG_SHARD_FSDP2},
                                                {"fsdp1", CFG_SHARD_FSDP1}, {NULL, 0}};

static const struct cfg_field shard_fields[] = {
    [SHARD_RULE] = {.key = "rule",
                    .type = CFG_CHOICE,
                    CFG_MEMBER(struct cfg_shard, rule),
                    .choices = shard_rules,
                    .absent = CFG_SHARD_NONE,
                    .help = "What is cut, and how; zero2 differs from zero1 in its gradients only; absent: `none`"},
    [SHARD_INSTANCES] = {.key = "instances",
                         .type = CFG_COUNT,
                         CFG_MEMBER(struct cfg_shard, instances),
                         .min = 1,
                         .max = MOST_RANKS,
                         .fallback = "1",
                         .help = "Complete copies of the shards: megatron's optimizer instances, replicas of fsdp"},
    [SHARD_BUCKET] = {.key = "bucket",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_shard, bucket_elements),
                      .min = 1,
                      .max = INT64_C(1) << 40,
                      .absent = 0,
                      .help = "megatron: elements at which a bucket of the first chunk closes; absent: one bucket"},
    [SHARD_PAD] = {.key = "pad_high_bandwidth",
                   .type = CFG_BOOL,
                   CFG_MEMBER(struct cfg_shard, pad_high_bandwidth),
                   .fallback = "false",
                   .help = "megatron: buckets end at multiples of 2^16 too"},
    [SHARD_ORIGINAL] = {.key = "use_orig_params",
                        .type = CFG_BOOL,
                        CFG_MEMBER(struct cfg_shard, use_orig_params),
                        .fallback = "true",
                        .help = "fsdp1: each tensor starts at a multiple of 16 bytes"},
    [SHARD_ORDER] = {.key = "order",
                     .type = CFG_CUSTOM,
                     .read = read_shard_order,
                     CFG_POS(struct cfg_shard, order_pos),
                     .expected = "a list of tensor names as the model writes them",
                     .json = "\"type\": \"array\", \"minItems\": 1, \"uniqueItems\": true, \"items\": {\"type\": "
                             "\"string\", \"minLength\": 1}",
                     .help = "Tensors in the order the trainer registers them; absent: as the model lists them"},
};

static const struct cfg_table shard_table = {
    .help = "How states are cut over the data-parallel ranks",
    .fields = shard_fields,
    .field_count = SHARD_FIELD_COUNT,
    .check = check_shard,
    .release = release_shard,
};

/* ---- vocab, state -------------------------------------------------------------------------- */

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
    LAYOUT_SHARD,
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

static void check_instances(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    int64_t ranks = layout->size[CFG_AXIS_CP] * layout->size[CFG_AXIS_DP];
    if (ranks % layout->shard.instances != 0)
        cfg_scope_report(scope, "shard.instances",
                         "found %" PRId64 ", expected a divisor of cp times dp, which is %" PRId64,
                         layout->shard.instances, ranks);
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
    if (cfg_scope_usable(scope, CFG_BIT(LAYOUT_SHARD)))
        check_instances(scope);
}

static void release_layout(void *object)
{
    struct cfg_layout *layout = object;
    free(layout->devices);
    free(layout->pipeline_layout);
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
                         .help = "Sizes of the axes; tp, cp, dp and pp multiply to the number of ranks"},
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
                         .help = "How layers are spread over the stages; absent: evenly"},
    [LAYOUT_SHARD] = {.key = "shard",
                      .type = CFG_TABLE,
                      CFG_MEMBER(struct cfg_layout, shard),
                      CFG_POS(struct cfg_layout, shard.pos),
                      .table = &shard_table,
                      .help = "How states are cut over the data-parallel ranks; absent: not at all"},
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
    .check = check_layout,
    .release = release_layout,
};

const struct cfg_document cfg_layout_document = {"layout", "Shunt layout", &layout_table};
