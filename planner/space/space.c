/* SPDX-License-Identifier: Apache-2.0 */
#include "space/space.h"

#include <string.h>

#include "space/keys.h"

static const int64_t one_element = 1;
static const int64_t no_layer = 0;

/** A dtype that both sides have. */
#define SAME(dtype) ((const int[SPACE_SIDES]){dtype, dtype})

/* ---- states ---------------------------------------------------------------- */

static bool has_cast(int from, int to)
{
    return from == to || (from == SHUNT_DTYPE_FP32 && to == SHUNT_DTYPE_BF16) ||
           (from == SHUNT_DTYPE_BF16 && to == SHUNT_DTYPE_FP32);
}

/** A new master takes the place of none: made from weights it would lack the low bits of an old one. */
static enum shunt_status check_no_master(const struct cfg_layout *from, const struct cfg_layout *to,
                                         struct shunt_err *err)
{
    int old = from->state_dtype[SHUNT_STATE_MASTER];
    if (old < 0)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                      "%s:%u:%u: state.master: found from-param, expected `master: %s`, which keeps the master of %s: "
                      "one made from the weights would lack what it has beyond them",
                      to->path, to->state_pos.line, to->state_pos.column, shunt_dtype_name((unsigned)old), from->path);
}

/** A state that is derived from another one: the other must be there, and param be made from fp32 alone. */
static enum shunt_status check_derived(const struct cfg_layout *from, const struct cfg_layout *to,
                                       enum shunt_state state, struct shunt_err *err)
{
    enum shunt_state derived_from = cfg_layout_derived_from(to, state);
    int dtype = from->state_dtype[derived_from];
    const char *word = state == SHUNT_STATE_PARAM ? "from-master" : "from-param";
    if (dtype < 0)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "%s:%u:%u: state.%s: found %s, expected a dtype: %s keeps no %s to make it from", to->path,
                          to->state_pos.line, to->state_pos.column, shunt_state_name(state), word, from->path,
                          shunt_state_name(derived_from));
    if (state == SHUNT_STATE_PARAM ? dtype == SHUNT_DTYPE_FP32 : has_cast(dtype, to->state_dtype[state]))
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                      "%s:%u:%u: state.%s: found %s, expected a dtype: %s keeps %s as %s (not supported: casts other "
                      "than between fp32 and bf16)",
                      to->path, to->state_pos.line, to->state_pos.column, shunt_state_name(state), word, from->path,
                      shunt_state_name(derived_from), shunt_dtype_name((unsigned)dtype));
}

static enum shunt_status check_state(const struct cfg_layout *from, const struct cfg_layout *to, enum shunt_state state,
                                     struct shunt_err *err)
{
    int a = from->state_dtype[state], b = to->state_dtype[state];
    if (b < 0)
        return SHUNT_OK; /* dropped, or on neither side */
    if (to->state_derived[state] && from != to) {
        enum shunt_status status = check_derived(from, to, state, err);
        return status == SHUNT_OK && state == SHUNT_STATE_MASTER ? check_no_master(from, to, err) : status;
    }
    if (a < 0)
        return shunt_fail(
            err, SHUNT_ERR_UNSUPPORTED,
            "%s:%u:%u: state.%s: found it in %s only, expected a state of %s too (not supported: adding a "
            "state%s)%s",
            to->path, to->state_pos.line, to->state_pos.column, shunt_state_name(state), to->path, from->path,
            state == SHUNT_STATE_MASTER ? ", unless it is made: `master: from-param`" : "",
            to->state_default ? "; a layout without `state` keeps param, master, exp_avg and exp_avg_sq" : "");
    if (has_cast(a, b))
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                      "%s:%u:%u: state.%s: found %s, expected %s as in %s (not supported: a change of dtype other than "
                      "between fp32 and bf16)",
                      to->path, to->state_pos.line, to->state_pos.column, shunt_state_name(state),
                      shunt_dtype_name((unsigned)b), shunt_dtype_name((unsigned)a), from->path);
}

static enum shunt_status check_states(const struct cfg_layout *from, const struct cfg_layout *to, struct shunt_err *err)
{
    enum shunt_status status = SHUNT_OK;
    for (unsigned s = 0; s < SHUNT_STATE_BUFFER && status == SHUNT_OK; s++)
        status = check_state(from, to, (enum shunt_state)s, err);
    return status;
}

void space_family_add_state(struct space_family *family, enum shunt_state state, const int dtype[SPACE_SIDES])
{
    for (int side = 0; side < SPACE_SIDES; side++)
        family->dtype[side][family->state_count] = dtype[side] < 0 ? SPACE_ABSENT : (uint8_t)dtype[side];
    family->state[family->state_count] = (uint8_t)state;
    family->state_count++;
}

/** States of a tensor on both sides. A weight with a dtype of its own keeps it. */
static void add_states(const struct space *space, struct space_family *family, const struct cfg_tensor *rule)
{
    if (rule->kind == CFG_KIND_BUFFER) {
        int own[SPACE_SIDES];
        for (int side = 0; side < SPACE_SIDES; side++)
            own[side] = rule->dtype >= 0 ? rule->dtype : space->layout[side]->state_dtype[SHUNT_STATE_PARAM];
        space_family_add_state(family, SHUNT_STATE_BUFFER, own);
        return;
    }
    for (int s = 0; s < SHUNT_STATE_BUFFER; s++) {
        int dtype[SPACE_SIDES];
        for (int side = 0; side < SPACE_SIDES; side++)
            dtype[side] =
                s == SHUNT_STATE_PARAM && rule->dtype >= 0 ? rule->dtype : space->layout[side]->state_dtype[s];
        if (dtype[SPACE_FROM] >= 0 || dtype[SPACE_TO] >= 0)
            space_family_add_state(family, (enum shunt_state)s, dtype);
    }
}

static void list_layers(struct arena *arena, struct space_family *family, const struct cfg_tensor *rule)
{
    family->layer_count = (uint32_t)cfg_tensor_layers(rule);
    int64_t *layers = ARENA_NEW(arena, int64_t, family->layer_count);
    for (uint32_t l = 0; l < family->layer_count; l++)
        layers[l] = cfg_tensor_layer(rule, l);
    family->layers = layers;
}

static void fill_tensor_family(struct arena *arena, const struct space *space, struct space_family *family,
                               const struct cfg_tensor *rule)
{
    family->name = rule->name;
    family->pos = rule->pos;
    family->ndim = rule->ndim;
    memcpy(family->shape, rule->shape, sizeof(family->shape));
    family->stage = rule->stage;
    family->expert = rule->expert;
    family->tied_last = rule->tied_last;
    family->tied_mtp = rule->tied_mtp;
    family->cut_dim = rule->cut_dim;
    family->segment_count = rule->segment_count;
    family->segments = rule->segments;
    family->pad_vocab = rule->pad_vocab;
    family->heads = rule->heads;
    family->head_dim = rule->head_dim;
    if (rule->heads != CFG_HEADS_NONE)
        family->kv_heads = space->model->kv_heads > 0 ? space->model->kv_heads : space->model->heads;
    family->expert_count = rule->expert ? (uint32_t)space->model->experts : 1;
    list_layers(arena, family, rule);
    add_states(space, family, rule);
}

/** A value that is no tensor: on every stage, and not cut. */
static void fill_value_family(struct space_family *family, const char *name, struct cfg_pos pos, int64_t count)
{
    family->name = name;
    family->pos = pos;
    family->ndim = 1;
    family->shape[0] = count;
    family->stage = CFG_STAGE_ALL;
    family->cut_dim = -1;
    family->segment_count = 1;
    family->segments = &one_element;
    family->layer_count = family->expert_count = 1;
    family->layers = &no_layer;
}

static void fill_scalar_family(struct space_family *family, const struct cfg_scalar *scalar)
{
    fill_value_family(family, scalar->name, scalar->pos, scalar->count);
    space_family_add_state(family, SHUNT_STATE_SCALAR, SAME(scalar->dtype));
}

static enum shunt_status fill_other_family(struct space_family *family, const struct cfg_other *other,
                                           const struct cfg_model *model, const struct cfg_layout *layout,
                                           struct shunt_err *err)
{
    fill_value_family(family, other->name, other->pos, other->count);
    int dtype = other->dtype < 0 ? SHUNT_DTYPE_U8 : other->dtype;
    space_family_add_state(family, other->dtype < 0 ? SHUNT_STATE_BLOB : SHUNT_STATE_SCALAR, SAME(dtype));
    if (!cfg_other_is_keyed(other))
        return SHUNT_OK;
    family->per = other->per;
    family->ndim = 2;
    family->shape[0] = keys_rows(layout, other->per);
    family->shape[1] = other->count;
    if (family->shape[0] <= (INT64_C(1) << 42) / other->count)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_INPUT, "%s: found %lld rows of %lld elements of %s of %s, expected fewer",
                      layout->path, (long long)family->shape[0], (long long)other->count, other->name, model->path);
}

/* ---- items ------------------------------------------------------------------ */

/** Place of a state among those of a family's tensors, which have it. */
static uint32_t state_index(const struct space_family *family, unsigned state)
{
    uint32_t s = 0;
    while (family->state[s] != state)
        s++;
    return s;
}

static uint32_t dtype_bytes(uint8_t dtype)
{
    return dtype == SPACE_ABSENT ? 0 : shunt_dtype_bytes(dtype);
}

/** State `s` of a family's tensors: dtypes, and how far away the item is that it is derived from. */
static void fill_state(const struct space *space, const struct space_family *family, uint32_t s,
                       struct space_item *item)
{
    const struct cfg_layout *to = space->layout[SPACE_TO];
    uint32_t derived_from = s;
    item->state = family->state[s];
    for (int side = 0; side < SPACE_SIDES; side++) {
        item->dtype[side] = family->dtype[side][s];
        item->elem_bytes[side] = dtype_bytes(item->dtype[side]);
    }
    if (item->state < SHUNT_STATE_BUFFER && to != space->layout[SPACE_FROM])
        derived_from = state_index(family, cfg_layout_derived_from(to, (enum shunt_state)item->state));
    item->derived_from = derived_from - s; /* to be added to the item's number */
    item->read_dtype = family->dtype[SPACE_FROM][derived_from];
    item->fresh = derived_from != s && family->dtype[SPACE_TO][derived_from] == item->read_dtype;
    uint32_t read = dtype_bytes(item->read_dtype), written = item->elem_bytes[SPACE_TO];
    item->wire_bytes = read < written ? read : written;
}

static void number_family(struct space *space, uint32_t f)
{
    const struct space_family *family = &space->families[f];
    uint32_t tensors = family->layer_count * family->expert_count, number = family->item_begin;
    struct space_item made[SHUNT_STATE_COUNT] = {0};
    for (uint32_t s = 0; s < family->state_count; s++)
        fill_state(space, family, s, &made[s]);
    for (uint32_t t = 0; t < tensors; t++) {
        for (uint32_t s = 0; s < family->state_count; s++, number++) {
            struct space_item *item = &space->items[number];
            *item = made[s];
            item->family = f;
            item->tensor = family->tensor_begin + t;
            item->layer = family->layers[t / family->expert_count];
            item->expert = t % family->expert_count;
            item->derived_from += number;
            space->changes =
                space->changes || item->dtype[SPACE_TO] != item->dtype[SPACE_FROM] || item->derived_from != number;
        }
    }
}

/** Give a family its place behind the others; false when the space is too large to number. */
static bool place_family(struct space *space, struct space_family *family)
{
    uint64_t count = (uint64_t)family->layer_count * family->expert_count;
    uint64_t items = space->item_count + count * family->state_count;
    family->tensor_begin = space->tensor_count;
    family->item_begin = space->item_count;
    if (items > INT32_MAX)
        return false;
    space->tensor_count += (uint32_t)count;
    space->item_count = (uint32_t)items;
    return true;
}

static enum shunt_status refuse_size(const struct space *space, const struct space_family *family,
                                     struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: tensors: found more than %d tensors times states, expected fewer", space->model->path,
                      family->pos.line, family->pos.column, INT32_MAX);
}

enum shunt_status space_append(struct arena *arena, struct space *space, struct space_family *families, uint32_t count,
                               struct shunt_err *err)
{
    const struct space old = *space;
    for (uint32_t f = 0; f < count; f++) {
        if (!place_family(space, &families[f]))
            return refuse_size(space, &families[f], err);
    }
    space->family_count = old.family_count + count;
    space->families = ARENA_NEW(arena, struct space_family, space->family_count);
    memcpy(space->families, old.families, old.family_count * sizeof(*families));
    memcpy(space->families + old.family_count, families, count * sizeof(*families));
    space->items = ARENA_NEW(arena, struct space_item, space->item_count);
    memcpy(space->items, old.items, old.item_count * sizeof(*space->items));
    for (uint32_t f = old.family_count; f < space->family_count; f++)
        number_family(space, f);
    return SHUNT_OK;
}

/** A weight with a dtype of its own must be derived too. */
static enum shunt_status check_own_dtypes(struct arena *arena, const struct space *space, struct shunt_err *err)
{
    const struct cfg_layout *to = space->layout[SPACE_TO];
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        for (uint32_t s = 0; s < family->state_count; s++) {
            const struct space_item *item = &space->items[family->item_begin + s];
            if (item->dtype[SPACE_TO] == SPACE_ABSENT || has_cast(item->read_dtype, item->dtype[SPACE_TO]))
                continue;
            return shunt_fail(
                err, SHUNT_ERR_UNSUPPORTED,
                "%s:%u:%u: state.%s: found %s for %s, made from %s, expected a cast between fp32 and bf16 "
                "or none (not supported: others)",
                to->path, to->state_pos.line, to->state_pos.column, shunt_state_name(item->state),
                shunt_dtype_name(item->dtype[SPACE_TO]), space_tensor_name(arena, family, item->layer, item->expert),
                shunt_dtype_name(item->read_dtype));
        }
    }
    return SHUNT_OK;
}

enum shunt_status space_build(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                              const struct cfg_layout *to, struct space **space_out, struct shunt_err *err)
{
    enum shunt_status status = check_states(from, to, err);
    struct space *space = ARENA_NEW(arena, struct space, 1);
    if (status == SHUNT_OK)
        status = beside_decide(arena, model, from, to, &space->beside, err);
    if (status != SHUNT_OK)
        return status;
    uint32_t before_others = model->tensor_count + model->scalar_count;
    space->model = model;
    space->layout[SPACE_FROM] = from;
    space->layout[SPACE_TO] = to;
    space->family_count = before_others + space->beside.copied_count;
    space->families = ARENA_NEW(arena, struct space_family, space->family_count);
    for (uint32_t f = 0; f < space->family_count; f++) {
        struct space_family *family = &space->families[f];
        if (f < model->tensor_count)
            fill_tensor_family(arena, space, family, &model->tensors[f]);
        else if (f < before_others)
            fill_scalar_family(family, &model->scalars[f - model->tensor_count]);
        else
            status = fill_other_family(family, space->beside.copied[f - before_others], model, from, err);
        if (status != SHUNT_OK)
            return status;
        if (!place_family(space, family))
            return refuse_size(space, family, err);
    }
    space->items = ARENA_NEW(arena, struct space_item, space->item_count);
    for (uint32_t f = 0; f < space->family_count; f++)
        number_family(space, f);
    status = check_own_dtypes(arena, space, err);
    if (status == SHUNT_OK)
        *space_out = space;
    return status;
}

/** Copy text with the first occurrence of mark replaced by a number. */
static char *replace_mark(struct arena *arena, char *text, const char *mark, int64_t number)
{
    const char *at = strstr(text, mark);
    if (at == NULL)
        return text;
    size_t room = strlen(text) + 24;
    char *out = ARENA_NEW(arena, char, room);
    snprintf(out, room, "%.*s%lld%s", (int)(at - text), text, (long long)number, at + strlen(mark));
    return out;
}

const struct space_family *space_find_family(const struct space *space, const char *name)
{
    for (uint32_t f = 0; f < space->model->tensor_count; f++) {
        if (strcmp(space->families[f].name, name) == 0)
            return &space->families[f];
    }
    return NULL;
}

char *space_tensor_name(struct arena *arena, const struct space_family *family, int64_t layer, int64_t expert)
{
    char *name = arena_strdup(arena, family->name);
    if (family->stage == CFG_STAGE_LAYER)
        name = replace_mark(arena, name, "{i}", layer);
    return family->expert ? replace_mark(arena, name, "{e}", expert) : name;
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
            total += (uint64_t)space_family_elements(family) * family->layer_count * family->expert_count;
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
            total += elements * dtype_bytes(family->dtype[SPACE_FROM][s]) * family->layer_count * family->expert_count;
    }
    return total;
}
