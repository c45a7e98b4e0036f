/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_COLLIDE_H
#define SHUNT_PLANNER_CONFIG_COLLIDE_H

/** No two tensors or scalars of a model may end up with one name, layers and experts expanded. */

#include "engine.h"

/** Most tensors and scalars of a model, layers and experts expanded. */
#define CFG_MOST_TENSORS (1 << 20)

/** Report, at each entry whose expanded name another one before it has, one such name. */
void cfg_check_names(struct cfg_scope *model_scope);

#endif
