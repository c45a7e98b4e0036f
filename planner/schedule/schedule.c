/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/balance.h"
#include "schedule/cap_plan.h"
#include "schedule/estimate.h"
#include "schedule/frugal.h"
#include "schedule/order.h"
#include "schedule/peak.h"
#include "schedule/polish.h"
#include "schedule/refuse.h"
#include "schedule/spill.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

enum order_kind { ORDER_MIXED, ORDER_LEAST_PEAK, NO_ORDER /* balance.h instead */ };

enum slot_kind {
    SLOT_FULL,    /* all of the staging */
    SLOT_HALF,    /* a half of it */
    SLOT_QUARTER, /* a quarter of it */
    SLOT_EIGHTH,  /* an eighth of it */
    SLOT_REST,    /* what the cap leaves over the least peak, at most all of the staging */
    SLOT_LEAST,   /* one smallest chunk */
};

/** The strategies, about the fastest first. Those that hold the old side come before those that do not. */
static const struct strategy {
    const char *name;
    enum order_kind order;
    enum slot_kind slot;
    uint32_t depth;
    bool hold_old;
    uint32_t window; /* of a list schedule; of a balanced one: how many times the rounds that staging asks for */
} strategies[] = {
    {"balanced-hold", NO_ORDER, SLOT_FULL, 2, true, 1},
    {"balanced-hold", NO_ORDER, SLOT_QUARTER, 2, true, 1},
    {"greedy-mixed-hold", ORDER_MIXED, SLOT_FULL, 2, true, 256},
    {"greedy-mixed-hold", ORDER_MIXED, SLOT_EIGHTH, 2, true, 256},
    {"balanced", NO_ORDER, SLOT_FULL, 2, false, 1},
    {"balanced", NO_ORDER, SLOT_FULL, 2, false, 2},
    {"balanced", NO_ORDER, SLOT_HALF, 2, false, 1},
    {"balanced", NO_ORDER, SLOT_HALF, 2, false, 2},
    {"balanced", NO_ORDER, SLOT_QUARTER, 2, false, 1},
    {"balanced", NO_ORDER, SLOT_QUARTER, 2, false, 2},
    {"greedy-mixed", ORDER_MIXED, SLOT_FULL, 2, false, 256},
    {"greedy-mixed", ORDER_MIXED, SLOT_EIGHTH, 2, false, 256},
    {"greedy-peak", ORDER_LEAST_PEAK, SLOT_FULL, 2, false, 256},
    {"greedy-peak", ORDER_LEAST_PEAK, SLOT_EIGHTH, 2, false, 64},
    {"greedy-peak", ORDER_LEAST_PEAK, SLOT_REST, 1, false, 64},
    {"greedy-strict", ORDER_LEAST_PEAK, SLOT_REST, 1, false, 1},
    {"greedy-strict", ORDER_LEAST_PEAK, SLOT_LEAST, 1, false, 1},
    {"greedy-strict-mixed", ORDER_MIXED, SLOT_LEAST, 1, false, 1},
};
#define STRATEGY_COUNT (sizeof(strategies) / sizeof(strategies[0]))

/**
 * Number of pieces over all jobs up to which the least cap is sought among all strategies, not from the orders alone, and
 * the greedy schedule is looked at as well.
 */
#define FEW_PIECES 10000u

/** Pieces of all chunks looked at in a search: beyond it the first schedule that fits is taken. */
#define SEARCH_PIECES 4000000u

/** What the strategies share. */
struct common {
    const struct problem *problem;
    bool quick;           /* greedy */
    uint32_t *orders[2];  /* by order kind; the mixed one is made on demand */
    uint64_t *least_peak; /* by device: buffers, in least-peak order */
    uint64_t *least_slot; /* by device: slot for one smallest chunk */
    uint64_t largest_least_slot;
    uint64_t least_chunk;
    uint64_t least_cap;
    const struct strategy *least_strategy; /* that meets the least cap */
    uint64_t least_strategy_cap;           /* when it is given this one */
    uint64_t pieces;                       /* of all jobs */
    uint64_t looked_at;                    /* pieces of all chunks of the schedules so far */
    bool alone;                            /* one schedule is made, and compared with no other */
    uint64_t both_sides;                   /* most bytes that one device needs to hold its old side to the end */
    uint64_t spilled_least_cap;            /* when all that can be is parked; 0: not known */
    const uint64_t *fine_slot;             /* by device: the same for the chunks of `frugal` */
    const char *frugal_method;             /* the least cap is that of `frugal`; NULL: it is not */
    struct rounds frugal;                  /* one job after the other, in fine chunks */
};

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

uint64_t schedule_default_staging(const struct problem *problem)
{
    return clamp(problem->traffic_max / 4, 16 * MIB, 4 * GIB);
}

/** Buffers of a device at its worst moment in least-peak order. */
static uint64_t worst_buffers(const struct common *common, uint32_t device)
{
    uint64_t from = common->problem->devices[device].from, peak = common->least_peak[device];
    return peak > from ? peak : from;
}

/** Most bytes of a device that allocates everything before it frees anything. */
static uint64_t both_sides(struct arena *arena, const struct problem *problem)
{
    uint32_t devices = problem->route->world->device_count;
    uint64_t *bytes = ARENA_NEW(arena, uint64_t, devices), most = 0;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++)
            bytes[problem->jobs[j].memory[m].device] += problem->jobs[j].memory[m].alloc;
    }
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t all = problem->devices[d].fixed + problem->devices[d].from + bytes[d];
        most = all > most ? all : most;
    }
    return most;
}

/** Pieces of all jobs, each once. */
static uint64_t count_job_pieces(const struct problem *problem)
{
    uint64_t pieces = 0;
    for (uint32_t j = 0; j < problem->job_count; j++)
        pieces += problem->route->types[problem->jobs[j].type].piece_count;
    return pieces;
}

static void prepare(struct arena *arena, const struct problem *problem, struct common *common)
{
    uint32_t devices = problem->route->world->device_count;
    *common = (struct common){.problem = problem};
    common->least_chunk = clamp(problem->traffic_max / 256, 4 * KIB, 16 * MIB);
    common->least_peak = ARENA_NEW(arena, uint64_t, devices);
    common->least_slot = ARENA_NEW(arena, uint64_t, devices);
    common->orders[ORDER_LEAST_PEAK] = order_least_peak(arena, problem, common->least_peak);
    common->largest_least_slot = rounds_least_slots(arena, problem, common->least_chunk, common->least_slot);
    common->pieces = count_job_pieces(problem);
    common->both_sides = both_sides(arena, problem);
}

static uint64_t slot_bytes(const struct common *common, const struct strategy *strategy, uint64_t cap)
{
    const struct problem *problem = common->problem;
    uint64_t full = problem->staging / strategy->depth, rest = full;
    switch (strategy->slot) {
    case SLOT_FULL:
        return full;
    case SLOT_HALF:
        return full / 2;
    case SLOT_QUARTER:
        return full / 4;
    case SLOT_EIGHTH:
        return full / 8;
    case SLOT_LEAST:
        return 0;
    case SLOT_REST:
        break;
    }
    for (uint32_t d = 0; d < problem->route->world->device_count; d++) {
        uint64_t taken = problem->devices[d].fixed + worst_buffers(common, d), own = problem_cap(problem, cap, d);
        uint64_t left = own > taken ? (own - taken) / strategy->depth : 0;
        rest = left < rest ? left : rest;
    }
    return rest;
}

static bool run_balanced(struct arena *arena, struct common *common, const struct strategy *strategy, uint64_t cap,
                         struct rounds *rounds_out, uint64_t *peak_out)
{
    uint64_t slot = slot_bytes(common, strategy, cap);
    uint64_t chunk = slot / 16 > common->least_chunk ? slot / 16 : common->least_chunk;
    const struct balance_options options = {.depth = strategy->depth,
                                            .hold_old = strategy->hold_old,
                                            .quick = common->quick,
                                            .round_factor = strategy->window,
                                            .slot_bytes = slot,
                                            .chunk_bytes = chunk};
    if (strategy->depth * common->largest_least_slot > common->problem->staging ||
        !balance_build(arena, common->problem, &options, rounds_out))
        return false;
    spill_delay(arena, common->problem, rounds_out);
    *peak_out = peak_of_rounds(arena, common->problem, rounds_out);
    return *peak_out <= cap;
}

static bool run_strategy(struct arena *arena, struct common *common, const struct strategy *strategy, uint64_t cap,
                         struct rounds *rounds_out, uint64_t *peak_out)
{
    struct problem problem = *common->problem;
    problem.cap = cap;
    if (strategy->hold_old && (common->both_sides > cap || parks_any(&problem)))
        return false;
    if (strategy->order == NO_ORDER)
        return run_balanced(arena, common, strategy, cap, rounds_out, peak_out);
    if (common->orders[strategy->order] == NULL)
        common->orders[strategy->order] = order_mixed(arena, &problem);
    uint64_t slot = slot_bytes(common, strategy, cap);
    uint64_t chunk = slot / 8 > common->least_chunk ? slot / 8 : common->least_chunk;
    struct rounds_options options = {.depth = strategy->depth,
                                     .hold_old = strategy->hold_old,
                                     .slot_bytes = slot,
                                     .chunk_bytes = chunk,
                                     .window = strategy->window,
                                     .order = common->orders[strategy->order]};
    /* a slot that cannot take one chunk on every device would exceed the staging */
    if (strategy->depth * common->largest_least_slot > problem.staging ||
        !rounds_build(arena, &problem, &options, rounds_out))
        return false;
    *peak_out = peak_of_rounds(arena, &problem, rounds_out);
    return true;
}

#define NO_CAP (UINT64_MAX / 2)

/** Lower the least cap to the peak that a strategy has when nothing holds it back. */
static void try_least(struct arena *arena, struct common *common, const struct strategy *strategy)
{
    struct rounds rounds;
    uint64_t peak;
    if (!run_strategy(arena, common, strategy, NO_CAP, &rounds, &peak))
        return;
    if (common->least_strategy == NULL || peak < common->least_cap) {
        common->least_cap = peak;
        common->least_strategy = strategy;
        common->least_strategy_cap = NO_CAP;
    }
}

/** The strategy that runs jobs one after the other in an order, in the smallest chunks. */
static const struct strategy *strict_strategy(enum order_kind order)
{
    const struct strategy *found = NULL;
    for (size_t i = 0; i < STRATEGY_COUNT; i++) {
        if (strategies[i].order == order && strategies[i].slot == SLOT_LEAST)
            found = &strategies[i];
    }
    return found;
}

/**
 * Lower the least cap to what a strict strategy needs: with room for the buffers that its order has live at once and
 * for one smallest chunk, the next job always starts when those before it have released.
 */
static void try_strict(struct common *common, enum order_kind order, const uint64_t *peak)
{
    const struct problem *problem = common->problem;
    uint64_t cap = 0;
    for (uint32_t d = 0; d < problem->route->world->device_count; d++) {
        uint64_t from = problem->devices[d].from, buffers = peak[d] > from ? peak[d] : from;
        uint64_t own = problem->devices[d].fixed + buffers + common->least_slot[d];
        own += own > problem->devices[d].memory ? PEAK_OVER : 0;
        cap = own > cap ? own : cap;
    }
    if (common->least_strategy == NULL || cap < common->least_cap) {
        common->least_cap = common->least_strategy_cap = cap;
        common->least_strategy = strict_strategy(order);
    }
}

/** What the orders ask for when jobs run one after the other. */
static void try_orders(struct arena *arena, struct common *common)
{
    uint64_t *peak = ARENA_NEW(arena, uint64_t, common->problem->route->world->device_count);
    common->orders[ORDER_MIXED] = order_mixed(arena, common->problem);
    order_peak(arena, common->problem, common->orders[ORDER_MIXED], peak);
    try_strict(common, ORDER_LEAST_PEAK, common->least_peak);
    try_strict(common, ORDER_MIXED, peak);
}

/**
 * The least cap is what the orders ask for, which is where it nearly always lies, or the lowest peak that any
 * strategy has without a cap. With many pieces the latter is not sought.
 */
static void find_least_cap(struct arena *arena, struct common *common)
{
    for (size_t i = 0; common->pieces <= FEW_PIECES && i < STRATEGY_COUNT; i++)
        try_least(arena, common, &strategies[i]);
}

/** A least cap this near to what no plan beats is not sought further. */
#define LEAST_ENOUGH 1.002

/** Slices of the programs whose orders are tried. */
static const uint32_t order_slices[] = {8, 32, 64};

/** Of the larger side, and no less than so many bytes: chunks of a plan that needs little memory and has few pieces. */
#define FINEST_PART  1024
#define FINEST_BYTES 1024

#define LP_STRICT "lp-strict"

static bool is_least_enough(const struct common *common)
{
    return (double)common->least_cap <= LEAST_ENOUGH * (double)common->problem->peak_lower_bound;
}

/** Strictly one job after the other, in an order: that may need less than any other strategy. */
static void try_order(struct arena *arena, struct common *common, const uint32_t *order, uint64_t chunk,
                      const char *method)
{
    struct problem problem = *common->problem;
    const struct rounds_options options = {.depth = 1, .chunk_bytes = chunk, .window = 1, .order = order};
    struct rounds rounds;
    problem.cap = NO_CAP;
    if (order == NULL || !rounds_build(arena, &problem, &options, &rounds))
        return;
    uint64_t peak = peak_of_rounds(arena, &problem, &rounds);
    if (peak >= common->least_cap)
        return;
    common->least_cap = peak;
    common->frugal_method = method;
    common->frugal = rounds;
}

/** The least cap with finer chunks than other strategies have, in the orders at hand and in those that a search finds. */
static void lower_least_cap(struct arena *arena, struct common *common)
{
    const struct problem *problem = common->problem;
    uint32_t devices = problem->route->world->device_count;
    uint64_t larger = problem->from_max > problem->to_max ? problem->from_max : problem->to_max;
    uint64_t chunk = clamp(larger / FINEST_PART, FINEST_BYTES, common->least_chunk);
    uint64_t *slot = ARENA_NEW(arena, uint64_t, devices), least = 0;
    if (is_least_enough(common))
        return;
    if (rounds_least_slots(arena, problem, chunk, slot) > problem->staging)
        return;
    common->fine_slot = slot;
    for (uint32_t d = 0; d < devices; d++) {
        const struct problem_device *device = &problem->devices[d];
        uint64_t own = device->fixed + slot[d] + (device->from > device->to ? device->from : device->to);
        least = own > least ? own : least;
    }
    try_order(arena, common, common->orders[ORDER_LEAST_PEAK], chunk, "greedy-strict");
    try_order(arena, common, common->orders[ORDER_MIXED], chunk, "greedy-strict-mixed");
    const struct frugal_options options = {.slot = slot, .least = least, .most = common->least_cap};
    if (common->least_cap > least)
        try_order(arena, common, frugal_order(arena, problem, &options), chunk, "search-strict");
    for (size_t i = 0; i < sizeof(order_slices) / sizeof(order_slices[0]) && !is_least_enough(common); i++)
        try_order(arena, common, cap_plan_order(arena, problem, order_slices[i]), chunk, LP_STRICT);
}

static enum shunt_status refuse_staging(const struct common *common, struct shunt_err *err)
{
    const struct world *world = common->problem->route->world;
    uint32_t worst = 0;
    while (common->least_slot[worst] < common->largest_least_slot)
        worst++;
    bool is_new = world->devices[worst].to_rank != WORLD_NO_RANK;
    uint64_t staging = common->problem->staging, least = common->largest_least_slot;
    return shunt_fail(err, SHUNT_ERR_INFEASIBLE,
                      "infeasible: staging %llu B is %llu B short on device %u (%s rank %u): it cannot hold one chunk; "
                      "the least staging that would do is %llu B",
                      (unsigned long long)staging, (unsigned long long)(least - staging), world->devices[worst].id,
                      is_new ? "new" : "old", is_new ? world->devices[worst].to_rank : world->devices[worst].from_rank,
                      (unsigned long long)least);
}

/** Pieces of all chunks of a schedule. */
static uint64_t count_pieces(const struct problem *problem, const struct rounds *rounds)
{
    uint64_t pieces = 0;
    for (uint32_t u = 0; u < rounds->unit_count; u++)
        pieces += problem->route->types[problem->jobs[rounds->units[u].job].type].piece_count;
    return pieces;
}

/** A schedule this near to what the routes need at least ends the search. */
#define NEAR_ENOUGH 1.1

/** A schedule that was found, and what it takes; without a method: none was. */
struct found {
    struct schedule schedule;
    double seconds;
};

/**
 * The fastest strategy that fits among those that hold the old side; else among the others. The greedy method takes
 * the first.
 */
static struct found find_fastest(struct arena *arena, struct common *common)
{
    const struct problem *problem = common->problem;
    double least_seconds = common->quick ? 0 : estimate_least_seconds(arena, problem);
    struct found best = {0};
    for (size_t i = 0; i < STRATEGY_COUNT; i++) {
        const struct strategy *strategy = &strategies[i];
        struct schedule schedule = {.problem = problem, .method = strategy->name, .least_cap = common->least_cap};
        if (best.schedule.method != NULL &&
            (best.schedule.rounds.hold_old != strategy->hold_old || strategy->depth == 1))
            break;
        uint64_t peak;
        if (!run_strategy(arena, common, strategy, problem->cap, &schedule.rounds, &peak))
            continue;
        /* only the cap that was given makes it so frugal: with its own peak as the cap it might not be found again */
        if (peak < common->least_cap)
            continue;
        common->looked_at += count_pieces(problem, &schedule.rounds);
        bool first = best.schedule.method == NULL, last = common->looked_at > SEARCH_PIECES || common->quick;
        double seconds = common->alone ? 0 : estimate_seconds(arena, problem, &schedule.rounds);
        if (first || seconds < best.seconds)
            best = (struct found){.schedule = schedule, .seconds = seconds};
        if (last || best.seconds <= NEAR_ENOUGH * least_seconds)
            break;
    }
    return best;
}

/** What was found; else the strategy that made the least cap. */
static enum shunt_status take(struct arena *arena, struct common *common, const struct found *found,
                              struct schedule *schedule_out, struct shunt_err *err)
{
    uint64_t peak;
    *schedule_out = found->schedule;
    if (found->schedule.method != NULL)
        return SHUNT_OK;
    *schedule_out = (struct schedule){.problem = common->problem,
                                      .method = common->frugal_method,
                                      .rounds = common->frugal,
                                      .least_cap = common->least_cap};
    if (common->frugal_method != NULL && strcmp(common->frugal_method, LP_STRICT) == 0) {
        schedule_out->solver = lp_solver_name();
        schedule_out->solver_status = lp_status_text(LP_OPTIMAL);
    }
    if (common->frugal_method != NULL)
        return SHUNT_OK;
    *schedule_out = (struct schedule){
        .problem = common->problem, .method = common->least_strategy->name, .least_cap = common->least_cap};
    if (!run_strategy(arena, common, common->least_strategy, common->least_strategy_cap, &schedule_out->rounds, &peak))
        return shunt_fail(err, SHUNT_ERR_INTERNAL, "no strategy met cap %llu B, although the least cap is %llu B",
                          (unsigned long long)common->problem->cap, (unsigned long long)common->least_cap);
    return SHUNT_OK;
}

/** Holding the old side comes first, then time. */
static bool is_better(const struct found *a, const struct found *b)
{
    if (a->schedule.method == NULL || b->schedule.method == NULL)
        return a->schedule.method != NULL;
    if (a->schedule.rounds.hold_old != b->schedule.rounds.hold_old)
        return a->schedule.rounds.hold_old;
    return a->seconds < b->seconds;
}

/** Rounds lane by lane; where all that is old is held, lanes have no order. */
static struct found find_lanes(struct arena *arena, const struct common *common, bool hold_old)
{
    const struct problem *problem = common->problem;
    const struct cap_plan_options options = {
        .cap = problem->cap, .least_slot = common->largest_least_slot, .hold_old = hold_old};
    struct found lanes = {.schedule = {.problem = problem, .least_cap = common->least_cap}};
    struct cap_plan_result result = {.status = LP_ABSENT};
    /* as of other strategies: not where only this cap makes it so frugal */
    if (!cap_plan_build(arena, problem, &options, &result) ||
        peak_of_rounds(arena, problem, &result.rounds) < common->least_cap)
        return lanes;
    lanes.seconds = result.seconds;
    lanes.schedule.rounds = result.rounds;
    lanes.schedule.method = result.solved ? "lp" : hold_old ? "lanes-hold" : "lanes";
    lanes.schedule.solver = result.solved ? lp_solver_name() : NULL;
    lanes.schedule.solver_status = lp_status_text(result.status);
    return lanes;
}

/** Pieces of a route with relays beyond which lanes take too long. */
#define MOST_RELAYED_PIECES 200000u

/** Pieces beyond which those that hold the old side take too long, where others that do are good. */
#define MOST_HELD_PIECES 200000u

/** Whether all that is old may be held to the end. */
static bool may_hold(const struct common *common)
{
    return common->both_sides <= common->problem->cap && !parks_any(common->problem);
}

/** Whether a schedule of another route may be better than what was found. */
static bool may_improve(struct arena *arena, const struct common *common, const struct found *found,
                        const struct problem *problem)
{
    return found->schedule.method == NULL || (may_hold(common) && !found->schedule.rounds.hold_old) ||
           found->seconds > estimate_least_seconds(arena, problem);
}

/** The same with another route: what depends on the route alone is made anew. */
static struct found find_relayed(struct arena *arena, struct common *common, const struct problem *relayed)
{
    struct common other = *common;
    other.problem = relayed;
    other.looked_at = 0;
    other.least_slot = ARENA_NEW(arena, uint64_t, relayed->route->world->device_count);
    other.largest_least_slot = rounds_least_slots(arena, relayed, other.least_chunk, other.least_slot);
    struct found best = find_fastest(arena, &other), lanes = {0};
    common->looked_at += other.looked_at; /* for the direct route, which comes last */
    if (!other.quick && !may_hold(&other) && count_job_pieces(relayed) <= MOST_RELAYED_PIECES)
        lanes = find_lanes(arena, &other, false);
    return is_better(&best, &lanes) ? best : lanes;
}

static void polish(struct arena *arena, const struct common *common, struct found *found)
{
    if (found->schedule.method == NULL)
        return;
    if (common->alone)
        found->seconds = NAN; /* nobody has asked yet */
    polish_rounds(arena, found->schedule.problem, common->least_cap, &found->schedule.rounds, &found->seconds);
}

/** What the greedy method would take, which is seldom the better one. */
static struct found find_greedy(struct arena *arena, const struct common *common)
{
    struct common greedy = *common;
    greedy.quick = true;
    struct found found = find_fastest(arena, &greedy);
    polish(arena, &greedy, &found);
    return found;
}

/** The fastest that fits, by whichever route; else the one that made the least cap. */
static enum shunt_status choose(struct arena *arena, struct common *common, const struct problem *relayed,
                                struct schedule *schedule_out, struct shunt_err *err)
{
    const struct problem *problem = common->problem;
    struct found best = {0};
    common->alone = common->quick && relayed == NULL;
    for (const struct problem *other = relayed; other != NULL; other = other->other) {
        if (!may_improve(arena, common, &best, other))
            continue;
        const struct found found = find_relayed(arena, common, other);
        best = is_better(&best, &found) ? best : found;
    }
    if (may_improve(arena, common, &best, problem)) {
        struct found direct = find_fastest(arena, common);
        best = is_better(&best, &direct) ? best : direct;
    }
    bool holds = best.schedule.method != NULL && best.schedule.rounds.hold_old;
    if (!common->quick && (!holds || problem->piece_count <= MOST_HELD_PIECES) &&
        (best.schedule.method == NULL || best.seconds > estimate_least_seconds(arena, problem))) {
        struct found lanes = find_lanes(arena, common, holds);
        best = is_better(&best, &lanes) ? best : lanes;
    }
    polish(arena, common, &best);
    if (!common->quick && common->pieces <= FEW_PIECES && may_improve(arena, common, &best, problem)) {
        struct found greedy = find_greedy(arena, common);
        best = is_better(&greedy, &best) ? greedy : best;
    }
    return take(arena, common, &best, schedule_out, err);
}

static enum shunt_status refuse(struct arena *arena, const struct common *common, struct shunt_err *err)
{
    const struct refusal refusal = {.problem = common->problem,
                                    .least_cap = common->least_cap,
                                    .spilled_least_cap = common->spilled_least_cap,
                                    .least_slot =
                                        common->frugal_method != NULL ? common->fine_slot : common->least_slot,
                                    .worst_buffers = common->least_peak,
                                    .solve = !common->quick};
    return refuse_cap(arena, &refusal, err);
}

/* ---- spilling ---------------------------------------------------------------------- */

/** The same with old buffers parked, so that about `room` bytes are left beside the buffers under the cap. */
static struct common park_for(struct arena *arena, const struct common *common, uint64_t room)
{
    struct common parked = *common;
    parked.least_strategy = NULL;
    parked.frugal_method = NULL;
    parked.least_peak = ARENA_NEW(arena, uint64_t, common->problem->route->world->device_count);
    parked.problem = spill_build(arena, common->problem, common->orders[ORDER_LEAST_PEAK], room, parked.least_peak);
    return parked;
}

/** The largest new buffers of one job on one device. */
static uint64_t largest_alloc(const struct problem *problem)
{
    uint64_t largest = 0;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++)
            largest = problem->jobs[j].memory[m].alloc > largest ? problem->jobs[j].memory[m].alloc : largest;
    }
    return largest;
}

/** All the staging that the cap leaves beside the larger side. */
static uint64_t most_staging(const struct problem *problem)
{
    uint64_t most = problem->staging;
    for (uint32_t d = 0; d < problem->route->world->device_count; d++) {
        const struct problem_device *device = &problem->devices[d];
        uint64_t cap = problem_cap(problem, problem->cap, d);
        uint64_t taken = device->fixed + (device->from > device->to ? device->from : device->to);
        uint64_t left = cap > taken ? cap - taken : 0;
        most = left < most ? left : most;
    }
    return most;
}

#define SPILL_LEVELS 6 /* jobs whose new buffers have room at once: none to spare, 1, 2, 4, ... */

/**
 * Park more and more, and take what is fastest: with little room, few bytes are parked and rounds are many and small.
 * `all` has everything parked, and is the last level.
 */
static enum shunt_status choose_spilled(struct arena *arena, const struct common *common, struct common *all,
                                        struct schedule *schedule_out, struct shunt_err *err)
{
    const struct problem *problem = common->problem;
    const uint64_t alloc = largest_alloc(problem);
    struct found best = {0};
    for (int level = 0; level <= SPILL_LEVELS; level++) {
        uint64_t room = level == 0 ? common->largest_least_slot : most_staging(problem) + (alloc << (level - 1));
        struct common parked = *all;
        if (level < SPILL_LEVELS)
            parked = park_for(arena, common, room);
        parked.least_cap = all->least_cap;
        struct found found = find_fastest(arena, &parked);
        if (found.schedule.method != NULL && (best.schedule.method == NULL || found.seconds < best.seconds))
            best = found;
    }
    return take(arena, all, &best, schedule_out, err);
}

/** Everything parked that can be, and the least cap that this makes possible. */
static struct common park_all(struct arena *arena, struct common *common)
{
    struct common all = park_for(arena, common, UINT64_MAX);
    if (!parks_any(all.problem))
        all.least_cap = common->least_cap;
    else if (all.pieces > FEW_PIECES)
        try_orders(arena, &all);
    else {
        find_least_cap(arena, &all);
        lower_least_cap(arena, &all);
    }
    common->spilled_least_cap = all.least_cap;
    return all;
}

enum shunt_status schedule_build(struct arena *arena, const struct problem *problem, const struct problem *relayed,
                                 enum schedule_method method, struct schedule *schedule_out, struct shunt_err *err)
{
    struct common common;
    prepare(arena, problem, &common);
    common.quick = method == METHOD_GREEDY;
    if (common.largest_least_slot > problem->staging)
        return refuse_staging(&common, err);
    try_orders(arena, &common);
    if (!common.quick || problem->cap < common.least_cap) {
        find_least_cap(arena, &common);
        if (common.pieces <= FEW_PIECES)
            lower_least_cap(arena, &common);
    }
    if (problem->cap >= common.least_cap)
        return choose(arena, &common, relayed, schedule_out, err);
    struct common all = park_all(arena, &common);
    if (!problem->may_spill || problem->cap < all.least_cap)
        return refuse(arena, problem->may_spill && all.least_cap < common.least_cap ? &all : &common, err);
    return choose_spilled(arena, &common, &all, schedule_out, err);
}
