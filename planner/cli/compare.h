/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_COMPARE_H
#define SHUNT_PLANNER_COMPARE_H

#include <stdio.h>

#include "shunt/plan.h"

/**
 * Check that a plan's two sides are exactly what two layout documents say: ranks, devices,
 * tensors, buffers, local shapes and holdings.
 *
 * @param diag  where problems of the documents go
 * @return SHUNT_OK, SHUNT_ERR_MISMATCH (the first difference in err), or the status of loading a document
 */
enum shunt_status cli_compare_layouts(const struct shunt_plan *plan, const char *from_path, const char *to_path,
                                      FILE *diag, struct shunt_err *err);

#endif
