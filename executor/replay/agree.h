/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_AGREE_H
#define SHUNT_EXECUTOR_AGREE_H

/** Before the first byte moves: all devices run the same plan over the tables it describes, or none starts. */

#include "replay/engine.h"
#include "replay/world.h"

/**
 * Compare plan id, format and library versions and buffer tables at the root, and lists who differs;
 * then each pair of peers compares the sizes of all messages between them.
 *
 * @param engines  the local devices, ascending
 */
enum shunt_status agree_all(struct shunt_world *world, struct engine *const *engines, uint32_t count,
                            double timeout_seconds, struct shunt_err *err);

#endif
