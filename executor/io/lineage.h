/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_LINEAGE_H
#define SHUNT_EXECUTOR_LINEAGE_H

/**
 * Over a chain of plans: how each state of each tensor came from what was filled before the first one. A plan
 * may cast a state or make it from another one, and the next plan moves what that one left.
 */

#include <stddef.h>

#include "io/origin.h"

struct lineage_entry {
    const char *tensor; /* borrowed from the plan that left it */
    uint8_t state;
    struct descent descent;
};

/** All zero: everything is what was filled. */
struct lineage {
    struct lineage_entry *entries; /* what is not, ascending by state and tensor */
    size_t count, space;
};

/** What the old side of the plan at hand holds of a state of a tensor. */
struct descent lineage_find(const struct lineage *lineage, unsigned state, const char *tensor);

/**
 * From the old side of a plan to its new one. Reads all parts of the plan.
 *
 * @return as shunt_plan_get_part(), SHUNT_ERR_NOMEM
 */
enum shunt_status lineage_advance(struct lineage *lineage, const struct shunt_plan *plan, struct shunt_err *err);

void lineage_finish(struct lineage *lineage);

#endif
