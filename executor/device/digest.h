/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_DIGEST_H
#define SHUNT_EXECUTOR_DIGEST_H

/** XXH3 of boxes in host memory. */

#include <stdbool.h>

#include "shunt/plan.h"

/** Whether this build has it. */
bool digest_available(void);

/** XXH3, 64 bits, of the elements of a box in row-major order, wherever they lie. Only where it is available. */
uint64_t digest_box(const void *data, const struct shunt_plan_view *view);

#endif
