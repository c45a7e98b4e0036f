/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ASSIGN_H
#define SHUNT_PLANNER_ASSIGN_H

/** Assignment: each row gets a column of its own so that the sum of gains is greatest (Hungarian method). */

#include "util/arena.h"

/** Memory of a solver that is asked many times. */
struct assign {
    uint32_t most_rows, most_columns;
    int64_t *row_price, *column_price, *slack;
    uint32_t *row_of, *way;
    unsigned char *reached;
};

void assign_init(struct arena *arena, uint32_t most_rows, uint32_t most_columns, struct assign *assign_out);

/**
 * @param gain        rows x columns, row by row; of any sign, and their sums fit an int64_t; rows <= columns
 * @param column_out  column of each row; NULL: not wanted
 * @return the sum of the gains
 */
int64_t assign_solve(struct assign *assign, uint32_t rows, uint32_t columns, const int64_t *gain, uint32_t *column_out);

#endif
