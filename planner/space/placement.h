/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACEMENT_H
#define SHUNT_PLANNER_PLACEMENT_H

/**
 * Where the tensors of one cut lie: distinct local contents ("variants") and the ranks that hold
 * each. Tensors that are cut alike on the same ranks share one placement, which is how a layout
 * with many layers and ranks stays small.
 */

#include "space/box.h"
#include "util/arena.h"

/** A box of the tensor and where it lies in the local buffer, in elements. */
struct placement_holding {
    struct box box;
    int64_t offset;                 /* of element box.lo */
    int64_t stride[SHUNT_MAX_DIMS]; /* per dimension of the tensor */
};

/** One local content. */
struct placement_variant {
    uint32_t ndim;                 /* of the local buffer: the tensor's, or 1 where the layout is flat */
    int64_t shape[SHUNT_MAX_DIMS]; /* local shape, pads included */
    int64_t elements;              /* product of shape */
    uint32_t holding_count;        /* 0: the shard is empty or all pad */
    struct placement_holding *holdings;
    uint32_t pad_count;
    struct box *pads; /* local indices outside the space: disjoint, none empty */
    uint32_t rank_count;
    uint32_t *ranks; /* ascending */
};

struct placement_member {
    uint32_t rank, variant;
};

struct placement {
    uint32_t variant_count;
    struct placement_variant *variants;
    uint32_t member_count;
    struct placement_member *members; /* every rank that holds a variant, ascending */
};

#define PLACEMENT_NO_VARIANT UINT32_MAX

/** Fill members from the variants' ranks. A rank may be in one variant only. */
void placement_index(struct arena *arena, struct placement *placement);

/** Variant that a rank holds; PLACEMENT_NO_VARIANT if none. */
uint32_t placement_variant_of(const struct placement *placement, uint32_t rank);

/** Row-major strides of a shape, in elements. */
void placement_dense_strides(uint32_t ndim, const int64_t *shape, int64_t *stride_out);

/** Offset of an index inside a holding's buffer, in elements. `at` is global and inside the box. */
int64_t placement_offset(const struct placement_holding *holding, const int64_t *at);

/** Elements of a variant's buffer that are outside the space. */
int64_t placement_pad_elements(const struct placement_variant *variant);

/** Add a box of pads; nothing when it is empty. */
void placement_add_pad(struct arena *arena, struct placement_variant *variant, const struct box *pad);

/** Whether two variants are the same bytes in the same places (pads aside, shapes included). */
bool placement_same_content(const struct placement_variant *a, const struct placement_variant *b);

#endif
