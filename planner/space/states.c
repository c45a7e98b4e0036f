/* SPDX-License-Identifier: Apache-2.0 */
#include "space/states.h"

/* ---- before anything is placed -------------------------------------------------------- */

static bool keeps_remainders(const struct cfg_layout *layout)
{
    return layout->state_dtype[SHUNT_STATE_MASTER] == SHUNT_DTYPE_I16;
}

/** Each half of a master is worth nothing without the other, so neither is made from anything else. */
static enum shunt_status check_remainder(const struct cfg_layout *from, const struct cfg_layout *to,
                                         struct shunt_err *err)
{
    int a = from->state_dtype[SHUNT_STATE_MASTER], b = to->state_dtype[SHUNT_STATE_MASTER];
    if (a == b || a < 0 || b < 0 || (!keeps_remainders(from) && !keeps_remainders(to)))
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                      "%s:%u:%u: state.master: found %s, expected %s as in %s (not supported: putting together or "
                      "taking apart the halves of fp32 masters, of which i16 is the low one)",
                      to->path, to->state_pos.line, to->state_pos.column, shunt_dtype_name((unsigned)b),
                      shunt_dtype_name((unsigned)a), from->path);
}

/** Weights with a dtype of their own must be bf16 too. */
static enum shunt_status check_high_halves(const struct cfg_model *model, const struct cfg_layout *layout,
                                           struct shunt_err *err)
{
    for (uint32_t t = 0; keeps_remainders(layout) && t < model->tensor_count; t++) {
        const struct cfg_tensor *tensor = &model->tensors[t];
        if (tensor->kind != CFG_KIND_WEIGHT || tensor->dtype < 0 || tensor->dtype == SHUNT_DTYPE_BF16)
            continue;
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s:%u:%u: state.master: found i16, the low halves of fp32 masters, beside %s in %s (%s:%u), "
                          "expected weights in bf16, which are the high halves",
                          layout->path, layout->state_pos.line, layout->state_pos.column, tensor->name,
                          shunt_dtype_name((unsigned)tensor->dtype), model->path, tensor->pos.line);
    }
    return SHUNT_OK;
}

static const char *scale_word(const struct cfg_layout *layout, int state)
{
    return layout->state_scale[state] == CFG_SCALE_SHARD ? "with a scale per shard" : "without scales";
}

/** Values with scales stay what they are, scale and all. */
static enum shunt_status check_scales(const struct cfg_layout *from, const struct cfg_layout *to, struct shunt_err *err)
{
    for (int s = 0; s < SHUNT_STATE_BUFFER; s++) {
        int a = from->state_dtype[s], b = to->state_dtype[s];
        bool scaled = from->state_scale[s] == CFG_SCALE_SHARD, wanted = to->state_scale[s] == CFG_SCALE_SHARD;
        if (a < 0 || b < 0 || (!scaled && !wanted) || (scaled == wanted && a == b))
            continue;
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                          "%s:%u:%u: state.%s: found %s %s, expected %s %s as in %s (not supported: quantizing, or "
                          "undoing it)",
                          to->path, to->state_pos.line, to->state_pos.column, shunt_state_name((unsigned)s),
                          shunt_dtype_name((unsigned)b), scale_word(to, s), shunt_dtype_name((unsigned)a),
                          scale_word(from, s), from->path);
    }
    return SHUNT_OK;
}

enum shunt_status states_check(const struct cfg_model *model, const struct cfg_layout *from,
                               const struct cfg_layout *to, struct shunt_err *err)
{
    enum shunt_status status = check_remainder(from, to, err);
    if (status == SHUNT_OK)
        status = check_high_halves(model, from, err);
    if (status == SHUNT_OK)
        status = check_high_halves(model, to, err);
    if (status == SHUNT_OK)
        status = check_scales(from, to, err);
    return status;
}

/* ---- when everything is placed --------------------------------------------------------- */

/** Whether a variant, which may be NULL, holds all of a box. Its holdings are apart. */
static bool holds_box(const struct placement_variant *variant, const struct box *box)
{
    int64_t missing = box_volume(box);
    for (uint32_t h = 0; variant != NULL && h < variant->holding_count; h++) {
        struct box common;
        if (box_intersect(&variant->holdings[h].box, box, &common))
            missing -= box_volume(&common);
    }
    return missing == 0;
}

static enum shunt_status check_halves(struct arena *arena, const struct side *side, uint32_t param, uint32_t master,
                                      struct shunt_err *err)
{
    const struct placement *low = side_placement(side, master);
    for (uint32_t m = 0; m < low->member_count; m++) {
        const struct placement_variant *halves = &low->variants[low->members[m].variant];
        const struct placement_variant *weights = side_variant(side, param, low->members[m].rank);
        for (uint32_t h = 0; h < halves->holding_count; h++) {
            char text[SHUNT_MAX_DIMS * 48];
            const struct space_item *item = &side->space->items[master];
            const struct box *box = &halves->holdings[h].box;
            if (holds_box(weights, box))
                continue;
            return shunt_fail(err, SHUNT_ERR_INPUT,
                              "%s:%u:%u: state.master: found rank %u with i16 masters of %s %s and without all of "
                              "the weights, expected both halves on one rank",
                              side->layout->path, side->layout->state_pos.line, side->layout->state_pos.column,
                              low->members[m].rank,
                              space_tensor_name(arena, &side->space->families[item->family], item->layer, item->expert),
                              box_print(box, text, sizeof(text)));
        }
    }
    return SHUNT_OK;
}

enum shunt_status states_check_remainders(struct arena *arena, const struct side *side, struct shunt_err *err)
{
    const uint32_t *placement = side->item_placement;
    uint32_t seen_param = UINT32_MAX, seen_master = UINT32_MAX;
    for (uint32_t i = 0; keeps_remainders(side->layout) && i < side->space->item_count; i++) {
        const struct space_item *item = &side->space->items[i];
        if (item->state != SHUNT_STATE_MASTER)
            continue;
        uint32_t param = i;
        while (side->space->items[param].state != SHUNT_STATE_PARAM) /* the first of a tensor */
            param--;
        if (placement[param] == seen_param && placement[i] == seen_master)
            continue;
        enum shunt_status status = check_halves(arena, side, param, i, err);
        if (status != SHUNT_OK)
            return status;
        seen_param = placement[param];
        seen_master = placement[i];
    }
    return SHUNT_OK;
}
