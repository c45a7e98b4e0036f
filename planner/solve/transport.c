/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parts that no link connects are solved one by one. In a part, shortest augmenting paths with prices, as in the
 * Hungarian method (assign.c), with two changes: a row has many units and a column many places, so a path moves as
 * many units as it can; and a row may stay at home, which is a last column of gain 0 that is never full.
 *
 *     row 0 (2 units) --5--> column 0 (1 place)      row 1 enters: column 0 is full, so one unit of row 0
 *     row 1 (1 unit)  --7--> column 0                goes on to column 1, if 7 - 5 + 4 beats staying at home
 *     row 0           --4--> column 1
 *
 * A part of R rows and C columns takes at most about R' R C steps, where R' is the number of paths. Ties go to the
 * lowest column.
 */
#include "solve/transport.h"

#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

/* ---- parts ------------------------------------------------------------------------- */

/** Rows and columns as one set of vertices: columns behind the rows. */
static uint32_t find_root(uint32_t *parent, uint32_t vertex)
{
    while (parent[vertex] != vertex) {
        parent[vertex] = parent[parent[vertex]];
        vertex = parent[vertex];
    }
    return vertex;
}

/** A part: its rows and columns, ascending, by their numbers in the whole. */
struct part {
    uint32_t row_count, column_count;
    uint32_t *rows, *columns;
};

struct parts {
    uint32_t count;
    struct part *parts;
    uint32_t *part_of;  /* by vertex; NOWHERE: without links */
    uint32_t *place_of; /* by vertex: its number in its part */
};

static uint32_t *link_vertices(struct arena *arena, const struct transport *transport)
{
    uint32_t vertices = transport->row_count + transport->column_count;
    uint32_t *parent = ARENA_NEW(arena, uint32_t, vertices);
    for (uint32_t v = 0; v < vertices; v++)
        parent[v] = v;
    for (size_t l = 0; l < transport->link_count; l++) {
        uint32_t a = find_root(parent, transport->links[l].row);
        uint32_t b = find_root(parent, transport->row_count + transport->links[l].column);
        parent[a > b ? a : b] = a > b ? b : a; /* the root is the lowest vertex, which is a row */
    }
    return parent;
}

static void find_parts(struct arena *arena, const struct transport *transport, struct parts *parts)
{
    uint32_t rows = transport->row_count, vertices = rows + transport->column_count;
    uint32_t *parent = link_vertices(arena, transport);
    parts->part_of = ARENA_NEW(arena, uint32_t, vertices);
    parts->place_of = ARENA_NEW(arena, uint32_t, vertices);
    parts->parts = ARENA_NEW(arena, struct part, rows);
    for (uint32_t v = 0; v < vertices; v++) {
        uint32_t root = find_root(parent, v);
        if (root >= rows) { /* a column without links */
            parts->part_of[v] = NOWHERE;
            continue;
        }
        if (root == v)
            parts->part_of[v] = parts->count++;
        struct part *part = &parts->parts[parts->part_of[v] = parts->part_of[root]];
        parts->place_of[v] = v < rows ? part->row_count++ : part->column_count++;
    }
    for (uint32_t p = 0; p < parts->count; p++) {
        parts->parts[p].rows = ARENA_NEW(arena, uint32_t, parts->parts[p].row_count);
        parts->parts[p].columns = ARENA_NEW(arena, uint32_t, parts->parts[p].column_count);
    }
    for (uint32_t v = 0; v < vertices; v++) {
        if (parts->part_of[v] == NOWHERE)
            continue;
        struct part *part = &parts->parts[parts->part_of[v]];
        (v < rows ? part->rows : part->columns)[parts->place_of[v]] = v < rows ? v : v - rows;
    }
}

/* ---- one part ---------------------------------------------------------------------- */

/** Units of a row in a column. */
struct stay {
    uint32_t row, units;
};

/** Column `columns` is the home of all rows. */
struct solver {
    struct arena *arena;
    uint32_t rows, columns;
    const int64_t *gain; /* rows x columns */
    uint32_t *left;      /* free places of each column but the home */
    int64_t *row_price, *column_price;
    VEC(struct stay) * stays; /* by column */
    int64_t *distance;        /* of each column from the entering row */
    uint32_t *way;            /* row from which a column is reached best */
    uint32_t *through;        /* column by which a row was reached */
    int64_t *row_distance;
    bool *column_done, *row_done;
};

static int64_t slack_of(const struct solver *solver, uint32_t row, uint32_t column)
{
    int64_t gain = column == solver->columns ? 0 : solver->gain[(size_t)row * solver->columns + column];
    return solver->row_price[row] + solver->column_price[column] - gain;
}

static void reach_row(struct solver *solver, uint32_t row, uint32_t through, int64_t distance)
{
    solver->row_done[row] = true;
    solver->through[row] = through;
    solver->row_distance[row] = distance;
    for (uint32_t c = 0; c <= solver->columns; c++) {
        if (solver->column_done[c])
            continue;
        int64_t at = distance + slack_of(solver, row, c);
        if (at < solver->distance[c]) {
            solver->distance[c] = at;
            solver->way[c] = row;
        }
    }
}

static uint32_t nearest_column(const struct solver *solver)
{
    uint32_t best = NOWHERE;
    for (uint32_t c = 0; c <= solver->columns; c++) {
        if (!solver->column_done[c] && (best == NOWHERE || solver->distance[c] < solver->distance[best]))
            best = c;
    }
    return best;
}

/** Walk to the nearest column with a free place, and settle prices. @return that column */
static uint32_t search(struct solver *solver, uint32_t row)
{
    uint32_t found;
    memset(solver->column_done, 0, ((size_t)solver->columns + 1) * sizeof(bool));
    memset(solver->row_done, 0, solver->rows * sizeof(bool));
    for (uint32_t c = 0; c <= solver->columns; c++)
        solver->distance[c] = INT64_MAX;
    reach_row(solver, row, NOWHERE, 0);
    for (;;) {
        found = nearest_column(solver);
        if (found == solver->columns || solver->left[found] > 0)
            break;
        solver->column_done[found] = true;
        for (size_t s = 0; s < solver->stays[found].count; s++) {
            uint32_t there = solver->stays[found].items[s].row;
            if (solver->stays[found].items[s].units > 0 && !solver->row_done[there])
                reach_row(solver, there, found, solver->distance[found]);
        }
    }
    int64_t length = solver->distance[found];
    for (uint32_t c = 0; c <= solver->columns; c++) {
        if (solver->column_done[c])
            solver->column_price[c] += length - solver->distance[c];
    }
    for (uint32_t r = 0; r < solver->rows; r++) {
        if (solver->row_done[r])
            solver->row_price[r] -= length - solver->row_distance[r];
    }
    return found;
}

static struct stay *find_stay(struct solver *solver, uint32_t column, uint32_t row)
{
    struct stay *gone = NULL; /* one without units: its place is free */
    for (size_t s = 0; s < solver->stays[column].count; s++) {
        struct stay *stay = &solver->stays[column].items[s];
        if (stay->row == row)
            return stay;
        if (stay->units == 0 && gone == NULL)
            gone = stay;
    }
    struct stay *stay = gone != NULL ? gone : VEC_PUSH(solver->arena, &solver->stays[column]);
    stay->row = row;
    return stay;
}

/** Move units along the path that ends in column `found`. @return how many */
static uint32_t augment(struct solver *solver, uint32_t row, uint32_t units, uint32_t found)
{
    if (found != solver->columns && solver->left[found] < units)
        units = solver->left[found];
    for (uint32_t r = solver->way[found]; r != row; r = solver->way[solver->through[r]]) {
        uint32_t there = find_stay(solver, solver->through[r], r)->units;
        units = there < units ? there : units;
    }
    if (found != solver->columns)
        solver->left[found] -= units;
    for (uint32_t c = found;;) {
        uint32_t r = solver->way[c];
        find_stay(solver, c, r)->units += units;
        if (r == row)
            break;
        c = solver->through[r];
        find_stay(solver, c, r)->units -= units;
    }
    return units;
}

static void solver_init(struct arena *arena, const struct part *part, const int64_t *gain, const uint32_t *capacity,
                        struct solver *solver)
{
    uint32_t rows = part->row_count, columns = part->column_count;
    *solver = (struct solver){.arena = arena, .rows = rows, .columns = columns, .gain = gain};
    solver->left = ARENA_NEW(arena, uint32_t, columns);
    solver->row_price = ARENA_NEW(arena, int64_t, rows);
    solver->column_price = ARENA_NEW(arena, int64_t, columns + 1);
    solver->stays = arena_alloc(arena, columns + 1, sizeof(*solver->stays));
    solver->distance = ARENA_NEW(arena, int64_t, columns + 1);
    solver->way = ARENA_NEW(arena, uint32_t, columns + 1);
    solver->through = ARENA_NEW(arena, uint32_t, rows);
    solver->row_distance = ARENA_NEW(arena, int64_t, rows);
    solver->column_done = ARENA_NEW(arena, bool, columns + 1);
    solver->row_done = ARENA_NEW(arena, bool, rows);
    for (uint32_t c = 0; c < columns; c++)
        solver->left[c] = capacity[part->columns[c]];
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t c = 0; c < columns; c++) {
            int64_t one = gain[(size_t)r * columns + c];
            solver->row_price[r] = one > solver->row_price[r] ? one : solver->row_price[r];
        }
    }
}

/* ---- all parts ----------------------------------------------------------------------- */

struct part_work {
    const struct transport *transport;
    const struct parts *parts;
    uint32_t part;
    const size_t *link_begin; /* by row */
    struct arena *arena;      /* of the flow */
    transport_links *flow;
    int64_t gain;
};

static void fill_gains(const struct part_work *work, const struct part *part, int64_t *gain)
{
    const struct transport *transport = work->transport;
    for (uint32_t r = 0; r < part->row_count; r++) {
        uint32_t row = part->rows[r];
        for (size_t l = work->link_begin[row]; l < work->link_begin[row + 1]; l++) {
            uint32_t column = work->parts->place_of[transport->row_count + transport->links[l].column];
            gain[(size_t)r * part->column_count + column] = transport->links[l].gain;
        }
    }
}

static void keep_flow(struct part_work *work, const struct part *part, const struct solver *solver)
{
    for (uint32_t c = 0; c < part->column_count; c++) {
        for (size_t s = 0; s < solver->stays[c].count; s++) {
            const struct stay *stay = &solver->stays[c].items[s];
            int64_t gain = solver->gain[(size_t)stay->row * part->column_count + c];
            if (stay->units == 0 || gain <= 0)
                continue;
            struct transport_link *link = VEC_PUSH(work->arena, work->flow);
            *link = (struct transport_link){part->rows[stay->row], part->columns[c], stay->units, gain};
            work->gain += gain * stay->units;
        }
    }
}

static void solve_part(struct arena *scratch, void *context)
{
    struct part_work *work = context;
    const struct part *part = &work->parts->parts[work->part];
    int64_t *gain = ARENA_NEW(scratch, int64_t, (size_t)part->row_count * part->column_count);
    struct solver solver;
    fill_gains(work, part, gain);
    solver_init(scratch, part, gain, work->transport->capacity, &solver);
    for (uint32_t r = 0; r < part->row_count; r++) {
        uint32_t units = work->transport->supply[part->rows[r]];
        while (units > 0)
            units -= augment(&solver, r, units, search(&solver, r));
    }
    keep_flow(work, part, &solver);
}

static int compare_links(const void *a, const void *b)
{
    const struct transport_link *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

static double work_of(const struct parts *parts)
{
    double work = 0;
    for (uint32_t p = 0; p < parts->count; p++)
        work += (double)parts->parts[p].row_count * parts->parts[p].row_count * parts->parts[p].column_count;
    return work;
}

bool transport_solve(struct arena *arena, const struct transport *transport, transport_links *flow_out,
                     int64_t *gain_out)
{
    struct parts parts = {0};
    find_parts(arena, transport, &parts);
    if (transport->most_work > 0 && work_of(&parts) > transport->most_work)
        return false;
    size_t *link_begin = ARENA_NEW(arena, size_t, (size_t)transport->row_count + 1);
    for (size_t l = 0; l < transport->link_count; l++)
        link_begin[transport->links[l].row + 1]++;
    for (uint32_t r = 0; r < transport->row_count; r++)
        link_begin[r + 1] += link_begin[r];
    *flow_out = (transport_links){0};
    *gain_out = 0;
    for (uint32_t p = 0; p < parts.count; p++) {
        struct part_work work = {.transport = transport,
                                 .parts = &parts,
                                 .part = p,
                                 .link_begin = link_begin,
                                 .arena = arena,
                                 .flow = flow_out};
        if (parts.parts[p].column_count == 0)
            continue;
        arena_with_scratch(arena, solve_part, &work);
        *gain_out += work.gain;
    }
    if (flow_out->count > 1)
        qsort(flow_out->items, flow_out->count, sizeof(*flow_out->items), compare_links);
    return true;
}
