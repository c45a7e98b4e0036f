/* SPDX-License-Identifier: Apache-2.0 */
#include "solve/lp.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "solve/backend.h"

#define MOST_ITERATIONS 1000000
#define MOST_NODES      10000
#define SCALE_PASSES    4
#define TINY            1e-9 /* an entry of a normalised program below it is taken for 0 */
#define WIDE            1e3  /* largest finite bound of a normalised program without whole columns, about */
#define TOLERANCE       1e-6 /* of rows, beside the numbers in them; of the proof of an objective */
#define PERTURBATION    1e-6 /* of row bounds, beside the numbers in the row */

struct lp {
    struct arena *arena;
    VEC(struct lp_column) columns;
    VEC(struct lp_row) rows;
    VEC(struct lp_entry) entries;
    bool bad, whole;
};

struct lp *lp_new(struct arena *arena)
{
    struct lp *lp = ARENA_NEW(arena, struct lp, 1);
    lp->arena = arena;
    return lp;
}

static bool bounds_are_bad(double lower, double upper)
{
    return isnan(lower) || isnan(upper) || lower == INFINITY || upper == -INFINITY;
}

int lp_add_column(struct lp *lp, double cost, double lower, double upper, bool whole)
{
    lp->bad = lp->bad || !isfinite(cost) || bounds_are_bad(lower, upper);
    lp->whole = lp->whole || whole;
    *VEC_PUSH(lp->arena, &lp->columns) = (struct lp_column){cost, lower, upper, whole};
    return (int)lp->columns.count - 1;
}

int lp_add_row(struct lp *lp, double lower, double upper)
{
    lp->bad = lp->bad || bounds_are_bad(lower, upper);
    *VEC_PUSH(lp->arena, &lp->rows) = (struct lp_row){lower, upper};
    return (int)lp->rows.count - 1;
}

void lp_set_row(struct lp *lp, int row, double lower, double upper)
{
    lp->bad = lp->bad || row < 0 || (size_t)row >= lp->rows.count || bounds_are_bad(lower, upper);
    if (!lp->bad)
        lp->rows.items[row] = (struct lp_row){lower, upper};
}

void lp_set_cost(struct lp *lp, int column, double cost)
{
    lp->bad = lp->bad || column < 0 || (size_t)column >= lp->columns.count || !isfinite(cost);
    if (!lp->bad)
        lp->columns.items[column].cost = cost;
}

void lp_add_entry(struct lp *lp, int row, int column, double value)
{
    if (!isfinite(value) || row < 0 || column < 0 || (size_t)row >= lp->rows.count ||
        (size_t)column >= lp->columns.count) {
        lp->bad = true;
        return;
    }
    if (value != 0)
        *VEC_PUSH(lp->arena, &lp->entries) = (struct lp_entry){row, column, value};
}

int lp_column_count(const struct lp *lp)
{
    return (int)lp->columns.count;
}

int lp_row_count(const struct lp *lp)
{
    return (int)lp->rows.count;
}

const char *lp_solver_name(void)
{
    return backend_name();
}

const char *lp_status_text(enum lp_status status)
{
    static const char *const texts[] = {[LP_OPTIMAL] = "optimal",       [LP_LIMIT] = "stopped at its limit",
                                        [LP_INFEASIBLE] = "infeasible", [LP_UNBOUNDED] = "unbounded",
                                        [LP_FAILED] = "gave up",        [LP_BAD] = "bad input",
                                        [LP_ABSENT] = "no solver"};
    return texts[status];
}

static int compare_entries(const void *a, const void *b)
{
    const struct lp_entry *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

/** Sort the entries by row and column, and add up those of one place. */
static void merge_entries(struct lp *lp)
{
    size_t count = 0;
    if (lp->entries.count > 1)
        qsort(lp->entries.items, lp->entries.count, sizeof(*lp->entries.items), compare_entries);
    for (size_t e = 0; e < lp->entries.count; e++) {
        const struct lp_entry *entry = &lp->entries.items[e];
        if (count > 0 && compare_entries(&lp->entries.items[count - 1], entry) == 0)
            lp->entries.items[count - 1].value += entry->value;
        else
            lp->entries.items[count++] = *entry;
    }
    lp->entries.count = count;
}

/** Powers of two, so that normalising loses no bit. */
struct scales {
    double *row, *column;
    double all, cost; /* of all bounds and values; of the objective */
};

static double power_near(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1.0, exponent);
}

/** One pass over rows or columns: the middle of the largest and the smallest entry of each becomes about 1. */
static void scale_pass(const struct lp *lp, struct scales *scales, bool rows, double *least, double *most)
{
    int count = rows ? lp_row_count(lp) : lp_column_count(lp);
    for (int i = 0; i < count; i++)
        least[i] = most[i] = 0;
    for (size_t e = 0; e < lp->entries.count; e++) {
        const struct lp_entry *entry = &lp->entries.items[e];
        double value = fabs(entry->value) * scales->row[entry->row] * scales->column[entry->column];
        int i = rows ? entry->row : entry->column;
        least[i] = least[i] == 0 || value < least[i] ? value : least[i];
        most[i] = value > most[i] ? value : most[i];
    }
    for (int i = 0; i < count; i++) {
        if (most[i] > 0 && (rows || !lp->columns.items[i].whole))
            *(rows ? &scales->row[i] : &scales->column[i]) /= power_near(sqrt(least[i]) * sqrt(most[i]));
    }
}

static double larger_finite(double a, double b)
{
    return isfinite(b) && fabs(b) > a ? fabs(b) : a;
}

/** One size for all values, so that bounds are neither huge nor lost in a solver's tolerances; and one for costs. */
static void scale_sizes(const struct lp *lp, struct scales *scales)
{
    double bound = 0, cost = 0;
    for (int r = 0; r < lp_row_count(lp); r++) {
        bound = larger_finite(bound, lp->rows.items[r].lower * scales->row[r]);
        bound = larger_finite(bound, lp->rows.items[r].upper * scales->row[r]);
    }
    for (int c = 0; c < lp_column_count(lp); c++) {
        bound = larger_finite(bound, lp->columns.items[c].lower / scales->column[c]);
        bound = larger_finite(bound, lp->columns.items[c].upper / scales->column[c]);
        cost = larger_finite(cost, lp->columns.items[c].cost * scales->column[c]);
    }
    scales->all = lp->whole || bound == 0 ? 1 : power_near(bound / WIDE);
    scales->cost = cost == 0 ? 1 : 1 / power_near(cost);
}

static struct scales find_scales(struct lp *lp)
{
    size_t rows = lp->rows.count, columns = lp->columns.count, most = rows > columns ? rows : columns;
    struct scales scales = {.row = ARENA_NEW(lp->arena, double, rows), .column = ARENA_NEW(lp->arena, double, columns)};
    double *low = ARENA_NEW(lp->arena, double, most), *high = ARENA_NEW(lp->arena, double, most);
    for (size_t r = 0; r < rows; r++)
        scales.row[r] = 1;
    for (size_t c = 0; c < columns; c++)
        scales.column[c] = 1;
    for (int pass = 0; pass < SCALE_PASSES; pass++) {
        scale_pass(lp, &scales, false, low, high);
        scale_pass(lp, &scales, true, low, high);
    }
    scale_sizes(lp, &scales);
    return scales;
}

static struct lp_model normalise(struct lp *lp, const struct scales *scales)
{
    struct lp_column *columns = ARENA_NEW(lp->arena, struct lp_column, lp->columns.count);
    struct lp_row *rows = ARENA_NEW(lp->arena, struct lp_row, lp->rows.count);
    struct lp_entry *entries = ARENA_NEW(lp->arena, struct lp_entry, lp->entries.count);
    struct lp_model model = {.column_count = lp_column_count(lp),
                             .row_count = lp_row_count(lp),
                             .columns = columns,
                             .rows = rows,
                             .entries = entries};
    for (int c = 0; c < model.column_count; c++) {
        const struct lp_column *from = &lp->columns.items[c];
        double size = scales->column[c] * scales->all;
        columns[c] = (struct lp_column){from->cost * scales->column[c] * scales->cost, from->lower / size,
                                        from->upper / size, from->whole};
    }
    for (int r = 0; r < model.row_count; r++)
        rows[r] = (struct lp_row){lp->rows.items[r].lower * scales->row[r] / scales->all,
                                  lp->rows.items[r].upper * scales->row[r] / scales->all};
    for (size_t e = 0; e < lp->entries.count; e++) {
        struct lp_entry entry = lp->entries.items[e];
        entry.value *= scales->row[entry.row] * scales->column[entry.column];
        if (fabs(entry.value) >= TINY)
            entries[model.entry_count++] = entry;
    }
    return model;
}

static double clamp(double value, double lower, double upper)
{
    return value < lower ? lower : value > upper ? upper : value;
}

/** Take the answer's values back to the program's own sizes. @return whether they obey it */
static bool take_values(const struct lp *lp, const struct scales *scales, const struct lp_answer *answer,
                        double tolerance, struct lp_result *result)
{
    double *sum = ARENA_NEW(lp->arena, double, lp->rows.count), *size = ARENA_NEW(lp->arena, double, lp->rows.count);
    double *values = ARENA_NEW(lp->arena, double, lp->columns.count), objective = 0;
    for (size_t c = 0; c < lp->columns.count; c++) {
        const struct lp_column *column = &lp->columns.items[c];
        double value = answer->values[c] * scales->column[c] * scales->all;
        values[c] = clamp(column->whole ? round(value) : value, column->lower, column->upper);
        objective += column->cost * values[c];
    }
    for (size_t e = 0; e < lp->entries.count; e++) {
        const struct lp_entry *entry = &lp->entries.items[e];
        double part = entry->value * values[entry->column];
        sum[entry->row] += part;
        size[entry->row] = fmax(size[entry->row], fabs(part));
    }
    for (size_t r = 0; r < lp->rows.count; r++) {
        const struct lp_row *row = &lp->rows.items[r];
        double slack = tolerance * fmax(larger_finite(larger_finite(size[r], row->lower), row->upper),
                                        scales->all / scales->row[r]);
        if (!(sum[r] >= row->lower - slack && sum[r] <= row->upper + slack))
            return false;
    }
    result->values = values;
    result->objective = objective;
    return true;
}

bool lp_admits(const struct lp *lp, const double *values)
{
    double *sum = ARENA_NEW(lp->arena, double, lp->rows.count), *size = ARENA_NEW(lp->arena, double, lp->rows.count);
    bool admits = !lp->bad;
    for (size_t c = 0; c < lp->columns.count && admits; c++) {
        const struct lp_column *column = &lp->columns.items[c];
        double slack = TOLERANCE * fabs(values[c]);
        admits = values[c] >= column->lower - slack && values[c] <= column->upper + slack &&
                 (!column->whole || values[c] == round(values[c]));
    }
    for (size_t e = 0; e < lp->entries.count && admits; e++) {
        const struct lp_entry *entry = &lp->entries.items[e];
        double part = entry->value * values[entry->column];
        sum[entry->row] += part;
        size[entry->row] = fmax(size[entry->row], fabs(part));
    }
    for (size_t r = 0; r < lp->rows.count && admits; r++) {
        const struct lp_row *row = &lp->rows.items[r];
        double slack = 1e-9 * larger_finite(larger_finite(size[r], row->lower), row->upper);
        admits = sum[r] >= row->lower - slack && sum[r] <= row->upper + slack;
    }
    return admits;
}

/** Least of slope * x over [lower, upper]; a slope that is nothing but rounding counts as 0 where x has no end. */
static double least_product(double slope, double lower, double upper, double rounding)
{
    double end = slope > 0 ? lower : upper;
    if (slope == 0 || (isinf(end) && fabs(slope) <= rounding))
        return 0;
    return slope * end;
}

/** What any prices of the rows prove: no objective is lower. */
static double prove_bound(const struct lp *lp, const struct scales *scales, const double *row_prices)
{
    double *slope = ARENA_NEW(lp->arena, double, lp->columns.count);
    double *size = ARENA_NEW(lp->arena, double, lp->columns.count), bound = 0;
    for (size_t c = 0; c < lp->columns.count; c++) {
        slope[c] = lp->columns.items[c].cost;
        size[c] = fmax(fabs(slope[c]), 1 / (scales->cost * scales->column[c]));
    }
    for (size_t e = 0; e < lp->entries.count; e++) {
        const struct lp_entry *entry = &lp->entries.items[e];
        double part = entry->value * row_prices[entry->row] * scales->row[entry->row] / scales->cost;
        slope[entry->column] -= part;
        size[entry->column] = fmax(size[entry->column], fabs(part));
    }
    for (size_t c = 0; c < lp->columns.count; c++)
        bound += least_product(slope[c], lp->columns.items[c].lower, lp->columns.items[c].upper, TOLERANCE * size[c]);
    for (size_t r = 0; r < lp->rows.count; r++) {
        double price = row_prices[r] * scales->row[r] / scales->cost;
        bound += least_product(price, lp->rows.items[r].lower, lp->rows.items[r].upper,
                               TOLERANCE * scales->row[r] / scales->cost);
    }
    return bound;
}

/** Wider bounds, each by a little of its own, so that a solver leaves the corner where it turns in circles. */
static void perturb(const struct lp_model *model, struct lp_row *rows)
{
    for (int r = 0; r < model->row_count; r++) {
        double by = PERTURBATION * (1 + (r * 37 % 101) / 101.0);
        rows[r] = model->rows[r];
        rows[r].lower -= isfinite(rows[r].lower) ? by * fmax(1, fabs(rows[r].lower)) : 0;
        rows[r].upper += isfinite(rows[r].upper) ? by * fmax(1, fabs(rows[r].upper)) : 0;
    }
}

/** What is tried one after the other. */
static const struct {
    const char *name;
    enum lp_method method;
    bool perturbed;
} attempts[] = {
    {"primal", LP_PRIMAL, false}, {"dual", LP_DUAL, false},       {"presolved", LP_PRESOLVED, false},
    {"perturbed", LP_DUAL, true}, {"perturbed", LP_PRIMAL, true},
};
#define ATTEMPT_COUNT (sizeof(attempts) / sizeof(attempts[0]))

struct solver {
    struct lp *lp;
    const struct lp_options *options;
    struct scales scales;
    struct lp_model model;
    struct lp_answer answer;
    bool confirm; /* an infeasible program is shown to be so */
};

/** A program without rows or columns needs no solver. @return false: it does */
static bool solve_trivial(const struct lp *lp, struct lp_result *result)
{
    for (size_t c = 0; c < lp->columns.count; c++) {
        const struct lp_column *column = &lp->columns.items[c];
        if (column->lower > column->upper || (column->whole && ceil(column->lower) > floor(column->upper))) {
            result->status = LP_INFEASIBLE;
            return true;
        }
    }
    for (size_t r = 0; r < lp->rows.count; r++) {
        const struct lp_row *row = &lp->rows.items[r];
        if (row->lower > row->upper || (lp->columns.count == 0 && (row->lower > 0 || row->upper < 0))) {
            result->status = LP_INFEASIBLE;
            return true;
        }
    }
    if (lp->columns.count > 0 && lp->entries.count > 0)
        return false;
    result->values = ARENA_NEW(lp->arena, double, lp->columns.count);
    result->status = LP_OPTIMAL;
    result->objective = 0;
    for (size_t r = 0; r < lp->rows.count; r++) {
        if (lp->rows.items[r].lower > 0 || lp->rows.items[r].upper < 0)
            result->status = LP_INFEASIBLE;
    }
    for (size_t c = 0; c < lp->columns.count && result->status == LP_OPTIMAL; c++) {
        const struct lp_column *column = &lp->columns.items[c];
        double end = column->cost >= 0 ? column->lower : column->upper;
        if (isinf(end) && column->cost != 0)
            result->status = LP_UNBOUNDED;
        end = isinf(end) ? clamp(0, column->lower, column->upper) : end;
        result->values[c] = column->whole ? (column->cost >= 0 ? ceil(end) : floor(end)) : end;
        result->objective += column->cost * result->values[c];
    }
    result->bound = result->objective;
    if (result->status != LP_OPTIMAL)
        result->values = NULL;
    return true;
}

static struct lp_result solve(struct lp *lp, const struct lp_options *options, bool confirm);

/** The least sum by which rows must give way, over the normalised program: above 0 it proves that none obeys all. */
static bool rows_must_give(const struct solver *solver)
{
    const struct lp_model *model = &solver->model;
    struct lp *elastic = lp_new(solver->lp->arena);
    for (int c = 0; c < model->column_count; c++)
        lp_add_column(elastic, 0, model->columns[c].lower, model->columns[c].upper, false);
    for (int r = 0; r < model->row_count; r++) {
        int row = lp_add_row(elastic, model->rows[r].lower, model->rows[r].upper);
        lp_add_entry(elastic, row, lp_add_column(elastic, 1, 0, INFINITY, false), 1);
        lp_add_entry(elastic, row, lp_add_column(elastic, 1, 0, INFINITY, false), -1);
    }
    for (int e = 0; e < model->entry_count; e++)
        lp_add_entry(elastic, model->entries[e].row, model->entries[e].column, model->entries[e].value);
    const struct lp_options options = {.iterations = solver->options->iterations};
    struct lp_result result = solve(elastic, &options, false);
    return result.status == LP_OPTIMAL && result.bound > TOLERANCE;
}

/** Whether an answer to a program of plain columns is borne out; fills the result. */
static bool accept_plain(struct solver *solver, double tolerance, struct lp_result *result)
{
    const struct lp_answer *answer = &solver->answer;
    if (!answer->has_values || !answer->has_prices ||
        !take_values(solver->lp, &solver->scales, answer, tolerance, result))
        return false;
    result->bound = prove_bound(solver->lp, &solver->scales, answer->prices);
    double size = fmax(fabs(result->objective), solver->scales.all / solver->scales.cost);
    if (!(result->objective - result->bound <= 10 * tolerance * size))
        return false;
    result->bound = fmin(result->bound, result->objective);
    return true;
}

/** The same of a program with whole columns: the values, and the search's own word for the bound, less a little. */
static bool accept_whole(struct solver *solver, struct lp_result *result)
{
    const struct lp_answer *answer = &solver->answer;
    double bound = answer->bound / solver->scales.cost * solver->scales.all;
    result->nodes = answer->nodes;
    result->bound = bound - TOLERANCE * fabs(bound);
    if (!answer->has_values)
        return answer->status == LP_LIMIT;
    if (!take_values(solver->lp, &solver->scales, answer, TOLERANCE, result))
        return false;
    result->bound = fmin(result->bound, result->objective);
    return true;
}

/** @return whether the result is final */
static bool judge(struct solver *solver, double tolerance, struct lp_result *result)
{
    const struct lp_answer *answer = &solver->answer;
    result->iterations += answer->iterations;
    switch (answer->status) {
    case LP_OPTIMAL:
    case LP_LIMIT:
        if (answer->searched)
            result->status = accept_whole(solver, result) ? answer->status : LP_FAILED;
        else if (answer->status == LP_LIMIT)
            result->status = LP_LIMIT;
        else
            result->status = accept_plain(solver, tolerance, result) ? LP_OPTIMAL : LP_FAILED;
        return result->status != LP_FAILED;
    case LP_INFEASIBLE:
        result->status = !solver->confirm || solver->lp->whole || rows_must_give(solver) ? LP_INFEASIBLE : LP_FAILED;
        return result->status != LP_FAILED;
    case LP_UNBOUNDED:
        result->status = LP_UNBOUNDED;
        return false; /* seldom true: what the others say counts */
    case LP_ABSENT:
        result->status = LP_ABSENT;
        return true;
    default:
        result->status = LP_FAILED;
        return false;
    }
}

static double *scale_start(const struct solver *solver)
{
    if (solver->options->start == NULL)
        return NULL;
    double *start = ARENA_NEW(solver->lp->arena, double, solver->lp->columns.count);
    for (size_t c = 0; c < solver->lp->columns.count; c++)
        start[c] = solver->options->start[c] / (solver->scales.column[c] * solver->scales.all);
    return start;
}

static void solve_attempts(struct solver *solver, struct lp_result *result)
{
    const struct lp_options *options = solver->options;
    struct lp_row *rows = ARENA_NEW(solver->lp->arena, struct lp_row, solver->lp->rows.count);
    int unbounded = 0;
    perturb(&solver->model, rows);
    for (size_t i = 0; i < ATTEMPT_COUNT; i++) {
        struct lp_model model = solver->model;
        model.rows = attempts[i].perturbed ? rows : model.rows;
        const struct lp_attempt attempt = {.method = attempts[i].method,
                                           .iterations =
                                               options->iterations > 0 ? options->iterations : MOST_ITERATIONS,
                                           .nodes = options->nodes > 0 ? options->nodes : MOST_NODES,
                                           .seconds = options->seconds,
                                           .gap = options->gap,
                                           .start = scale_start(solver)};
        solver->answer.iterations = solver->answer.nodes = 0;
        solver->answer.searched = false;
        backend_solve(&model, &attempt, &solver->answer);
        result->tried = attempts[i].name;
        if (judge(solver, attempts[i].perturbed ? 10 * PERTURBATION : TOLERANCE, result))
            return;
        unbounded += result->status == LP_UNBOUNDED;
    }
    result->status = unbounded >= 2 ? LP_UNBOUNDED : LP_FAILED;
    result->values = NULL;
    result->objective = INFINITY;
}

static struct lp_result solve(struct lp *lp, const struct lp_options *options, bool confirm)
{
    struct lp_result result = {.status = LP_BAD, .objective = INFINITY, .bound = -INFINITY, .tried = "none"};
    if (lp->bad || lp->columns.count > INT32_MAX / 4 || lp->rows.count > INT32_MAX / 4 ||
        lp->entries.count > INT32_MAX / 4)
        return result;
    merge_entries(lp);
    if (solve_trivial(lp, &result))
        return result;
    struct solver solver = {.lp = lp, .options = options, .scales = find_scales(lp), .confirm = confirm};
    solver.model = normalise(lp, &solver.scales);
    solver.answer.values = ARENA_NEW(lp->arena, double, lp->columns.count);
    solver.answer.prices = ARENA_NEW(lp->arena, double, lp->rows.count);
    solve_attempts(&solver, &result);
    return result;
}

struct lp_result lp_solve(struct lp *lp, const struct lp_options *options)
{
    return solve(lp, options, true);
}
