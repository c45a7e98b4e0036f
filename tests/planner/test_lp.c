/* SPDX-License-Identifier: Apache-2.0 */
/** Linear programs whose answers are known, and everything that brings the solver behind them down when it is let. */

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "solve/backend.h"
#include "solve/lp.h"

static const struct lp_options plain = {0};

/** Run a case with an arena; skipped without a solver. */
static void with_arena(void (*run)(struct arena *arena))
{
    struct arena arena;
    if (lp_solver_name() == NULL) {
        test_skip("built without a solver");
        return;
    }
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0)
        run(&arena);
    else
        CHECK(!"memory");
    arena_finish(&arena);
}

static bool near(double got, double want)
{
    return fabs(got - want) <= 1e-6 * fmax(1, fabs(want));
}

/** Least makespan of `jobs` divisible jobs on two ports of unlike speed: known in closed form. */
static struct lp *make_ports(struct arena *arena, double bytes, double fast, double slow, int jobs)
{
    struct lp *lp = lp_new(arena);
    int time = lp_add_column(lp, 1, 0, INFINITY, false), ports[2];
    for (int p = 0; p < 2; p++) {
        ports[p] = lp_add_row(lp, -INFINITY, 0);
        lp_add_entry(lp, ports[p], time, -(p == 0 ? fast : slow));
    }
    for (int j = 0; j < jobs; j++) {
        int row = lp_add_row(lp, bytes, bytes);
        for (int p = 0; p < 2; p++) {
            int part = lp_add_column(lp, 0, 0, INFINITY, false);
            lp_add_entry(lp, row, part, 1);
            lp_add_entry(lp, ports[p], part, 1);
        }
    }
    return lp;
}

/** The unit must not matter: with bytes and seconds a presolver's absolute tolerances are gigabytes wide or nothing. */
static void any_unit(struct arena *arena)
{
    static const double units[] = {1e-12, 1e-6, 1, 1e6, 1e12};
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
        double bytes = 3.7e9 * units[u], fast = 450e9, slow = 50e9, want = 24 * bytes / (fast + slow);
        struct lp *lp = make_ports(arena, bytes, fast, slow, 24);
        struct lp_result result = lp_solve(lp, &plain);
        CHECK_MSG(result.status == LP_OPTIMAL, "unit %g: %s", units[u], lp_status_text(result.status));
        CHECK_MSG(fabs(result.objective - want) <= 1e-7 * want, "unit %g: %.12g, want %.12g", units[u],
                  result.objective, want);
        CHECK_MSG(result.bound <= result.objective && result.bound >= want * (1 - 1e-5), "unit %g: %.12g", units[u],
                  result.bound);
    }
}

/** The solver alone, its presolver on, with gigabytes as the unit of rows that differ by a few hundred kilobytes. */
static void presolve_at_bad_scale(struct arena *arena)
{
    struct lp *lp = lp_new(arena);
    double want = 0;
    for (int i = 0; i < 200; i++) { /* x_i >= need_i, as a sum of two rows that nearly agree */
        double need = 1e-4 * (i + 1) / 200;
        int x = lp_add_column(lp, 1, 0, INFINITY, false), y = lp_add_column(lp, 0, 0, 5 + need, false);
        int row = lp_add_row(lp, 5 + need, 5 + need), other = lp_add_row(lp, -INFINITY, 5);
        lp_add_entry(lp, row, x, 1);
        lp_add_entry(lp, row, y, 1);
        lp_add_entry(lp, other, y, 1);
        want += need;
    }
    struct lp_result result = lp_solve(lp, &plain);
    CHECK_MSG(result.status == LP_OPTIMAL, "%s", lp_status_text(result.status));
    CHECK_MSG(fabs(result.objective - want) <= 1e-3 * want, "%.9g, want %.9g", result.objective, want);
}

/** Coefficients from 1e-8 to 1e4, and an answer that exists: the solver alone says it does not. */
static void no_false_infeasible(struct arena *arena)
{
    static const double sizes[] = {1e-8, 1e-5, 1e-2, 1, 1e2, 1e4};
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct lp *lp = lp_new(arena);
        uint32_t state = seed * 2654435761u;
        double point[30];
        for (int c = 0; c < 30; c++) {
            state = state * 1664525u + 1013904223u;
            point[c] = 1 + (state >> 20) % 9;
            lp_add_column(lp, 1, 0, 1e3, false);
        }
        for (int r = 0; r < 40; r++) {
            double sum = 0;
            int row = lp_add_row(lp, 0, 0); /* its bounds follow */
            struct lp_entry entries[6];
            for (int i = 0; i < 6; i++) {
                state = state * 1664525u + 1013904223u;
                entries[i] = (struct lp_entry){row, (int)((state >> 16) % 30), sizes[(state >> 8) % 6]};
                sum += entries[i].value * point[entries[i].column];
            }
            int slack = lp_add_column(lp, 0, -sum * 1.001, -sum * 0.999, false);
            for (int i = 0; i < 6; i++)
                lp_add_entry(lp, row, entries[i].column, entries[i].value);
            lp_add_entry(lp, row, slack, 1);
        }
        struct lp_result result = lp_solve(lp, &plain);
        CHECK_MSG(result.status == LP_OPTIMAL, "seed %u: %s (%s)", seed, lp_status_text(result.status), result.tried);
    }
}

static void tells_infeasible_and_unbounded(struct arena *arena)
{
    struct lp *lp = make_ports(arena, 1e9, 1e9, 1e9, 3);
    int row = lp_add_row(lp, -INFINITY, 1.4); /* 3 GB over two ports of 1 GB/s take 1.5 s */
    lp_add_entry(lp, row, 0, 1);
    CHECK_EQ_U64(lp_solve(lp, &plain).status, LP_INFEASIBLE);
    lp = lp_new(arena);
    row = lp_add_row(lp, 1, INFINITY);
    lp_add_entry(lp, row, lp_add_column(lp, -1, 0, INFINITY, false), 1);
    CHECK_EQ_U64(lp_solve(lp, &plain).status, LP_UNBOUNDED);
}

/** Programs that the solver would not take: it ends the process at `glp_add_cols(p, 0)`. */
static void empty_programs(struct arena *arena)
{
    struct lp *lp = lp_new(arena);
    struct lp_result result = lp_solve(lp, &plain);
    CHECK(result.status == LP_OPTIMAL && result.objective == 0);
    lp_add_row(lp, -1, 1);
    CHECK_EQ_U64(lp_solve(lp, &plain).status, LP_OPTIMAL);
    lp_add_row(lp, 1, 2);
    CHECK_EQ_U64(lp_solve(lp, &plain).status, LP_INFEASIBLE);
    lp = lp_new(arena);
    lp_add_column(lp, 2, 3, 7, false);
    lp_add_column(lp, -2, 3, 7, true);
    result = lp_solve(lp, &plain);
    CHECK(result.status == LP_OPTIMAL && result.objective == 6 - 14);
    lp_add_column(lp, -1, 0, INFINITY, false);
    CHECK_EQ_U64(lp_solve(lp, &plain).status, LP_UNBOUNDED);
    lp_add_column(lp, 0, 2, 1, false);
    CHECK_EQ_U64(lp_solve(lp, &plain).status, LP_INFEASIBLE);
}

/** No input ends the process: numbers that are none, places that are not there. */
static void bad_input(struct arena *arena)
{
    static const struct {
        double cost, lower, upper, row_lower, row_upper, value;
        int row, column;
    } rows[] = {
        {NAN, 0, 1, 0, 1, 1, 0, 0},
        {INFINITY, 0, 1, 0, 1, 1, 0, 0},
        {1, NAN, 1, 0, 1, 1, 0, 0},
        {1, 0, NAN, 0, 1, 1, 0, 0},
        {1, INFINITY, INFINITY, 0, 1, 1, 0, 0},
        {1, 0, 1, NAN, 1, 1, 0, 0},
        {1, 0, 1, 0, -INFINITY, 1, 0, 0},
        {1, 0, 1, 0, 1, NAN, 0, 0},
        {1, 0, 1, 0, 1, INFINITY, 0, 0},
        {1, 0, 1, 0, 1, 1, -1, 0},
        {1, 0, 1, 0, 1, 1, 1, 0},
        {1, 0, 1, 0, 1, 1, 0, -1},
        {1, 0, 1, 0, 1, 1, 0, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lp *lp = lp_new(arena);
        lp_add_column(lp, rows[i].cost, rows[i].lower, rows[i].upper, false);
        lp_add_row(lp, rows[i].row_lower, rows[i].row_upper);
        lp_add_entry(lp, rows[i].row, rows[i].column, rows[i].value);
        CHECK_MSG(lp_solve(lp, &plain).status == LP_BAD, "row %zu", i);
    }
}

/** An assertion inside the solver fails: the call says so, prints nothing, and the next one works. */
static void failed_assertions_come_back(struct arena *arena)
{
    const struct lp_column columns[] = {{1, 0, 1, false}, {1, 2, 1, false}};
    const struct lp_row rows[] = {{1, 1}};
    const struct lp_entry entries[] = {{0, 7, 1}, {-3, 0, 1}, {0, 0, 1}};
    const struct lp_attempt attempt = {.method = LP_PRIMAL, .iterations = 100};
    double values[2], prices[1];
    for (int e = 0; e < 2; e++) {
        struct lp_answer answer = {.values = values, .prices = prices};
        const struct lp_model model = {1, 1, 1, columns, rows, &entries[e]};
        backend_solve(&model, &attempt, &answer);
        CHECK_EQ_U64(answer.status, LP_FAILED);
        CHECK(!answer.has_values && !answer.has_prices);
    }
    struct lp_result result = lp_solve(make_ports(arena, 1, 1, 1, 2), &plain);
    CHECK(result.status == LP_OPTIMAL && near(result.objective, 1));
}

/** Counts stop it, and the same count stops it at the same place. */
static void stops_on_counts(struct arena *arena)
{
    const struct lp_options few = {.iterations = 3};
    struct lp_result result = lp_solve(make_ports(arena, 1e9, 3e9, 1e9, 50), &few);
    CHECK_EQ_U64(result.status, LP_LIMIT);
    CHECK(result.values == NULL);
}

/** Hard to pack: `count` whole sizes into two bins as evenly as can be. Column 0 is the fuller bin. */
static struct lp *make_bins(struct arena *arena, const int *sizes, int count)
{
    struct lp *lp = lp_new(arena);
    lp_add_column(lp, 1, 0, INFINITY, false);
    int rows[2], total = 0;
    for (int b = 0; b < 2; b++) {
        rows[b] = lp_add_row(lp, -INFINITY, 0);
        lp_add_entry(lp, rows[b], 0, -1);
    }
    for (int i = 0; i < count; i++) {
        int first = lp_add_column(lp, 0, 0, 1, true);
        lp_add_entry(lp, rows[0], first, sizes[i]);
        lp_add_entry(lp, rows[1], first, -sizes[i]);
        total += sizes[i];
    }
    int one = lp_add_column(lp, 0, 1, 1, false);
    lp_add_entry(lp, rows[1], one, total);
    return lp;
}

static void whole_columns(struct arena *arena)
{
    static const int sizes[] = {31, 27, 26, 19, 17, 13, 11, 8, 5, 3};
    struct lp_result result = lp_solve(make_bins(arena, sizes, 10), &plain);
    CHECK_EQ_U64(result.status, LP_OPTIMAL);
    CHECK_MSG(near(result.objective, 80), "%f", result.objective);
    for (int i = 1; i <= 10 && result.values != NULL; i++)
        CHECK(result.values[i] == 0 || result.values[i] == 1);

    static const int odd[] = {9973, 9967, 9949, 9941, 9931, 9929, 9923, 9907, 9901, 9887, 9883, 9871, 9859, 9857, 9851};
    const struct lp_options few = {.nodes = 20};
    struct lp_result first = lp_solve(make_bins(arena, odd, 15), &few);
    struct lp_result second = lp_solve(make_bins(arena, odd, 15), &few);
    CHECK_EQ_U64(first.status, LP_LIMIT);
    CHECK(first.bound <= first.objective && first.nodes == second.nodes && first.bound == second.bound);

    double start[17] = {0};
    for (int i = 1; i <= 15; i++)
        start[i] = i % 2;
    start[0] = 79343;
    start[16] = 1;
    const struct lp_options warm = {.nodes = 1, .start = start};
    struct lp *bins = make_bins(arena, odd, 15);
    CHECK(lp_admits(bins, start));
    result = lp_solve(bins, &warm);
    start[0] -= 5000;
    CHECK(!lp_admits(bins, start)); /* less than the fuller bin */
    start[0] += 5000, start[1] = 0.5;
    CHECK(!lp_admits(bins, start)); /* half of a whole column */
    start[1] = 1;
    CHECK_MSG(result.values != NULL && result.objective <= start[0], "%s", lp_status_text(result.status));
    CHECK(result.bound > 0);
}

/** Degenerate and cyclic on purpose: every attempt ends, and the answer is right. */
static void cycles_end(struct arena *arena)
{
    struct lp *lp = lp_new(arena); /* Beale's */
    static const double cost[] = {-0.75, 150, -0.02, 6};
    static const double entries[3][4] = {{0.25, -60, -0.04, 9}, {0.5, -90, -0.02, 3}, {0, 0, 1, 0}};
    for (int c = 0; c < 4; c++)
        lp_add_column(lp, cost[c], 0, INFINITY, false);
    for (int r = 0; r < 3; r++) {
        lp_add_row(lp, -INFINITY, r == 2 ? 1 : 0);
        for (int c = 0; c < 4; c++)
            lp_add_entry(lp, r, c, entries[r][c]);
    }
    struct lp_result result = lp_solve(lp, &plain);
    CHECK_MSG(result.status == LP_OPTIMAL && near(result.objective, -0.05), "%s %f", lp_status_text(result.status),
              result.objective);
}

struct thread_work {
    struct arena arena;
    double objective[20];
};

static void solve_twenty(struct thread_work *work)
{
    for (int i = 0; i < 20; i++)
        work->objective[i] = lp_solve(make_ports(&work->arena, 1e9 + i * 1e7, 3e9, 1e9 + i, 100), &plain).objective;
}

static void *solve_many(void *context)
{
    struct thread_work *const volatile work = context;
    arena_init(&work->arena);
    if (setjmp(work->arena.on_failure) != 0)
        return NULL;
    solve_twenty(work);
    return &work->arena;
}

/** Five threads at once say what one says alone; what they made is freed in another thread. */
static void threads_agree(struct arena *arena)
{
    enum { THREADS = 5 };
    static struct thread_work works[THREADS], alone;
    pthread_t threads[THREADS];
    (void)arena;
    CHECK(solve_many(&alone) != NULL);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, solve_many, &works[t]) == 0);
    for (int t = 0; t < THREADS; t++) {
        void *done = NULL;
        pthread_join(threads[t], &done);
        CHECK(done != NULL);
        CHECK(memcmp(works[t].objective, alone.objective, sizeof(alone.objective)) == 0);
        arena_finish(&works[t].arena);
    }
    arena_finish(&alone.arena);
}

/** Nothing reaches the terminal, whatever happens inside. */
static void prints_nothing(struct arena *arena)
{
    FILE *file = tmpfile();
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), saved_err = dup(STDERR_FILENO);
    CHECK(file != NULL && saved >= 0 && saved_err >= 0);
    if (file == NULL || saved < 0 || saved_err < 0)
        return;
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    failed_assertions_come_back(arena);
    static const int sizes[] = {31, 27, 26, 19, 17, 13, 11, 8, 5, 3};
    lp_solve(make_bins(arena, sizes, 10), &plain);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    dup2(saved_err, STDERR_FILENO);
    close(saved);
    close(saved_err);
    CHECK_EQ_U64(lseek(fileno(file), 0, SEEK_END), 0);
    fclose(file);
}

#define CASE(name)                                                                                                     \
    static void run_##name(void)                                                                                       \
    {                                                                                                                  \
        with_arena(name);                                                                                              \
    }
CASE(any_unit)
CASE(presolve_at_bad_scale)
CASE(no_false_infeasible)
CASE(tells_infeasible_and_unbounded)
CASE(empty_programs)
CASE(bad_input)
CASE(failed_assertions_come_back)
CASE(stops_on_counts)
CASE(whole_columns)
CASE(cycles_end)
CASE(threads_agree)
CASE(prints_nothing)

static const struct test_case cases[] = {
    {"any_unit", run_any_unit},
    {"presolve_at_bad_scale", run_presolve_at_bad_scale},
    {"no_false_infeasible", run_no_false_infeasible},
    {"tells_infeasible_and_unbounded", run_tells_infeasible_and_unbounded},
    {"empty_programs", run_empty_programs},
    {"bad_input", run_bad_input},
    {"failed_assertions_come_back", run_failed_assertions_come_back},
    {"stops_on_counts", run_stops_on_counts},
    {"whole_columns", run_whole_columns},
    {"cycles_end", run_cycles_end},
    {"threads_agree", run_threads_agree},
    {"prints_nothing", run_prints_nothing},
};
TEST_MAIN(cases)
