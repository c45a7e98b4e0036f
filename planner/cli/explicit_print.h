/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXPLICIT_PRINT_H
#define SHUNT_PLANNER_EXPLICIT_PRINT_H

/** Any layout as a document in holdings form, on stdout. */

#include "space/side.h"

void explicit_print(struct arena *arena, const struct side *side);

#endif
