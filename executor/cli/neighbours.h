/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_NEIGHBOURS_H
#define SHUNT_EXECUTOR_NEIGHBOURS_H

/** Between two plans of a chain: what the second reads on a device must be what the first leaves there. */

#include "cli/chain.h"
#include "replay/world.h"

/**
 * Every process looks at all neighbours on its own devices, and all get one verdict: the first bad device's. Parts are
 * read for that and dropped again, so nobody may have taken any yet. A single plan has no neighbours.
 *
 * @return SHUNT_ERR_MISMATCH, which names the entry and both plans; as shunt_plan_get_part(); SHUNT_ERR_NOMEM; what a
 *         world fails with
 */
enum shunt_status neighbours_check(const struct chain *chain, struct shunt_world *world, double timeout_seconds,
                                   struct shunt_err *err);

#endif
