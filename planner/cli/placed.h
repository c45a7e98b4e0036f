/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLACED_H
#define SHUNT_PLANNER_PLACED_H

/** The layout that a plan leaves: its new layout, naming the devices where the new ranks are. */

#include "config/config.h"
#include "shunt/plan.h"

/**
 * Write the document of the new layout with `devices` as in the plan, and all else as it is. References that are
 * relative to the document's folder become absolute if the new one is in another folder.
 *
 * @param to  the new layout of the plan, as it was loaded
 * @return SHUNT_ERR_IO, SHUNT_ERR_NOMEM, or SHUNT_ERR_INTERNAL when the result would not be the plan's new layout
 */
enum shunt_status placed_write(const struct shunt_plan *plan, const struct cfg_layout *to, const char *path,
                               struct shunt_err *err);

#endif
