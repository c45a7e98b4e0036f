/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PIPELINE_H
#define SHUNT_PLANNER_PIPELINE_H

/** Pipeline rule: which layers sit on which stage. */

#include "config/config.h"

/**
 * Even split of `layers` over the layout's pp stages, or with first and last stage of given size
 * and the rest even between them.
 *
 * @param bounds  pp + 1 entries; stage s holds [bounds[s], bounds[s + 1])
 */
enum shunt_status pipeline_split(const struct cfg_layout *layout, int64_t layers, int64_t *bounds,
                                 struct shunt_err *err);

#endif
