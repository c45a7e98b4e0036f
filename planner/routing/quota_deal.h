/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_QUOTA_DEAL_H
#define SHUNT_PLANNER_QUOTA_DEAL_H

/** Whole pieces to holders, by their quotas. */

#include "routing/quota_groups.h"

/**
 * Fill type->sources of all pieces that must be sent. What then keeps a port busy for longer than some seconds, by
 * more than a hair, is moved to other holders where that helps.
 */
void quota_deal(struct arena *arena, struct quota_groups *groups, double seconds);

#endif
