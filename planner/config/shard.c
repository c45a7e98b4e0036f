/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "layout.h"
#include "names.h"

/* ---- shard --------------------------------------------------------------------------------- */

enum {
    SHARD_RULE,
    SHARD_INSTANCES,
    SHARD_BUCKET,
    SHARD_PAD,
    SHARD_EXPERT_BUFFER,
    SHARD_ORIGINAL,
    SHARD_EXPERTS,
    SHARD_ORDER,
    SHARD_FIELD_COUNT
};

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
    {"expert_buffer", RULE_BIT(CFG_SHARD_MEGATRON), "`megatron`"},
    {"use_orig_params", RULE_BIT(CFG_SHARD_FSDP1), "`fsdp1`"},
    {"experts", RULE_BIT(CFG_SHARD_MEGATRON) | RULE_BIT(CFG_SHARD_ZERO1) | RULE_BIT(CFG_SHARD_FSDP1),
     "`megatron`, `zero1`, `zero2` or `fsdp1`"},
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

static const struct cfg_choice expert_orders[] = {{"grouped", CFG_EXPERTS_GROUPED},
                                                  {"sequential", CFG_EXPERTS_SEQUENTIAL},
                                                  {"stacked", CFG_EXPERTS_STACKED},
                                                  {NULL, 0}};
static const struct cfg_choice expert_buffers[] = {
    {"ep-or-etp", CFG_EXPERTS_EP_OR_ETP}, {"ep", CFG_EXPERTS_EP}, {NULL, 0}};

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
                         .max = CFG_MOST_RANKS,
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
    [SHARD_EXPERT_BUFFER] =
        {.key = "expert_buffer",
         .type = CFG_CHOICE,
         CFG_MEMBER(struct cfg_shard, expert_buffer),
         CFG_POS(struct cfg_shard, expert_buffer_pos),
         .choices = expert_buffers,
         .absent = CFG_EXPERTS_EP_OR_ETP,
         .help = "megatron: when experts have buffers of their own: `ep-or-etp`, if ep is above 1 or etp "
                 "unlike tp (core_v0.19 and later; the default), or `ep`, if ep is above 1 (before)"},
    [SHARD_ORIGINAL] = {.key = "use_orig_params",
                        .type = CFG_BOOL,
                        CFG_MEMBER(struct cfg_shard, use_orig_params),
                        .fallback = "true",
                        .help = "fsdp1: each tensor starts at a multiple of 16 bytes"},
    [SHARD_EXPERTS] = {.key = "experts",
                       .type = CFG_CHOICE,
                       CFG_MEMBER(struct cfg_shard, experts),
                       .choices = expert_orders,
                       .absent = CFG_EXPERTS_GROUPED,
                       .help = "How the trainer registers the experts of a rank. `grouped`: module by module; "
                               "`sequential`: expert by expert; `stacked`: one tensor for all experts of a weight; "
                               "absent: `grouped`"},
    [SHARD_ORDER] = {.key = "order",
                     .type = CFG_CUSTOM,
                     .read = read_shard_order,
                     CFG_POS(struct cfg_shard, order_pos),
                     .expected = "a list of tensor names as the model writes them",
                     .json = "\"type\": \"array\", \"minItems\": 1, \"uniqueItems\": true, \"items\": {\"type\": "
                             "\"string\", \"minLength\": 1}",
                     .help = "Tensors in the order the trainer registers them; absent: as the model lists them"},
};

const struct cfg_table cfg_shard_table = {
    .help = "How states are cut over the data-parallel ranks",
    .fields = shard_fields,
    .field_count = SHARD_FIELD_COUNT,
    .check = check_shard,
    .release = release_shard,
};
