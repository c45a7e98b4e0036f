/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_MAKE_PLAN_H
#define SHUNT_PLANNER_MAKE_PLAN_H

/** From loaded documents to a proved plan on disk: what `shunt plan` and `shunt precompile` share. */

#include "compile.h"
#include "shunt/plan.h"

/** A plan, and where it was written. */
struct made_plan {
    struct output *output;
    struct shunt_plan *plan;
};

/**
 * Compile, verify and write. Nothing appears at `path` unless all went well.
 *
 * @param verify    false: write the plan without proving it
 * @param made_out  set on SHUNT_OK; release with made_plan_free()
 */
enum shunt_status make_plan(const struct compile_options *options, const struct compile_documents *documents,
                            bool verify, const char *path, struct made_plan *made_out, struct shunt_err *err);

/** Accepts what is all zero. */
void made_plan_free(struct made_plan *made);

#endif
