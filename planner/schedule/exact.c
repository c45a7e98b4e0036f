/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/exact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/estimate.h"
#include "schedule/exact_lp.h"
#include "schedule/peak.h"

#define NEARLY      1e-6 /* a bound this near, as a share, is reached */
#define MOST_NODES  5000
#define LEAST_NODES 20
#define NODE_WORK   3e10 /* nodes times (columns times rows)^1.5: about the work of a search */
#define STATUS_ROOM 160

struct improve {
    struct arena *arena;
    const struct exact_options *options;
    struct schedule *schedule;
    struct rounds rounds;            /* the best */
    double seconds;                  /* of them */
    double bound;                    /* of all modes that were searched: no schedule is faster */
    const struct exact_kinds *kinds; /* of the cut at hand */
    uint32_t searched;               /* cuts */
    bool better;                     /* than what was there */
    uint32_t limit; /* rounds that were tried where more may be of use; EXACT_NONE: all that may be were */
    int nodes;
};

/** Slots, and whether old buffers live to the end. */
struct mode {
    bool hold_old;
    uint32_t depth;
};

static uint32_t all_units(const struct exact_kinds *kinds)
{
    uint32_t units = 0;
    for (uint32_t q = 0; q < kinds->part_count; q++)
        units += exact_part_units(kinds, &kinds->parts[q]);
    return units;
}

static bool both_sides_fit(const struct problem *problem, const struct exact_kinds *kinds)
{
    const uint32_t devices = problem->route->world->device_count;
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t all = problem->devices[d].fixed + problem->devices[d].from;
        for (uint32_t k = 0; k < kinds->kind_count; k++) {
            const struct exact_kind *kind = &kinds->kinds[k];
            for (uint32_t m = 0; m < kind->memory_count; m++)
                all += kind->memory[m].device == d ? kind->memory[m].alloc * kind->job_count : 0;
        }
        if (all > problem_cap(problem, problem->cap, d))
            return false;
    }
    return true;
}

/* ---- from counts to rounds ------------------------------------------------------------- */

static int compare_units(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

/** The next units of a part, as many as a round takes. */
static void take_units(const struct exact_kinds *kinds, const struct exact_part *part, uint32_t done, uint32_t count,
                       struct rounds *rounds)
{
    const struct exact_kind *kind = &kinds->kinds[part->kind];
    for (uint32_t i = done; i < done + count; i++)
        rounds->units[rounds->unit_count++] = (struct unit){.job = kind->jobs[i / part->chunk_count],
                                                            .chunk = part->chunks[i % part->chunk_count],
                                                            .chunking = kind->chunking};
}

/** Rounds without units stay between others: which slot a round takes depends on them. */
static struct rounds make_rounds(struct arena *arena, const struct problem *problem, const struct exact_kinds *kinds,
                                 const struct mode *mode, const uint32_t *counts, uint32_t round_count)
{
    struct rounds rounds = {.depth = mode->depth, .hold_old = mode->hold_old};
    uint32_t *done = ARENA_NEW(arena, uint32_t, kinds->part_count), last = 0;
    rounds.idle_rounds = !mode->hold_old && problem->unread_max > 0 ? mode->depth : 0;
    rounds.round_begin = ARENA_NEW(arena, uint32_t, (size_t)round_count + rounds.idle_rounds + 2);
    rounds.units = ARENA_NEW(arena, struct unit, all_units(kinds));
    rounds.round_count = rounds.idle_rounds;
    for (uint32_t t = 0; t < round_count; t++) {
        uint32_t begin = rounds.unit_count;
        for (uint32_t q = 0; q < kinds->part_count; q++) {
            uint32_t count = counts[(size_t)t * kinds->part_count + q];
            take_units(kinds, &kinds->parts[q], done[q], count, &rounds);
            done[q] += count;
        }
        bool empty = rounds.unit_count == begin;
        if (empty && begin == 0)
            continue;
        if (!empty)
            qsort(&rounds.units[begin], rounds.unit_count - begin, sizeof(*rounds.units), compare_units);
        rounds.round_begin[++rounds.round_count] = rounds.unit_count;
        last = empty ? last : rounds.round_count;
    }
    rounds.round_count = last;
    return rounds;
}

/* ---- from rounds to counts ------------------------------------------------------------- */

static uint32_t part_of(const struct exact_kinds *kinds, const struct unit *unit)
{
    const struct exact_kind *kind = &kinds->kinds[kinds->kind_of_job[unit->job]];
    for (uint32_t q = kind->part_begin; q < kind->part_end; q++) {
        for (uint32_t c = 0; c < kinds->parts[q].chunk_count; c++) {
            if (kinds->parts[q].chunks[c] == unit->chunk)
                return q;
        }
    }
    return EXACT_NONE;
}

/** Units by round and part; NULL when they take more rounds than there are. */
static uint32_t *count_units(struct arena *arena, const struct exact_kinds *kinds, const struct rounds *rounds,
                             uint32_t round_count)
{
    if (rounds->round_count - rounds->idle_rounds > round_count)
        return NULL;
    uint32_t *counts = ARENA_NEW(arena, uint32_t, (size_t)round_count * kinds->part_count);
    for (uint32_t k = rounds->idle_rounds; k < rounds->round_count; k++) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            uint32_t part = part_of(kinds, &rounds->units[u]);
            if (part == EXACT_NONE)
                return NULL;
            counts[(size_t)(k - rounds->idle_rounds) * kinds->part_count + part]++;
        }
    }
    return counts;
}

/* ---- one mode -------------------------------------------------------------------------- */

/** Most rounds that a faster schedule can have, those without units that it waits for included. */
static uint64_t useful_rounds(const struct improve *improve, const struct mode *mode)
{
    const struct problem *problem = improve->schedule->problem;
    double cost = problem->route->world->cluster->round_seconds, most = all_units(improve->kinds);
    if (cost > 0 && isfinite(improve->seconds))
        most = fmin(most, floor((improve->seconds - estimate_least_seconds(improve->arena, problem)) / cost + NEARLY));
    if (most <= 0)
        return 0;
    /* with two slots, one for the frees to be done and one for the other slot to be next */
    bool waits = !mode->hold_old || exact_waits(improve->kinds);
    return waits && mode->depth > 1 ? ((uint64_t)most - 1) * (mode->depth + 1) + 1 : (uint64_t)most;
}

static int node_limit(const struct improve *improve, const struct exact_rows *rows, uint32_t rounds, uint64_t columns)
{
    if (improve->options->nodes > 0)
        return improve->options->nodes;
    size_t each = rows->wire.count + rows->before.count + rows->behind.count + rows->slots.count + rows->memory.count +
                  2 * (size_t)improve->kinds->part_count;
    double size = (double)columns * (double)(each * rounds) + 1, nodes = NODE_WORK / (size * sqrt(size));
    return nodes > MOST_NODES ? MOST_NODES : nodes < LEAST_NODES ? LEAST_NODES : (int)nodes;
}

/** Most bytes that the slots of one device take. */
static uint64_t most_staging(const struct improve *improve, const struct mode *mode, const uint32_t *counts,
                             uint32_t round_count)
{
    const struct exact_kinds *kinds = improve->kinds;
    uint32_t devices = kinds->port_count / PORT_KINDS;
    uint64_t *slots[2] = {ARENA_NEW(improve->arena, uint64_t, devices), ARENA_NEW(improve->arena, uint64_t, devices)};
    uint64_t *used = ARENA_NEW(improve->arena, uint64_t, devices), most = 0;
    for (uint32_t t = 0; t < round_count; t++) {
        memset(used, 0, devices * sizeof(*used));
        for (uint32_t q = 0; q < kinds->part_count; q++) {
            const struct exact_part *part = &kinds->parts[q];
            for (uint32_t l = 0; l < part->load_count; l++)
                used[part->loads[l].port / PORT_KINDS] +=
                    port_is_wire(part->loads[l].port) ? part->loads[l].bytes * counts[t * kinds->part_count + q] : 0;
        }
        for (uint32_t d = 0; d < devices; d++)
            slots[t % mode->depth][d] = used[d] > slots[t % mode->depth][d] ? used[d] : slots[t % mode->depth][d];
    }
    for (uint32_t d = 0; d < devices; d++)
        most = slots[0][d] + slots[1][d] > most ? slots[0][d] + slots[1][d] : most;
    return most;
}

/** Keep rounds that are faster. */
static void consider(struct improve *improve, const struct mode *mode, const struct exact_lp_result *result,
                     uint32_t round_count)
{
    const struct problem *problem = improve->schedule->problem;
    struct rounds rounds = make_rounds(improve->arena, problem, improve->kinds, mode, result->counts, round_count);
    uint64_t peak = peak_of_rounds(improve->arena, problem, &rounds);
    double seconds = estimate_seconds(improve->arena, problem, &rounds);
    if (most_staging(improve, mode, result->counts, round_count) > problem->staging)
        return;
    if (peak > problem->cap || peak < improve->schedule->least_cap || !(seconds < improve->seconds * (1 - 1e-9)))
        return;
    improve->rounds = rounds;
    improve->seconds = seconds;
    improve->better = true;
}

static void search(struct improve *improve, const struct mode *mode)
{
    const struct rounds *from = &improve->rounds;
    const struct exact_rows *rows =
        exact_rows_build(improve->arena, improve->schedule->problem, improve->kinds, mode->hold_old);
    uint64_t each = exact_lp_columns(improve->kinds, rows, 1), useful = useful_rounds(improve, mode);
    uint64_t rounds = useful * each > EXACT_MOST_COLUMNS ? EXACT_MOST_COLUMNS / each : useful;
    bool same = from->hold_old == mode->hold_old && from->depth == mode->depth;
    if (useful == 0)
        return;
    if (rounds < useful && rounds < improve->limit)
        improve->limit = (uint32_t)rounds;
    if (rounds == 0)
        return;
    struct exact_lp_input input = {.problem = improve->schedule->problem,
                                   .kinds = improve->kinds,
                                   .rows = rows,
                                   .rounds = (uint32_t)rounds,
                                   .depth = mode->depth,
                                   .hold_old = mode->hold_old,
                                   .cutoff = improve->seconds,
                                   .seconds = improve->options->seconds,
                                   .nodes = node_limit(improve, rows, (uint32_t)rounds, rounds * each)};
    struct exact_lp_result result = exact_lp_solve(improve->arena, &input);
    if (result.status == LP_INFEASIBLE ||
        (result.status == LP_OPTIMAL && result.bound >= improve->seconds * (1 - NEARLY)))
        return;
    double relaxed = result.status == LP_OPTIMAL ? result.bound : 0;
    input.whole = true;
    input.counts = same ? count_units(improve->arena, improve->kinds, from, (uint32_t)rounds) : NULL;
    result = exact_lp_solve(improve->arena, &input);
    improve->nodes += result.nodes;
    if (result.counts != NULL)
        consider(improve, mode, &result, (uint32_t)rounds);
    bool ended = result.status == LP_OPTIMAL || result.status == LP_INFEASIBLE;
    if (!ended)
        improve->bound = fmin(improve->bound, fmax(relaxed, isfinite(result.bound) ? result.bound : 0));
    else if (result.status == LP_OPTIMAL)
        improve->bound = fmin(improve->bound, result.bound);
}

/* ---- all of it ------------------------------------------------------------------------- */

/** A schedule that holds the old side gives place to such ones alone; another one to any that is faster. */
static void search_all(struct improve *improve)
{
    static const struct mode modes[] = {{true, 2}, {true, 1}, {false, 2}, {false, 1}};
    bool held = improve->rounds.hold_old;
    bool may_hold = held || both_sides_fit(improve->schedule->problem, improve->kinds);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (modes[i].hold_old ? may_hold : !held)
            search(improve, &modes[i]);
    }
}

static const char *describe(struct arena *arena, const struct improve *improve, double gap)
{
    char *text = ARENA_NEW(arena, char, STATUS_ROOM);
    bool ended = gap <= 2 * NEARLY;
    if (ended && improve->limit == EXACT_NONE)
        return lp_status_text(LP_OPTIMAL);
    if (ended && improve->limit == 0)
        return "not tried: too many kinds of units";
    if (ended)
        snprintf(text, STATUS_ROOM, "no faster rounds if they are at most %u", improve->limit);
    else if (improve->limit == EXACT_NONE)
        snprintf(text, STATUS_ROOM, "stopped after %d nodes: the best is at most %.2f %% faster", improve->nodes,
                 100 * gap);
    else
        snprintf(text, STATUS_ROOM, "stopped after %d nodes: with at most %u rounds the best is at most %.2f %% faster",
                 improve->nodes, improve->limit, 100 * gap);
    return text;
}

static void conclude(struct improve *improve)
{
    struct schedule *schedule = improve->schedule;
    double bound = improve->bound < improve->seconds ? improve->bound : improve->seconds;
    double gap = improve->seconds > 0 ? 1 - bound / improve->seconds : 0;
    if (improve->better) {
        schedule->rounds = improve->rounds;
        schedule->method = "exact-search";
    }
    if (gap <= 2 * NEARLY && improve->limit == EXACT_NONE)
        schedule->method = "exact";
    schedule->solver_status = describe(improve->arena, improve, gap);
}

/* ---- cuts ------------------------------------------------------------------------------ */

/** As the schedule cuts them. */
static struct chunking *own_cut(struct arena *arena, const struct problem *problem, const struct rounds *rounds)
{
    struct chunking *chunkings = ARENA_NEW(arena, struct chunking, problem->job_count);
    for (uint32_t u = 0; u < rounds->unit_count; u++)
        chunkings[rounds->units[u].job] = rounds->units[u].chunking;
    return chunkings;
}

/** As little as a slot of so many bytes allows. */
static struct chunking *coarse_cut(struct arena *arena, const struct problem *problem, uint64_t slot)
{
    struct chunking *chunkings = ARENA_NEW(arena, struct chunking, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++)
        chunkings[j] = rounds_cut_job(problem, &problem->jobs[j], slot > 0 ? slot : 1);
    return chunkings;
}

static bool same_cut(const struct problem *problem, const struct chunking *a, const struct chunking *b)
{
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (a[j].groups != b[j].groups || a[j].slices != b[j].slices || a[j].stages != b[j].stages)
            return false;
    }
    return true;
}

/** @return why there is no program; NULL: there was one */
static const char *search_cut(struct improve *improve, const struct chunking *chunkings)
{
    improve->kinds = exact_kinds_build(improve->arena, improve->schedule->problem, chunkings, EXACT_MOST_COLUMNS);
    if (improve->kinds == NULL)
        return "not tried: too many kinds of units";
    if (!exact_lp_applies(improve->kinds))
        return "not tried: jobs that wait for others are cut";
    improve->searched++;
    search_all(improve);
    return NULL;
}

void exact_improve(struct arena *arena, const struct exact_options *options, struct schedule *schedule)
{
    const struct problem *problem = schedule->problem;
    struct improve improve = {.arena = arena,
                              .options = options,
                              .schedule = schedule,
                              .rounds = schedule->rounds,
                              .bound = INFINITY,
                              .limit = EXACT_NONE};
    if (schedule->rounds.unit_count == 0 || lp_solver_name() == NULL)
        return;
    schedule->solver = lp_solver_name();
    schedule->solver_status = "not tried: buffers are parked";
    if (parks_any(problem))
        return;
    const struct chunking *cuts[] = {own_cut(arena, problem, &schedule->rounds),
                                     coarse_cut(arena, problem, problem->staging),
                                     coarse_cut(arena, problem, problem->staging / 2)};
    improve.seconds = estimate_seconds(arena, problem, &schedule->rounds);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again = again || same_cut(problem, cuts[i], cuts[k]);
        const char *why = again ? NULL : search_cut(&improve, cuts[i]);
        schedule->solver_status = why != NULL ? why : schedule->solver_status;
    }
    if (improve.searched > 0)
        conclude(&improve);
}

/** Take the greedy schedule where it is faster, which is left untried where a move is large; the least cap stays. */
static void take_greedy(struct arena *arena, const struct problem *problem, struct schedule *schedule)
{
    struct schedule greedy;
    struct shunt_err ignored;
    if (schedule_build(arena, problem, NULL, METHOD_GREEDY, &greedy, &ignored) != SHUNT_OK ||
        greedy.rounds.hold_old != schedule->rounds.hold_old ||
        parks_any(greedy.problem) != parks_any(schedule->problem))
        return;
    if (estimate_seconds(arena, greedy.problem, &greedy.rounds) >=
        estimate_seconds(arena, schedule->problem, &schedule->rounds))
        return;
    greedy.least_cap = schedule->least_cap;
    *schedule = greedy;
}

enum shunt_status exact_build(struct arena *arena, const struct problem *problem, const struct problem *relayed,
                              const struct exact_options *options, struct schedule *schedule_out, struct shunt_err *err)
{
    enum shunt_status status = schedule_build(arena, problem, relayed, METHOD_AUTO, schedule_out, err);
    if (status != SHUNT_OK)
        return status;
    take_greedy(arena, problem, schedule_out);
    exact_improve(arena, options, schedule_out);
    return SHUNT_OK;
}
