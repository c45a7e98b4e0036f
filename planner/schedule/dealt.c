/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/dealt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void dealt_list_order(struct arena *arena, struct dealt *dealt)
{
    const struct problem *problem = dealt->problem;
    dealt->first_unit = ARENA_NEW(arena, uint32_t, problem->job_count);
    dealt->follower = ARENA_NEW(arena, uint32_t, problem->job_count);
    for (uint32_t u = dealt->loads->unit_count; u-- > 0;)
        dealt->first_unit[dealt->loads->units[u].job] = u;
    for (uint32_t j = 0; j < problem->job_count; j++)
        dealt->follower[j] = JOB_NONE;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].after != JOB_NONE)
            dealt->follower[problem->jobs[j].after] = j;
    }
}

void dealt_clear(struct arena *arena, struct dealt *dealt)
{
    dealt->round = ARENA_NEW(arena, uint32_t, dealt->loads->unit_count);
    memset(dealt->round, 0xff, dealt->loads->unit_count * sizeof(uint32_t));
}

struct window dealt_span(const struct dealt *dealt, uint32_t job)
{
    const struct loads *loads = dealt->loads;
    struct window span = {NO_ROUND, 0};
    for (uint32_t u = dealt->first_unit[job]; u < loads->unit_count && loads->units[u].job == job; u++) {
        uint32_t round = dealt->round[u];
        if (round == NO_ROUND)
            continue;
        span.begin = round < span.begin ? round : span.begin;
        span.end = round + 1 > span.end ? round + 1 : span.end;
    }
    return span;
}

uint32_t dealt_wait(const struct dealt *dealt, uint32_t job)
{
    return dealt->problem->jobs[job].reads_new ? dealt->depth : 0;
}

struct window dealt_order_window(const struct dealt *dealt, uint32_t job)
{
    struct window window = {0, dealt->rounds};
    uint32_t before = dealt->problem->jobs[job].after, behind = dealt->follower[job];
    if (before != JOB_NONE)
        window.begin = dealt_span(dealt, before).end - 1 + dealt_wait(dealt, job);
    if (behind != JOB_NONE) {
        struct window span = dealt_span(dealt, behind);
        uint32_t last = span.end > 0 ? span.begin : dealt->rounds - 1, wait = dealt_wait(dealt, behind);
        if (span.end == 0)
            wait += (dealt->problem->jobs[behind].stages - 1) * dealt->depth;
        window.end = last >= wait ? last - wait + 1 : 0;
    }
    return window;
}

/** Narrow a window to behind the unit that brings what this one sends on, and before the one that sends this on. */
static struct window stage_window(const struct dealt *dealt, uint32_t unit, struct window window)
{
    const struct unit *at = &dealt->loads->units[unit];
    uint32_t stride = chunk_stride(&at->chunking), stage = chunk_stage(&at->chunking, at->chunk);
    uint32_t before = stage > 0 ? dealt->round[unit - stride] : NO_ROUND;
    uint32_t stages_behind = at->chunking.stages - 1 - stage;
    uint32_t behind = stages_behind > 0 ? dealt->round[unit + stride] : NO_ROUND;
    uint32_t begin = before != NO_ROUND ? before + dealt->depth : window.begin + stage * dealt->depth;
    uint32_t last = behind != NO_ROUND ? behind + 1 : window.end, wait = dealt->depth;
    if (behind == NO_ROUND)
        wait *= stages_behind;
    uint32_t end = last > wait ? last - wait : 0;
    return (struct window){begin > window.begin ? begin : window.begin, end < window.end ? end : window.end};
}

struct window dealt_window(const struct dealt *dealt, uint32_t unit)
{
    return stage_window(dealt, unit, dealt_order_window(dealt, dealt->loads->units[unit].job));
}

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

struct rank *dealt_largest_first(struct arena *arena, const struct dealt *dealt)
{
    const struct loads *loads = dealt->loads;
    struct rank *ranks = ARENA_NEW(arena, struct rank, loads->unit_count);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        ranks[u].unit = u;
        ranks[u].stage = chunk_stage(&loads->units[u].chunking, loads->units[u].chunk);
        ranks[u].follows = dealt->problem->jobs[loads->units[u].job].after != JOB_NONE;
        for (uint32_t l = loads->begin[u]; l < loads->begin[u + 1]; l++)
            ranks[u].seconds = fmax(ranks[u].seconds, loads->loads[l].seconds);
    }
    if (loads->unit_count > 0)
        qsort(ranks, loads->unit_count, sizeof(*ranks), compare_ranks);
    return ranks;
}

uint32_t dealt_most_stages(const struct problem *problem)
{
    uint32_t most = 1;
    for (uint32_t j = 0; j < problem->job_count; j++)
        most = problem->jobs[j].stages > most ? problem->jobs[j].stages : most;
    return most;
}

/** Whether something must wait for rounds to pass: rounds without units count then. */
static bool rounds_pass(const struct problem *problem)
{
    for (uint32_t j = 0; j < problem->job_count; j++) {
        if (problem->jobs[j].reads_new || problem->jobs[j].stages > 1)
            return true;
    }
    return false;
}

/** Number the rounds that stay. @return the numbers */
static uint32_t *number_rounds(struct arena *arena, const struct dealt *dealt, struct rounds *rounds)
{
    uint32_t *count = ARENA_NEW(arena, uint32_t, dealt->rounds + 1);
    uint32_t *number = ARENA_NEW(arena, uint32_t, dealt->rounds);
    uint32_t end = 0;
    bool keep = rounds_pass(dealt->problem);
    for (uint32_t u = 0; u < dealt->loads->unit_count; u++) {
        count[dealt->round[u]]++;
        end = dealt->round[u] >= end ? dealt->round[u] + 1 : end;
    }
    for (uint32_t t = 0; t < end; t++) {
        number[t] = rounds->round_count;
        if (count[t] == 0 && (!keep || rounds->round_count == rounds->idle_rounds))
            continue;
        rounds->round_begin[rounds->round_count + 1] = rounds->round_begin[rounds->round_count] + count[t];
        rounds->round_count++;
    }
    return number;
}

void dealt_list_rounds(struct arena *arena, const struct dealt *dealt, struct rounds *rounds)
{
    const struct loads *loads = dealt->loads;
    rounds->round_begin = ARENA_NEW(arena, uint32_t, dealt->rounds + rounds->idle_rounds + 2);
    rounds->round_count = rounds->idle_rounds;
    const uint32_t *number = number_rounds(arena, dealt, rounds);
    /* pads of kept buffers are zeroed, and old ones freed, in some round */
    if (rounds->round_count == 0 && (dealt->problem->fills_kept || dealt->problem->frees_unread))
        rounds->round_count = 1;
    uint32_t *next = ARENA_NEW(arena, uint32_t, rounds->round_count + 1);
    memcpy(next, rounds->round_begin, (rounds->round_count + 1) * sizeof(*next));
    rounds->units = ARENA_NEW(arena, struct unit, loads->unit_count);
    rounds->unit_count = loads->unit_count;
    for (uint32_t u = 0; u < loads->unit_count; u++)
        rounds->units[next[number[dealt->round[u]]]++] = loads->units[u];
}
