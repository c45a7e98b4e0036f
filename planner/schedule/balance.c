/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/balance.h"

#include <math.h>
#include <string.h>

#include "schedule/dealt.h"
#include "schedule/loads.h"

/** Powers of the load in the measure of unevenness, as numbers of squarings: low ones spread, high ones flatten. */
enum { SPREAD = 1, EVEN = 3, FLAT = 4 };

/** One pass over all units each; at first those of one chunk in lockstep, stage by stage. */
static const struct {
    int squarings;
    bool lockstep;
} passes[] = {{SPREAD, true}, {EVEN, true}, {FLAT, false}, {FLAT, false}};
#define PASS_COUNT (sizeof(passes) / sizeof(passes[0]))

#define ROUNDS_OF_NO_COST 64 /* to begin with on a cluster where rounds cost nothing */
#define MOST_ROUNDS       4096u
#define ROUND_TRIES       8
#define WINDOW_SHARE      16        /* of the rounds: how far from its place a unit may go, either way */
#define CHUNKS_PER_ROUND  16        /* of the busiest device, at least */
#define MOST_CHUNKS       64        /* the same where few units are dealt to a round: each must fit well */
#define FEW_UNITS         1024      /* of a round: with fewer of them, more chunks */
#define MOST_LOADS        20000000u /* of units that are made smaller */
#define WORTH_CUTTING     0.8       /* share of the size of chunks */
#define WORK_PER_PASS     4e9       /* loads times rounds: later passes are left out beyond it */
#define WORK_OF_LAST      2e7       /* the same of passes that rarely find anything better: those behind the second */

struct balance {
    struct dealt dealt;
    double *level;   /* by port and round: load over an even share of the busiest port */
    uint64_t *used;  /* by device and round: staging */
    uint64_t *limit; /* by device: staging of a round */
    bool ordered;    /* units keep near their places; otherwise only those that others wait for do */
    double *place;   /* by unit: 0 to 1, where in the whole it belongs */
    bool quick;      /* one pass */
    double *score;   /* by round, for the unit at hand */
    double scale;    /* levels per second */
};

static void add_unit(struct balance *balance, uint32_t unit, uint32_t round, int sign)
{
    const struct loads *loads = balance->dealt.loads;
    for (uint32_t l = loads->begin[unit]; l < loads->begin[unit + 1]; l++) {
        const struct load *load = &loads->loads[l];
        balance->level[(size_t)load->port * balance->dealt.rounds + round] += sign * load->seconds * balance->scale;
        if (port_is_wire(load->port))
            balance->used[(size_t)(load->port / PORT_KINDS) * balance->dealt.rounds + round] +=
                sign > 0 ? load->bytes : -load->bytes;
    }
}

static struct window window_of(const struct balance *balance, uint32_t unit)
{
    const struct unit *record = &balance->dealt.loads->units[unit];
    uint32_t job = record->job;
    struct window window = dealt_window(&balance->dealt, unit);
    bool awaited =
        balance->dealt.follower[job] != JOB_NONE && dealt_wait(&balance->dealt, balance->dealt.follower[job]) > 0;
    if ((!balance->ordered && !awaited) || window.begin >= window.end)
        return window;
    uint32_t at = (uint32_t)(balance->place[unit] * balance->dealt.rounds),
             reach = 1 + balance->dealt.rounds / WINDOW_SHARE;
    at += chunk_stage(&record->chunking, record->chunk) * balance->dealt.depth;
    at = at < window.begin ? window.begin : at >= window.end ? window.end - 1 : at;
    uint32_t begin = at > reach ? at - reach : 0, end = at + reach + 1;
    return (struct window){begin > window.begin ? begin : window.begin, end < window.end ? end : window.end};
}

static inline void add_scores(double *restrict score, const double *restrict level, double more, struct window window,
                              int squarings)
{
    for (uint32_t t = window.begin; t < window.end; t++)
        score[t] += raised(level[t] + more, squarings) - raised(level[t], squarings);
}

/** Add to every round's score what the load would add to the unevenness `later` rounds behind it. */
static void score_load(struct balance *balance, const struct load *load, struct window window, uint32_t later,
                       int squarings)
{
    const double *level = &balance->level[(size_t)load->port * balance->dealt.rounds + later];
    double more = load->seconds * balance->scale;
    if (squarings == SPREAD)
        add_scores(balance->score, level, more, window, SPREAD);
    else if (squarings == EVEN)
        add_scores(balance->score, level, more, window, EVEN);
    else
        add_scores(balance->score, level, more, window, FLAT);
}

/** Bar the rounds that have no room for so many bytes of staging on a device; a round without any has room. */
static void bar_rounds(struct balance *balance, uint32_t device, uint64_t bytes, struct window window, uint32_t later)
{
    const uint64_t *used = &balance->used[(size_t)device * balance->dealt.rounds + later];
    for (uint32_t t = window.begin; t < window.end; t++) {
        if (used[t] > 0 && used[t] + bytes > balance->limit[device])
            balance->score[t] = INFINITY;
    }
}

/** Score all rounds of a window for a unit that goes `later` rounds behind them. */
static void score_unit(struct balance *balance, uint32_t unit, struct window window, uint32_t later, int squarings)
{
    const struct loads *loads = balance->dealt.loads;
    uint64_t staged = 0; /* of the device at hand; ports of a device follow each other */
    for (uint32_t l = loads->begin[unit]; l < loads->begin[unit + 1]; l++) {
        const struct load *load = &loads->loads[l];
        uint32_t device = load->port / PORT_KINDS;
        bool last = l + 1 == loads->begin[unit + 1] || loads->loads[l + 1].port / PORT_KINDS != device;
        score_load(balance, load, window, later, squarings);
        staged += port_is_wire(load->port) ? load->bytes : 0;
        if (last && staged > 0)
            bar_rounds(balance, device, staged, window, later);
        staged = last ? 0 : staged;
    }
}

/** Where a unit fits best, with those of the `behind` stages behind it in lockstep. */
static uint32_t best_round(struct balance *balance, uint32_t unit, uint32_t behind, int squarings)
{
    const struct window window = window_of(balance, unit);
    uint32_t best = NO_ROUND, stride = chunk_stride(&balance->dealt.loads->units[unit].chunking);
    memset(balance->score, 0, balance->dealt.rounds * sizeof(*balance->score));
    for (uint32_t s = 0; s <= behind; s++)
        score_unit(balance, unit + s * stride, window, s * balance->dealt.depth, squarings);
    for (uint32_t t = window.begin; t < window.end; t++) {
        if (isfinite(balance->score[t]) && (best == NO_ROUND || balance->score[t] < balance->score[best]))
            best = t;
    }
    return best;
}

static void take_out(struct balance *balance, uint32_t unit)
{
    if (balance->dealt.round[unit] != NO_ROUND)
        add_unit(balance, unit, balance->dealt.round[unit], -1);
    balance->dealt.round[unit] = NO_ROUND;
}

/** Take a unit out, with those of the `behind` stages behind it, and put it where it fits best. False: nowhere. */
static bool place_unit(struct balance *balance, uint32_t unit, uint32_t behind, int squarings)
{
    uint32_t stride = chunk_stride(&balance->dealt.loads->units[unit].chunking);
    for (uint32_t s = 0; s <= behind; s++)
        take_out(balance, unit + s * stride);
    uint32_t round = best_round(balance, unit, behind, squarings);
    for (uint32_t s = 0; s <= behind && round != NO_ROUND; s++) {
        balance->dealt.round[unit + s * stride] = round + s * balance->dealt.depth;
        add_unit(balance, unit + s * stride, round + s * balance->dealt.depth, 1);
    }
    return round != NO_ROUND;
}

/** One pass over all units. False when one fits nowhere. */
static bool run_pass(struct balance *balance, const struct rank *order, int squarings, bool lockstep)
{
    for (uint32_t i = 0; i < balance->dealt.loads->unit_count; i++) {
        uint32_t behind = lockstep ? balance->dealt.loads->units[order[i].unit].chunking.stages - 1 : 0;
        if ((!lockstep || order[i].stage == 0) && !place_unit(balance, order[i].unit, behind, squarings))
            return false;
    }
    return true;
}

static bool spread(struct arena *arena, struct balance *balance, const struct rank *order)
{
    const struct loads *loads = balance->dealt.loads;
    double work = (double)loads->begin[loads->unit_count] * balance->dealt.rounds;
    balance->level = ARENA_NEW(arena, double, (size_t)loads->port_count * balance->dealt.rounds);
    balance->used = ARENA_NEW(arena, uint64_t, (size_t)loads->port_count / PORT_KINDS * balance->dealt.rounds);
    balance->score = ARENA_NEW(arena, double, balance->dealt.rounds);
    dealt_clear(arena, &balance->dealt);
    balance->scale = loads->busiest_seconds > 0 ? balance->dealt.rounds / loads->busiest_seconds : 1;
    for (size_t pass = 0; pass < PASS_COUNT; pass++) {
        if (pass > 0 && (balance->quick || work > (pass > 1 ? WORK_OF_LAST : WORK_PER_PASS)))
            break;
        if (!run_pass(balance, order, passes[pass].squarings, passes[pass].lockstep))
            return false;
    }
    return true;
}

#define GOLDEN_RATIO 0.6180339887498949

/** Jobs that lie on the same devices, about: those whose tensors have one type in their first state. */
static uint32_t group_of(const struct problem *problem, const struct job *job)
{
    const struct route *route = problem->route;
    const struct space_item *item = &route->space->items[job->item];
    const struct space_family *family = &route->space->families[item->family];
    uint32_t first = family->item_begin + (item->tensor - family->tensor_begin) * family->state_count;
    return route->types[route->item_type[first]].group;
}

/**
 * Where units belong if every device is to advance alike: jobs of one group, in order, at multiples of the golden
 * ratio, which is even over any stretch of the group; chunks of a job one behind the other.
 */
static double *find_places(struct arena *arena, const struct problem *problem, const struct loads *loads)
{
    double *place = ARENA_NEW(arena, double, loads->unit_count), total = 0;
    uint32_t *seen = ARENA_NEW(arena, uint32_t, problem->route->type_count);
    for (uint32_t j = 0; j < problem->job_count; j++)
        total += (double)problem->jobs[j].bytes;
    double key = 0;
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        const struct unit *unit = &loads->units[u];
        const struct job *job = &problem->jobs[unit->job];
        if (unit->chunk == 0) {
            key = GOLDEN_RATIO * ++seen[group_of(problem, job)];
            key -= floor(key);
        }
        double share = total > 0 ? (double)job->bytes / total : 0;
        uint32_t stride = chunk_stride(&unit->chunking);
        place[u] = key + share * (unit->chunk % stride) / stride;
        place[u] = place[u] < 1 ? place[u] : place[u] - 1;
    }
    return place;
}

/**
 * Rounds to begin with: enough for the staging, and about as many as make the packs before the first round, the
 * unpacks behind the last one, and what is still to be sent on in the last ones, cost what the rounds themselves do.
 */
static uint32_t least_rounds(const struct balance *balance)
{
    const struct problem *problem = balance->dealt.problem;
    const struct loads *loads = balance->dealt.loads;
    const struct cfg_cluster *cluster = problem->route->world->cluster;
    double wanted = 1, round_seconds = cluster->round_seconds + loads->most_messages * cluster->message_seconds;
    wanted = round_seconds > 0
                 ? floor(sqrt((loads->copy_seconds + balance->dealt.depth * loads->later_seconds) / round_seconds))
                 : ROUNDS_OF_NO_COST;
    wanted = fmin(wanted, fmax(loads->unit_count, 1)) + (dealt_most_stages(problem) - 1) * balance->dealt.depth;
    for (uint32_t d = 0; d < problem->route->world->device_count; d++) {
        if (loads->staged[d] > 0)
            wanted = fmax(wanted, ceil(1.02 * (double)loads->staged[d] / (double)balance->limit[d]));
    }
    return wanted < 1 ? 1 : wanted > MOST_ROUNDS ? MOST_ROUNDS : (uint32_t)wanted;
}

static void find_limits(struct arena *arena, struct balance *balance, const struct balance_options *options)
{
    uint32_t devices = balance->dealt.problem->route->world->device_count;
    balance->limit = ARENA_NEW(arena, uint64_t, devices);
    rounds_least_slots(arena, balance->dealt.problem, options->chunk_bytes, balance->limit);
    for (uint32_t d = 0; d < devices; d++)
        balance->limit[d] = balance->limit[d] > options->slot_bytes ? balance->limit[d] : options->slot_bytes;
}

/** One try with so many rounds, and the whole of it. */
struct try_work {
    struct arena *out; /* where the rounds are made */
    struct balance *balance;
    const struct rank *order;
    struct rounds *rounds;
    bool done;
};

static void try_rounds(struct arena *scratch, void *context)
{
    struct try_work *work = context;
    work->done = spread(scratch, work->balance, work->order);
    if (work->done)
        dealt_list_rounds(work->out, &work->balance->dealt, work->rounds);
}

struct build_work {
    struct arena *out;
    const struct problem *problem;
    const struct balance_options *options;
    struct rounds *rounds;
    bool done;
};

/** Chunks so small that a device has several in a round: of what is sent on, all stages of a chunk must fit in. */
static uint64_t fine_chunk(const struct balance *balance, uint64_t chunk_bytes)
{
    const struct loads *loads = balance->dealt.loads;
    uint64_t staged = 0;
    for (uint32_t d = 0; d < balance->dealt.problem->route->world->device_count; d++)
        staged = loads->staged[d] > staged ? loads->staged[d] : staged;
    uint64_t chunks = loads->unit_count / balance->dealt.rounds < FEW_UNITS ? MOST_CHUNKS : CHUNKS_PER_ROUND;
    uint64_t fine = staged / balance->dealt.rounds / chunks + 1;
    if (dealt_most_stages(balance->dealt.problem) == 1 || fine >= chunk_bytes)
        return chunk_bytes;
    uint64_t least = (uint64_t)((double)chunk_bytes * (double)loads->load_count / MOST_LOADS) + 1;
    return least >= chunk_bytes ? chunk_bytes : fine > least ? fine : least;
}

static void build(struct arena *scratch, void *context)
{
    struct build_work *work = context;
    struct balance_options options = *work->options;
    const struct loads *loads = loads_build_few(scratch, work->problem, options.chunk_bytes, NULL);
    struct balance balance = {.dealt = {.problem = work->problem, .loads = loads, .depth = options.depth},
                              .ordered = !options.hold_old,
                              .quick = options.quick};
    find_limits(scratch, &balance, &options);
    balance.dealt.rounds = least_rounds(&balance) * (options.hold_old ? 1 : options.round_factor);
    uint64_t chunk_bytes = fine_chunk(&balance, options.chunk_bytes);
    if ((double)chunk_bytes < WORTH_CUTTING * (double)options.chunk_bytes) {
        options.chunk_bytes = chunk_bytes;
        balance.dealt.loads = loads_build_few(scratch, work->problem, chunk_bytes, loads);
        find_limits(scratch, &balance, &options);
    }
    dealt_list_order(scratch, &balance.dealt);
    balance.place = find_places(scratch, work->problem, balance.dealt.loads);
    struct rounds rounds = {.depth = options.depth, .hold_old = options.hold_old};
    struct try_work attempt = {.out = work->out,
                               .balance = &balance,
                               .order = dealt_largest_first(scratch, &balance.dealt),
                               .rounds = &rounds};
    for (int i = 0; i < ROUND_TRIES && balance.dealt.rounds <= MOST_ROUNDS && !attempt.done; i++) {
        arena_with_scratch(scratch, try_rounds, &attempt);
        balance.dealt.rounds += 1 + balance.dealt.rounds / 16;
    }
    work->done = attempt.done;
    *work->rounds = rounds;
}

bool balance_build(struct arena *arena, const struct problem *problem, const struct balance_options *options,
                   struct rounds *rounds_out)
{
    struct build_work work = {.out = arena, .problem = problem, .options = options, .rounds = rounds_out};
    arena_with_scratch(arena, build, &work);
    return work.done;
}
