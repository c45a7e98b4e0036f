/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include "field.h"

/* ---- the states that are kept ----------------------------------------------------------------- */

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

const struct cfg_table cfg_state_table = {
    .help = "Element type of each state that is kept",
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
