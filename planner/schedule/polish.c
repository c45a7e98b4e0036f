/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/polish.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/estimate.h"
#include "schedule/peak.h"

#define MOST_VISITS  1000000u /* of pieces, over all rounds that are tried */
#define LEAST_TRIALS 100u     /* a search of fewer finds nothing */
#define FASTER       (1 - 1e-9)

struct polish {
    struct arena *arena;
    const struct problem *problem;
    const struct rounds *given;
    uint64_t least_peak;
    struct unit *units; /* in the order of jobs and chunks */
    uint32_t *round;    /* of each, without idle ones */
    uint32_t round_count;
    uint32_t depth;
    double seconds;
    uint64_t trials; /* that are left */
    bool better;
};

/* ---- whether it may be tried ---------------------------------------------------------- */

static bool applies(const struct problem *problem, const struct rounds *rounds)
{
    if (parks_any(problem) || rounds->unit_count < 2 || rounds->round_count - rounds->idle_rounds < 2)
        return false;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].after != JOB_NONE || problem->jobs[j].stages > 1)
            return false;
    }
    return true;
}

static uint64_t count_trials(const struct problem *problem, const struct rounds *rounds)
{
    uint64_t visits = problem->job_count + 1;
    for (uint32_t u = 0; u < rounds->unit_count && visits <= MOST_VISITS; u++)
        visits += problem->route->types[problem->jobs[rounds->units[u].job].type].piece_count;
    return MOST_VISITS / visits;
}

/* ---- units and their rounds ------------------------------------------------------------- */

static int compare_units(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

static void list_units(struct polish *polish)
{
    const struct rounds *given = polish->given;
    polish->units = ARENA_NEW(polish->arena, struct unit, given->unit_count);
    polish->round = ARENA_NEW(polish->arena, uint32_t, given->unit_count);
    memcpy(polish->units, given->units, given->unit_count * sizeof(*given->units));
    qsort(polish->units, given->unit_count, sizeof(*polish->units), compare_units);
    for (uint32_t k = given->idle_rounds; k < given->round_count; k++) {
        for (uint32_t u = given->round_begin[k]; u < given->round_begin[k + 1]; u++) {
            const struct unit *at =
                bsearch(&given->units[u], polish->units, given->unit_count, sizeof(*polish->units), compare_units);
            polish->round[at - polish->units] = k - given->idle_rounds;
        }
    }
    polish->round_count = given->round_count - given->idle_rounds;
}

/** Sort the units into their rounds by counting. Empty rounds stay between others: whose slot is whose depends on them. */
static void fill_rounds(struct arena *arena, const struct polish *polish, struct rounds *rounds)
{
    const uint32_t units = polish->given->unit_count;
    uint32_t *at = ARENA_NEW(arena, uint32_t, (size_t)polish->round_count + 1);
    for (uint32_t u = 0; u < units; u++)
        at[polish->round[u] + 1]++;
    for (uint32_t t = 0; t < polish->round_count && at[t] < units; t++) {
        at[t + 1] += at[t];
        if (at[t + 1] > 0)
            rounds->round_begin[++rounds->round_count] = at[t + 1];
    }
    for (uint32_t u = 0; u < units; u++)
        rounds->units[at[polish->round[u]]++] = polish->units[u];
    rounds->unit_count = units;
}

static struct rounds make_rounds(struct arena *arena, const struct polish *polish)
{
    const struct rounds *given = polish->given;
    struct rounds rounds = {.depth = polish->depth,
                            .hold_old = given->hold_old,
                            .idle_rounds = given->idle_rounds,
                            .round_count = given->idle_rounds};
    rounds.round_begin = ARENA_NEW(arena, uint32_t, (size_t)rounds.idle_rounds + polish->round_count + 1);
    rounds.units = ARENA_NEW(arena, struct unit, polish->given->unit_count);
    fill_rounds(arena, polish, &rounds);
    return rounds;
}

/* ---- trials ------------------------------------------------------------------------------ */

static void try_rounds(struct arena *scratch, void *context)
{
    struct polish *polish = context;
    const struct problem *problem = polish->problem;
    uint64_t staging;
    struct rounds rounds = make_rounds(scratch, polish);
    polish->better = false;
    double seconds = estimate_seconds(scratch, problem, &rounds);
    if (!(seconds < polish->seconds * FASTER))
        return;
    uint64_t peak = peak_and_staging_of_rounds(scratch, problem, &rounds, &staging);
    if (peak > problem->cap || peak < polish->least_peak || staging > problem->staging)
        return;
    polish->seconds = seconds;
    polish->better = true;
}

/** Whether the rounds as they are now are better than the best so far. */
static bool is_better(struct polish *polish)
{
    if (polish->trials == 0)
        return false;
    polish->trials--;
    arena_with_scratch(polish->arena, try_rounds, polish);
    return polish->better;
}

static bool join_rounds(struct polish *polish)
{
    const uint32_t units = polish->given->unit_count;
    uint32_t *kept = ARENA_NEW(polish->arena, uint32_t, units);
    bool found = false;
    for (uint32_t t = 0; t + 1 < polish->round_count && polish->trials > 0;) {
        memcpy(kept, polish->round, units * sizeof(*kept));
        for (uint32_t u = 0; u < units; u++)
            polish->round[u] -= polish->round[u] > t;
        polish->round_count--;
        if (is_better(polish)) {
            found = true;
            continue;
        }
        memcpy(polish->round, kept, units * sizeof(*kept));
        polish->round_count++;
        t++;
    }
    return found;
}

static bool move_units(struct polish *polish)
{
    bool found = false;
    for (uint32_t u = 0; u < polish->given->unit_count && polish->trials > 0; u++) {
        for (uint32_t t = 0; t < polish->round_count; t++) {
            uint32_t kept = polish->round[u];
            if (t == kept)
                continue;
            polish->round[u] = t;
            if (is_better(polish))
                found = true;
            else
                polish->round[u] = kept;
        }
    }
    return found;
}

static void swap_rounds(struct polish *polish, uint32_t u, uint32_t v)
{
    uint32_t round = polish->round[u];
    polish->round[u] = polish->round[v];
    polish->round[v] = round;
}

static bool swap_units(struct polish *polish)
{
    bool found = false;
    for (uint32_t u = 0; u < polish->given->unit_count && polish->trials > 0; u++) {
        for (uint32_t v = u + 1; v < polish->given->unit_count; v++) {
            if (polish->round[u] == polish->round[v])
                continue;
            swap_rounds(polish, u, v);
            if (is_better(polish))
                found = true;
            else
                swap_rounds(polish, u, v);
        }
    }
    return found;
}

/** The place of a round becomes that of another, and those between them move up or down. */
static void shift_rounds(struct polish *polish, uint32_t from, uint32_t to)
{
    for (uint32_t u = 0; u < polish->given->unit_count; u++) {
        uint32_t *round = &polish->round[u];
        if (*round == from)
            *round = to;
        else if (from<to && * round> from && *round <= to)
            --*round;
        else if (to < from && *round >= to && *round < from)
            ++*round;
    }
}

static bool order_rounds(struct polish *polish)
{
    bool found = false;
    for (uint32_t from = 0; from < polish->round_count && polish->trials > 0; from++) {
        for (uint32_t to = 0; to < polish->round_count; to++) {
            if (from == to)
                continue;
            shift_rounds(polish, from, to);
            if (is_better(polish))
                found = true;
            else
                shift_rounds(polish, to, from);
        }
    }
    return found;
}

/* ---- all of it ---------------------------------------------------------------------------- */

/** Where a search starts. */
struct start {
    uint32_t depth;
    enum { GIVEN, JOINED, APART, SPACED } units; /* where they are; in one round; each in its own; with some between */
};

static void place_units(struct polish *polish, const struct start *start)
{
    list_units(polish);
    if (start->units == GIVEN)
        return;
    uint32_t step = start->units == JOINED ? 0 : start->units == APART ? 1 : 2;
    for (uint32_t u = 0; u < polish->given->unit_count; u++)
        polish->round[u] = u * step;
    polish->round_count = (polish->given->unit_count - 1) * step + 1;
}

static void search(struct polish *polish, const struct start *start)
{
    polish->depth = start->depth;
    polish->seconds = INFINITY;
    place_units(polish, start);
    if (!is_better(polish))
        return;
    for (bool found = true; found;) {
        polish->round_count++; /* one to move units to; it is left out where it stays empty */
        found = move_units(polish);
        found = join_rounds(polish) || found;
        found = swap_units(polish) || found;
        found = order_rounds(polish) || found;
    }
}

void polish_rounds(struct arena *arena, const struct problem *problem, uint64_t least_peak, struct rounds *rounds,
                   double *seconds)
{
    static const struct start starts[] = {{2, GIVEN}, {1, GIVEN}, {1, JOINED}, {2, APART}, {1, APART}, {2, SPACED}};
    const uint64_t trials = count_trials(problem, rounds) / (sizeof(starts) / sizeof(starts[0]));
    struct rounds best = *rounds;
    if (trials < LEAST_TRIALS || !applies(problem, rounds))
        return;
    if (isnan(*seconds))
        *seconds = estimate_seconds(arena, problem, rounds);
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        struct polish polish = {
            .arena = arena, .problem = problem, .given = rounds, .least_peak = least_peak, .trials = trials};
        search(&polish, &starts[i]);
        if (!(polish.seconds < *seconds * FASTER))
            continue;
        best = make_rounds(arena, &polish);
        *seconds = polish.seconds;
    }
    *rounds = best;
}
