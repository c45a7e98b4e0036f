/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_BACKEND_H
#define SHUNT_PLANNER_BACKEND_H

/** What a solver must do: one attempt at a program whose numbers are of middling size. One file per solver. */

#include "solve/lp.h"

struct lp_column {
    double cost, lower, upper;
    bool whole;
};

struct lp_row {
    double lower, upper;
};

struct lp_entry {
    int row, column;
    double value;
};

struct lp_model {
    int column_count, row_count, entry_count;
    const struct lp_column *columns;
    const struct lp_row *rows;
    const struct lp_entry *entries; /* no two of one place */
};

enum lp_method { LP_PRIMAL, LP_DUAL, LP_PRESOLVED };

struct lp_attempt {
    enum lp_method method;
    int iterations, nodes;
    double seconds, gap;
    const double *start;
};

/** Arrays are the caller's: as long as there are columns and rows. */
struct lp_answer {
    enum lp_status status;
    double *values; /* set where has_values */
    double *prices; /* by row; set where has_prices */
    double bound;   /* of a search over whole numbers */
    int iterations, nodes;
    bool has_values, has_prices;
    bool searched; /* over whole numbers: the relaxed program had an answer */
};

/** May be called from any thread; leaves nothing behind in the solver. Bad models are LP_FAILED. */
void backend_solve(const struct lp_model *model, const struct lp_attempt *attempt, struct lp_answer *answer_out);

const char *backend_name(void);

#endif
