/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_PLAN_NOTES_H
#define SHUNT_SCHEMAS_PLAN_NOTES_H

/** Inside the plan reader: check of the statement about the state beside the tensors. */

#include "plan_internal.h"

/** True if every line is NAME TAB ACTION TAB WHY NEWLINE with a known action and nothing empty. */
bool schema_check_notes(const struct plan_site *site, const char *text);

#endif
