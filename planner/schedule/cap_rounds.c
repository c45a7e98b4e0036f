/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/cap_rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_ROUND   UINT32_MAX
#define FIRST_SLOT 256

/** Powers of the load, as numbers of squarings, pass by pass: low ones spread, high ones flatten. */
static const int passes[] = {1, 3, 4, 4, 5, 5};
#define PASS_COUNT (sizeof(passes) / sizeof(passes[0]))

/** A message that a unit has a part in. */
struct unit_pair {
    uint32_t pair; /* its number among all pairs of a sender and a receiver */
    uint32_t source, taker;
};

/** Numbers of pairs: an open-addressing table. */
struct pair_numbers {
    uint64_t *keys; /* source << 32 | taker, plus 1; 0: free */
    uint32_t *numbers;
    size_t slot_count;
    uint32_t count;
};

struct placer {
    const struct problem *problem;
    const struct cap_rounds_options *options;
    const struct loads *loads;
    uint32_t rounds, lag;    /* lag: those that the last of what is sent on comes later by */
    double *level;           /* by port and round: seconds over an even share of the busiest port */
    double *messages;        /* by device and round: those of its messages, in the same measure */
    uint64_t *used;          /* by device and round: staging */
    double *filled;          /* by device and round: staging over an even share of the device with most */
    uint64_t *limit;         /* by device */
    uint16_t *present;       /* by pair and round: units that have a part in the message */
    uint32_t *pair_begin;    /* unit_count + 1 */
    struct unit_pair *pairs; /* of unit u: [pair_begin[u], pair_begin[u + 1]) */
    uint32_t pair_count;
    uint32_t *round;              /* by unit */
    uint32_t *first_unit;         /* by job; those of a job follow each other */
    uint32_t *follower;           /* by job: the job that comes after it; JOB_NONE */
    double *score, *added, *none; /* by round; none: zeros */
    double scale, message, fill;  /* levels per second, per message and per staged byte */
};

/** Rounds that a unit may go to, or that a job has: half-open. */
struct window {
    uint32_t begin, end;
};

/** x to the power of 2^squarings. Inlined with a constant everywhere: it is what the time goes into. */
static inline double raised(double x, int squarings)
{
    for (int i = 0; i < squarings; i++)
        x *= x;
    return x;
}

static size_t slot_of(const struct pair_numbers *table, uint64_t key)
{
    size_t slot = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (table->slot_count - 1);
    while (table->keys[slot] != 0 && table->keys[slot] != key)
        slot = (slot + 1) & (table->slot_count - 1);
    return slot;
}

static void grow_table(struct arena *arena, struct pair_numbers *table)
{
    struct pair_numbers larger = {.slot_count = table->slot_count > 0 ? 2 * table->slot_count : FIRST_SLOT,
                                  .count = table->count};
    larger.keys = ARENA_NEW(arena, uint64_t, larger.slot_count);
    larger.numbers = ARENA_NEW(arena, uint32_t, larger.slot_count);
    for (size_t i = 0; i < table->slot_count; i++) {
        if (table->keys[i] == 0)
            continue;
        size_t slot = slot_of(&larger, table->keys[i]);
        larger.keys[slot] = table->keys[i];
        larger.numbers[slot] = table->numbers[i];
    }
    *table = larger;
}

static uint32_t number_pair(struct arena *arena, struct pair_numbers *table, uint32_t source, uint32_t taker)
{
    if (2 * ((size_t)table->count + 1) > table->slot_count)
        grow_table(arena, table);
    uint64_t key = ((uint64_t)source << 32 | taker) + 1;
    size_t slot = slot_of(table, key);
    if (table->keys[slot] == 0) {
        table->keys[slot] = key;
        table->numbers[slot] = table->count++;
    }
    return table->numbers[slot];
}

/** The same loads, of the devices alone that stand for all. */
static const struct loads *weighed_loads(struct arena *arena, const struct loads *all, const bool *weighed)
{
    if (weighed == NULL)
        return all;
    struct loads *loads = ARENA_NEW(arena, struct loads, 1);
    *loads = *all;
    loads->begin = ARENA_NEW(arena, uint32_t, (size_t)all->unit_count + 1);
    loads->loads = ARENA_NEW(arena, struct load, all->begin[all->unit_count]);
    uint32_t count = 0;
    for (uint32_t u = 0; u < all->unit_count; u++) {
        loads->begin[u] = count;
        for (uint32_t l = all->begin[u]; l < all->begin[u + 1]; l++) {
            if (weighed[all->loads[l].port / PORT_KINDS])
                loads->loads[count++] = all->loads[l];
        }
    }
    loads->begin[all->unit_count] = count;
    return loads;
}

static bool stands(const struct placer *placer, uint32_t source, uint32_t taker)
{
    const bool *weighed = placer->options->weighed;
    return weighed == NULL || weighed[source] || weighed[taker];
}

/** Each pair of a unit once: `seen`, by pair, tells the unit that had it last. */
static void list_pairs(struct arena *arena, struct placer *placer)
{
    const struct problem *problem = placer->problem;
    const struct loads *loads = placer->loads;
    struct pair_numbers table = {0};
    VEC(struct unit_pair) pairs = {0};
    VEC(uint32_t) seen = {0};
    placer->pair_begin = ARENA_NEW(arena, uint32_t, (size_t)loads->unit_count + 1);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        const struct unit *unit = &loads->units[u];
        const struct chunk chunk = rounds_chunk(problem, &problem->jobs[unit->job], &unit->chunking, unit->chunk);
        placer->pair_begin[u] = (uint32_t)pairs.count;
        for (uint32_t p = 0; p < chunk.type->piece_count; p++) {
            uint32_t source, taker = chunk.type->pieces[p].taker;
            if (!chunk_has_piece(&chunk, p) || rounds_piece_bytes(&chunk, p, &source) == 0 ||
                !stands(placer, source, taker))
                continue;
            uint32_t number = number_pair(arena, &table, source, taker);
            while (seen.count <= number)
                *VEC_PUSH(arena, &seen) = NO_ROUND;
            if (seen.items[number] != u)
                *VEC_PUSH(arena, &pairs) = (struct unit_pair){number, source, taker};
            seen.items[number] = u;
        }
    }
    placer->pair_begin[loads->unit_count] = (uint32_t)pairs.count;
    placer->pairs = pairs.items;
    placer->pair_count = table.count;
}

static void add_unit(struct placer *placer, uint32_t unit, uint32_t round, int sign)
{
    const struct loads *loads = placer->loads;
    size_t rounds = placer->rounds;
    for (uint32_t l = loads->begin[unit]; l < loads->begin[unit + 1]; l++) {
        const struct load *load = &loads->loads[l];
        placer->level[load->port * rounds + round] += sign * load->seconds * placer->scale;
        if (!port_is_wire(load->port))
            continue;
        placer->used[load->port / PORT_KINDS * rounds + round] += sign > 0 ? load->bytes : -load->bytes;
        placer->filled[load->port / PORT_KINDS * rounds + round] += sign * (double)load->bytes * placer->fill;
    }
    for (uint32_t i = placer->pair_begin[unit]; i < placer->pair_begin[unit + 1]; i++) {
        const struct unit_pair *pair = &placer->pairs[i];
        uint16_t *present = &placer->present[pair->pair * rounds + round];
        *present = (uint16_t)(*present + sign);
        if (*present == (sign > 0 ? 1 : 0)) {
            placer->messages[pair->source * rounds + round] += sign * placer->message;
            placer->messages[pair->taker * rounds + round] += sign * placer->message;
        }
    }
}

/** From the first to the last round of what is placed of a job; empty when nothing is. */
static struct window placed_span(const struct placer *placer, uint32_t job)
{
    const struct loads *loads = placer->loads;
    struct window span = {NO_ROUND, 0};
    for (uint32_t u = placer->first_unit[job]; u < loads->unit_count && loads->units[u].job == job; u++) {
        uint32_t round = placer->round[u];
        if (round == NO_ROUND)
            continue;
        span.begin = round < span.begin ? round : span.begin;
        span.end = round + 1 > span.end ? round + 1 : span.end;
    }
    return span;
}

/** Rounds between the last one of a job and the first one of the job that comes after it. */
static uint32_t wait_of(const struct placer *placer, uint32_t job)
{
    return placer->problem->jobs[job].reads_new ? placer->options->depth : 0;
}

/** Behind the job that a job comes after, and before the one that comes after it. */
static struct window order_window(const struct placer *placer, uint32_t job)
{
    struct window window = {0, placer->rounds};
    uint32_t before = placer->problem->jobs[job].after, behind = placer->follower[job];
    if (before != JOB_NONE)
        window.begin = placed_span(placer, before).end - 1 + wait_of(placer, job);
    if (behind != JOB_NONE) {
        struct window span = placed_span(placer, behind);
        uint32_t last = span.end > 0 ? span.begin : placer->rounds - 1, wait = wait_of(placer, behind);
        window.end = last >= wait ? last - wait + 1 : 0;
    }
    return window;
}

/** Narrow a window to behind the unit that brings what this one sends on, and before the one that sends this on. */
static struct window stage_window(const struct placer *placer, uint32_t unit, struct window window)
{
    const struct unit *at = &placer->loads->units[unit];
    uint32_t stride = chunk_stride(&at->chunking), stage = chunk_stage(&at->chunking, at->chunk);
    uint32_t behind = at->chunking.stages - 1 - stage, depth = placer->options->depth;
    uint32_t before = stage > 0 ? placer->round[unit - stride] : NO_ROUND;
    uint32_t next = behind > 0 ? placer->round[unit + stride] : NO_ROUND;
    uint32_t begin = before != NO_ROUND ? before + depth : stage * depth;
    uint32_t last = next != NO_ROUND ? next + 1 : placer->rounds, wait = next != NO_ROUND ? depth : behind * depth;
    uint32_t end = last > wait ? last - wait : 0;
    return (struct window){begin > window.begin ? begin : window.begin, end < window.end ? end : window.end};
}

/** The rounds of its job's span, later by its stage, and a few on either side; within what the order allows. */
static struct window window_of(const struct placer *placer, uint32_t unit, uint32_t reach)
{
    const struct unit *record = &placer->loads->units[unit];
    uint32_t job = record->job, stage = chunk_stage(&record->chunking, record->chunk);
    struct window window = order_window(placer, job);
    window = record->chunking.stages > 1 ? stage_window(placer, unit, window) : window;
    if (window.begin >= window.end)
        return window;
    const struct span *span = &placer->options->spans[job];
    double even = (double)placer->rounds - placer->lag, later = (double)stage * placer->options->depth;
    double first = floor(span->begin * even) + later, last = ceil(span->end * even) + later;
    double begin = fmin(fmax(first - reach, window.begin), window.end - 1);
    double end = fmax(fmin(last + reach, window.end), begin + 1);
    return (struct window){(uint32_t)begin, (uint32_t)end};
}

static inline void add_scores(double *restrict score, const double *restrict level, const double *restrict messages,
                              const double *restrict added, double more, struct window window, int squarings)
{
    for (uint32_t t = window.begin; t < window.end; t++) {
        double now = level[t] + messages[t];
        score[t] += raised(now + more + added[t], squarings) - raised(now, squarings);
    }
}

static void add_level(struct placer *placer, const double *level, const double *messages, const double *added,
                      double more, struct window window, int squarings)
{
    if (squarings == 1)
        add_scores(placer->score, level, messages, added, more, window, 1);
    else if (squarings == 3)
        add_scores(placer->score, level, messages, added, more, window, 3);
    else if (squarings == 4)
        add_scores(placer->score, level, messages, added, more, window, 4);
    else
        add_scores(placer->score, level, messages, added, more, window, 5);
}

/** Messages of a device that the unit would open, by round. */
static void count_added(struct placer *placer, uint32_t unit, uint32_t device, struct window window)
{
    memset(&placer->added[window.begin], 0, (window.end - window.begin) * sizeof(*placer->added));
    for (uint32_t i = placer->pair_begin[unit]; i < placer->pair_begin[unit + 1]; i++) {
        const struct unit_pair *pair = &placer->pairs[i];
        const uint16_t *present = &placer->present[(size_t)pair->pair * placer->rounds];
        if (pair->source != device && pair->taker != device)
            continue;
        for (uint32_t t = window.begin; t < window.end; t++)
            placer->added[t] += present[t] == 0 ? placer->message : 0;
    }
}

/** Bar the rounds that have no room for so many bytes of staging on a device; a round without any has room. */
static void bar_rounds(struct placer *placer, uint32_t device, uint64_t bytes, struct window window)
{
    const uint64_t *used = &placer->used[(size_t)device * placer->rounds];
    for (uint32_t t = window.begin; t < window.end; t++) {
        if (used[t] > 0 && used[t] + bytes > placer->limit[device])
            placer->score[t] = INFINITY;
    }
}

/** @return NO_ROUND: none has room; bars or not, the first pass takes the best there is */
static uint32_t best_round(struct placer *placer, uint32_t unit, struct window window, int squarings)
{
    const struct loads *loads = placer->loads;
    uint32_t best = NO_ROUND;
    if (window.begin >= window.end)
        return NO_ROUND;
    memset(&placer->score[window.begin], 0, (window.end - window.begin) * sizeof(*placer->score));
    for (uint32_t l = loads->begin[unit]; l < loads->begin[unit + 1];) {
        uint32_t device = loads->loads[l].port / PORT_KINDS;
        uint64_t staged = 0;
        count_added(placer, unit, device, window);
        for (; l < loads->begin[unit + 1] && loads->loads[l].port / PORT_KINDS == device; l++) {
            add_level(placer, &placer->level[(size_t)loads->loads[l].port * placer->rounds],
                      &placer->messages[(size_t)device * placer->rounds], placer->added,
                      loads->loads[l].seconds * placer->scale, window, squarings);
            staged += port_is_wire(loads->loads[l].port) ? loads->loads[l].bytes : 0;
        }
        if (staged == 0)
            continue;
        add_level(placer, &placer->filled[(size_t)device * placer->rounds], placer->none, placer->none,
                  (double)staged * placer->fill, window, squarings);
        if (squarings > passes[0])
            bar_rounds(placer, device, staged, window);
    }
    for (uint32_t t = window.begin; t < window.end; t++) {
        if (isfinite(placer->score[t]) && (best == NO_ROUND || placer->score[t] < placer->score[best]))
            best = t;
    }
    return best;
}

/** Size of a unit: the seconds of its slowest port. Units of jobs that come after others are placed after those. */
struct rank {
    double seconds;
    uint32_t unit, stage;
    bool follows;
};

static int compare_ranks(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    if (x->follows != y->follows)
        return x->follows ? 1 : -1;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static struct rank *largest_first(struct arena *arena, const struct problem *problem, const struct loads *loads)
{
    struct rank *ranks = ARENA_NEW(arena, struct rank, loads->unit_count);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        ranks[u].unit = u;
        ranks[u].stage = chunk_stage(&loads->units[u].chunking, loads->units[u].chunk);
        ranks[u].follows = problem->jobs[loads->units[u].job].after != JOB_NONE;
        for (uint32_t l = loads->begin[u]; l < loads->begin[u + 1]; l++)
            ranks[u].seconds = fmax(ranks[u].seconds, loads->loads[l].seconds);
    }
    if (loads->unit_count > 0)
        qsort(ranks, loads->unit_count, sizeof(*ranks), compare_ranks);
    return ranks;
}

/** Where a unit fits best: in its window, else in wider ones; where it was if nowhere. */
static uint32_t place_unit(struct placer *placer, uint32_t unit, uint32_t before, int squarings)
{
    uint32_t round = NO_ROUND;
    for (uint32_t reach = placer->options->reach; round == NO_ROUND && reach < 2 * placer->rounds;
         reach = 2 * reach + 1)
        round = best_round(placer, unit, window_of(placer, unit, reach), squarings);
    return round == NO_ROUND ? before : round;
}

/** One pass: take each unit out and put it where it fits best. */
static bool run_pass(struct placer *placer, const struct rank *order, int squarings)
{
    for (uint32_t i = 0; i < placer->loads->unit_count; i++) {
        uint32_t unit = order[i].unit, before = placer->round[unit];
        if (before != NO_ROUND)
            add_unit(placer, unit, before, -1);
        placer->round[unit] = NO_ROUND;
        uint32_t round = place_unit(placer, unit, before, squarings);
        if (round == NO_ROUND)
            return false;
        placer->round[unit] = round;
        add_unit(placer, unit, round, 1);
    }
    return true;
}

/** Whether no round takes more staging than it may, on any device. */
static bool obeys_limits(struct arena *arena, const struct placer *placer)
{
    const struct loads *loads = placer->options->loads;
    uint64_t *used = ARENA_NEW(arena, uint64_t, (size_t)placer->problem->route->world->device_count * placer->rounds);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        for (uint32_t l = loads->begin[u]; l < loads->begin[u + 1]; l++) {
            uint32_t device = loads->loads[l].port / PORT_KINDS;
            uint64_t *sum = &used[(size_t)device * placer->rounds + placer->round[u]];
            *sum += port_is_wire(loads->loads[l].port) ? loads->loads[l].bytes : 0;
            if (*sum > placer->limit[device])
                return false;
        }
    }
    return true;
}

static void placer_init(struct arena *arena, struct placer *placer)
{
    const struct loads *loads = placer->loads;
    const struct problem *problem = placer->problem;
    size_t rounds = placer->rounds, devices = problem->route->world->device_count;
    uint64_t most_staged = 0;
    placer->level = ARENA_NEW(arena, double, loads->port_count *rounds);
    placer->messages = ARENA_NEW(arena, double, devices *rounds);
    placer->used = ARENA_NEW(arena, uint64_t, devices * rounds);
    placer->present = ARENA_NEW(arena, uint16_t, placer->pair_count * rounds);
    placer->score = ARENA_NEW(arena, double, rounds);
    placer->added = ARENA_NEW(arena, double, rounds);
    placer->none = ARENA_NEW(arena, double, rounds);
    placer->filled = ARENA_NEW(arena, double, devices *rounds);
    placer->round = ARENA_NEW(arena, uint32_t, loads->unit_count);
    placer->scale = loads->busiest_seconds > 0 ? (double)rounds / loads->busiest_seconds : 1;
    for (size_t d = 0; d < devices; d++)
        most_staged = loads->staged[d] > most_staged ? loads->staged[d] : most_staged;
    placer->fill = most_staged > 0 ? (double)rounds / (double)most_staged : 0;
    placer->message = problem->route->world->cluster->message_seconds * placer->scale;
    memset(placer->round, 0xff, loads->unit_count * sizeof(uint32_t));
}

/** Whether some job must wait for rounds to pass: rounds without units count then. */
static bool rounds_pass(const struct problem *problem)
{
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].reads_new || problem->jobs[j].stages > 1)
            return true;
    }
    return false;
}

/** Units by round; rounds without any are left out, unless a job waits for them to pass. */
static void list_rounds(struct arena *arena, const struct placer *placer, struct rounds *rounds)
{
    const struct loads *loads = placer->loads;
    uint32_t *count = ARENA_NEW(arena, uint32_t, placer->rounds + 1);
    uint32_t *number = ARENA_NEW(arena, uint32_t, placer->rounds), last = 0;
    bool keep = rounds_pass(placer->problem);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        count[placer->round[u]]++;
        last = placer->round[u] > last ? placer->round[u] : last;
    }
    rounds->round_begin = ARENA_NEW(arena, uint32_t, placer->rounds + rounds->idle_rounds + 2);
    rounds->round_count = rounds->idle_rounds;
    for (uint32_t t = 0; t <= last && loads->unit_count > 0; t++) {
        number[t] = rounds->round_count;
        if (count[t] == 0 && (!keep || rounds->round_count == rounds->idle_rounds))
            continue;
        rounds->round_begin[rounds->round_count + 1] = rounds->round_begin[rounds->round_count] + count[t];
        rounds->round_count++;
    }
    /* pads of kept buffers are zeroed, and old ones freed, in some round */
    if (rounds->round_count == 0 && (placer->problem->fills_kept || placer->problem->frees_unread))
        rounds->round_count = 1;
    uint32_t *next = ARENA_NEW(arena, uint32_t, rounds->round_count + 1);
    memcpy(next, rounds->round_begin, (rounds->round_count + 1) * sizeof(*next));
    rounds->units = ARENA_NEW(arena, struct unit, loads->unit_count);
    rounds->unit_count = loads->unit_count;
    for (uint32_t u = 0; u < loads->unit_count; u++)
        rounds->units[next[number[placer->round[u]]]++] = loads->units[u];
}

static void list_order(struct arena *arena, struct placer *placer)
{
    const struct problem *problem = placer->problem;
    placer->first_unit = ARENA_NEW(arena, uint32_t, problem->job_count);
    placer->follower = ARENA_NEW(arena, uint32_t, problem->job_count);
    for (uint32_t u = placer->loads->unit_count; u-- > 0;)
        placer->first_unit[placer->loads->units[u].job] = u;
    for (uint32_t j = 0; j < problem->job_count; j++)
        placer->follower[j] = JOB_NONE;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].after != JOB_NONE)
            placer->follower[problem->jobs[j].after] = j;
    }
}

static uint32_t most_stages(const struct problem *problem)
{
    uint32_t most = 1;
    for (uint32_t j = 0; j < problem->job_count; j++)
        most = problem->jobs[j].stages > most ? problem->jobs[j].stages : most;
    return most;
}

/** Staging of a round on each device: the slot, or its largest unit where that needs more. */
static void find_limits(struct arena *arena, struct placer *placer)
{
    const struct loads *loads = placer->options->loads;
    uint32_t devices = placer->problem->route->world->device_count;
    placer->limit = ARENA_NEW(arena, uint64_t, devices);
    placer->lag = (most_stages(placer->problem) - 1) * placer->options->depth;
    placer->rounds = (placer->options->rounds > 0 ? placer->options->rounds : 1) + placer->lag;
    for (uint32_t d = 0; d < devices; d++)
        placer->limit[d] = placer->options->slot_bytes;
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        for (uint32_t l = loads->begin[u]; l < loads->begin[u + 1];) {
            uint32_t device = loads->loads[l].port / PORT_KINDS;
            uint64_t staged = 0;
            for (; l < loads->begin[u + 1] && loads->loads[l].port / PORT_KINDS == device; l++)
                staged += port_is_wire(loads->loads[l].port) ? loads->loads[l].bytes : 0;
            placer->limit[device] = staged > placer->limit[device] ? staged : placer->limit[device];
        }
    }
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t least = placer->limit[d] > 0 ? (loads->staged[d] + placer->limit[d] - 1) / placer->limit[d] : 0;
        placer->rounds = least + placer->lag > placer->rounds ? (uint32_t)least + placer->lag : placer->rounds;
    }
}

struct build_work {
    struct arena *out;
    const struct problem *problem;
    const struct cap_rounds_options *options;
    struct rounds *rounds;
    bool done;
};

static void build(struct arena *scratch, void *context)
{
    struct build_work *work = context;
    struct placer placer = {.problem = work->problem,
                            .options = work->options,
                            .loads = weighed_loads(scratch, work->options->loads, work->options->weighed)};
    struct rounds rounds = {.depth = work->options->depth};
    const struct rank *order = largest_first(scratch, work->problem, placer.loads);
    find_limits(scratch, &placer);
    list_order(scratch, &placer);
    list_pairs(scratch, &placer);
    placer_init(scratch, &placer);
    work->done = true;
    for (size_t pass = 0; pass < PASS_COUNT && work->done; pass++)
        work->done = run_pass(&placer, order, passes[pass]);
    work->done = work->done && obeys_limits(scratch, &placer);
    if (work->problem->unread_max > 0)
        rounds.idle_rounds = rounds.depth;
    if (work->done)
        list_rounds(work->out, &placer, &rounds);
    *work->rounds = rounds;
}

bool cap_rounds_build(struct arena *arena, const struct problem *problem, const struct cap_rounds_options *options,
                      struct rounds *rounds_out)
{
    struct build_work work = {.out = arena, .problem = problem, .options = options, .rounds = rounds_out};
    arena_with_scratch(arena, build, &work);
    return work.done;
}
