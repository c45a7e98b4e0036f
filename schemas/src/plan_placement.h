/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_PLAN_PLACEMENT_H
#define SHUNT_SCHEMAS_PLAN_PLACEMENT_H

/** Inside the plan reader: check of the statement about the placement of the new ranks. */

#include "plan_internal.h"

/** True if it is empty, or METHOD TAB MOVED_FIXED TAB COST TAB BOUND with BOUND <= COST. */
bool schema_check_placement(const struct plan_site *site, const char *text);

#endif
