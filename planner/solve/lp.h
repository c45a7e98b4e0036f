/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_LP_H
#define SHUNT_PLANNER_LP_H

/**
 * Linear programs, some columns whole numbers perhaps: minimise cost x under row bounds and column bounds. Nothing
 * here knows which solver answers; backend.h does. Numbers may be of any size (bytes, seconds): rows and columns are
 * normalised before the solver sees them. An answer counts when the program as it was written bears it out: the
 * values obey every row, and the row prices prove the objective. Nothing aborts, whatever comes in.
 */

#include <stdbool.h>

#include "util/arena.h"

enum lp_status {
    LP_OPTIMAL,
    LP_LIMIT,      /* stopped by a count or by the clock; `values`, where set, are the best found */
    LP_INFEASIBLE, /* proved */
    LP_UNBOUNDED,
    LP_FAILED, /* the solver gave up, or its answer was wrong */
    LP_BAD,    /* a number that is none, or a place that is not there */
    LP_ABSENT  /* built without a solver */
};

struct lp;

struct lp_options {
    int iterations;      /* of the simplex method; 0: 1,000,000 */
    int nodes;           /* of the search over whole numbers; 0: 10,000 */
    double seconds;      /* stop by the clock; 0: do not */
    double gap;          /* relative gap at which the search over whole numbers may stop */
    const double *start; /* values to begin with where columns are whole; NULL: none */
};

struct lp_result {
    enum lp_status status;
    double objective; /* of `values`; infinite: none */
    double bound;     /* proved: no objective is lower */
    double *values;   /* by column; NULL: none */
    int iterations, nodes;
    const char *tried; /* what led to the answer: "primal", "dual", "presolved", "perturbed", "none" */
};

struct lp *lp_new(struct arena *arena);
/** @return its number; bounds may be infinite */
int lp_add_column(struct lp *lp, double cost, double lower, double upper, bool whole);
int lp_add_row(struct lp *lp, double lower, double upper);
void lp_set_row(struct lp *lp, int row, double lower, double upper);
void lp_set_cost(struct lp *lp, int column, double cost);
/** Entries of one place add up. */
void lp_add_entry(struct lp *lp, int row, int column, double value);

/** Whether values obey all rows and bounds, and are whole where they must be. @param values  by column */
bool lp_admits(const struct lp *lp, const double *values);

int lp_column_count(const struct lp *lp);
int lp_row_count(const struct lp *lp);

/** Values and all come from the arena of the program. */
struct lp_result lp_solve(struct lp *lp, const struct lp_options *options);

/** "GLPK 5.0"; NULL: built without a solver. */
const char *lp_solver_name(void);
const char *lp_status_text(enum lp_status status);

#endif
