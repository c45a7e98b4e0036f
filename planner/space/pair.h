/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PAIR_H
#define SHUNT_PLANNER_PAIR_H

/**
 * Both sides of a move over one space, with everything that they decide together. Of the old side,
 * only what is current counts as held.
 */

#include "space/side.h"

struct pair {
    struct space *space;
    struct side *from, *to;
};

/**
 * @param to  may be `from`: then both sides are one, which is no move, and all of it counts
 * @return SHUNT_ERR_INPUT or SHUNT_ERR_UNSUPPORTED; err names file, line, field
 */
enum shunt_status pair_build(struct arena *arena, const struct cfg_model *model, const struct cfg_layout *from,
                             const struct cfg_layout *to, struct pair *pair_out, struct shunt_err *err);

#endif
