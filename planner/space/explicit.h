/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXPLICIT_H
#define SHUNT_PLANNER_EXPLICIT_H

/**
 * Holdings form: a layout given box by box, for anything that no rule makes. Replicas are declared
 * (one entry with several ranks, or entries marked as copies), never guessed.
 */

#include "space/mesh.h"

/**
 * Place every item as the document's holdings say.
 *
 * @return SHUNT_ERR_INPUT: an unknown tensor, a box outside its tensor or its buffer, boxes that share memory, two
 *         undeclared holders of one box, an element that nobody holds; err names file, line, tensor, box and ranks
 */
enum shunt_status explicit_place(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                                 placement_vec *list, uint32_t *item_placement_out, struct shunt_err *err);

#endif
