/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CUT_H
#define SHUNT_PLANNER_CUT_H

/**
 * Tensor-parallel rule: a cut dimension is a list of segments S_0, S_1, ...; rank t of T holds
 * slice t of each, one behind the other:
 *
 *     global  | gate 0 | gate 1 | up 0 | up 1 |      T = 2, two segments
 *     rank 0  | gate 0 | up 0 |      rank 1  | gate 1 | up 1 |
 *
 * A vocabulary is first padded at its end to a multiple of what the layout says; pads are
 * outside the space, so the last ranks may hold fewer logical rows, or none.
 */

#include "space/placement.h"
#include "space/space.h"

/** The local contents of a family under a layout: one per tp index, or a single one where nothing is cut. */
struct cut {
    uint32_t variant_count;
    struct placement_variant *variants; /* without ranks */
};

/** @param parts  tp, or etp for a family of experts */
enum shunt_status cut_build(struct arena *arena, const struct space *space, const struct space_family *family,
                            const struct cfg_layout *layout, int64_t parts, struct cut *cut_out, struct shunt_err *err);

/** Rows of the padded vocabulary under a layout; 0 and err when the layout pins an impossible size. */
int64_t cut_padded_rows(const struct cfg_layout *layout, int64_t rows, struct shunt_err *err);

#endif
