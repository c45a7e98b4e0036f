/* SPDX-License-Identifier: Apache-2.0 */
#include "space/space.h"

#include <string.h>

static const int64_t one_element = 1;

static enum shunt_status check_states(const struct cfg_layout *from, const struct cfg_layout *to, struct shunt_err *err)
{
    for (int s = 0; s < SHUNT_STATE_COUNT; s++) {
        int a = from->state_dtype[s], b = to->state_dtype[s];
        if (a == b)
            continue;
        if (a < 0 || b < 0)
            return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                              "%s:%u:%u: state.%s: found it in %s only, expected the same states in both layouts "
                              "(not supported: adding or dropping a state)",
                              to->path, to->state_pos.line, to->state_pos.column, shunt_state_name((unsigned)s),
                              a < 0 ? to->path : from->path);
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "%s:%u:%u: state.%s: found %s, expected %s as in %s (not supported: a change of dtype)",
                          to->path, to->state_pos.line, to->state_pos.column, shunt_state_name((unsigned)s),
                          shunt_dtype_name((unsigned)b), shunt_dtype_name((unsigned)a), from->path);
    }
    return SHUNT_OK;
}

static void add_state(struct space_family *family, enum shunt_state state, int dtype)
{
    family->state[family->state_count] = (uint8_t)state;
    family->dtype[family->state_count] = (uint8_t)dtype;
    family->state_count++;
}

static void fill_tensor_family(struct space_family *family, const struct cfg_tensor *rule,
                               const struct cfg_layout *layout)
{
    family->name = rule->name;
    family->pos = rule->pos;
    family->ndim = rule->ndim;
    memcpy(family->shape, rule->shape, sizeof(family->shape));
    family->stage = rule->stage;
    family->tied_last = rule->tied_last;
    family->cut_dim = rule->cut_dim;
    family->segment_count = rule->segment_count;
    family->segments = rule->segments;
    family->pad_vocab = rule->pad_vocab;
    family->layer_begin = rule->stage == CFG_STAGE_LAYER ? rule->layer_begin : 0;
    family->layer_end = rule->stage == CFG_STAGE_LAYER ? rule->layer_end : 1;
    int own = rule->dtype >= 0 ? rule->dtype : layout->state_dtype[SHUNT_STATE_PARAM];
    if (rule->kind == CFG_KIND_BUFFER) {
        add_state(family, SHUNT_STATE_BUFFER, own);
        return;
    }
    for (int s = 0; s < SHUNT_STATE_BUFFER; s++) {
        if (layout->state_dtype[s] >= 0)
            add_state(family, (enum shunt_state)s, s == SHUNT_STATE_PARAM ? own : layout->state_dtype[s]);
    }
}

static void fill_scalar_family(struct space_family *family, const struct cfg_scalar *scalar)
{
    family->name = scalar->name;
    family->pos = scalar->pos;
    family->ndim = 1;
    family->shape[0] = scalar->count;
    family->stage = CFG_STAGE_ALL;
    family->cut_dim = -1;
    family->segment_count = 1;
    family->segments = &one_element;
    family->layer_end = 1;
    add_state(family, SHUNT_STATE_SCALAR, scalar->dtype);
}

static void number_items(struct arena *arena, struct space *space)
{
    space->items = ARENA_NEW(arena, struct space_item, space->item_count);
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        struct space_item *item = &space->items[family->item_begin];
        for (int64_t layer = family->layer_begin; layer < family->layer_end; layer++) {
            for (uint32_t s = 0; s < family->state_count; s++, item++) {
                item->family = f;
                item->tensor = family->tensor_begin + (uint32_t)(layer - family->layer_begin);
                item->layer = layer;
                item->state = family->state[s];
                item->dtype = family->dtype[s];
                item->elem_bytes = shunt_dtype_bytes(item->dtype);
            }
        }
    }
}

enum shunt_status space_build(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                              const struct cfg_layout *to, struct space **space_out, struct shunt_err *err)
{
    enum shunt_status status = check_states(from, to, err);
    if (status != SHUNT_OK)
        return status;
    struct space *space = ARENA_NEW(arena, struct space, 1);
    space->model = model;
    space->family_count = model->tensor_count + model->scalar_count;
    space->families = ARENA_NEW(arena, struct space_family, space->family_count);
    uint64_t tensors = 0, items = 0;
    for (uint32_t f = 0; f < space->family_count; f++) {
        struct space_family *family = &space->families[f];
        if (f < model->tensor_count)
            fill_tensor_family(family, &model->tensors[f], from);
        else
            fill_scalar_family(family, &model->scalars[f - model->tensor_count]);
        family->tensor_begin = (uint32_t)tensors;
        family->item_begin = (uint32_t)items;
        uint64_t layers = (uint64_t)(family->layer_end - family->layer_begin);
        tensors += layers;
        items += layers * family->state_count;
        if (items > INT32_MAX)
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: tensors: found more than %d tensors times states, expected fewer", model->path,
                              family->pos.line, family->pos.column, INT32_MAX);
    }
    space->tensor_count = (uint32_t)tensors;
    space->item_count = (uint32_t)items;
    number_items(arena, space);
    *space_out = space;
    return SHUNT_OK;
}

char *space_tensor_name(struct arena *arena, const struct space_family *family, int64_t layer)
{
    const char *mark = family->stage == CFG_STAGE_LAYER ? strstr(family->name, "{i}") : NULL;
    if (mark == NULL)
        return arena_strdup(arena, family->name);
    size_t room = strlen(family->name) + 24;
    char *name = ARENA_NEW(arena, char, room);
    snprintf(name, room, "%.*s%lld%s", (int)(mark - family->name), family->name, (long long)layer, mark + 3);
    return name;
}

int64_t space_family_elements(const struct space_family *family)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < family->ndim; d++)
        elements *= family->shape[d];
    return elements;
}

uint64_t space_parameter_count(const struct space *space)
{
    uint64_t total = 0;
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        if (family->state[0] == SHUNT_STATE_PARAM)
            total += (uint64_t)space_family_elements(family) * (uint64_t)(family->layer_end - family->layer_begin);
    }
    return total;
}

uint64_t space_total_bytes(const struct space *space)
{
    uint64_t total = 0;
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        uint64_t elements = (uint64_t)space_family_elements(family);
        for (uint32_t s = 0; s < family->state_count; s++)
            total +=
                elements * shunt_dtype_bytes(family->dtype[s]) * (uint64_t)(family->layer_end - family->layer_begin);
    }
    return total;
}
