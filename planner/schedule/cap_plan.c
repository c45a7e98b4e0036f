/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/cap_plan.h"

#include <math.h>

#include "schedule/cap_rounds.h"
#include "schedule/estimate.h"
#include "schedule/peak.h"

#define MOST_LANES      1000
#define CHUNKS_PER_SLOT 32
#define ROUND_TRIES     4
#define MOST_WORK       2e8 /* loads times rounds, over all tries: what takes longer is left to other strategies */

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

struct search {
    struct arena *out;
    const struct problem *problem;
    const struct cap_plan_options *options;
    struct rounds *rounds; /* the fastest so far */
    double seconds, work;
    bool found;
};

/** One slot size: a few more rounds than the staging needs leave the chunks some room to be even. */
static bool try_slot(struct search *search, const struct cap_rounds_options *from)
{
    const struct problem *problem = search->problem;
    uint64_t most = 0;
    for (uint32_t d = 0; d < problem->route->world->device_count; d++)
        most = from->loads->staged[d] > most ? from->loads->staged[d] : most;
    double rounds = fmax((double)most / (double)from->slot_bytes, 1);
    for (int i = 0; i < ROUND_TRIES; i++) {
        struct cap_rounds_options options = *from;
        struct rounds made;
        options.rounds = (uint32_t)ceil(rounds * (1 + 0.05 * (1 << i)));
        if (i + 1 == ROUND_TRIES)
            options.weighed = NULL;
        search->work += (double)from->loads->begin[from->loads->unit_count] * options.rounds;
        if (search->work > MOST_WORK)
            return false;
        if (!cap_rounds_build(search->out, problem, &options, &made))
            continue;
        if (peak_of_rounds(search->out, problem, &made) > search->options->cap)
            return false; /* more rounds do not mend it */
        search->seconds = estimate_seconds(search->out, problem, &made);
        *search->rounds = made;
        return true;
    }
    return false;
}

static bool *first_of_classes(struct arena *arena, const struct problem *problem, const struct lanes *classes)
{
    bool *weighed = ARENA_NEW(arena, bool, problem->route->world->device_count);
    for (uint32_t c = 0; c < classes->class_count; c++)
        weighed[classes->class_device[c]] = true;
    return weighed;
}

static void search_slots(struct arena *scratch, void *context)
{
    struct search *search = context;
    const struct problem *problem = search->problem;
    const struct lanes *classes = lanes_build(scratch, problem, MOST_LANES);
    struct cap_rounds_options options = {.depth = 2,
                                         .spans = even_spans(scratch, problem, classes),
                                         .weighed = first_of_classes(scratch, problem, classes)};
    for (uint64_t slot = problem->staging / 2; slot >= search->options->least_slot && slot > 0; slot /= 2) {
        uint64_t chunk = slot / CHUNKS_PER_SLOT;
        if (problem->peak_lower_bound + slot > search->options->cap && slot / 2 >= search->options->least_slot)
            continue;
        options.slot_bytes = slot;
        options.loads =
            loads_build(scratch, problem, chunk > search->options->least_chunk ? chunk : search->options->least_chunk);
        search->found = try_slot(search, &options);
        if (search->found || search->work > MOST_WORK)
            break;
    }
}

bool cap_plan_build(struct arena *arena, const struct problem *problem, const struct cap_plan_options *options,
                    struct rounds *rounds_out, double *seconds_out)
{
    struct search search = {.out = arena, .problem = problem, .options = options, .rounds = rounds_out};
    arena_with_scratch(arena, search_slots, &search);
    *seconds_out = search.seconds;
    return search.found;
}
