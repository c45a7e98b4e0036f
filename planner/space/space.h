/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SPACE_H
#define SHUNT_PLANNER_SPACE_H

/**
 * The virtual parameter space of one model: every tensor and state, as if every degree of
 * parallelism were 1. Tensors are numbered family by family, in document order, layers
 * ascending; scalars and the other entries that a move copies follow as families of their own. An item is one
 * (tensor, state) that either layout keeps. A side may lack it, and the two may keep it in unlike dtypes.
 */

#include "config/config.h"
#include "space/beside.h"
#include "util/arena.h"

enum space_side { SPACE_FROM, SPACE_TO, SPACE_SIDES };

#define SPACE_ABSENT 0xff /* dtype of a state that a side does not keep */

struct space_family {
    const char *name; /* "{i}" stands for the layer, "{e}" for the expert */
    struct cfg_pos pos;
    uint32_t ndim;
    int64_t shape[SHUNT_MAX_DIMS];
    enum cfg_stage stage;
    bool expert, tied_last, tied_mtp;
    int32_t cut_dim; /* -1: replicated over tp (etp for an expert) */
    uint32_t segment_count;
    const int64_t *segments;
    bool pad_vocab;
    enum cfg_heads heads;               /* what cut_dim is made of */
    int64_t head_dim, kv_heads;         /* rows of a head, key heads; 0 when heads is NONE */
    uint32_t layer_count, expert_count; /* 1 for a family without layers, without experts */
    const int64_t *layers;              /* ascending; {0} without layers */
    const bool *per;                    /* an entry of one row for each place on these axes (keys.h); NULL: not one */
    uint32_t state_count;               /* states kept of each tensor on either side, ascending */
    uint8_t state[SHUNT_STATE_COUNT], dtype[SPACE_SIDES][SHUNT_STATE_COUNT];
    uint32_t tensor_begin; /* number of the first tensor; experts of a layer follow each other */
    uint32_t item_begin;   /* number of the first item; states of a tensor follow each other */
};

struct space_item {
    uint32_t family;
    uint32_t tensor;
    int64_t layer, expert;
    uint8_t state, dtype[SPACE_SIDES];
    uint32_t elem_bytes[SPACE_SIDES]; /* 0: the side does not keep it */
    uint32_t wire_bytes;   /* of an element on the network: the narrower of what is read and what is written */
    uint32_t derived_from; /* item whose old side is read: itself, or its partner of param and master */
    uint8_t read_dtype;    /* of that item's old side */
    bool fresh;            /* that item's new side is as good, because it is not cast */
};

struct space {
    const struct cfg_model *model;
    const struct cfg_layout *layout[SPACE_SIDES];
    uint32_t family_count, tensor_count, item_count;
    struct space_family *families;
    struct space_item *items;
    struct beside beside; /* what becomes of the state beside the tensors */
    bool changes;         /* a state is cast, derived from another one or dropped */
};

/**
 * Lay out the space of a model with the states that either layout keeps.
 *
 * @param to  may equal `from`: then nothing is made or cast
 * @return SHUNT_ERR_UNSUPPORTED when the new layout wants a state or dtype that cannot be made from the old one,
 *         SHUNT_ERR_INPUT when the space is too large to number, or an entry beside the tensors refuses the move
 */
enum shunt_status space_build(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                              const struct cfg_layout *to, struct space **space_out, struct shunt_err *err);

/** Keep one more state of a family that has no place yet; a dtype below 0: the side does not. */
void space_family_add_state(struct space_family *family, enum shunt_state state, const int dtype[SPACE_SIDES]);

/**
 * Add families behind the others and number their tensors and items. The arrays of the space move.
 *
 * @return SHUNT_ERR_INPUT when the space becomes too large to number
 */
enum shunt_status space_append(struct arena *arena, struct space *space, struct space_family *families, uint32_t count,
                               struct shunt_err *err);

/** Which side of the space a layout is. */
static inline enum space_side space_side_of(const struct space *space, const struct cfg_layout *layout)
{
    return layout == space->layout[SPACE_FROM] ? SPACE_FROM : SPACE_TO;
}

/** Whether a layout keeps this state of the tensors that have it. */
static inline bool space_keeps(const struct cfg_layout *layout, uint8_t state)
{
    return state >= SHUNT_STATE_BUFFER || layout->state_dtype[state] >= 0;
}

/** Whether an item is read or written in another form than its own: another dtype, or another state. */
static inline bool space_is_rewritten(const struct space *space, uint32_t item)
{
    const struct space_item *record = &space->items[item];
    return record->derived_from != item || record->read_dtype != record->dtype[SPACE_TO];
}

/** Number of the first item of a family's tensor. */
static inline uint32_t space_item(const struct space_family *family, uint32_t layer_index, uint32_t expert)
{
    return family->item_begin + (layer_index * family->expert_count + expert) * family->state_count;
}

/** The family of the model's tensors that the model writes so; NULL if there is none. */
const struct space_family *space_find_family(const struct space *space, const char *name);

/** Global name of a tensor of a family ("layer.7.moe.expert.3.down.weight"). */
char *space_tensor_name(struct arena *arena, const struct space_family *family, int64_t layer, int64_t expert);

/** Elements of one tensor of the family. */
int64_t space_family_elements(const struct space_family *family);

/** Elements of all tensors with state `param`: what a model card calls parameters. */
uint64_t space_parameter_count(const struct space *space);

/** Bytes of the whole space on the old side, each element once. */
uint64_t space_total_bytes(const struct space *space);

#endif
