/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_PLAN_INDEX_H
#define SHUNT_PLANNER_PLAN_INDEX_H

/** DIR/index.json: which plans a folder has, what each was made from, and whether it still is what it was. */

#include "compile.h"
#include "config/ladder.h"
#include "shunt/plan.h"

/** Entries by step of the ladder; NULL: this step has no plan. */
struct plan_index {
    const struct cfg_ladder *ladder;
    const char *folder;
    char *path; /* of the index */
    struct cfg_index_entry **entries;
};

/**
 * Read the index of a folder, if it has one. Entries of steps that the ladder no longer has, and of plans whose
 * file is gone or has another size, are left out.
 *
 * @param force  take an index that is no index, or that of another ladder, for none
 * @return SHUNT_ERR_INPUT (such an index, without force), SHUNT_ERR_IO, SHUNT_ERR_NOMEM; problems are on diag
 */
enum shunt_status plan_index_open(const struct cfg_ladder *ladder, const char *folder, bool force,
                                  struct plan_index *index_out, FILE *diag);

/** Accepts what is all zero. */
void plan_index_close(struct plan_index *index);

/** Path of the plan of a step, malloc'd; NULL without memory. */
char *plan_index_file(const struct plan_index *index, uint32_t step);

/** Path of the layout that the plan of a step leaves, where the compiler chose its devices; malloc'd. */
char *plan_index_layout(const struct plan_index *index, uint32_t step);

/**
 * The plan of a step, if compiling it again would give the same bytes: the same program, documents and options
 * made it, and the file is still what was written. NULL otherwise.
 */
struct shunt_plan *plan_index_current(const struct plan_index *index, uint32_t step,
                                      const struct compile_options *options, const struct compile_documents *documents);

/** Enter a new plan in place of the old one. @return SHUNT_ERR_NOMEM, with no entry */
enum shunt_status plan_index_set(struct plan_index *index, uint32_t step, const struct compile_options *options,
                                 const struct compile_documents *documents, const struct shunt_plan *plan);

/** Drop the entry of a step. */
void plan_index_drop(struct plan_index *index, uint32_t step);

/** Write it, whole or not at all. */
enum shunt_status plan_index_write(const struct plan_index *index, struct shunt_err *err);

#endif
