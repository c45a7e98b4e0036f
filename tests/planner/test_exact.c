/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Rounds against all rounds: random moves of a few tensors, too small to be cut, every tensor in every round, in every
 * order, with one slot and with two, with old buffers held and released.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "route_rig.h"
#include "schedule/estimate.h"
#include "schedule/exact.h"
#include "schedule/loads.h"
#include "schedule/peak.h"
#include "side_rig.h"
#include "solve/lp.h"
#include "space/pair.h"

struct brute_case {
    uint32_t number;
    struct problem *problem;
    uint64_t least_cap;
    double seconds[METHOD_GREEDY + 1]; /* by method, predicted */
    bool hold[METHOD_GREEDY + 1];      /* old buffers live to the end */
    bool cut;                          /* some rounds were made of parts of jobs */
    bool proved;                       /* the exact method says that nothing is faster */
    double best, best_held;            /* of all rounds; of those that hold the old side: infinite if there are none */
    uint64_t looked_at;                /* rounds whose time was taken */
    bool refused;                      /* no rounds are under the cap, or none were found: err */
    struct shunt_err err;
};

/* ---- random moves ------------------------------------------------------------------------- */

#define MOST_TENSORS 5
#define MOST_UNITS   5
#define UNCUT        4096 /* bytes: no strategy that takes whole jobs cuts one of less traffic */

struct made {
    struct cfg_tensor tensors[MOST_TENSORS];
    int64_t segments[MOST_TENSORS];
    struct cfg_model model;
    struct cfg_cluster cluster;
    struct cfg_layout from, to;
    struct pair pair;
};

static void draw_model(struct rig_random *random, struct made *made)
{
    static const char *const names[] = {"layer.{i}.a", "layer.{i}.b", "embed", "head", "norm"};
    uint32_t layers = 1 + rig_draw(random, 2), units = 0;
    made->model = (struct cfg_model){
        .path = (char *)"model.yaml", .name = (char *)"tiny", .layers = layers, .tensors = made->tensors};
    for (uint32_t t = 0; t < MOST_TENSORS; t++) {
        uint32_t more = t < 2 ? layers : 1;
        if (units + more > MOST_UNITS || (t > 0 && rig_draw(random, 4) == 0))
            continue;
        struct cfg_tensor *tensor = &made->tensors[made->model.tensor_count++];
        int64_t rows = 8 * (1 + rig_draw(random, 8)), columns = 4 * (1 + rig_draw(random, 6));
        int cut = (int)rig_draw(random, 3) - 1;
        made->segments[made->model.tensor_count - 1] = cut == 1 ? columns : rows;
        *tensor = (struct cfg_tensor){.name = (char *)(uintptr_t)names[t],
                                      .ndim = 2,
                                      .shape = {rows, columns},
                                      .stage = t < 2    ? CFG_STAGE_LAYER
                                               : t == 2 ? CFG_STAGE_FIRST
                                                        : CFG_STAGE_LAST,
                                      .cut_dim = cut,
                                      .segment_count = cut < 0 ? 0 : 1,
                                      .segments = &made->segments[made->model.tensor_count - 1],
                                      .layer_end = t < 2 ? layers : 0,
                                      .dtype = -1};
        units += more;
    }
}

static struct cfg_layout draw_layout(struct rig_random *random, int64_t layers)
{
    static const int64_t parts[] = {1, 2, 4};
    struct cfg_layout layout = rig_layout();
    layout.state_dtype[SHUNT_STATE_MASTER] = -1;
    do {
        layout.size[CFG_AXIS_TP] = parts[rig_draw(random, 3)];
        layout.size[CFG_AXIS_PP] = parts[rig_draw(random, 2)];
        layout.size[CFG_AXIS_DP] = 1 + rig_draw(random, 3);
    } while (cfg_layout_world(&layout) > 8 || layout.size[CFG_AXIS_PP] > layers);
    if (rig_draw(random, 2) == 0)
        layout.order[3] = CFG_AXIS_PP, layout.order[4] = CFG_AXIS_DP;
    return layout;
}

/** Links of some hundred kilobytes a second, so that rounds, messages and copies cost about what the bytes do. */
static struct cfg_cluster draw_cluster(struct rig_random *random)
{
    static const double rounds[] = {0.0005, 0.002, 0.01}, messages[] = {0, 0, 0.0005};
    static const double copies[] = {20e6, 1e6, 300e3};
    return (struct cfg_cluster){.path = (char *)"cluster.yaml",
                                .name = (char *)"tiny",
                                .devices_per_node = INT64_C(2) << rig_draw(random, 3),
                                .device_memory = UINT64_C(1) << 30,
                                .intra_node_bytes_per_second = 450e3,
                                .inter_node_bytes_per_second = 100e3,
                                .copy_bytes_per_second = copies[rig_draw(random, 3)],
                                .round_seconds = rounds[rig_draw(random, 3)],
                                .message_seconds = messages[rig_draw(random, 3)]};
}

/** A move, under a cap and a staging that are sometimes little. */
static bool make_move(struct arena *arena, struct rig_random *random, struct brute_case *found)
{
    static const double caps[] = {1.25, 1.6, 2, 3}, shares[] = {0.3, 0.6, 2};
    struct made *made = ARENA_NEW(arena, struct made, 1);
    struct world *world;
    struct route *route;
    draw_model(random, made);
    made->cluster = draw_cluster(random);
    made->from = draw_layout(random, made->model.layers);
    made->to = draw_layout(random, made->model.layers);
    if (pair_build(arena, &made->model, &made->from, &made->to, &made->pair, &found->err) != SHUNT_OK ||
        world_build(arena, &made->cluster, made->pair.from, made->pair.to, &world, &found->err) != SHUNT_OK ||
        route_build(arena, made->pair.space, made->pair.from, made->pair.to, world, &route, &found->err) != SHUNT_OK)
        return false;
    struct problem *problem = problem_build(arena, route, PROBLEM_NO_CAP, 0);
    double cap = caps[rig_draw(random, 4)], share = shares[rig_draw(random, 3)];
    uint64_t largest = 0;
    for (uint32_t j = 0; j < problem->job_count; j++)
        largest = problem->jobs[j].traffic > largest ? problem->jobs[j].traffic : largest;
    uint64_t staging = (uint64_t)(share * (double)problem->traffic_max);
    found->problem = problem_build(arena, route, (uint64_t)(cap * (double)problem->peak_lower_bound),
                                   staging > 2 * largest ? staging : 2 * largest);
    return problem->job_count > 0 && problem->traffic_max > 0 && largest <= UNCUT;
}

/* ---- all rounds ----------------------------------------------------------------------------- */

struct trying {
    struct arena *arena;
    const struct problem *problem;
    struct loads *loads; /* one unit a job: they are too small to be cut */
    struct rounds rounds;
    uint32_t round[MOST_UNITS];    /* by unit: one of `count` rounds with units */
    uint32_t position[MOST_UNITS]; /* by round with units: the round that it is, those without counted */
    uint32_t units, count;
    double most; /* a time that is beaten already */
    uint64_t looked_at, least_cap;
    double *link; /* by round and port: seconds */
};

#define NOTHING 1e-12 /* seconds: what is left of loads that were put and taken back */

/** What the links alone take with the units so far; nothing that is added makes it less. */
static double least_so_far(const struct trying *trying)
{
    double cost = trying->problem->route->world->cluster->round_seconds, sum = 0;
    for (uint32_t k = 0; k < trying->count; k++) {
        double most = 0;
        for (uint32_t p = 0; p < trying->loads->port_count; p++)
            most = fmax(most, trying->link[(size_t)k * trying->loads->port_count + p]);
        sum += most > NOTHING ? most + cost : 0;
    }
    return sum;
}

static void list_units(struct trying *trying)
{
    struct rounds *rounds = &trying->rounds;
    rounds->unit_count = 0;
    rounds->round_count = 0;
    for (uint32_t k = 0; k < trying->count; k++) {
        while (rounds->round_count < rounds->idle_rounds + trying->position[k] + 1)
            rounds->round_begin[rounds->round_count++] = rounds->unit_count;
        for (uint32_t u = 0; u < trying->units; u++) {
            if (trying->round[u] == k)
                rounds->units[rounds->unit_count++] = trying->loads->units[u];
        }
    }
    rounds->round_begin[rounds->round_count] = rounds->unit_count;
}

/** Bytes of both slots of the fullest device. */
static uint64_t staging_of(const struct trying *trying)
{
    uint32_t devices = trying->problem->route->world->device_count, depth = trying->rounds.depth;
    uint64_t *slots = ARENA_NEW(trying->arena, uint64_t, 2 * (size_t)devices), most = 0;
    for (uint32_t k = 0; k < trying->count; k++) {
        uint64_t *used = ARENA_NEW(trying->arena, uint64_t, devices);
        for (uint32_t u = 0; u < trying->units; u++) {
            for (uint32_t l = trying->loads->begin[u]; trying->round[u] == k && l < trying->loads->begin[u + 1]; l++) {
                const struct load *load = &trying->loads->loads[l];
                used[load->port / PORT_KINDS] += port_is_wire(load->port) ? load->bytes : 0;
            }
        }
        for (uint32_t d = 0; d < devices; d++) {
            uint64_t *slot = &slots[2 * (size_t)d + trying->position[k] % depth];
            *slot = used[d] > *slot ? used[d] : *slot;
        }
    }
    for (uint32_t d = 0; d < devices; d++)
        most = slots[2 * d] + slots[2 * d + 1] > most ? slots[2 * d] + slots[2 * d + 1] : most;
    return most;
}

static void take_time(struct trying *trying)
{
    list_units(trying);
    double seconds = estimate_seconds(trying->arena, trying->problem, &trying->rounds);
    trying->looked_at++;
    if (seconds >= trying->most || staging_of(trying) > trying->problem->staging)
        return;
    uint64_t peak = peak_of_rounds(trying->arena, trying->problem, &trying->rounds);
    if (peak <= trying->problem->cap && peak >= trying->least_cap)
        trying->most = seconds;
}

/** With two slots, up to two rounds without units may follow each other: more waiting than that changes nothing. */
static void try_gaps(struct trying *trying, uint32_t k)
{
    uint32_t waits = trying->rounds.hold_old || trying->rounds.depth == 1 || k == 0 ? 0 : 2;
    if (k == trying->count) {
        take_time(trying);
        return;
    }
    for (uint32_t empty = 0; empty <= waits; empty++) {
        trying->position[k] = k > 0 ? trying->position[k - 1] + 1 + empty : 0;
        try_gaps(trying, k + 1);
    }
}

static bool has_empty(const struct trying *trying)
{
    uint32_t taken = 0;
    for (uint32_t u = 0; u < trying->units; u++)
        taken |= UINT32_C(1) << trying->round[u];
    return taken != (UINT32_C(1) << trying->count) - 1;
}

static void put(struct trying *trying, uint32_t unit, uint32_t round, double sign)
{
    for (uint32_t l = trying->loads->begin[unit]; l < trying->loads->begin[unit + 1]; l++) {
        const struct load *load = &trying->loads->loads[l];
        if (port_is_link(load->port))
            trying->link[(size_t)round * trying->loads->port_count + load->port] += sign * load->seconds;
    }
}

static void try_units(struct trying *trying, uint32_t unit)
{
    if (least_so_far(trying) * (1 - 1e-12) >= trying->most)
        return;
    if (unit == trying->units) {
        if (!has_empty(trying))
            try_gaps(trying, 0);
        return;
    }
    for (uint32_t k = 0; k < trying->count; k++) {
        trying->round[unit] = k;
        put(trying, unit, k, 1);
        try_units(trying, unit + 1);
        put(trying, unit, k, -1);
    }
}

struct try_work {
    const struct problem *problem;
    uint64_t least_cap, looked_at;
    uint32_t depth;
    bool hold_old;
    double best;
};

static void try_all(struct arena *scratch, void *context)
{
    struct try_work *work = context;
    struct trying trying = {.arena = scratch,
                            .problem = work->problem,
                            .least_cap = work->least_cap,
                            .loads = loads_build(scratch, work->problem, UINT64_MAX / 4),
                            .most = work->best};
    trying.units = trying.loads->unit_count;
    trying.rounds = (struct rounds){.depth = work->depth, .hold_old = work->hold_old};
    trying.rounds.idle_rounds = !work->hold_old && work->problem->unread_max > 0 ? work->depth : 0;
    trying.rounds.units = ARENA_NEW(scratch, struct unit, trying.units);
    trying.rounds.round_begin = ARENA_NEW(scratch, uint32_t, 3 * (size_t)trying.units + 4);
    for (trying.count = 1; trying.count <= trying.units; trying.count++) {
        trying.link = ARENA_NEW(scratch, double, (size_t)trying.count *trying.loads->port_count);
        try_units(&trying, 0);
    }
    work->best = trying.most;
    work->looked_at += trying.looked_at;
}

static double best_of(struct arena *arena, struct brute_case *found, bool hold_old, double best)
{
    struct try_work work = {
        .problem = found->problem, .least_cap = found->least_cap, .hold_old = hold_old, .best = best};
    for (work.depth = 1; work.depth <= 2; work.depth++)
        arena_with_scratch(arena, try_all, &work);
    found->looked_at += work.looked_at;
    return work.best;
}

/** Make a move, schedule it in every way, and try all rounds. */
static void brute_run(struct arena *arena, uint32_t number, struct brute_case *case_out)
{
    struct rig_random random = {.state = number * UINT64_C(7919) + 17};
    *case_out = (struct brute_case){.number = number};
    while (!make_move(arena, &random, case_out) && case_out->err.text[0] == '\0')
        continue;
    case_out->refused = case_out->err.text[0] != '\0';
    for (int m = METHOD_AUTO; m <= METHOD_GREEDY && !case_out->refused; m++) {
        struct schedule schedule;
        const struct exact_options options = {0};
        enum shunt_status status =
            m == METHOD_EXACT
                ? exact_build(arena, case_out->problem, NULL, &options, &schedule, &case_out->err)
                : schedule_build(arena, case_out->problem, NULL, (enum schedule_method)m, &schedule, &case_out->err);
        case_out->refused = status != SHUNT_OK;
        if (case_out->refused)
            return;
        case_out->seconds[m] = estimate_seconds(arena, case_out->problem, &schedule.rounds);
        case_out->hold[m] = schedule.rounds.hold_old;
        if (m == METHOD_EXACT)
            case_out->proved = strcmp(schedule.method, "exact") == 0;
        case_out->cut = case_out->cut || schedule.rounds.unit_count > case_out->problem->job_count;
        if (m == METHOD_AUTO)
            case_out->least_cap = schedule.least_cap;
    }
    if (case_out->refused)
        return;
    case_out->best_held = best_of(arena, case_out, true, INFINITY);
    case_out->best = best_of(arena, case_out, false, case_out->best_held);
}

/** How much slower a method is than the best, of those that hold the old side where it does. */
static double brute_gap(const struct brute_case *found, enum schedule_method method)
{
    double best = found->hold[method] ? found->best_held : found->best;
    return best > 0 ? found->seconds[method] / best - 1 : 0;
}

/* ---- all moves ---------------------------------------------------------------------------- */

#define MOVES 40 /* $SHUNT_EXACT_MOVES: so many, and a line of JSON for each */

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** @return the median */
static double print_gaps(const char *method, double *gaps, uint32_t count)
{
    qsort(gaps, count, sizeof(*gaps), compare_numbers);
    printf("# %s over the best of all rounds: median %.3f %%, p90 %.3f %%, p99 %.3f %%, most %.3f %%\n", method,
           100 * gaps[count / 2], 100 * gaps[count * 9 / 10], 100 * gaps[count * 99 / 100], 100 * gaps[count - 1]);
    return gaps[count / 2];
}

static void print_row(const struct brute_case *found)
{
    printf("# {\"move\": %u, \"jobs\": %u, \"greedy\": %.9g, \"auto\": %.9g, \"exact\": %.9g, \"best\": %.9g, "
           "\"proved\": %s, \"held\": %s, \"gaps\": {\"greedy\": %.6g, \"auto\": %.6g, \"exact\": %.6g}}\n",
           found->number, found->problem->job_count, found->seconds[METHOD_GREEDY], found->seconds[METHOD_AUTO],
           found->seconds[METHOD_EXACT], found->best, found->proved ? "true" : "false",
           found->hold[METHOD_EXACT] ? "true" : "false", brute_gap(found, METHOD_GREEDY), brute_gap(found, METHOD_AUTO),
           brute_gap(found, METHOD_EXACT));
}

/** What the exact method says is the best is the best, and nothing is better than that. */
static void check_case(const struct brute_case *found)
{
    double gap = brute_gap(found, METHOD_EXACT);
    double other = found->seconds[METHOD_AUTO];
    if (found->hold[METHOD_GREEDY] == found->hold[METHOD_AUTO])
        other = fmin(other, found->seconds[METHOD_GREEDY]);
    CHECK_MSG(found->seconds[METHOD_EXACT] <= other * (1 + 1e-9), "%u: exact %.9f s, others %.9f s", found->number,
              found->seconds[METHOD_EXACT], other);
    CHECK_MSG(!found->proved || gap <= 1e-5, "%u: exact %.9f s, proved; best %.9f s", found->number,
              found->seconds[METHOD_EXACT], found->best);
    CHECK_MSG(found->cut || gap >= -1e-9, "%u: exact %.9f s, best %.9f s", found->number, found->seconds[METHOD_EXACT],
              found->best);
}

struct sums {
    uint32_t moves, count, refused, proved, reached;
    double *gaps[METHOD_GREEDY + 1];
};

static void run_move(uint32_t number, struct sums *sums)
{
    struct arena arena;
    struct brute_case found;
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        brute_run(&arena, number, &found);
        sums->refused += found.refused;
        if (found.refused)
            CHECK_CONTAINS(found.err.text, "infeasible");
        else {
            check_case(&found);
            for (int m = METHOD_AUTO; m <= METHOD_GREEDY; m++)
                sums->gaps[m][sums->count] = brute_gap(&found, (enum schedule_method)m);
            sums->count++;
            sums->proved += found.proved;
            sums->reached += brute_gap(&found, METHOD_EXACT) <= 1e-5;
            if (getenv("SHUNT_EXACT_MOVES") != NULL)
                print_row(&found);
        }
    } else {
        CHECK(!"out of memory");
    }
    arena_finish(&arena);
}

static void check_gaps(const struct sums *sums)
{
    CHECK(print_gaps("greedy", sums->gaps[METHOD_GREEDY], sums->count) <= 0.02);
    CHECK(print_gaps("auto", sums->gaps[METHOD_AUTO], sums->count) <= 0.02);
    CHECK(print_gaps("exact", sums->gaps[METHOD_EXACT], sums->count) <= 1e-5);
}

static void rounds_are_near_the_best(void)
{
    struct arena arena;
    const char *asked = getenv("SHUNT_EXACT_MOVES");
    struct sums sums = {.moves = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : MOVES};
    if (lp_solver_name() == NULL) {
        test_skip("built without a solver");
        return;
    }
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        for (int m = METHOD_AUTO; m <= METHOD_GREEDY; m++)
            sums.gaps[m] = ARENA_NEW(&arena, double, sums.moves);
        for (uint32_t n = 0; n < sums.moves; n++)
            run_move(n, &sums);
        printf("# %u moves: %u refused, exact proved in %u, the best reached in %u\n", sums.moves, sums.refused,
               sums.proved, sums.reached);
        CHECK(sums.count > sums.moves / 2 && sums.proved > sums.count * 3 / 4);
        if (sums.count > 0)
            check_gaps(&sums);
    } else {
        CHECK(!"out of memory");
    }
    arena_finish(&arena);
}

static const struct test_case cases[] = {
    {"rounds_are_near_the_best", rounds_are_near_the_best},
};
TEST_MAIN(cases)
