/* SPDX-License-Identifier: Apache-2.0 */
/** Solvers against trying everything, on small random problems. */

#include "harness.h"
#include "solve/assign.h"
#include "solve/transport.h"

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % limit;
}

/** Runs `check` with an arena of its own. */
static void with_arena(void (*check)(struct arena *arena))
{
    struct arena arena;
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0)
        check(&arena);
    else
        CHECK(!"out of memory");
    arena_finish(&arena);
}

/* ---- assignment ----------------------------------------------------------------------- */

static int64_t best_assignment(uint32_t row, uint32_t rows, uint32_t columns, const int64_t *gain, uint32_t taken)
{
    int64_t best = INT64_MIN;
    if (row == rows)
        return 0;
    for (uint32_t c = 0; c < columns; c++) {
        if ((taken >> c & 1) != 0)
            continue;
        int64_t rest = best_assignment(row + 1, rows, columns, gain, taken | 1u << c);
        int64_t sum = gain[row * columns + c] + rest;
        best = sum > best ? sum : best;
    }
    return best;
}

static void check_assignments(struct arena *arena)
{
    struct assign assign;
    assign_init(arena, 6, 7, &assign);
    for (uint32_t n = 0; n < 400; n++) {
        uint32_t rows = 1 + random_below(6), columns = rows + random_below(8 - rows), column_of[6] = {0}, taken = 0;
        uint32_t range = n % 3 == 0 ? 3 : 2000000; /* many ties, or none */
        int64_t gain[42], sum = 0;
        for (uint32_t i = 0; i < rows * columns; i++)
            gain[i] = (int64_t)random_below(range) - (n % 2 == 0 ? 0 : range / 2);
        int64_t got = assign_solve(&assign, rows, columns, gain, column_of);
        for (uint32_t r = 0; r < rows; r++) {
            CHECK(column_of[r] < columns && (taken >> column_of[r] & 1) == 0);
            taken |= 1u << column_of[r];
            sum += gain[r * columns + column_of[r]];
        }
        CHECK_MSG(got == sum && got == best_assignment(0, rows, columns, gain, 0), "%u: %ux%u: %lld", n, rows, columns,
                  (long long)got);
    }
}

static void assignment_is_best(void)
{
    random_state = 1;
    with_arena(check_assignments);
}

/* ---- transportation --------------------------------------------------------------------- */

#define MOST 4

struct problem {
    uint32_t rows, columns, supply[MOST], capacity[MOST];
    int64_t gain[MOST][MOST]; /* 0: no link */
};

/** The best of all ways to send the units from (row, column) on. */
static int64_t best_transport(struct problem *problem, uint32_t row, uint32_t column)
{
    int64_t best = 0;
    if (row == problem->rows)
        return 0;
    if (column == problem->columns)
        return best_transport(problem, row + 1, 0);
    uint32_t most = problem->supply[row] < problem->capacity[column] ? problem->supply[row] : problem->capacity[column];
    if (problem->gain[row][column] == 0)
        most = 0;
    for (uint32_t units = 0; units <= most; units++) {
        problem->supply[row] -= units;
        problem->capacity[column] -= units;
        int64_t sum = problem->gain[row][column] * units + best_transport(problem, row, column + 1);
        problem->supply[row] += units;
        problem->capacity[column] += units;
        best = sum > best ? sum : best;
    }
    return best;
}

static struct problem random_problem(uint32_t n)
{
    struct problem problem = {.rows = 1 + random_below(MOST), .columns = 1 + random_below(MOST)};
    for (uint32_t i = 0; i < MOST; i++) {
        problem.supply[i] = n % 4 == 0 ? 1 : random_below(4);
        problem.capacity[i] = n % 4 == 0 ? 1 : random_below(4);
        for (uint32_t j = 0; j < MOST; j++)
            problem.gain[i][j] = random_below(3) == 0 ? 0 : 1 + random_below(n % 3 == 0 ? 3 : 1000);
    }
    return problem;
}

static void check_flow(const struct problem *problem, const transport_links *flow, int64_t gain)
{
    struct problem left = *problem;
    int64_t sum = 0;
    for (size_t l = 0; l < flow->count; l++) {
        const struct transport_link *link = &flow->items[l];
        CHECK(link->units > 0 && link->units <= left.supply[link->row] && link->units <= left.capacity[link->column]);
        left.supply[link->row] -= link->units;
        left.capacity[link->column] -= link->units;
        sum += link->units * left.gain[link->row][link->column];
    }
    CHECK_EQ_U64(sum, gain);
}

static void check_transports(struct arena *arena)
{
    for (uint32_t n = 0; n < 400; n++) {
        struct problem problem = random_problem(n);
        struct transport_link links[MOST * MOST];
        struct transport transport = {.row_count = problem.rows,
                                      .column_count = problem.columns,
                                      .supply = problem.supply,
                                      .capacity = problem.capacity,
                                      .links = links};
        transport_links flow;
        int64_t gain = 0;
        for (uint32_t r = 0; r < problem.rows; r++) {
            for (uint32_t c = 0; c < problem.columns; c++) {
                if (problem.gain[r][c] > 0)
                    links[transport.link_count++] = (struct transport_link){r, c, 0, problem.gain[r][c]};
            }
        }
        CHECK(transport_solve(arena, &transport, &flow, &gain));
        check_flow(&problem, &flow, gain);
        CHECK_MSG(gain == best_transport(&problem, 0, 0), "%u: %lld", n, (long long)gain);
    }
}

static void transport_is_best(void)
{
    random_state = 2;
    with_arena(check_transports);
}

/** Two parts of 2 x 2: 8 steps each by the formula, 16 in all. */
static void check_work(struct arena *arena)
{
    const uint32_t ones[4] = {1, 1, 1, 1};
    const struct transport_link links[] = {{0, 1, 0, 5}, {0, 3, 0, 4}, {1, 1, 0, 7}, {1, 3, 0, 1},
                                           {2, 0, 0, 1}, {3, 0, 0, 1}, {3, 2, 0, 1}};
    struct transport transport = {.row_count = 4,
                                  .column_count = 4,
                                  .supply = ones,
                                  .capacity = ones,
                                  .link_count = 7,
                                  .links = links,
                                  .most_work = 15};
    transport_links flow;
    int64_t gain = 0;
    CHECK(!transport_solve(arena, &transport, &flow, &gain));
    transport.most_work = 16;
    CHECK(transport_solve(arena, &transport, &flow, &gain));
    CHECK_EQ_U64(gain, 13);
    CHECK_EQ_U64(flow.count, 4);
}

static void work_is_bounded(void)
{
    with_arena(check_work);
}

static const struct test_case cases[] = {
    {"assignment_is_best", assignment_is_best},
    {"transport_is_best", transport_is_best},
    {"work_is_bounded", work_is_bounded},
};
TEST_MAIN(cases)
