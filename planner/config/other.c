/* SPDX-License-Identifier: Apache-2.0 */
#include "other.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "layout.h"
#include "names.h"

#define MOST_BYTES (1 << 30)

const char *const cfg_key_names[CFG_KEY_COUNT] = {[CFG_KEY_PP] = "pp", [CFG_KEY_DP] = "dp",   [CFG_KEY_CP] = "cp",
                                                  [CFG_KEY_EP] = "ep", [CFG_KEY_ETP] = "etp", [CFG_KEY_TP] = "tp"};

const char *const cfg_policy_names[] = {[CFG_POLICY_COPY] = "copy",
                                        [CFG_POLICY_COPY_IF_SAME] = "copy-if-same",
                                        [CFG_POLICY_RECOMPUTE] = "recompute",
                                        [CFG_POLICY_LEAVE] = "leave"};

bool cfg_other_is_keyed(const struct cfg_other *other)
{
    for (int k = 0; k < CFG_KEY_COUNT; k++) {
        if (other->per[k])
            return true;
    }
    return false;
}

bool cfg_other_may_move(const struct cfg_other *other)
{
    return other->policy == CFG_POLICY_COPY || other->policy == CFG_POLICY_COPY_IF_SAME;
}

uint32_t cfg_other_count(const struct cfg_model *model)
{
    return model->other_count + model->group_count + model->included_count;
}

const struct cfg_other *cfg_other_at(const struct cfg_model *model, uint32_t index)
{
    if (index < model->other_count)
        return &model->others[index];
    index -= model->other_count;
    return index < model->group_count ? &model->groups[index] : model->included[index - model->group_count];
}

/* ---- built-in sets ----------------------------------------------------------------------- */

/*
 * What a Megatron-Core job keeps beside its tensors, and what becomes of it. Sizes of random streams are those of
 * PyTorch (the CPU generator's 5056 bytes, seed and offset of a CUDA one) or leave room for a pickle.
 */
enum { INCLUDE_NONE, INCLUDE_MEGATRON, INCLUDE_MEGATRON_FP16 };

const struct cfg_choice cfg_includes[] = {
    {"megatron-state", INCLUDE_MEGATRON}, {"megatron-state-fp16", INCLUDE_MEGATRON_FP16}, {NULL, 0}};

#define VALUE(entry_name, entry_dtype, entry_count)                                                                    \
    {                                                                                                                  \
        .name = (char *)(entry_name), .dtype = SHUNT_DTYPE_##entry_dtype, .count = (entry_count)                       \
    }
#define STREAM(entry_name, entry_bytes, ...)                                                                           \
    {                                                                                                                  \
        .name = (char *)(entry_name), .dtype = -1, .count = (entry_bytes), .policy = CFG_POLICY_COPY_IF_SAME,          \
        .otherwise = CFG_OTHERWISE_RESEED, .per = {                                                                    \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define NOT_MOVED(entry_name, entry_policy, reason)                                                                    \
    {                                                                                                                  \
        .name = (char *)(entry_name), .dtype = -1, .policy = (entry_policy), .why = (char *)(reason)                   \
    }

static const struct {
    bool experts, fp16; /* only in a model with experts, only in the set for fp16 */
    struct cfg_other entry;
} megatron[] = {
    {.entry = VALUE("iteration", I64, 1)},
    {.entry = VALUE("floating_point_operations", FP64, 1)},
    {.entry = VALUE("optimizer.step", I64, 1)},
    {.entry = VALUE("lr_scheduler.samples", I64, 1)},
    {.entry = VALUE("data.consumed_samples", I64, 1)},
    {.entry = VALUE("data.consumed_valid_samples", I64, 1)},
    {.entry = VALUE("data.skipped_samples", I64, 1)},
    {.fp16 = true, .entry = VALUE("loss_scale.dense", FP32, 3)},
    {.fp16 = true, .experts = true, .entry = VALUE("loss_scale.expert", FP32, 3)},
    {.entry = STREAM("rng.python", 8192, [CFG_KEY_PP] = true)},
    {.entry = STREAM("rng.numpy", 4096, [CFG_KEY_PP] = true)},
    {.entry = STREAM("rng.torch", 5056, [CFG_KEY_PP] = true)},
    {.entry = STREAM("rng.cuda", 16, [CFG_KEY_PP] = true)},
    {.entry = STREAM("rng.data_parallel", 16, [CFG_KEY_PP] = true)},
    {.entry = STREAM("rng.model_parallel", 16, [CFG_KEY_PP] = true, [CFG_KEY_TP] = true)},
    {.experts = true,
     .entry = STREAM("rng.expert_parallel", 16, [CFG_KEY_PP] = true, [CFG_KEY_EP] = true, [CFG_KEY_ETP] = true)},
    {.entry = NOT_MOVED("data.position", CFG_POLICY_RECOMPUTE,
                        "follows from the consumed samples, the batch sizes and dp; which rank reads which sample "
                        "changes with dp")},
    {.entry = NOT_MOVED("data.microbatches", CFG_POLICY_RECOMPUTE, "follows from the consumed samples and dp")},
    {.experts = true,
     .entry = NOT_MOVED("moe.token_counts", CFG_POLICY_RECOMPUTE, "zero between steps, counted anew in each")},
    {.entry = NOT_MOVED("data.loader", CFG_POLICY_LEAVE,
                        "state of an external data loader, per dp rank: only the "
                        "loader knows how to spread it anew")},
    {.entry = NOT_MOVED("rerun_state_machine", CFG_POLICY_LEAVE, "Megatron drops it on any change of layout")},
};

_Static_assert(sizeof(megatron) / sizeof(megatron[0]) <= CFG_MOST_INCLUDED, "room for all of them");

static bool has_own(const struct cfg_model *model, const char *name)
{
    for (uint32_t s = 0; s < model->scalar_count; s++) {
        if (model->scalars[s].name != NULL && strcmp(model->scalars[s].name, name) == 0)
            return true;
    }
    for (uint32_t o = 0; o < model->other_count + model->group_count; o++) {
        const char *own = cfg_other_at(model, o)->name;
        if (own != NULL && strcmp(own, name) == 0)
            return true;
    }
    return false;
}

void cfg_include_others(struct cfg_model *model)
{
    for (size_t m = 0; m < sizeof(megatron) / sizeof(megatron[0]) && model->include != INCLUDE_NONE; m++) {
        if ((megatron[m].experts && model->experts == 0) ||
            (megatron[m].fp16 && model->include != INCLUDE_MEGATRON_FP16) || has_own(model, megatron[m].entry.name))
            continue;
        model->included[model->included_count++] = &megatron[m].entry;
    }
}

/* ---- entries ------------------------------------------------------------------------------ */

enum {
    OTHER_NAME,
    OTHER_POLICY,
    OTHER_DTYPE,
    OTHER_COUNT,
    OTHER_BYTES,
    OTHER_PER,
    OTHER_OTHERWISE,
    OTHER_WHY,
    OTHER_FIELD_COUNT
};

static bool written(const struct cfg_scope *scope, const char *key)
{
    return cfg_node_find(scope->node, key) != NULL;
}

/* An entry that no plan moves has a name and a reason only. */
static void check_unmoved(struct cfg_scope *scope)
{
    static const char *const keys[] = {"dtype", "count", "bytes", "per", "otherwise"};
    const struct cfg_other *other = scope->object;
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        if (written(scope, keys[k]))
            cfg_scope_report(scope, keys[k], "found it with policy `%s`, expected it in entries that are copied only",
                             cfg_policy_names[other->policy]);
    }
}

static void check_size(struct cfg_scope *scope)
{
    if (written(scope, "bytes")) {
        if (written(scope, "dtype") || written(scope, "count"))
            cfg_scope_report(scope, "bytes", "found it beside `dtype` or `count`, expected one or the other");
    } else if (!written(scope, "dtype")) {
        cfg_scope_report(scope, "dtype", "found no such key, expected the element type, or `bytes` of an opaque blob");
    }
}

/* dp, cp and tp count the ranks of one grid, ep and etp those of another: not every pair of them is on some rank. */
static void check_keys(struct cfg_scope *scope)
{
    const struct cfg_other *other = scope->object;
    bool dense = other->per[CFG_KEY_DP] || other->per[CFG_KEY_CP] || other->per[CFG_KEY_TP];
    bool expert = other->per[CFG_KEY_EP] || other->per[CFG_KEY_ETP];
    if (dense && expert)
        cfg_scope_report(scope, "per",
                         "found keys of both grids of ranks, expected pp, dp, cp and tp, or pp, ep and "
                         "etp");
    if (other->policy == CFG_POLICY_COPY && written(scope, "per"))
        cfg_scope_report(scope, "per",
                         "found it with policy `copy`, expected policy `copy-if-same`: what differs from "
                         "rank to rank has no copy for other ranks");
    if (other->policy == CFG_POLICY_COPY_IF_SAME && !written(scope, "per"))
        cfg_scope_report(scope, "per",
                         "found no such key, expected the axes along which copies differ, such as "
                         "[pp, tp]");
    if (other->policy == CFG_POLICY_COPY && written(scope, "otherwise"))
        cfg_scope_report(scope, "otherwise", "found it with policy `copy`, expected it with `copy-if-same` only");
}

static void check_other(struct cfg_scope *scope)
{
    struct cfg_other *other = scope->object;
    if (!cfg_scope_usable(scope, CFG_BIT(OTHER_FIELD_COUNT) - 1))
        return;
    if (!cfg_other_may_move(other)) {
        check_unmoved(scope);
        return;
    }
    check_size(scope);
    check_keys(scope);
    if (written(scope, "bytes"))
        other->count = other->bytes;
}

static const struct cfg_choice policies[] = {{"copy", CFG_POLICY_COPY},
                                             {"copy-if-same", CFG_POLICY_COPY_IF_SAME},
                                             {"recompute", CFG_POLICY_RECOMPUTE},
                                             {"leave", CFG_POLICY_LEAVE},
                                             {NULL, 0}};
static const struct cfg_choice otherwises[] = {{"leave", CFG_OTHERWISE_LEAVE},
                                               {"reseed", CFG_OTHERWISE_RESEED},
                                               {"recompute", CFG_OTHERWISE_RECOMPUTE},
                                               {"refuse", CFG_OTHERWISE_REFUSE},
                                               {NULL, 0}};
static const struct cfg_choice keys[] = {{"pp", CFG_KEY_PP}, {"dp", CFG_KEY_DP},   {"cp", CFG_KEY_CP},
                                         {"ep", CFG_KEY_EP}, {"etp", CFG_KEY_ETP}, {"tp", CFG_KEY_TP},
                                         {NULL, 0}};

static const struct cfg_field other_fields[] = {
    [OTHER_NAME] = {.key = "name",
                    .type = CFG_TEXT,
                    .required = true,
                    CFG_MEMBER(struct cfg_other, name),
                    .accept = cfg_accept_scalar_name,
                    .help = "Global name"},
    [OTHER_POLICY] = {.key = "policy",
                      .type = CFG_CHOICE,
                      CFG_MEMBER(struct cfg_other, policy),
                      .choices = policies,
                      .absent = CFG_POLICY_COPY,
                      .help = "`copy`: the same on every rank, and moved; `copy-if-same`: one for each place on the "
                              "axes of `per`, and moved if those axes have the same sizes on both sides; `recompute` "
                              "and `leave`: never moved, but named in the plan"},
    [OTHER_DTYPE] = {.key = "dtype",
                     .type = CFG_CHOICE,
                     CFG_MEMBER(struct cfg_other, dtype),
                     .choice_name = shunt_dtype_name,
                     .absent = -1,
                     .help = "Element type of a value"},
    [OTHER_COUNT] = {.key = "count",
                     .type = CFG_COUNT,
                     CFG_MEMBER(struct cfg_other, count),
                     .min = 1,
                     .max = 1 << 24,
                     .fallback = "1",
                     .help = "Elements of a value"},
    [OTHER_BYTES] = {.key = "bytes",
                     .type = CFG_COUNT,
                     CFG_MEMBER(struct cfg_other, bytes),
                     .min = 1,
                     .max = MOST_BYTES,
                     .absent = 0,
                     .help = "Bytes of an opaque blob, always as many: whoever has fewer pads them"},
    [OTHER_PER] = {.key = "per",
                   .type = CFG_CUSTOM,
                   CFG_MEMBER(struct cfg_other, per),
                   .read = cfg_states_read,
                   .min = 1,
                   .max = CFG_KEY_COUNT,
                   .choices = keys,
                   .expected = "a list of axes, such as [pp, tp]",
                   .help = "Axes along which copies differ; ranks that differ along other axes only have equal ones"},
    [OTHER_OTHERWISE] = {.key = "otherwise",
                         .type = CFG_CHOICE,
                         CFG_MEMBER(struct cfg_other, otherwise),
                         .choices = otherwises,
                         .absent = CFG_OTHERWISE_LEAVE,
                         .help = "What becomes of it when the axes of `per` do not keep their sizes; `refuse`: no plan "
                                 "is made"},
    [OTHER_WHY] = {.key = "why",
                   .type = CFG_TEXT,
                   CFG_MEMBER(struct cfg_other, why),
                   .accept = cfg_accept_name,
                   .help = "Reason or remark, carried by the plan"},
};

const struct cfg_table cfg_other_table = {
    .help = "One entry of the state beside the tensors: a value, an opaque blob, or a name alone",
    .fields = other_fields,
    .field_count = OTHER_FIELD_COUNT,
    .size = sizeof(struct cfg_other),
    CFG_POS(struct cfg_other, pos),
    .check = check_other,
};

/* ---- parameter groups -------------------------------------------------------------------------- */

static const struct cfg_field group_fields[] = {
    {.key = "name",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_other, name),
     .accept = cfg_accept_scalar_name,
     .help = "Global name; tensors refer to it"},
    {.key = "identity",
     .type = CFG_TEXT,
     .required = true,
     CFG_MEMBER(struct cfg_other, identity),
     .accept = cfg_accept_name,
     .help = "What tells it from the other groups, whatever their order: \"wd_mult 1, lr_mult 1\""},
    {.key = "dtype",
     .type = CFG_CHOICE,
     .required = true,
     CFG_MEMBER(struct cfg_other, dtype),
     .choice_name = shunt_dtype_name,
     .help = "Element type of its hyper-parameters"},
    {.key = "count",
     .type = CFG_COUNT,
     CFG_MEMBER(struct cfg_other, count),
     .min = 1,
     .max = 1 << 16,
     .fallback = "1",
     .help = "Hyper-parameters"},
};

const struct cfg_table cfg_group_table = {
    .help = "Hyper-parameters of the tensors that name this group, the same on every rank",
    .fields = group_fields,
    .field_count = sizeof(group_fields) / sizeof(group_fields[0]),
    .size = sizeof(struct cfg_other),
    CFG_POS(struct cfg_other, pos),
};

/* ---- beside the rest of the model ------------------------------------------------------------ */

static void report_at(struct cfg_scope *scope, const char *list_key, uint32_t index, const char *key,
                      struct cfg_pos pos, const char *text)
{
    const struct cfg_path list = {.up = scope->path, .key = list_key};
    const struct cfg_path entry = {.up = &list, .index = index};
    const struct cfg_path path = {.up = &entry, .key = key};
    cfg_report(scope->loader->diag, pos, &path, "%s", text);
}

/* Two groups that cannot be told apart would be matched by their order, which no framework keeps. */
static void check_identities(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    char text[CFG_QUOTE_BYTES + 128], quoted[CFG_QUOTE_BYTES];
    for (uint32_t g = 0; g < model->group_count; g++) {
        for (uint32_t before = 0; before < g; before++) {
            if (strcmp(model->groups[g].identity, model->groups[before].identity) != 0)
                continue;
            snprintf(text, sizeof(text),
                     "found %s, as on line %" PRIu32 ", expected groups that can be told apart whatever their order",
                     cfg_quote(quoted, model->groups[g].identity, strlen(model->groups[g].identity)),
                     model->groups[before].pos.line);
            report_at(scope, "param_groups", g, "identity", model->groups[g].pos, text);
            break;
        }
    }
}

static bool is_group(const struct cfg_model *model, const char *name)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (strcmp(model->groups[g].name, name) == 0)
            return true;
    }
    return false;
}

/* Every weight is in one group, once there are groups; nothing else is in any. */
static void check_members(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct cfg_tensor *tensor = &model->tensors[t];
        const char *text = NULL;
        if (tensor->kind == CFG_KIND_BUFFER)
            text = tensor->group != NULL ? "found a group for a buffer, expected none" : NULL;
        else if (tensor->group != NULL)
            text = is_group(model, tensor->group) ? NULL : "found a group that `param_groups` does not list";
        else if (model->group_count > 0)
            text = "found no such key, expected the group that the tensor belongs to, one of `param_groups`";
        if (text != NULL)
            report_at(scope, "tensors", t, "group", tensor->pos, text);
    }
}

/* Experts have keys where there are some. */
static void check_expert_keys(struct cfg_scope *scope)
{
    const struct cfg_model *model = scope->object;
    for (uint32_t o = 0; o < model->other_count && model->experts == 0; o++) {
        if (model->others[o].per[CFG_KEY_EP] || model->others[o].per[CFG_KEY_ETP])
            report_at(scope, "other_state", o, "per", model->others[o].pos,
                      "found ep or etp in a model without `experts`, expected other axes");
    }
}

void cfg_others_check(struct cfg_scope *scope)
{
    check_identities(scope);
    check_members(scope);
    check_expert_keys(scope);
}
