/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_EXPLAIN_PRINT_H
#define SHUNT_PLANNER_EXPLAIN_PRINT_H

/** Which port binds a plan, and where its time goes, for people and as JSON. */

#include "emit/explain.h"
#include "json.h"
#include "shunt/plan.h"

/** What an explanation stands beside. */
struct explained {
    const struct shunt_plan *plan;
    double predicted, lower_bound;         /* not a number: none is known, and `routing` is all of the busiest link */
    const struct explanation *explanation; /* NULL: the plan does not say */
};

void explain_print(const struct explained *explained);

/** Key `explain`: an object, or null. */
void explain_json(struct json *json, const struct explained *explained);

/** The same of what the plan itself says. */
void explain_print_plan(const struct shunt_plan *plan);
void explain_json_plan(struct json *json, const struct shunt_plan *plan);

#endif
