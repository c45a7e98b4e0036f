/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows enter one after the other. Prices of rows and columns keep every gain at most the sum of its two prices, with
 * equality where a row has a column. A new row walks along such equalities, changing prices by the least slack when it
 * is stuck, until it meets a free column: O(rows^2 columns), a few microseconds for the eight devices of a node.
 * Ties go to the lowest column.
 */
#include "solve/assign.h"

#include <assert.h>
#include <string.h>

#define NO_ROW UINT32_MAX

void assign_init(struct arena *arena, uint32_t most_rows, uint32_t most_columns, struct assign *assign_out)
{
    *assign_out = (struct assign){
        .most_rows = most_rows,
        .most_columns = most_columns,
        .row_price = ARENA_NEW(arena, int64_t, most_rows),
        .column_price = ARENA_NEW(arena, int64_t, most_columns),
        .slack = ARENA_NEW(arena, int64_t, most_columns),
        .row_of = ARENA_NEW(arena, uint32_t, most_columns),
        .way = ARENA_NEW(arena, uint32_t, most_columns),
        .reached = ARENA_NEW(arena, unsigned char, most_columns),
    };
}

/** Lower the slacks by what row `row`, reached through column `from`, offers. @return the column of least slack */
static uint32_t look_from(struct assign *assign, uint32_t row, uint32_t from, uint32_t columns, const int64_t *gain)
{
    uint32_t best = columns;
    int64_t price = assign->row_price[row];
    for (uint32_t c = 0; c < columns; c++) {
        if (assign->reached[c])
            continue;
        int64_t slack = price + assign->column_price[c] - gain[c];
        if (slack < assign->slack[c]) {
            assign->slack[c] = slack;
            assign->way[c] = from;
        }
        if (best == columns || assign->slack[c] < assign->slack[best])
            best = c;
    }
    return best;
}

/** Change prices so that the column of least slack is met without any. */
static void pay(struct assign *assign, uint32_t new_row, int64_t least, uint32_t columns)
{
    assign->row_price[new_row] -= least;
    for (uint32_t c = 0; c < columns; c++) {
        if (assign->reached[c]) {
            assign->row_price[assign->row_of[c]] -= least;
            assign->column_price[c] += least;
        } else {
            assign->slack[c] -= least;
        }
    }
}

static void enter_row(struct assign *assign, uint32_t row, uint32_t columns, const int64_t *gain)
{
    uint32_t at = row, through = columns; /* the row that looks, and the column it was reached by */
    memset(assign->reached, 0, columns);
    for (uint32_t c = 0; c < columns; c++)
        assign->slack[c] = INT64_MAX;
    for (;;) {
        uint32_t next = look_from(assign, at, through, columns, gain + (size_t)at * columns);
        if (assign->slack[next] != 0)
            pay(assign, row, assign->slack[next], columns);
        through = next;
        if (assign->row_of[next] == NO_ROW)
            break;
        assign->reached[next] = 1;
        at = assign->row_of[next];
    }
    while (through != columns) { /* each row on the way takes the column it looked at */
        uint32_t before = assign->way[through];
        assign->row_of[through] = before == columns ? row : assign->row_of[before];
        through = before;
    }
}

int64_t assign_solve(struct assign *assign, uint32_t rows, uint32_t columns, const int64_t *gain, uint32_t *column_out)
{
    int64_t total = 0;
    assert(rows <= columns && rows <= assign->most_rows && columns <= assign->most_columns);
    for (uint32_t c = 0; c < columns; c++) {
        assign->column_price[c] = 0;
        assign->row_of[c] = NO_ROW;
    }
    for (uint32_t r = 0; r < rows; r++) {
        int64_t most = gain[(size_t)r * columns];
        for (uint32_t c = 1; c < columns; c++)
            most = gain[(size_t)r * columns + c] > most ? gain[(size_t)r * columns + c] : most;
        assign->row_price[r] = most;
        enter_row(assign, r, columns, gain);
    }
    for (uint32_t c = 0; c < columns; c++) {
        uint32_t r = assign->row_of[c];
        if (r == NO_ROW)
            continue;
        total += gain[(size_t)r * columns + c];
        if (column_out != NULL)
            column_out[r] = c;
    }
    return total;
}
