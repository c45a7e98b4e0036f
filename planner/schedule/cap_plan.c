/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/cap_plan.h"

#include <math.h>
#include <stdlib.h>

#include "schedule/cap_lp.h"
#include "schedule/cap_rounds.h"
#include "schedule/estimate.h"
#include "schedule/peak.h"

#define MOST_LANES       1000
#define CHUNKS_PER_SLOT  32
#define MOST_CHUNKS      200000
#define MOST_WORK        2e9  /* loads times rounds, over all tries: what takes longer is left to other strategies */
#define MOST_WORK_HELD   4e8  /* the same where all that is old may be held: other strategies do well then */
#define MOST_WORK_STAGED 4e8  /* the same where some of it is sent on: that takes longer */
#define ROUND_TRIES      4    /* each with twice as many more than the last */
#define MORE_ROUNDS      0.04 /* of the rounds that the staging needs: chunks have some room to be even */
#define MORE_STAGED      0.15 /* the same where some is sent on, which is uneven; one try is what there is time for */
#define HIDDEN           0.5  /* packs are beside groups that take twice as long */
#define WORK_OF_LP       200  /* loads times rounds in the time of a simplex iteration, by its columns */
#define MOST_COLUMNS     6000 /* of a program: lanes times slices */

/** Every lane at its own even pace from begin to end, its jobs in order. */
static struct span *even_spans(struct arena *arena, const struct problem *problem, const struct lanes *classes)
{
    struct span *spans = ARENA_NEW(arena, struct span, problem->job_count);
    for (uint32_t l = 0; l < classes->lane_count; l++) {
        const struct lane *lane = &classes->lanes[l];
        uint64_t at = 0;
        for (uint32_t i = 0; i < lane->job_count && lane->bytes > 0; i++) {
            struct span *span = &spans[lane->jobs[i]];
            span->begin = (double)at / (double)lane->bytes;
            at += classes->job_bytes[lane->jobs[i]];
            span->end = (double)at / (double)lane->bytes;
        }
    }
    return spans;
}

/** Where in time a lane has done a share: its progress is even within a slice. */
static double time_of(const struct cap_lp_result *solved, const double *done, uint32_t slices, double share)
{
    uint32_t e = 0;
    while (e + 1 < slices && done[e] < share)
        e++;
    double before = e > 0 ? done[e - 1] : 0, part = done[e] > before ? (share - before) / (done[e] - before) : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    return solved->begin[e] + part * (solved->begin[e + 1] - solved->begin[e]);
}

/** A job that a lane would leave half done, to go on slices later, is done before it stops or after. */
static void close_gap(const struct cap_lp_result *solved, const double *done, uint32_t slices, double first,
                      double last, struct span *span)
{
    for (uint32_t e = 0; e + 1 < slices; e++) {
        if (done[e] <= first || done[e] >= last || done[e + 1] > done[e])
            continue;
        bool before = done[e] - first >= (last - first) / 2;
        if (before && span->end > solved->begin[e + 1])
            span->end = solved->begin[e + 1];
        if (!before && span->begin < solved->begin[e + 2])
            span->begin = solved->begin[e + 2];
    }
    span->end = span->end < span->begin ? span->begin : span->end;
}

/** Lanes at the pace of a solved program. */
static struct span *solved_spans(struct arena *arena, const struct problem *problem, const struct lanes *classes,
                                 const struct cap_lp_result *solved, uint32_t slices)
{
    struct span *spans = ARENA_NEW(arena, struct span, problem->job_count);
    for (uint32_t l = 0; l < classes->lane_count; l++) {
        const struct lane *lane = &classes->lanes[l];
        uint64_t at = 0;
        for (uint32_t i = 0; i < lane->job_count && lane->bytes > 0; i++) {
            struct span *span = &spans[lane->jobs[i]];
            double first = (double)at / (double)lane->bytes;
            at += classes->job_bytes[lane->jobs[i]];
            double last = (double)at / (double)lane->bytes;
            span->begin = time_of(solved, solved->done[l], slices, first);
            span->end = time_of(solved, solved->done[l], slices, last);
            close_gap(solved, solved->done[l], slices, first, last, span);
        }
    }
    return spans;
}

struct search {
    struct arena *out;
    const struct problem *problem;
    const struct cap_plan_options *options;
    struct rounds *rounds; /* the fastest so far */
    double seconds, work;
    uint64_t over;              /* the least that any rounds of this slot were over the cap; UINT64_MAX: none were */
    bool found, solved, staged; /* staged: some of it is sent on */
    enum lp_status status;      /* of the last program; LP_ABSENT: none */
};

/** Without packs and unpacks, where those of no device take long: they follow what is sent and received. */
static const struct loads *without_packs(struct arena *arena, const struct loads *all)
{
    struct loads *loads = ARENA_NEW(arena, struct loads, 1);
    uint32_t count = 0;
    for (uint32_t p = 0; p < all->port_count; p++) {
        bool packs = p % PORT_KINDS == PORT_PACK || p % PORT_KINDS == PORT_UNPACK;
        if (packs && all->total[p] > HIDDEN * all->busiest_seconds)
            return all;
    }
    *loads = *all;
    loads->begin = ARENA_NEW(arena, uint32_t, (size_t)all->unit_count + 1);
    loads->loads = ARENA_NEW(arena, struct load, all->begin[all->unit_count]);
    for (uint32_t u = 0; u < all->unit_count; u++) {
        for (uint32_t l = all->begin[u]; l < all->begin[u + 1]; l++) {
            uint32_t kind = all->loads[l].port % PORT_KINDS;
            if (kind != PORT_PACK && kind != PORT_UNPACK)
                loads->loads[count++] = all->loads[l];
        }
        loads->begin[u + 1] = count;
    }
    return loads;
}

static double most_work(const struct search *search)
{
    return search->options->hold_old ? MOST_WORK_HELD : search->staged ? MOST_WORK_STAGED : MOST_WORK;
}

/** One slot size: a few more rounds than the staging needs leave the chunks some room to be even. */
static bool try_slot(struct search *search, const struct cap_rounds_options *from)
{
    const struct problem *problem = search->problem;
    uint64_t most = 0;
    for (uint32_t d = 0; d < problem->route->world->device_count; d++)
        most = from->loads->staged[d] > most ? from->loads->staged[d] : most;
    double rounds = fmax((double)most / (double)from->slot_bytes, 1), step = search->staged ? MORE_STAGED : MORE_ROUNDS;
    for (int i = 0; i < (search->staged ? 1 : ROUND_TRIES); i++) {
        struct cap_rounds_options options = *from;
        struct rounds made;
        uint64_t over;
        options.rounds = (uint32_t)ceil(rounds * (1 + step));
        step *= 2;
        search->work += (double)from->loads->begin[from->loads->unit_count] * options.rounds;
        if (search->work > most_work(search))
            return false;
        enum cap_rounds_status status = cap_rounds_build(search->out, problem, &options, &made, &over);
        if (status == CAP_ROUNDS_OVER_SLOT)
            continue;
        search->over = status == CAP_ROUNDS_OVER_CAP && over < search->over ? over : search->over;
        if (status == CAP_ROUNDS_OVER_CAP || peak_of_rounds(search->out, problem, &made) > search->options->cap)
            return false; /* more rounds do not mend it */
        search->seconds = estimate_seconds(search->out, problem, &made);
        *search->rounds = made;
        return true;
    }
    return false;
}

/** Slices that are tried: few leave room for even rounds, many meet tighter caps. */
static const uint32_t slice_counts[] = {12, 24, 48};
#define SLICE_COUNTS (sizeof(slice_counts) / sizeof(slice_counts[0]))

/** One slot size at the pace of the program, with few slices, then with more. */
static bool try_solved(struct arena *scratch, struct search *search, const struct lanes *classes,
                       const struct cap_rounds_options *from)
{
    const struct problem *problem = search->problem;
    uint64_t taken = problem_most_fixed(problem) + 2 * from->slot_bytes;
    for (size_t i = 0; i < SLICE_COUNTS; i++) {
        const struct cap_lp_input input = {.problem = problem,
                                           .classes = classes,
                                           .slices = slice_counts[i],
                                           .room = search->options->cap > taken ? search->options->cap - taken : 0,
                                           .mode = CAP_LP_TIME,
                                           .work = (most_work(search) - search->work) / WORK_OF_LP,
                                           .seconds = search->options->seconds};
        if ((uint64_t)classes->lane_count * slice_counts[i] > MOST_COLUMNS || search->work >= most_work(search))
            return false;
        const struct cap_lp_result solved = cap_lp_solve(scratch, &input);
        search->status = solved.status;
        search->work += solved.work * WORK_OF_LP;
        if (solved.status != LP_OPTIMAL)
            continue;
        struct cap_rounds_options options = *from;
        options.spans = solved_spans(scratch, problem, classes, &solved, slice_counts[i]);
        search->solved = try_slot(search, &options);
        if (search->solved)
            return true;
    }
    return false;
}

/** Chunks are no smaller than makes so many of them. */
static uint64_t least_chunk(const struct problem *problem)
{
    uint64_t traffic = 0;
    for (uint32_t j = 0; j < problem->job_count; j++)
        traffic += problem->jobs[j].traffic;
    return traffic / MOST_CHUNKS + 1;
}

/** A half of it, or what the rounds of this one were over the cap less, and a little for what that makes uneven. */
static uint64_t next_slot(const struct search *search, uint64_t slot)
{
    uint64_t less = search->over < slot ? search->over / 2 + slot / CHUNKS_PER_SLOT + 1 : slot;
    return less < slot / 2 ? slot - less : slot / 2;
}

static void search_slots(struct arena *scratch, void *context)
{
    struct search *search = context;
    const struct problem *problem = search->problem;
    const struct lanes *classes = lanes_build(scratch, problem, MOST_LANES);
    struct cap_rounds_options options = {.depth = 2, .hold_old = search->options->hold_old};
    uint64_t least = least_chunk(problem);
    const struct span *even = even_spans(scratch, problem, classes);
    for (uint64_t slot = problem->staging / 2; slot >= search->options->least_slot && slot > 0;
         slot = next_slot(search, slot)) {
        uint64_t chunk = slot / CHUNKS_PER_SLOT;
        search->over = UINT64_MAX;
        if (problem->peak_lower_bound + slot > search->options->cap && slot / 2 >= search->options->least_slot)
            continue;
        options.slot_bytes = slot;
        options.spans = options.hold_old ? NULL : even;
        struct loads *loads = loads_build_few(scratch, problem, chunk > least ? chunk : least, NULL);
        options.loads = search->staged ? loads : without_packs(scratch, loads);
        search->found = try_slot(search, &options) || (!search->staged && !options.hold_old && search->over >= slot &&
                                                       try_solved(scratch, search, classes, &options));
        if (search->found || search->work > MOST_WORK || options.hold_old)
            break;
    }
}

bool cap_plan_build(struct arena *arena, const struct problem *problem, const struct cap_plan_options *options,
                    struct cap_plan_result *result_out)
{
    struct search search = {
        .out = arena, .problem = problem, .options = options, .rounds = &result_out->rounds, .status = LP_ABSENT};
    for (uint32_t j = 0; j < problem->job_count; j++)
        search.staged = search.staged || problem->jobs[j].stages > 1;
    arena_with_scratch(arena, search_slots, &search);
    result_out->seconds = search.seconds;
    result_out->solved = search.solved;
    result_out->status = search.status;
    return search.found;
}

struct begun {
    double begin;
    uint32_t job;
    bool follows;
};

static int compare_begun(const void *a, const void *b)
{
    const struct begun *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->follows != y->follows)
        return x->follows ? 1 : -1;
    return (x->job > y->job) - (x->job < y->job);
}

struct order_work {
    const struct problem *problem;
    uint32_t slices;
    uint32_t *order;
    bool found;
};

static void find_order(struct arena *scratch, void *context)
{
    struct order_work *work = context;
    const struct problem *problem = work->problem;
    const struct lanes *classes = lanes_build(scratch, problem, MOST_LANES);
    const struct cap_lp_input input = {
        .problem = problem, .classes = classes, .slices = work->slices, .mode = CAP_LP_CAP};
    if ((uint64_t)classes->lane_count * work->slices > MOST_COLUMNS)
        return;
    const struct cap_lp_result solved = cap_lp_solve(scratch, &input);
    if (solved.status != LP_OPTIMAL)
        return;
    const struct span *spans = solved_spans(scratch, problem, classes, &solved, work->slices);
    struct begun *begun = ARENA_NEW(scratch, struct begun, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        uint32_t after = problem->jobs[j].after;
        begun[j] = (struct begun){spans[j].begin, j, after != JOB_NONE};
        if (after != JOB_NONE && spans[after].begin > begun[j].begin)
            begun[j].begin = spans[after].begin;
    }
    if (problem->job_count > 1)
        qsort(begun, problem->job_count, sizeof(*begun), compare_begun);
    for (uint32_t j = 0; j < problem->job_count; j++)
        work->order[j] = begun[j].job;
    work->found = true;
}

uint32_t *cap_plan_order(struct arena *arena, const struct problem *problem, uint32_t slices)
{
    struct order_work work = {
        .problem = problem, .slices = slices, .order = ARENA_NEW(arena, uint32_t, problem->job_count)};
    arena_with_scratch(arena, find_order, &work);
    return work.found ? work.order : NULL;
}
