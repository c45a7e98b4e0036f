/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <stdio.h>

#include "field.h"

/* ---- one state: a dtype, or a mapping with more ------------------------------------------------- */

static const struct cfg_choice tiers[] = {{"device", CFG_TIER_DEVICE}, {"host", CFG_TIER_HOST}, {NULL, 0}};
static const struct cfg_choice scales[] = {{"none", CFG_SCALE_NONE}, {"per-shard", CFG_SCALE_SHARD}, {NULL, 0}};

/* In place of a dtype: derived from another state by the move that makes this layout. */
#define DERIVED SHUNT_DTYPE_COUNT

static const char *param_word(unsigned value)
{
    return value == DERIVED ? "from-master" : shunt_dtype_name(value);
}

static const char *master_word(unsigned value)
{
    return value == DERIVED ? "from-param" : shunt_dtype_name(value);
}

enum { KEPT_DTYPE, KEPT_TIER, KEPT_SCALE, KEPT_FIELD_COUNT };

/* Fields of one state; they fill the layout itself. */
#define KEPT_FIELDS(state, words)                                                                                      \
    {                                                                                                                  \
        [KEPT_DTYPE] = {.key = "dtype",                                                                                \
                        .type = CFG_CHOICE,                                                                            \
                        .required = true,                                                                              \
                        CFG_MEMBER(struct cfg_layout, state_dtype[state]),                                             \
                        .choice_name = words,                                                                          \
                        .absent = -1,                                                                                  \
                        .help = "Element type"},                                                                       \
        [KEPT_TIER] = {.key = "tier",                                                                                  \
                       .type = CFG_CHOICE,                                                                             \
                       CFG_MEMBER(struct cfg_layout, state_tier[state]),                                               \
                       .choices = tiers,                                                                               \
                       .absent = CFG_TIER_DEVICE,                                                                      \
                       .help = "Memory it lives in; absent: the device's"},                                            \
        [KEPT_SCALE] = {.key = "scale",                                                                                \
                        .type = CFG_CHOICE,                                                                            \
                        CFG_MEMBER(struct cfg_layout, state_scale[state]),                                             \
                        .choices = scales,                                                                             \
                        .absent = CFG_SCALE_UNSAID,                                                                    \
                        .help = "`per-shard`: one fp32 scale for what a rank owns of a tensor; fp16, fp8 and u8 "      \
                                "states of the optimizer must say it, or `none`"},                                     \
    }

static const struct cfg_field kept_fields[][KEPT_FIELD_COUNT] = {
    [SHUNT_STATE_PARAM] = KEPT_FIELDS(SHUNT_STATE_PARAM, param_word),
    [SHUNT_STATE_GRAD] = KEPT_FIELDS(SHUNT_STATE_GRAD, shunt_dtype_name),
    [SHUNT_STATE_MASTER] = KEPT_FIELDS(SHUNT_STATE_MASTER, master_word),
    [SHUNT_STATE_EXP_AVG] = KEPT_FIELDS(SHUNT_STATE_EXP_AVG, shunt_dtype_name),
    [SHUNT_STATE_EXP_AVG_SQ] = KEPT_FIELDS(SHUNT_STATE_EXP_AVG_SQ, shunt_dtype_name),
    [SHUNT_STATE_MOMENTUM] = KEPT_FIELDS(SHUNT_STATE_MOMENTUM, shunt_dtype_name),
};

#define KEPT_TABLE(state) [state] = {.fields = kept_fields[state], .field_count = KEPT_FIELD_COUNT}

static const struct cfg_table kept_tables[] = {
    KEPT_TABLE(SHUNT_STATE_PARAM),   KEPT_TABLE(SHUNT_STATE_GRAD),       KEPT_TABLE(SHUNT_STATE_MASTER),
    KEPT_TABLE(SHUNT_STATE_EXP_AVG), KEPT_TABLE(SHUNT_STATE_EXP_AVG_SQ), KEPT_TABLE(SHUNT_STATE_MOMENTUM),
};

static bool read_kept(const struct cfg_site *site, const struct cfg_field *field, void *layout)
{
    if (site->node->kind == CFG_NODE_LIST)
        return cfg_site_refuse(site, field, NULL);
    if (site->node->kind == CFG_NODE_MAPPING)
        return cfg_table_fill(field->table, site, layout);
    return cfg_field_read(site, &field->table->fields[KEPT_DTYPE], layout);
}

/* ---- the states that are kept ----------------------------------------------------------------- */

#define STATE_FIELD(state, state_key, words, state_help)                                                               \
    [state] = {.key = state_key,                                                                                       \
               .type = CFG_CUSTOM,                                                                                     \
               .required = (state) == SHUNT_STATE_PARAM,                                                               \
               .read = read_kept,                                                                                      \
               .table = &kept_tables[state],                                                                           \
               .choice_name = words,                                                                                   \
               .expected = "a dtype, such as `bf16`, or {dtype: fp32, tier: host}",                                    \
               .help = state_help}

static const struct cfg_field state_fields[] = {
    STATE_FIELD(SHUNT_STATE_PARAM, "param", param_word, "The weights; from-master: bf16, made from the master"),
    STATE_FIELD(SHUNT_STATE_GRAD, "grad", shunt_dtype_name, "Gradients, reduced"),
    STATE_FIELD(SHUNT_STATE_MASTER, "master", master_word,
                "Master copy of the weights; i16: the low halves of fp32 values whose high halves are the bf16 "
                "weights; from-param: fp32, made from the weights"),
    STATE_FIELD(SHUNT_STATE_EXP_AVG, "exp_avg", shunt_dtype_name, "First moment of Adam"),
    STATE_FIELD(SHUNT_STATE_EXP_AVG_SQ, "exp_avg_sq", shunt_dtype_name, "Second moment of Adam"),
    STATE_FIELD(SHUNT_STATE_MOMENTUM, "momentum", shunt_dtype_name, "Momentum of SGD-like optimizers"),
};

/* Dtypes that optimizers keep with scales, or without. */
static bool may_have_scale(int32_t dtype)
{
    return dtype == SHUNT_DTYPE_FP16 || dtype == SHUNT_DTYPE_FP8_E4M3 || dtype == SHUNT_DTYPE_FP8_E5M2 ||
           dtype == SHUNT_DTYPE_U8;
}

static void check_scale(const struct cfg_scope *scope, unsigned state)
{
    const struct cfg_layout *layout = scope->object;
    const char *key = state_fields[state].key, *dtype = shunt_dtype_name((unsigned)layout->state_dtype[state]);
    bool optimizer = state >= SHUNT_STATE_MASTER, narrow = may_have_scale(layout->state_dtype[state]);
    char whole[32], at[32];
    snprintf(whole, sizeof(whole), "state.%s", key);
    snprintf(at, sizeof(at), "state.%s.scale", key);
    if (layout->state_scale[state] == CFG_SCALE_SHARD && !optimizer)
        cfg_scope_report(scope, at, "found it with `%s`, expected it with states of the optimizer only", key);
    else if (layout->state_scale[state] == CFG_SCALE_SHARD && !narrow)
        cfg_scope_report(scope, at, "found it with %s, expected it with fp16, fp8_e4m3, fp8_e5m2 or u8 only", dtype);
    else if (layout->state_scale[state] == CFG_SCALE_UNSAID && optimizer && narrow)
        cfg_scope_report(scope, whole,
                         "found %s without a word on scales, expected {dtype: %s, scale: per-shard}, one scale for "
                         "what a rank owns of a tensor, or {dtype: %s, scale: none}, plain values",
                         dtype, dtype, dtype);
}

/* 16 bits of a master say nothing without the other 16, which are the bf16 weight. */
static void check_remainder(const struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    int32_t param = layout->state_dtype[SHUNT_STATE_PARAM];
    if (layout->state_dtype[SHUNT_STATE_MASTER] == SHUNT_DTYPE_I16 && param != SHUNT_DTYPE_BF16)
        cfg_scope_report(scope, "state.master",
                         "found i16, the low halves of fp32 masters, beside weights in %s, expected `param: bf16`, "
                         "which are the high halves",
                         shunt_dtype_name((unsigned)param));
}

enum shunt_state cfg_layout_derived_from(const struct cfg_layout *layout, enum shunt_state state)
{
    if (!layout->state_derived[state])
        return state;
    return state == SHUNT_STATE_PARAM ? SHUNT_STATE_MASTER : SHUNT_STATE_PARAM;
}

/* The words become a flag and a dtype. */
static void settle_derived(struct cfg_layout *layout, enum shunt_state state, enum shunt_dtype dtype)
{
    layout->state_derived[state] = layout->state_dtype[state] == DERIVED;
    if (layout->state_derived[state])
        layout->state_dtype[state] = (int32_t)dtype;
}

void cfg_state_settle(struct cfg_scope *scope)
{
    struct cfg_layout *layout = scope->object;
    settle_derived(layout, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16);
    settle_derived(layout, SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32);
    if (layout->state_derived[SHUNT_STATE_PARAM] && layout->state_derived[SHUNT_STATE_MASTER])
        cfg_scope_report(scope, "state.master",
                         "found `from-param` beside `param: from-master`, expected one of the two at most");
    int32_t master = layout->state_dtype[SHUNT_STATE_MASTER];
    if (layout->state_derived[SHUNT_STATE_PARAM] && master >= 0 && master != SHUNT_DTYPE_FP32)
        cfg_scope_report(scope, "state.master",
                         "found `%s` beside `param: from-master`, expected fp32 (not supported: casts from %s)",
                         shunt_dtype_name((unsigned)master), shunt_dtype_name((unsigned)master));
    for (unsigned s = 0; s < sizeof(state_fields) / sizeof(state_fields[0]); s++) {
        if (layout->state_dtype[s] >= 0)
            check_scale(scope, s);
    }
    check_remainder(scope);
}

const struct cfg_table cfg_state_table = {
    .help = "Each state that is kept: its element type, the memory it lives in, its scales",
    .fields = state_fields,
    .field_count = sizeof(state_fields) / sizeof(state_fields[0]),
};

/* ---- lists of states ------------------------------------------------------------------------ */

bool cfg_states_read(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    const struct cfg_field entry = {
        .type = CFG_CHOICE, .size = sizeof(int32_t), .choices = field->choices, .choice_name = field->choice_name};
    bool *states = (bool *)((char *)object + field->offset), good = true;
    uint64_t index = 0;
    if (!cfg_site_list(site, field))
        return false;
    for (const struct cfg_item *item = site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = site->path, .index = index};
        const struct cfg_site inner = {site->loader, item->value, &path};
        int32_t state = 0;
        if (!cfg_field_read(&inner, &entry, &state))
            good = false;
        else if (states[state])
            good = cfg_site_refuse(&inner, &entry, "a second time");
        else
            states[state] = true;
    }
    return good;
}

void cfg_states_check(const struct cfg_scope *scope, const struct cfg_scope *entry, const bool *states)
{
    const struct cfg_layout *layout = scope->object;
    if (!cfg_scope_usable(scope, CFG_BIT(LAYOUT_STATE)) || cfg_node_find(entry->node, "states") == NULL)
        return;
    for (unsigned s = 0; s <= SHUNT_STATE_MOMENTUM; s++) {
        if (states[s] && layout->state_dtype[s] < 0)
            cfg_scope_report(entry, "states", "found `%s`, expected states that the layout's `state` keeps",
                             shunt_state_name(s));
    }
}
