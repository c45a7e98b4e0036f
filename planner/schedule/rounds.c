/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/rounds.h"

#include <string.h>

#include "schedule/walk.h"

#define FEW_SLICES  512u        /* of all pieces of a job */
#define MOST_STAGED 8192u       /* the same where some are sent on: one device then has many of them, of one spread */
#define STAGED_WORK 1000000000u /* that many times the pieces of all jobs: in a large plan, slices are dear */

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint32_t at_least_one(uint64_t count, uint64_t most)
{
    return count < 1 ? 1 : count > most ? (uint32_t)most : (uint32_t)count;
}

/** Slices of all pieces of a job up to which all are sliced. */
static uint64_t few_slices(const struct problem *problem, const struct job *job)
{
    uint64_t few = STAGED_WORK / (problem->piece_count + 1);
    if (job->stages == 1 || few < FEW_SLICES)
        return FEW_SLICES;
    return few < MOST_STAGED ? few : MOST_STAGED;
}

/**
 * Slices of every piece load all ports alike, and are taken while they are few. Beyond that, as few slices as
 * a single piece needs, and as many groups of pieces as the busiest device asks for.
 */
struct chunking rounds_cut_job(const struct problem *problem, const struct job *job, uint64_t chunk_bytes)
{
    uint32_t pieces = problem->route->types[job->type].piece_count;
    uint64_t chunks = ceil_div(job->traffic, chunk_bytes);
    if (chunks * pieces <= few_slices(problem, job))
        return (struct chunking){.groups = 1, .slices = at_least_one(chunks, ROUNDS_MAX_SLICES), .stages = job->stages};
    struct chunking chunking = {.slices = at_least_one(ceil_div(job->largest, chunk_bytes), ROUNDS_MAX_SLICES),
                                .stages = job->stages};
    chunking.groups = at_least_one(ceil_div(chunks, chunking.slices), pieces);
    return chunking;
}

struct chunk rounds_chunk(const struct problem *problem, const struct job *job, const struct chunking *chunking,
                          uint32_t chunk)
{
    uint32_t stage = chunk_stage(chunking, chunk), in_stage = chunk - stage * chunk_stride(chunking);
    return (struct chunk){.problem = problem,
                          .job = job,
                          .type = &problem->route->types[job->type],
                          .groups = chunking->groups,
                          .slices = chunking->slices,
                          .inverse = UINT64_MAX / chunking->groups + 1,
                          .stages = chunking->stages,
                          .group = in_stage / chunking->slices,
                          .slice = in_stage % chunking->slices,
                          .stage = stage};
}

uint64_t rounds_piece_bytes(const struct chunk *at, uint32_t piece_index, uint32_t *source_out)
{
    const struct route_piece *piece = &at->type->pieces[piece_index];
    *source_out = route_source(at->type, at->job->index, piece_index);
    if (*source_out == piece->taker)
        return 0;
    if (at->slices == 1)
        return problem_aligned_bytes(piece->cell->elements, at->job->elem_bytes);
    int64_t elements = box_slice_volume(&piece->cell->box, at->slice, at->slices);
    return problem_aligned_bytes(elements, at->job->elem_bytes);
}

/** Staging that a device needs for the unit at hand. */
struct slot_load {
    uint64_t bytes;
    uint32_t serial; /* of the unit */
};

static void add_slot_load(struct slot_load *load, uint32_t serial, uint64_t bytes, uint64_t *need)
{
    if (load->serial != serial)
        *load = (struct slot_load){.serial = serial};
    load->bytes += bytes;
    *need = load->bytes > *need ? load->bytes : *need;
}

static void raise_slots(struct walk *walk, struct slot_load *load, uint64_t *need_out)
{
    const struct chunk *at = &walk->chunk;
    for (uint32_t i = 0; i < walk->count; i++) {
        uint32_t p = walk_piece(walk, i), source = route_source(at->type, at->job->index, p);
        uint32_t taker = at->type->pieces[p].taker;
        if (source == taker)
            continue;
        uint64_t bytes = problem_aligned_bytes(walk_elements(walk, at->type->pieces[p].cell), at->job->elem_bytes);
        add_slot_load(&load[source], walk->serial, bytes, &need_out[source]);
        add_slot_load(&load[taker], walk->serial, bytes, &need_out[taker]);
    }
}

uint64_t rounds_least_slots(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes,
                            uint64_t *need_out)
{
    uint32_t devices = problem->route->world->device_count;
    struct slot_load *load = ARENA_NEW(arena, struct slot_load, devices);
    struct walk walk;
    uint64_t largest = 0;
    walk_init(arena, problem, &walk);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        struct unit unit = {.job = j, .chunking = rounds_cut_job(problem, &problem->jobs[j], chunk_bytes)};
        for (; unit.chunk < chunk_count(&unit.chunking); unit.chunk++) {
            walk_unit(arena, &walk, &unit);
            raise_slots(&walk, load, need_out);
        }
    }
    for (uint32_t d = 0; d < devices; d++)
        largest = need_out[d] > largest ? need_out[d] : largest;
    return largest;
}

struct builder {
    const struct problem *problem;
    const struct rounds_options *options;
    uint64_t *memory;           /* by device: buffers live in the open round, its allocs included */
    uint64_t *room;             /* by device: most bytes of buffers under the cap */
    uint64_t *load;             /* by device: staging used in the open round */
    uint64_t *slot;             /* by device: staging a round may use */
    uint32_t *placed;           /* by job: chunks */
    uint32_t *next_chunk;       /* by job and stage */
    uint32_t **chunk_round;     /* by job, if it has several stages, and chunk: the round it was placed in */
    uint32_t *finish_round;     /* by job, once it is finished */
    struct chunking *chunkings; /* by job */
    VEC(struct unit) units;
    VEC(uint32_t) round_begin;
    VEC(uint32_t) read;       /* jobs in the order in which they had read all of the old side */
    VEC(uint32_t) read_begin; /* by round */
    VEC(uint32_t) passed;     /* units behind whose rounds the scratch memory is free that they have been sent from */
    size_t freed;             /* of these */
    uint32_t released_rounds; /* rounds whose frees have been applied */
};

static bool fits_memory(const struct builder *builder, const struct job *job)
{
    for (uint32_t m = 0; m < job->memory_count; m++) {
        const struct job_memory *memory = &job->memory[m];
        if (builder->memory[memory->device] + memory->alloc > builder->room[memory->device])
            return false;
    }
    return true;
}

/** Scratch memory that a piece of a chunk takes on its taker. */
static uint64_t scratch_bytes(const struct chunk *at, uint32_t piece)
{
    if (!at->type->pieces[piece].passing)
        return 0;
    const struct route_cell *cell = at->type->pieces[piece].cell;
    struct box slice = box_slice(&cell->box, at->slice, at->slices);
    return (uint64_t)box_volume(&slice) * at->job->elem_bytes;
}

/** Add (or take back) the first `count` pieces of a chunk; stops at one that does not fit and says how far it came. */
static uint32_t add_load(struct builder *builder, uint32_t j, uint32_t chunk, uint32_t count, bool take_back)
{
    struct chunk at = rounds_chunk(builder->problem, &builder->problem->jobs[j], &builder->chunkings[j], chunk);
    for (uint32_t p = 0; p < count; p++) {
        if (!chunk_has_piece(&at, p))
            continue;
        uint32_t source, taker = at.type->pieces[p].taker;
        uint64_t bytes = rounds_piece_bytes(&at, p, &source), scratch = scratch_bytes(&at, p);
        if (take_back) {
            builder->load[source] -= bytes;
            builder->load[taker] -= bytes;
            builder->memory[taker] -= scratch;
            continue;
        }
        if (builder->load[source] + bytes > builder->slot[source] ||
            builder->load[taker] + bytes > builder->slot[taker] ||
            (scratch > 0 && builder->memory[taker] + scratch > builder->room[taker]))
            return p;
        builder->load[source] += bytes;
        builder->load[taker] += bytes;
        builder->memory[taker] += scratch;
    }
    return count;
}

static bool is_finished(const struct builder *builder, uint32_t j)
{
    return builder->placed[j] == chunk_count(&builder->chunkings[j]);
}

static uint32_t open_round_number(const struct builder *builder)
{
    return (uint32_t)builder->round_begin.count - 1;
}

/** Whether the job before this one is far enough: what round k receives is there in round k + depth. */
static bool may_start(const struct builder *builder, const struct job *job)
{
    if (job->after == JOB_NONE)
        return true;
    if (!is_finished(builder, job->after))
        return false;
    uint32_t wait = job->reads_new ? builder->options->depth : 0;
    return builder->finish_round[job->after] + wait <= open_round_number(builder);
}

/** Whether what the next chunk of a stage sends on is there; of stage 0, it always is. */
static bool is_supplied(const struct builder *builder, uint32_t j, uint32_t stage, uint32_t next)
{
    if (stage == 0)
        return true;
    if (next >= builder->next_chunk[j * ROUTE_STAGES + stage - 1])
        return false;
    uint32_t brought = builder->chunk_round[j][(stage - 1) * chunk_stride(&builder->chunkings[j]) + next];
    return brought + builder->options->depth <= open_round_number(builder);
}

/** Note that the next chunk of a stage goes to the open round. */
static void note_chunk(struct arena *arena, struct builder *builder, uint32_t j, uint32_t stage, uint32_t chunk)
{
    uint32_t *next = &builder->next_chunk[j * ROUTE_STAGES + stage];
    *VEC_PUSH(arena, &builder->units) = (struct unit){.job = j, .chunk = chunk, .chunking = builder->chunkings[j]};
    (*next)++;
    builder->placed[j]++;
    if (builder->chunk_round[j] != NULL)
        builder->chunk_round[j][chunk] = open_round_number(builder);
    if (stage == 0 && *next == chunk_stride(&builder->chunkings[j]))
        *VEC_PUSH(arena, &builder->read) = j;
    if (stage > 0 && builder->problem->jobs[j].passes)
        *VEC_PUSH(arena, &builder->passed) = (uint32_t)builder->units.count - 1;
    if (is_finished(builder, j))
        builder->finish_round[j] = open_round_number(builder);
}

static bool place_of_stage(struct arena *arena, struct builder *builder, uint32_t j, uint32_t stage)
{
    const struct job *job = &builder->problem->jobs[j];
    uint32_t pieces = builder->problem->route->types[job->type].piece_count;
    uint32_t stride = chunk_stride(&builder->chunkings[j]), next = builder->next_chunk[j * ROUTE_STAGES + stage];
    uint32_t chunk = stage * stride + next;
    if (next == stride || !is_supplied(builder, j, stage, next))
        return false;
    if (chunk == 0 && (!may_start(builder, job) || !fits_memory(builder, job)))
        return false;
    for (uint32_t m = 0; chunk == 0 && m < job->memory_count; m++)
        builder->memory[job->memory[m].device] += job->memory[m].alloc;
    uint32_t done = add_load(builder, j, chunk, pieces, false);
    if (done < pieces) {
        add_load(builder, j, chunk, done, true);
        for (uint32_t m = 0; chunk == 0 && m < job->memory_count; m++)
            builder->memory[job->memory[m].device] -= job->memory[m].alloc;
        return false;
    }
    note_chunk(arena, builder, j, stage, chunk);
    return true;
}

/** Place one chunk of a job: of its latest stage that has one to place, so that what is under way ends soon. */
static bool place_chunk(struct arena *arena, struct builder *builder, uint32_t j)
{
    for (uint32_t stage = builder->chunkings[j].stages; stage-- > 0;) {
        if (place_of_stage(arena, builder, j, stage))
            return true;
    }
    return false;
}

/** Apply the frees of all rounds <= open round - depth. */
static void apply_frees(struct builder *builder)
{
    uint32_t open = (uint32_t)builder->read_begin.count - 1;
    while (!builder->options->hold_old && builder->released_rounds + builder->options->depth <= open) {
        uint32_t begin = builder->read_begin.items[builder->released_rounds];
        uint32_t end = builder->read_begin.items[builder->released_rounds + 1];
        for (uint32_t i = begin; i < end; i++) {
            const struct job *job = &builder->problem->jobs[builder->read.items[i]];
            for (uint32_t m = 0; m < job->memory_count; m++)
                builder->memory[job->memory[m].device] -= job->memory[m].release;
        }
        builder->released_rounds++;
    }
}

/** Free the scratch memory that units of rounds <= open round - depth have sent from. */
static void free_passed(struct builder *builder)
{
    uint32_t open = open_round_number(builder);
    for (; open >= builder->options->depth && builder->freed < builder->passed.count; builder->freed++) {
        uint32_t u = builder->passed.items[builder->freed];
        if (u >= builder->round_begin.items[open - builder->options->depth + 1])
            return;
        const struct unit *unit = &builder->units.items[u];
        const struct chunk brought = rounds_chunk(builder->problem, &builder->problem->jobs[unit->job], &unit->chunking,
                                                  unit->chunk - chunk_stride(&unit->chunking));
        for (uint32_t p = 0; p < brought.type->piece_count; p++) {
            if (chunk_has_piece(&brought, p))
                builder->memory[brought.type->pieces[p].taker] -= scratch_bytes(&brought, p);
        }
    }
}

static void open_round(struct arena *arena, struct builder *builder)
{
    *VEC_PUSH(arena, &builder->round_begin) = (uint32_t)builder->units.count;
    *VEC_PUSH(arena, &builder->read_begin) = (uint32_t)builder->read.count;
    memset(builder->load, 0, builder->problem->route->world->device_count * sizeof(*builder->load));
    apply_frees(builder);
    free_passed(builder);
}

/** Fill the open round from the jobs at and behind *head; moves head over finished jobs. */
static void fill_round(struct arena *arena, struct builder *builder, uint32_t *head)
{
    const uint32_t *order = builder->options->order;
    uint32_t looked = 0;
    for (uint32_t i = *head; i < builder->problem->job_count && looked < builder->options->window; i++) {
        uint32_t j = order[i];
        if (is_finished(builder, j))
            continue;
        while (!is_finished(builder, j) && place_chunk(arena, builder, j))
            continue;
        /* in strict order a finished job makes room for the next one in the same round */
        looked += !is_finished(builder, j) || builder->options->window > 1;
    }
    while (*head < builder->problem->job_count && is_finished(builder, order[*head]))
        (*head)++;
}

static void builder_init(struct arena *arena, struct builder *builder, const struct problem *problem,
                         const struct rounds_options *options)
{
    uint32_t devices = problem->route->world->device_count;
    *builder = (struct builder){.problem = problem, .options = options};
    builder->memory = ARENA_NEW(arena, uint64_t, devices);
    builder->room = ARENA_NEW(arena, uint64_t, devices);
    builder->load = ARENA_NEW(arena, uint64_t, devices);
    builder->slot = ARENA_NEW(arena, uint64_t, devices);
    builder->placed = ARENA_NEW(arena, uint32_t, problem->job_count);
    builder->next_chunk = ARENA_NEW(arena, uint32_t, (size_t)problem->job_count * ROUTE_STAGES);
    builder->chunk_round = ARENA_NEW(arena, uint32_t *, problem->job_count);
    builder->finish_round = ARENA_NEW(arena, uint32_t, problem->job_count);
    builder->chunkings = ARENA_NEW(arena, struct chunking, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        builder->chunkings[j] = rounds_cut_job(problem, &problem->jobs[j], options->chunk_bytes);
        if (problem->jobs[j].stages > 1)
            builder->chunk_round[j] = ARENA_NEW(arena, uint32_t, chunk_count(&builder->chunkings[j]));
    }
    rounds_least_slots(arena, problem, options->chunk_bytes, builder->slot);
    for (uint32_t d = 0; d < devices; d++) {
        const struct problem_device *device = &problem->devices[d];
        if (builder->slot[d] < options->slot_bytes)
            builder->slot[d] = options->slot_bytes < device->traffic ? options->slot_bytes : device->traffic;
        uint64_t taken = device->fixed + options->depth * builder->slot[d];
        uint64_t cap = problem_cap(problem, problem->cap, d);
        builder->room[d] = cap > taken ? cap - taken : 0;
        builder->memory[d] = device->from - (options->hold_old ? 0 : device->unread);
    }
}

/** Everything old is there at the start, unread buffers included. */
static bool starts_under_cap(const struct builder *builder)
{
    for (uint32_t d = 0; d < builder->problem->route->world->device_count; d++) {
        if (builder->problem->devices[d].from > builder->room[d])
            return false;
    }
    return true;
}

bool rounds_build(struct arena *arena, const struct problem *problem, const struct rounds_options *options,
                  struct rounds *rounds_out)
{
    struct builder builder;
    builder_init(arena, &builder, problem, options);
    if (!starts_under_cap(&builder))
        return false;
    struct rounds rounds = {.depth = options->depth, .hold_old = options->hold_old};
    if (!options->hold_old && problem->unread_max > 0)
        rounds.idle_rounds = options->depth;
    for (uint32_t k = 0; k < rounds.idle_rounds; k++)
        open_round(arena, &builder);

    uint32_t head = 0, waited = 0;
    while (head < problem->job_count) {
        open_round(arena, &builder);
        size_t before = builder.units.count;
        fill_round(arena, &builder, &head);
        /* an empty round may only wait for frees, or for receives, that are on their way */
        waited = builder.units.count == before ? waited + 1 : 0;
        if (waited > options->depth)
            return false;
    }
    bool needs_one = problem->fills_kept || problem->frees_unread;
    if (builder.round_begin.count == 0 && needs_one)
        open_round(arena, &builder);
    rounds.round_count = (uint32_t)builder.round_begin.count;
    *VEC_PUSH(arena, &builder.round_begin) = (uint32_t)builder.units.count;
    rounds.round_begin = builder.round_begin.items;
    rounds.unit_count = (uint32_t)builder.units.count;
    rounds.units = builder.units.items;
    *rounds_out = rounds;
    return true;
}
