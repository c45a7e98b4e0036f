/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/exact_lp.h"

#include <math.h>

#define CUT 1e-7 /* less than the cutoff by this share */

/** Jobs of a kind of which a stage has begun, or of which all of the old side is read, by the end of each round. */
struct tally {
    uint32_t kind, stage;
    bool finished;
    int first; /* column in round 0; the next rounds follow; -1: the one part's own units say it */
};

struct builder {
    struct arena *arena;
    const struct exact_lp_input *input;
    struct lp *lp;
    uint32_t columns; /* of a round: parts and families */
    int units;        /* column of part 0 in round 0 */
    int used, wire, before, behind;
    int slots; /* two columns for each device of rows->slots, then of rows->memory */
    VEC(struct tally) tallies;
    VEC(double) start; /* values to begin with, by column */
};

static bool is_plain(const struct exact_kinds *kinds, const struct exact_kind *kind)
{
    return kind->part_end - kind->part_begin == 1 && kinds->parts[kind->part_begin].chunk_count == 1;
}

bool exact_lp_applies(const struct exact_kinds *kinds)
{
    for (uint32_t k = 0; k < kinds->kind_count; k++) {
        const struct exact_kind *kind = &kinds->kinds[k];
        bool waits = kind->after != EXACT_NONE || kind->followed;
        if (waits && !is_plain(kinds, kind))
            return false;
        if (kind->after != EXACT_NONE && kinds->kinds[kind->after].job_count != kind->job_count)
            return false;
    }
    return true;
}

bool exact_waits(const struct exact_kinds *kinds)
{
    bool waits = false;
    for (uint32_t k = 0; k < kinds->kind_count; k++)
        waits = waits || kinds->kinds[k].after != EXACT_NONE || kinds->kinds[k].chunking.stages > 1;
    return waits;
}

/** Parts of a kind in one stage: the first of them, and whether there is no other and no job has two of its units. */
static bool stage_is_plain(const struct exact_kinds *kinds, const struct exact_kind *kind, uint32_t stage)
{
    uint32_t parts = 0;
    bool single = true;
    for (uint32_t q = kind->part_begin; q < kind->part_end; q++) {
        parts += kinds->parts[q].stage == stage;
        single = single && (kinds->parts[q].stage != stage || kinds->parts[q].chunk_count == 1);
    }
    return parts == 1 && single;
}

/** Tallies that the memory of some device asks for: begun ones by stage, and finished ones. */
static uint32_t count_tallies(const struct exact_kinds *kinds)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < kinds->kind_count; k++) {
        const struct exact_kind *kind = &kinds->kinds[k];
        for (uint32_t s = 0; s < kind->chunking.stages; s++)
            count += stage_is_plain(kinds, kind, s) ? 0 : s == 0 ? 2 : 1;
    }
    return count;
}

uint64_t exact_lp_columns(const struct exact_kinds *kinds, const struct exact_rows *rows, uint32_t rounds)
{
    uint64_t columns = exact_round_columns(kinds, rows) + 2;
    if (rows->memory.count > 0)
        columns += count_tallies(kinds);
    return columns * rounds;
}

static int unit_column(const struct builder *builder, uint32_t part, uint32_t round)
{
    return builder->units + (int)(round * builder->columns + part);
}

static uint32_t started(const struct builder *builder, uint32_t part, uint32_t round)
{
    const struct exact_lp_input *input = builder->input;
    return input->counts != NULL ? input->counts[(size_t)round * input->kinds->part_count + part] : 0;
}

static int add_column(struct builder *builder, double cost, double upper, bool whole, double start)
{
    *VEC_PUSH(builder->arena, &builder->start) = start;
    return lp_add_column(builder->lp, cost, 0, upper, whole && builder->input->whole);
}

static void add_units(struct builder *builder)
{
    const struct exact_lp_input *input = builder->input;
    for (uint32_t t = 0; t < input->rounds; t++) {
        for (uint32_t q = 0; q < input->kinds->part_count; q++) {
            uint32_t units = exact_part_units(input->kinds, &input->kinds->parts[q]);
            int column = add_column(builder, 0, units, true, started(builder, q, t));
            builder->units = t + q == 0 ? column : builder->units;
        }
        for (uint32_t f = 0; input->rows->messages && f < input->rows->family_count; f++) {
            const struct exact_family *family = &input->rows->families[f];
            double present = 0;
            for (uint32_t i = 0; i < family->part_count; i++)
                present = started(builder, family->parts[i], t) > 0 ? 1 : present;
            add_column(builder, 0, 1, true, present);
        }
    }
    for (uint32_t q = 0; q < input->kinds->part_count; q++) {
        uint32_t units = exact_part_units(input->kinds, &input->kinds->parts[q]);
        int row = lp_add_row(builder->lp, units, units);
        for (uint32_t t = 0; t < input->rounds; t++)
            lp_add_entry(builder->lp, row, unit_column(builder, q, t), 1);
    }
}

/** What a row asks for in a round, with the units and messages to begin with. */
static double value_of(const struct builder *builder, const struct exact_row *row, uint32_t round)
{
    double sum = 0;
    for (uint32_t i = 0; i < row->count; i++)
        sum += row->terms[i].value * builder->start.items[unit_column(builder, row->terms[i].column, round)];
    return sum;
}

static double most_of(const struct builder *builder, const struct exact_row *rows, size_t count, uint32_t round)
{
    double most = 0;
    for (size_t r = 0; r < count; r++)
        most = fmax(most, value_of(builder, &rows[r], round));
    return most;
}

/** Row: column >= what the round's units ask for. */
static void ask(struct builder *builder, const struct exact_row *row, uint32_t round, int column)
{
    int at = lp_add_row(builder->lp, 0, INFINITY);
    lp_add_entry(builder->lp, at, column, 1);
    for (uint32_t i = 0; i < row->count; i++)
        lp_add_entry(builder->lp, at, unit_column(builder, row->terms[i].column, round), -row->terms[i].value);
}

/** The seconds of one kind for all rounds. */
static int add_seconds(struct builder *builder, const exact_row_vec *rows, double cost)
{
    int first = lp_column_count(builder->lp);
    for (uint32_t t = 0; t < builder->input->rounds; t++)
        add_column(builder, cost, INFINITY, false, most_of(builder, rows->items, rows->count, t));
    for (uint32_t t = 0; t < builder->input->rounds; t++) {
        for (size_t r = 0; r < rows->count; r++)
            ask(builder, &rows->items[r], t, first + (int)t);
    }
    return first;
}

static void set_cost(struct builder *builder, int column)
{
    lp_set_cost(builder->lp, column, 1);
}

static void add_times(struct builder *builder)
{
    const struct exact_lp_input *input = builder->input;
    uint32_t rounds = input->rounds;
    bool alone = input->depth == 1;
    double *start;
    builder->wire = add_seconds(builder, &input->rows->wire, 1);
    builder->before = add_seconds(builder, &input->rows->before, alone);
    builder->behind = add_seconds(builder, &input->rows->behind, alone);
    start = builder->start.items;
    if (alone)
        return;
    set_cost(builder, builder->before);
    set_cost(builder, builder->behind + (int)rounds - 1);
    for (uint32_t t = 0; t < rounds; t++) {
        int row = lp_add_row(builder->lp, 0, INFINITY);
        double beside = 0;
        lp_add_entry(builder->lp, row, builder->wire + (int)t, 1);
        if (t > 0) {
            lp_add_entry(builder->lp, row, builder->behind + (int)t - 1, -1);
            beside += start[builder->behind + (int)t - 1];
        }
        if (t + 1 < rounds) {
            lp_add_entry(builder->lp, row, builder->before + (int)t + 1, -1);
            beside += start[builder->before + (int)t + 1];
        }
        start[builder->wire + (int)t] = fmax(start[builder->wire + (int)t], beside);
    }
}

/** Rounds that send, and the messages that are there. */
static void add_used(struct builder *builder)
{
    const struct exact_lp_input *input = builder->input;
    double cost = input->problem->route->world->cluster->round_seconds;
    for (uint32_t t = 0; t < input->rounds; t++) {
        double used = 0;
        for (uint32_t q = 0; q < input->kinds->part_count; q++)
            used = input->kinds->parts[q].sends && started(builder, q, t) > 0 ? 1 : used;
        int column = add_column(builder, cost, 1, true, used);
        builder->used = t == 0 ? column : builder->used;
        for (uint32_t q = 0; q < input->kinds->part_count && cost > 0; q++) {
            if (!input->kinds->parts[q].sends)
                continue;
            int row = lp_add_row(builder->lp, 0, INFINITY);
            lp_add_entry(builder->lp, row, column, exact_part_units(input->kinds, &input->kinds->parts[q]));
            lp_add_entry(builder->lp, row, unit_column(builder, q, t), -1);
        }
        for (uint32_t f = 0; input->rows->messages && f < input->rows->family_count; f++) {
            const struct exact_family *family = &input->rows->families[f];
            for (uint32_t i = 0; i < family->part_count; i++) {
                int row = lp_add_row(builder->lp, 0, INFINITY);
                lp_add_entry(builder->lp, row, unit_column(builder, input->kinds->part_count + f, t),
                             exact_part_units(input->kinds, &input->kinds->parts[family->parts[i]]));
                lp_add_entry(builder->lp, row, unit_column(builder, family->parts[i], t), -1);
            }
        }
    }
}

/** Row: by the end of round `late` no more units of one part than of another by the end of round `early`. */
static void keep_behind(struct builder *builder, uint32_t part, uint32_t late, uint32_t before, int early)
{
    int row = lp_add_row(builder->lp, -INFINITY, 0);
    for (uint32_t t = 0; t <= late; t++)
        lp_add_entry(builder->lp, row, unit_column(builder, part, t), 1);
    for (int t = 0; t <= early; t++)
        lp_add_entry(builder->lp, row, unit_column(builder, before, (uint32_t)t), -1);
}

static void add_waits(struct builder *builder)
{
    const struct exact_lp_input *input = builder->input;
    for (uint32_t q = 0; q < input->kinds->part_count; q++) {
        const struct exact_part *part = &input->kinds->parts[q];
        const struct exact_kind *kind = &input->kinds->kinds[part->kind];
        bool follows = kind->after != EXACT_NONE;
        uint32_t before = follows ? input->kinds->kinds[kind->after].part_begin : part->before;
        uint32_t wait = follows && !kind->reads_new ? 0 : input->depth;
        for (uint32_t t = 0; before != EXACT_NONE && t < input->rounds; t++)
            keep_behind(builder, q, t, before, (int)t - (int)wait);
    }
}

/** Where nothing waits for rounds to pass, those without units are the last ones. */
static void add_order(struct builder *builder)
{
    const struct exact_lp_input *input = builder->input;
    int last = -1;
    for (uint32_t t = 0; t < input->rounds; t++) {
        double taken = 0;
        for (uint32_t q = 0; q < input->kinds->part_count; q++)
            taken = started(builder, q, t) > 0 ? 1 : taken;
        int column = add_column(builder, 0, 1, true, taken), some = lp_add_row(builder->lp, 0, INFINITY);
        lp_add_entry(builder->lp, some, column, -1);
        for (uint32_t q = 0; q < input->kinds->part_count; q++) {
            int row = lp_add_row(builder->lp, 0, INFINITY);
            lp_add_entry(builder->lp, row, column, exact_part_units(input->kinds, &input->kinds->parts[q]));
            lp_add_entry(builder->lp, row, unit_column(builder, q, t), -1);
            lp_add_entry(builder->lp, some, unit_column(builder, q, t), 1);
        }
        if (last >= 0) {
            int row = lp_add_row(builder->lp, 0, INFINITY);
            lp_add_entry(builder->lp, row, last, 1);
            lp_add_entry(builder->lp, row, column, -1);
        }
        last = column;
    }
}

/** Add entries to a row: `factor` for each job that is counted by the end of a round. */
static void add_tally(struct builder *builder, int row, uint32_t kind, uint32_t stage, bool finished, uint32_t round,
                      double factor)
{
    for (size_t i = 0; i < builder->tallies.count; i++) {
        const struct tally *tally = &builder->tallies.items[i];
        if (tally->kind == kind && tally->stage == stage && tally->finished == finished) {
            lp_add_entry(builder->lp, row, tally->first + (int)round, factor);
            return;
        }
    }
    const struct exact_kinds *kinds = builder->input->kinds;
    for (uint32_t q = kinds->kinds[kind].part_begin; q < kinds->kinds[kind].part_end; q++) {
        for (uint32_t t = 0; kinds->parts[q].stage == stage && t <= round; t++)
            lp_add_entry(builder->lp, row, unit_column(builder, q, t), factor);
    }
}

/** Jobs that are counted by the end of a round, with the units to begin with. */
static double tally_start(const struct builder *builder, const struct tally *tally, uint32_t round)
{
    const struct exact_kinds *kinds = builder->input->kinds;
    const struct exact_kind *kind = &kinds->kinds[tally->kind];
    uint32_t value = tally->finished ? kind->job_count : 0;
    for (uint32_t q = kind->part_begin; q < kind->part_end; q++) {
        uint32_t units = 0, each = kinds->parts[q].chunk_count;
        for (uint32_t t = 0; t <= round; t++)
            units += started(builder, q, t);
        if (kinds->parts[q].stage != tally->stage)
            continue;
        uint32_t jobs = tally->finished ? units / each : (units + each - 1) / each;
        value = tally->finished == (jobs < value) ? jobs : value;
    }
    return value;
}

static void add_one_tally(struct builder *builder, uint32_t k, uint32_t stage, bool finished)
{
    const struct exact_lp_input *input = builder->input;
    const struct exact_kind *kind = &input->kinds->kinds[k];
    struct tally tally = {.kind = k, .stage = stage, .finished = finished, .first = lp_column_count(builder->lp)};
    for (uint32_t t = 0; t < input->rounds; t++)
        add_column(builder, 0, kind->job_count, true, tally_start(builder, &tally, t));
    *VEC_PUSH(builder->arena, &builder->tallies) = tally;
    for (uint32_t q = kind->part_begin; q < kind->part_end; q++) {
        for (uint32_t t = 0; input->kinds->parts[q].stage == stage && t < input->rounds; t++) {
            /* begun >= units / each; finished <= units / each */
            int row = finished ? lp_add_row(builder->lp, -INFINITY, 0) : lp_add_row(builder->lp, 0, INFINITY);
            lp_add_entry(builder->lp, row, tally.first + (int)t, input->kinds->parts[q].chunk_count);
            for (uint32_t s = 0; s <= t; s++)
                lp_add_entry(builder->lp, row, unit_column(builder, q, s), -1);
        }
    }
}

static void add_tallies(struct builder *builder)
{
    const struct exact_kinds *kinds = builder->input->kinds;
    for (uint32_t k = 0; builder->input->rows->memory.count > 0 && k < kinds->kind_count; k++) {
        for (uint32_t s = 0; s < kinds->kinds[k].chunking.stages; s++) {
            if (stage_is_plain(kinds, &kinds->kinds[k], s))
                continue;
            add_one_tally(builder, k, s, false);
            if (s == 0)
                add_one_tally(builder, k, s, true);
        }
    }
}

/** Two columns: the slots of even and of odd rounds. @return the first */
static int add_slot_columns(struct builder *builder, const struct exact_device *device)
{
    const struct exact_lp_input *input = builder->input;
    double most[2] = {0};
    for (uint32_t t = 0; t < input->rounds; t++)
        most[t % input->depth] = fmax(most[t % input->depth], value_of(builder, &device->staged, t));
    int first = add_column(builder, 0, INFINITY, false, most[0]);
    add_column(builder, 0, INFINITY, false, most[1]);
    for (uint32_t t = 0; t < input->rounds; t++)
        ask(builder, &device->staged, t, first + (int)(t % input->depth));
    return first;
}

/** Row: both slots, and what else is added to it, are at most that. */
static int add_slot_row(struct builder *builder, int slots, double most)
{
    int row = lp_add_row(builder->lp, -INFINITY, most);
    lp_add_entry(builder->lp, row, slots, 1);
    lp_add_entry(builder->lp, row, slots + 1, 1);
    return row;
}

/**
 * In round t all is there that was begun up to it, but what was read before round t - depth + 1. At the start
 * everything old is there; what nobody reads goes before the first round with units.
 */
static void add_memory(struct builder *builder, const struct exact_device *device)
{
    const struct exact_lp_input *input = builder->input;
    const struct problem *problem = input->problem;
    const struct problem_device *sums = &problem->devices[device->device];
    double cap = (double)problem_cap(problem, problem->cap, device->device) - (double)sums->fixed - (double)sums->from;
    int slots = add_slot_columns(builder, device);
    add_slot_row(builder, slots, fmin((double)problem->staging, cap));
    for (uint32_t t = 0; t < input->rounds; t++) {
        int row = add_slot_row(builder, slots, cap + (double)sums->unread);
        for (uint32_t k = 0; k < input->kinds->kind_count; k++) {
            const struct exact_kind *kind = &input->kinds->kinds[k];
            for (uint32_t m = 0; m < kind->memory_count; m++) {
                const struct exact_memory *memory = &kind->memory[m];
                if (memory->device != device->device)
                    continue;
                add_tally(builder, row, k, memory->stage, false, t, (double)memory->alloc);
                if (t >= input->depth)
                    add_tally(builder, row, k, 0, true, t - input->depth, -(double)memory->release);
            }
        }
    }
}

static void add_cutoff(struct builder *builder)
{
    const struct exact_lp_input *input = builder->input;
    int row = lp_add_row(builder->lp, -INFINITY, input->cutoff * (1 - CUT));
    double round_seconds = input->problem->route->world->cluster->round_seconds;
    for (uint32_t t = 0; t < input->rounds; t++) {
        bool first = t == 0, last = t + 1 == input->rounds;
        lp_add_entry(builder->lp, row, builder->wire + (int)t, 1);
        lp_add_entry(builder->lp, row, builder->used + (int)t, round_seconds);
        lp_add_entry(builder->lp, row, builder->before + (int)t, first || input->depth == 1);
        lp_add_entry(builder->lp, row, builder->behind + (int)t, last || input->depth == 1);
    }
}

static uint32_t *take_counts(const struct builder *builder, const double *values)
{
    const struct exact_lp_input *input = builder->input;
    uint32_t parts = input->kinds->part_count;
    uint32_t *counts = ARENA_NEW(builder->arena, uint32_t, (size_t)input->rounds * parts);
    for (uint32_t t = 0; t < input->rounds; t++) {
        for (uint32_t q = 0; q < parts; q++)
            counts[(size_t)t * parts + q] = (uint32_t)(values[unit_column(builder, q, t)] + 0.5);
    }
    return counts;
}

struct exact_lp_result exact_lp_solve(struct arena *arena, const struct exact_lp_input *input)
{
    struct builder builder = {
        .arena = arena, .input = input, .lp = lp_new(arena), .columns = exact_round_columns(input->kinds, input->rows)};
    add_units(&builder);
    add_times(&builder);
    add_used(&builder);
    add_waits(&builder);
    if (input->hold_old && !exact_waits(input->kinds))
        add_order(&builder);
    add_tallies(&builder);
    for (size_t i = 0; i < input->rows->slots.count; i++) {
        const struct exact_device *device = &input->rows->slots.items[i];
        add_slot_row(&builder, add_slot_columns(&builder, device), (double)device->room);
    }
    for (size_t i = 0; i < input->rows->memory.count; i++)
        add_memory(&builder, &input->rows->memory.items[i]);
    bool warm = input->whole && input->counts != NULL && lp_admits(builder.lp, builder.start.items);
    if (input->whole && !warm)
        add_cutoff(&builder);
    const struct lp_options options = {
        .nodes = input->nodes, .seconds = input->seconds, .start = warm ? builder.start.items : NULL};
    struct lp_result solved = lp_solve(builder.lp, &options);
    struct exact_lp_result result = {
        .status = solved.status, .seconds = solved.objective, .bound = solved.bound, .nodes = solved.nodes};
    if (solved.values != NULL && input->whole)
        result.counts = take_counts(&builder, solved.values);
    if (input->whole && !warm && solved.status == LP_INFEASIBLE)
        result.bound = input->cutoff;
    return result;
}
