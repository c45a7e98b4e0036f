/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SIDE_H
#define SHUNT_PLANNER_SIDE_H

/**
 * One layout laid over the space: which rank holds which boxes of which item, and where in its
 * buffers. Made by composing small rules: grid (rank -> coordinates), pipeline (layer -> stage),
 * cut (tensor parallel), experts (expert -> ep), shard (data parallel); or given, as a mesh with
 * placements or box by box.
 */

#include "space/grid.h"
#include "space/pipeline.h"
#include "space/placement.h"
#include "space/space.h"

/** Which placements a rank is in, and which items have a placement: found without looking at all of them. */
struct side_index {
    size_t *rank_begin;        /* rank_count + 1 */
    uint32_t *rank_placement;  /* those of rank r are [rank_begin[r], rank_begin[r + 1]) */
    uint32_t *placement_begin; /* placement_count + 1 */
    uint32_t *placement_item;  /* those of placement p, ascending */
};

struct side {
    const struct cfg_layout *layout;
    const struct space *space;
    struct grid grid;
    struct pipeline pipeline; /* no chunks in the given forms */
    uint32_t placement_count;
    struct placement *placements;
    uint32_t *item_placement; /* by item; SIDE_KEEPS_NONE: the layout does not keep the state */
    struct side_index index;  /* of a pair (space/pair.h); empty before */
};

#define SIDE_KEEPS_NONE UINT32_MAX

/** An item that a rank holds. */
struct side_item {
    uint32_t item;
    const struct placement_variant *variant;
};
typedef VEC(struct side_item) side_items;

/**
 * @return SHUNT_ERR_INPUT (the layout does not fit the model; err names file, line, field, what was
 *         found and what is allowed) or SHUNT_ERR_UNSUPPORTED
 */
enum shunt_status side_build(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                             struct side **side_out, struct shunt_err *err);

/** Fill in the index once the placements stand. */
void side_index_build(struct arena *arena, struct side *side);

static inline bool side_keeps(const struct side *side, uint32_t item)
{
    return side->item_placement[item] != SIDE_KEEPS_NONE;
}

/** Placement of an item that the side keeps. */
static inline const struct placement *side_placement(const struct side *side, uint32_t item)
{
    return &side->placements[side->item_placement[item]];
}

/** Memory that the buffers of an item live in. */
static inline enum cfg_tier side_tier(const struct side *side, uint32_t item)
{
    return (enum cfg_tier)side->layout->state_tier[side->space->items[item].state];
}

/** What a rank holds of an item; NULL if nothing. */
const struct placement_variant *side_variant(const struct side *side, uint32_t item, uint32_t rank);

/** List what a rank holds, by ascending item. */
void side_list(struct arena *arena, const struct side *side, uint32_t rank, side_items *list);

/** Bytes of all buffers of a rank, pads included. */
uint64_t side_rank_bytes(const struct side *side, uint32_t rank);

#endif
