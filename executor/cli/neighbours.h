/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_NEIGHBOURS_H
#define SHUNT_EXECUTOR_NEIGHBOURS_H

/** Between two plans of a chain: what the second reads on a device must be what the first leaves there. */

#include "cli/chain.h"

/**
 * Look at all neighbours of a chain, on one device. Parts are read for that and dropped again, so nobody may have
 * taken any yet.
 *
 * @return SHUNT_ERR_MISMATCH, which names the entry and both plans; as shunt_plan_get_part(); SHUNT_ERR_NOMEM
 */
enum shunt_status neighbours_check(const struct chain *chain, uint32_t device, struct shunt_err *err);

#endif
