/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/cap_rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/cap_memory.h"
#include "schedule/dealt.h"
#include "schedule/unit_pairs.h"

/** How units are taken out and put back. */
enum pass_kind {
    WITHIN_SPANS, /* one by one, within the spans */
    JOB_BY_JOB,   /* all of a job at once, it need not keep its span */
    ONE_BY_ONE    /* near the rest of its job */
};

/** With the powers of the load, as numbers of squarings: low ones spread, high ones flatten. */
struct pass {
    enum pass_kind kind;
    int squarings;
    double memory; /* times the price of a slot's byte over its limit: that of a byte over the cap */
    bool bars;     /* no round without room in its slots is taken, whatever the price */
};

static const struct pass passes[] = {
    {WITHIN_SPANS, 1, 0}, {JOB_BY_JOB, 1, 1},  {JOB_BY_JOB, 3, 4},  {JOB_BY_JOB, 4, 16},
    {ONE_BY_ONE, 4, 64},  {ONE_BY_ONE, 5, 64}, {ONE_BY_ONE, 5, 64},
};
#define PASS_COUNT   (sizeof(passes) / sizeof(passes[0]))
#define LAST_OF_JOBS 3 /* pass of whole jobs */

/** Where some of it is sent on, jobs cannot be moved as a whole. */
static const struct pass staged_passes[] = {
    {WITHIN_SPANS, 1, 0},       {WITHIN_SPANS, 3, 0, true}, {WITHIN_SPANS, 4, 0, true},
    {WITHIN_SPANS, 4, 0, true}, {WITHIN_SPANS, 5, 0, true}, {WITHIN_SPANS, 5, 0, true},
};
#define STAGED_PASS_COUNT (sizeof(staged_passes) / sizeof(staged_passes[0]))

#define LITTLE     16  /* 1 / share of a slot: over more than that behind that pass, the others do not mend it */
#define JOB_REACH  12u /* 1 / share of the rounds that a job may move by in a pass */
#define UNIT_REACH 2u  /* rounds that a unit may go beyond those of its job */
#define OVER_PRICE 64  /* of a slot's bytes over the cap in a round: times the price of a whole round's load */

struct placer {
    struct dealt dealt;
    const struct cap_rounds_options *options;
    struct cap_memory *memory; /* NULL: it is no matter */
    struct unit_pairs pairs;
    uint32_t lag;                 /* rounds that the last of what is sent on comes later by */
    double *level;                /* by port and round: seconds over an even share of the busiest port */
    double *messages;             /* by device and round */
    uint64_t *used;               /* by device and round: staging */
    double *filled;               /* by device and round: staging over an even share of the device with most */
    uint64_t *limit;              /* by device */
    uint32_t *present;            /* by pair and round: units that have a part in the message */
    double *score, *added, *none; /* by round; none: zeros */
    double scale, message, fill;  /* levels per second, per message and per staged byte */
};

static void add_unit(struct placer *placer, uint32_t unit, uint32_t round, int sign)
{
    const struct loads *loads = placer->dealt.loads;
    size_t rounds = placer->dealt.rounds;
    for (uint32_t l = loads->begin[unit]; l < loads->begin[unit + 1]; l++) {
        const struct load *load = &loads->loads[l];
        placer->level[load->port * rounds + round] += sign * load->seconds * placer->scale;
        if (!port_is_wire(load->port))
            continue;
        placer->used[load->port / PORT_KINDS * rounds + round] += sign > 0 ? load->bytes : -load->bytes;
        placer->filled[load->port / PORT_KINDS * rounds + round] += sign * (double)load->bytes * placer->fill;
    }
    for (uint32_t i = placer->pairs.begin[unit]; i < placer->pairs.begin[unit + 1]; i++) {
        const struct unit_pair *pair = &placer->pairs.pairs[i];
        uint32_t *present = &placer->present[pair->pair * rounds + round];
        *present += (uint32_t)sign;
        if (*present == (sign > 0 ? 1 : 0)) {
            placer->messages[pair->source * rounds + round] += sign;
            placer->messages[pair->taker * rounds + round] += sign;
        }
    }
}

static inline void add_scores(double *restrict score, const double *restrict level, const double *restrict messages,
                              const double *restrict added, double message, double more, struct window window,
                              int squarings)
{
    for (uint32_t t = window.begin; t < window.end; t++) {
        double now = level[t] + message * messages[t];
        score[t] += raised(now + more + message * added[t], squarings) - raised(now, squarings);
    }
}

static void add_level(struct placer *placer, const double *level, const double *messages, const double *added,
                      double more, struct window window, const struct pass *pass)
{
    const double message = placer->message;
    const int squarings = pass->squarings;
    if (squarings == 1)
        add_scores(placer->score, level, messages, added, message, more, window, 1);
    else if (squarings == 3)
        add_scores(placer->score, level, messages, added, message, more, window, 3);
    else if (squarings == 4)
        add_scores(placer->score, level, messages, added, message, more, window, 4);
    else
        add_scores(placer->score, level, messages, added, message, more, window, 5);
}

/** Messages of a device that the unit would open, by round. */
static void count_added(struct placer *placer, uint32_t unit, uint32_t device, struct window window)
{
    memset(&placer->added[window.begin], 0, (window.end - window.begin) * sizeof(*placer->added));
    for (uint32_t i = placer->pairs.begin[unit]; i < placer->pairs.begin[unit + 1]; i++) {
        const struct unit_pair *pair = &placer->pairs.pairs[i];
        const uint32_t *present = &placer->present[(size_t)pair->pair * placer->dealt.rounds];
        if (pair->source != device && pair->taker != device)
            continue;
        for (uint32_t t = window.begin; t < window.end; t++)
            placer->added[t] += present[t] == 0;
    }
}

/** Price of a byte over a limit in a round: that of a slot is `OVER_PRICE` times that of a whole round's load. */
static double over_price(const struct placer *placer, int squarings)
{
    return OVER_PRICE * (double)(1 << squarings) / (double)placer->options->slot_bytes;
}

/** What so many bytes of staging on a device are over its slot. */
static void score_slots(struct placer *placer, uint32_t device, uint64_t bytes, struct window window,
                        const struct pass *pass)
{
    const uint64_t *used = &placer->used[(size_t)device * placer->dealt.rounds], limit = placer->limit[device];
    const double price = pass->bars ? INFINITY : over_price(placer, pass->squarings);
    for (uint32_t t = window.begin; t < window.end; t++) {
        uint64_t free = used[t] < limit ? limit - used[t] : 0;
        placer->score[t] += bytes > free ? price * (double)(bytes - free) : 0;
    }
}

/** @return NO_ROUND: the window has none, or all are barred */
static uint32_t best_round(struct placer *placer, uint32_t unit, struct window window, const struct pass *pass)
{
    const struct loads *loads = placer->dealt.loads;
    const int squarings = pass->squarings;
    uint32_t best = NO_ROUND;
    if (window.begin >= window.end)
        return NO_ROUND;
    memset(&placer->score[window.begin], 0, (window.end - window.begin) * sizeof(*placer->score));
    for (uint32_t l = loads->begin[unit]; l < loads->begin[unit + 1];) {
        uint32_t device = loads->loads[l].port / PORT_KINDS;
        uint64_t staged = 0;
        count_added(placer, unit, device, window);
        for (; l < loads->begin[unit + 1] && loads->loads[l].port / PORT_KINDS == device; l++) {
            add_level(placer, &placer->level[(size_t)loads->loads[l].port * placer->dealt.rounds],
                      &placer->messages[(size_t)device * placer->dealt.rounds], placer->added,
                      loads->loads[l].seconds * placer->scale, window, pass);
            staged += port_is_wire(loads->loads[l].port) ? loads->loads[l].bytes : 0;
        }
        if (staged == 0)
            continue;
        add_level(placer, &placer->filled[(size_t)device * placer->dealt.rounds], placer->none, placer->none,
                  (double)staged * placer->fill, window, pass);
        if (pass->kind != WITHIN_SPANS || pass->bars || placer->options->hold_old)
            score_slots(placer, device, staged, window, pass);
    }
    if (placer->memory != NULL && pass->kind != WITHIN_SPANS)
        cap_memory_score(placer->memory, loads->units[unit].job, window.begin, window.end,
                         pass->memory * over_price(placer, squarings), placer->score);
    for (uint32_t t = window.begin; t < window.end; t++) {
        if (isfinite(placer->score[t]) && (best == NO_ROUND || placer->score[t] < placer->score[best]))
            best = t;
    }
    return best;
}

/** The rounds of its job's span, later by its stage, and `reach` on either side; at least one that the order allows. */
static struct window span_window(const struct placer *placer, uint32_t unit, uint32_t reach)
{
    const struct unit *record = &placer->dealt.loads->units[unit];
    struct window window = dealt_window(&placer->dealt, unit);
    if (window.begin >= window.end || placer->options->spans == NULL)
        return window;
    const struct span *span = &placer->options->spans[record->job];
    double even = (double)placer->dealt.rounds - placer->lag;
    double later = (double)chunk_stage(&record->chunking, record->chunk) * placer->dealt.depth;
    double first = floor(span->begin * even) + later, last = ceil(span->end * even) + later;
    double begin = fmin(fmax(first - reach, window.begin), window.end - 1);
    double end = fmax(fmin(last + reach, window.end), begin + 1);
    return (struct window){(uint32_t)begin, (uint32_t)end};
}

/** Some rounds before and behind others, within what the order allows. */
static struct window wider_window(const struct placer *placer, uint32_t unit, struct window near, uint32_t reach)
{
    struct window window = dealt_window(&placer->dealt, unit);
    uint32_t begin = near.begin > reach ? near.begin - reach : 0, end = near.end + reach;
    if (window.begin >= window.end || placer->options->spans == NULL)
        return window;
    begin = begin < window.begin ? window.begin : begin < window.end ? begin : window.end - 1;
    end = end > window.end ? window.end : end > begin ? end : begin + 1;
    return (struct window){begin, end};
}

/** Tell the memory where a job is. */
static void remember(struct placer *placer, uint32_t job)
{
    if (placer->memory == NULL)
        return;
    struct window span = dealt_span(&placer->dealt, job);
    bool nowhere = span.end == 0;
    cap_memory_move(placer->memory, job, nowhere ? placer->dealt.rounds : span.begin,
                    nowhere ? placer->dealt.rounds : span.end - 1);
}

static void take_out(struct placer *placer, uint32_t unit)
{
    if (placer->dealt.round[unit] != NO_ROUND)
        add_unit(placer, unit, placer->dealt.round[unit], -1);
    placer->dealt.round[unit] = NO_ROUND;
}

static void put_in(struct placer *placer, uint32_t unit, uint32_t round)
{
    placer->dealt.round[unit] = round;
    add_unit(placer, unit, round, 1);
}

/** Put a unit where it fits best: in its span, else in wider ones; one by one, near the rest of its job. */
static bool place_unit(struct placer *placer, uint32_t unit, const struct pass *pass)
{
    uint32_t before = placer->dealt.round[unit], round = NO_ROUND;
    const uint32_t job = placer->dealt.loads->units[unit].job;
    take_out(placer, unit);
    remember(placer, job);
    struct window span = dealt_span(&placer->dealt, job);
    bool near = pass->kind != WITHIN_SPANS && span.end > 0;
    for (uint32_t reach = near ? UNIT_REACH : 0; round == NO_ROUND && reach < 2 * placer->dealt.rounds;
         reach = 2 * reach + 1) {
        struct window window = near ? wider_window(placer, unit, span, reach) : span_window(placer, unit, reach);
        round = best_round(placer, unit, window, pass);
    }
    round = round == NO_ROUND ? before : round;
    if (round == NO_ROUND)
        return false;
    put_in(placer, unit, round);
    remember(placer, job);
    return true;
}

/** Units of a job follow each other: the one behind its last. */
static uint32_t job_end(const struct placer *placer, uint32_t job)
{
    const struct loads *loads = placer->dealt.loads;
    uint32_t end = placer->dealt.first_unit[job];
    while (end < loads->unit_count && loads->units[end].job == job)
        end++;
    return end;
}

/** Take a job out and put it back unit by unit: the first near where the job was, the others near that. */
static void place_job(struct placer *placer, uint32_t job, const struct pass *pass, uint32_t reach, uint32_t *kept)
{
    const uint32_t begin = placer->dealt.first_unit[job], end = job_end(placer, job);
    const struct window span = dealt_span(&placer->dealt, job);
    bool placed = true;
    for (uint32_t u = begin; u < end; u++) {
        kept[u - begin] = placer->dealt.round[u];
        take_out(placer, u);
    }
    remember(placer, job);
    for (uint32_t u = begin; u < end && placed; u++) {
        uint32_t round = best_round(placer, u, wider_window(placer, u, span, reach), pass);
        placed = round != NO_ROUND;
        if (!placed)
            break;
        put_in(placer, u, round);
        remember(placer, job);
    }
    for (uint32_t u = begin; u < end && !placed; u++) {
        take_out(placer, u);
        put_in(placer, u, kept[u - begin]);
    }
    remember(placer, job);
}

/** A job, and the most bytes that it holds on a device. */
struct sized_job {
    uint64_t bytes;
    uint32_t job;
};

static int compare_sizes(const void *a, const void *b)
{
    const struct sized_job *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

static struct sized_job *largest_jobs(struct arena *arena, const struct problem *problem)
{
    struct sized_job *jobs = ARENA_NEW(arena, struct sized_job, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        jobs[j].job = j;
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++) {
            const struct job_memory *memory = &problem->jobs[j].memory[m];
            uint64_t bytes = memory->alloc + memory->release;
            jobs[j].bytes = bytes > jobs[j].bytes ? bytes : jobs[j].bytes;
        }
    }
    if (problem->job_count > 1)
        qsort(jobs, problem->job_count, sizeof(*jobs), compare_sizes);
    return jobs;
}

static void run_jobs(struct arena *arena, struct placer *placer, const struct pass *pass)
{
    const struct problem *problem = placer->dealt.problem;
    const struct sized_job *jobs = largest_jobs(arena, problem);
    uint32_t *kept = ARENA_NEW(arena, uint32_t, placer->dealt.loads->unit_count);
    for (uint32_t i = 0; i < problem->job_count; i++) {
        bool large = jobs[i].bytes > 2 * placer->options->slot_bytes;
        uint32_t reach = large ? placer->dealt.rounds : 4 + placer->dealt.rounds / JOB_REACH;
        place_job(placer, jobs[i].job, pass, reach, kept);
    }
}

static bool run_units(struct placer *placer, const struct rank *order, const struct pass *pass)
{
    for (uint32_t i = 0; i < placer->dealt.loads->unit_count; i++) {
        if (!place_unit(placer, order[i].unit, pass))
            return false;
    }
    return true;
}

/** The most bytes by which a slot is too small. */
static uint64_t over_slot(const struct placer *placer)
{
    size_t rounds = placer->dealt.rounds;
    uint64_t most = 0;
    for (uint32_t d = 0; d < placer->dealt.problem->route->world->device_count; d++) {
        for (size_t t = 0; t < rounds; t++) {
            uint64_t used = placer->used[d * rounds + t];
            most = used > placer->limit[d] + most ? used - placer->limit[d] : most;
        }
    }
    return most;
}

/** Whether no round takes more than `spare` over a slot or over the cap, on any device. */
static enum cap_rounds_status check_limits(const struct placer *placer, uint64_t spare)
{
    if (placer->memory != NULL && cap_memory_over(placer->memory) > (double)spare)
        return CAP_ROUNDS_OVER_CAP;
    return over_slot(placer) > spare ? CAP_ROUNDS_OVER_SLOT : CAP_ROUNDS_DONE;
}

/** Bytes of all slots of a device, where they are largest. */
static uint64_t most_slots(const struct placer *placer)
{
    uint64_t most = 0;
    for (uint32_t d = 0; d < placer->dealt.problem->route->world->device_count; d++)
        most = placer->limit[d] > most ? placer->limit[d] : most;
    return placer->dealt.depth * most;
}

/** Nothing is in any of `dealt.rounds` rounds. */
static void clear(struct arena *arena, struct placer *placer)
{
    const struct loads *loads = placer->dealt.loads;
    const struct problem *problem = placer->dealt.problem;
    size_t rounds = placer->dealt.rounds, devices = problem->route->world->device_count;
    uint64_t most_staged = 0;
    placer->level = ARENA_NEW(arena, double, loads->port_count *rounds);
    placer->messages = ARENA_NEW(arena, double, devices *rounds);
    placer->used = ARENA_NEW(arena, uint64_t, devices * rounds);
    placer->present = ARENA_NEW(arena, uint32_t, placer->pairs.count * rounds);
    placer->score = ARENA_NEW(arena, double, rounds);
    placer->added = ARENA_NEW(arena, double, rounds);
    placer->none = ARENA_NEW(arena, double, rounds);
    placer->filled = ARENA_NEW(arena, double, devices *rounds);
    placer->scale = loads->busiest_seconds > 0 ? (double)rounds / loads->busiest_seconds : 1;
    for (size_t d = 0; d < devices; d++)
        most_staged = loads->staged[d] > most_staged ? loads->staged[d] : most_staged;
    placer->fill = most_staged > 0 ? (double)rounds / (double)most_staged : 0;
    placer->message = problem->route->world->cluster->message_seconds * placer->scale;
    dealt_clear(arena, &placer->dealt);
    if (!placer->options->hold_old && placer->lag == 0)
        placer->memory =
            cap_memory_build(arena, problem, placer->dealt.rounds, placer->dealt.depth, most_slots(placer));
}

/** Staging of a round on each device: the slot, or its largest unit where that needs more. */
static void find_limits(struct arena *arena, struct placer *placer)
{
    const struct loads *loads = placer->options->loads;
    uint32_t devices = placer->dealt.problem->route->world->device_count;
    placer->limit = ARENA_NEW(arena, uint64_t, devices);
    placer->lag = (dealt_most_stages(placer->dealt.problem) - 1) * placer->dealt.depth;
    placer->dealt.rounds = (placer->options->rounds > 0 ? placer->options->rounds : 1) + placer->lag;
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
        placer->dealt.rounds =
            least + placer->lag > placer->dealt.rounds ? (uint32_t)least + placer->lag : placer->dealt.rounds;
    }
}

/** Devices whose loads are there. */
static bool *loaded_devices(struct arena *arena, const struct problem *problem, const struct loads *loads)
{
    bool *loaded = ARENA_NEW(arena, bool, problem->route->world->device_count);
    for (uint32_t l = 0; l < loads->begin[loads->unit_count]; l++)
        loaded[loads->loads[l].port / PORT_KINDS] = true;
    return loaded;
}

/** @return false when a unit goes nowhere */
static bool run_passes(struct arena *arena, struct placer *placer, const struct pass *list, size_t count)
{
    const struct rank *order = dealt_largest_first(arena, &placer->dealt);
    for (size_t pass = 0; pass < count; pass++) {
        if (list[pass].kind == JOB_BY_JOB)
            run_jobs(arena, placer, &list[pass]);
        else if (!run_units(placer, order, &list[pass]))
            return false;
    }
    return true;
}

static enum cap_rounds_status deal_staged(struct arena *arena, struct placer *placer)
{
    bool done = run_passes(arena, placer, staged_passes, STAGED_PASS_COUNT);
    return done ? check_limits(placer, 0) : CAP_ROUNDS_OVER_SLOT;
}

static enum cap_rounds_status deal(struct arena *arena, struct placer *placer)
{
    if (!run_passes(arena, placer, passes, LAST_OF_JOBS + 1))
        return CAP_ROUNDS_OVER_SLOT;
    const enum cap_rounds_status status = check_limits(placer, placer->options->slot_bytes / LITTLE);
    if (status != CAP_ROUNDS_DONE)
        return status;
    bool done = run_passes(arena, placer, &passes[LAST_OF_JOBS + 1], PASS_COUNT - LAST_OF_JOBS - 1);
    return done ? check_limits(placer, 0) : CAP_ROUNDS_OVER_SLOT;
}

struct build_work {
    struct arena *out;
    const struct problem *problem;
    const struct cap_rounds_options *options;
    struct rounds *rounds;
    uint64_t over;
    enum cap_rounds_status status;
};

static void build(struct arena *scratch, void *context)
{
    struct build_work *work = context;
    const struct cap_rounds_options *options = work->options;
    struct placer placer = {.dealt = {.problem = work->problem, .loads = options->loads, .depth = options->depth},
                            .options = options};
    struct rounds rounds = {.depth = options->depth, .hold_old = options->hold_old};
    find_limits(scratch, &placer);
    dealt_list_order(scratch, &placer.dealt);
    placer.pairs = unit_pairs_build(scratch, work->problem, options->loads,
                                    loaded_devices(scratch, work->problem, options->loads));
    clear(scratch, &placer);
    work->status = placer.lag > 0 ? deal_staged(scratch, &placer) : deal(scratch, &placer);
    work->over = placer.memory != NULL ? (uint64_t)cap_memory_over(placer.memory) : 0;
    if (work->problem->unread_max > 0 && !options->hold_old)
        rounds.idle_rounds = rounds.depth;
    if (work->status == CAP_ROUNDS_DONE)
        dealt_list_rounds(work->out, &placer.dealt, &rounds);
    *work->rounds = rounds;
}

enum cap_rounds_status cap_rounds_build(struct arena *arena, const struct problem *problem,
                                        const struct cap_rounds_options *options, struct rounds *rounds_out,
                                        uint64_t *over_out)
{
    struct build_work work = {.out = arena, .problem = problem, .options = options, .rounds = rounds_out};
    arena_with_scratch(arena, build, &work);
    *over_out = work.over;
    return work.status;
}
