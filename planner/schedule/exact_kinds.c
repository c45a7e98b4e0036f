/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/exact_kinds.h"

#include <stdlib.h>

#define MOST_PIECES 2000000u /* of all units */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/** What one unit asks for, while it is looked at. */
struct sight {
    struct walk walk;
    struct ports ports;
    VEC(struct exact_message) messages;
    VEC(struct load) loads;
};

static int compare_ports(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_messages(const void *a, const void *b)
{
    const struct exact_message *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return (x->taker > y->taker) - (x->taker < y->taker);
}

static void merge_messages(struct sight *sight)
{
    size_t count = 0;
    struct exact_message *list = sight->messages.items;
    if (sight->messages.count > 1)
        qsort(list, sight->messages.count, sizeof(*list), compare_messages);
    for (size_t i = 0; i < sight->messages.count; i++) {
        if (count > 0 && compare_messages(&list[count - 1], &list[i]) == 0)
            list[count - 1].bytes += list[i].bytes;
        else
            list[count++] = list[i];
    }
    sight->messages.count = count;
}

static void look_at(struct arena *arena, struct sight *sight, const struct unit *unit)
{
    struct port_use use;
    sight->messages.count = sight->loads.count = 0;
    walk_unit(arena, &sight->walk, unit);
    for (uint32_t i = 0; i < sight->walk.count; i++) {
        if (!ports_piece(&sight->walk, walk_piece(&sight->walk, i), &use))
            continue;
        ports_add(arena, &sight->ports, &use);
        if (use.source != use.taker)
            *VEC_PUSH(arena, &sight->messages) = (struct exact_message){use.source, use.taker, use.wire};
    }
    merge_messages(sight);
    if (sight->ports.touched.count > 1)
        qsort(sight->ports.touched.items, sight->ports.touched.count, sizeof(uint32_t), compare_ports);
    for (size_t i = 0; i < sight->ports.touched.count; i++) {
        uint32_t port = sight->ports.touched.items[i];
        *VEC_PUSH(arena, &sight->loads) =
            (struct load){port, sight->ports.bytes[port], ports_seconds(&sight->ports, port)};
    }
    ports_clear(&sight->ports);
}

static uint64_t hash_sight(const struct sight *sight)
{
    uint64_t hash = mix(1, sight->loads.count);
    for (size_t i = 0; i < sight->loads.count; i++)
        hash = mix(mix(hash, sight->loads.items[i].port), sight->loads.items[i].bytes);
    for (size_t i = 0; i < sight->messages.count; i++) {
        const struct exact_message *message = &sight->messages.items[i];
        hash = mix(mix(hash, (uint64_t)message->source << 32 | message->taker), message->bytes);
    }
    return hash;
}

struct build {
    const struct problem *problem;
    const struct chunking *chunkings; /* by job */
    uint64_t **hashes;                /* by job and chunk */
    uint64_t *job_hash;               /* by job: what it is by itself */
    uint64_t *key;                    /* by job: with those before and behind it */
    struct sight sight;
    VEC(struct exact_kind) kinds;
    VEC(uint64_t) kind_keys;
    VEC(struct exact_part) parts;
};

/** Whether there is too much to look at. */
static bool is_large(const struct problem *problem, const struct chunking *chunkings)
{
    uint64_t pieces = 0;
    for (uint32_t j = 0; j < problem->job_count && pieces <= MOST_PIECES; j++)
        pieces += (uint64_t)problem->route->types[problem->jobs[j].type].piece_count * chunk_count(&chunkings[j]);
    return pieces > MOST_PIECES;
}

static void hash_job(struct arena *arena, struct build *build, uint32_t j)
{
    const struct job *job = &build->problem->jobs[j];
    const struct chunking *chunking = &build->chunkings[j];
    uint64_t hash = mix(mix(mix(2, chunking->groups), chunking->slices), chunking->stages);
    build->hashes[j] = ARENA_NEW(arena, uint64_t, chunk_count(chunking));
    for (uint32_t c = 0; c < chunk_count(chunking); c++) {
        const struct unit unit = {.job = j, .chunk = c, .chunking = *chunking};
        look_at(arena, &build->sight, &unit);
        build->hashes[j][c] = hash_sight(&build->sight);
        hash = mix(hash, build->hashes[j][c]);
    }
    for (uint32_t m = 0; m < job->memory_count; m++)
        hash = mix(mix(mix(hash, job->memory[m].device), job->memory[m].alloc), job->memory[m].release);
    build->job_hash[j] = mix(hash, job->reads_new);
}

static void hash_jobs(struct arena *arena, struct build *build)
{
    const struct problem *problem = build->problem;
    build->hashes = ARENA_NEW(arena, uint64_t *, problem->job_count);
    build->job_hash = ARENA_NEW(arena, uint64_t, problem->job_count);
    build->key = ARENA_NEW(arena, uint64_t, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        hash_job(arena, build, j);
        build->key[j] = build->job_hash[j];
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        uint32_t after = problem->jobs[j].after;
        if (after == JOB_NONE)
            continue;
        build->key[j] = mix(build->key[j], build->job_hash[after]);
        build->key[after] = mix(mix(build->key[after], 3), build->job_hash[j]);
    }
}

/** The stage in which a device first receives something of a job. */
static uint32_t first_stage(const struct problem *problem, const struct job *job, uint32_t device)
{
    const struct route_type *type = &problem->route->types[job->type];
    uint32_t first = job->stages;
    for (uint32_t p = 0; p < type->piece_count; p++) {
        uint32_t stage = route_stage(type, job->index, p);
        if (type->pieces[p].taker == device && stage < first)
            first = stage;
    }
    return first < job->stages ? first : 0;
}

static void set_memory(struct arena *arena, const struct problem *problem, uint32_t j, struct exact_kind *kind)
{
    const struct job *job = &problem->jobs[j];
    kind->memory_count = job->memory_count;
    kind->memory = ARENA_NEW(arena, struct exact_memory, job->memory_count);
    for (uint32_t m = 0; m < job->memory_count; m++)
        kind->memory[m] =
            (struct exact_memory){.device = job->memory[m].device,
                                  .alloc = job->memory[m].alloc,
                                  .release = job->memory[m].release,
                                  .stage = job->stages > 1 ? first_stage(problem, job, job->memory[m].device) : 0};
}

/** Put each job into its kind. @return false when there are too many */
static bool find_kinds(struct arena *arena, struct build *build, uint32_t most, uint32_t *kind_of_job)
{
    const struct problem *problem = build->problem;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        uint32_t k = 0;
        while (k < build->kinds.count && build->kind_keys.items[k] != build->key[j])
            k++;
        kind_of_job[j] = k;
        if (k < build->kinds.count) {
            build->kinds.items[k].job_count++;
            continue;
        }
        if (k == most)
            return false;
        struct exact_kind kind = {.job_count = 1,
                                  .chunking = build->chunkings[j],
                                  .after = EXACT_NONE,
                                  .reads_new = problem->jobs[j].reads_new};
        set_memory(arena, problem, j, &kind);
        *VEC_PUSH(arena, &build->kinds) = kind;
        *VEC_PUSH(arena, &build->kind_keys) = build->key[j];
    }
    for (size_t k = 0; k < build->kinds.count; k++) {
        build->kinds.items[k].jobs = ARENA_NEW(arena, uint32_t, build->kinds.items[k].job_count);
        build->kinds.items[k].job_count = 0;
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        struct exact_kind *kind = &build->kinds.items[kind_of_job[j]];
        kind->jobs[kind->job_count++] = j;
        if (problem->jobs[j].after == JOB_NONE)
            continue;
        kind->after = kind_of_job[problem->jobs[j].after];
        build->kinds.items[kind->after].followed = true;
    }
    return true;
}

/** Whether two chunks of stage 0, and those that send on what they bring, are alike. */
static bool same_chain(const uint64_t *hashes, const struct chunking *chunking, uint32_t a, uint32_t b)
{
    for (uint32_t s = 0; s < chunking->stages; s++) {
        if (hashes[a + s * chunk_stride(chunking)] != hashes[b + s * chunk_stride(chunking)])
            return false;
    }
    return true;
}

static void set_asked(struct arena *arena, struct build *build, uint32_t j, struct exact_part *part)
{
    const struct unit unit = {.job = j, .chunk = part->chunks[0], .chunking = build->chunkings[j]};
    look_at(arena, &build->sight, &unit);
    part->load_count = (uint32_t)build->sight.loads.count;
    part->message_count = (uint32_t)build->sight.messages.count;
    part->loads = ARENA_NEW(arena, struct load, part->load_count);
    part->messages = ARENA_NEW(arena, struct exact_message, part->message_count);
    for (uint32_t l = 0; l < part->load_count; l++) {
        part->loads[l] = build->sight.loads.items[l];
        part->sends = part->sends || port_is_link(part->loads[l].port);
    }
    for (uint32_t i = 0; i < part->message_count; i++)
        part->messages[i] = build->sight.messages.items[i];
}

/** The parts of one chain: all stages of the chunks that are like chunk `first`. */
static void add_chain(struct arena *arena, struct build *build, uint32_t k, uint32_t first, const uint32_t *chain_of)
{
    const struct exact_kind *kind = &build->kinds.items[k];
    uint32_t stride = chunk_stride(&kind->chunking), before = EXACT_NONE;
    for (uint32_t s = 0; s < kind->chunking.stages; s++) {
        struct exact_part part = {
            .kind = k, .stage = s, .before = before, .chunks = ARENA_NEW(arena, uint32_t, stride)};
        for (uint32_t c = first; c < stride; c++) {
            if (chain_of[c] == first)
                part.chunks[part.chunk_count++] = c + s * stride;
        }
        set_asked(arena, build, kind->jobs[0], &part);
        before = (uint32_t)build->parts.count;
        *VEC_PUSH(arena, &build->parts) = part;
    }
}

static bool find_parts(struct arena *arena, struct build *build, uint32_t most)
{
    for (uint32_t k = 0; k < build->kinds.count; k++) {
        struct exact_kind *kind = &build->kinds.items[k];
        const uint64_t *hashes = build->hashes[kind->jobs[0]];
        uint32_t stride = chunk_stride(&kind->chunking);
        uint32_t *chain_of = ARENA_NEW(arena, uint32_t, stride), *firsts = ARENA_NEW(arena, uint32_t, stride);
        uint32_t chains = 0;
        kind->part_begin = (uint32_t)build->parts.count;
        for (uint32_t c = 0; c < stride; c++) {
            uint32_t i = 0;
            while (i < chains && !same_chain(hashes, &kind->chunking, firsts[i], c))
                i++;
            if (i == chains)
                firsts[chains++] = c;
            chain_of[c] = firsts[i];
            if (build->parts.count + (size_t)chains * kind->chunking.stages > most)
                return false;
        }
        for (uint32_t i = 0; i < chains; i++)
            add_chain(arena, build, k, firsts[i], chain_of);
        kind->part_end = (uint32_t)build->parts.count;
    }
    return true;
}

struct exact_kinds *exact_kinds_build(struct arena *arena, const struct problem *problem,
                                      const struct chunking *chunkings, uint32_t most_parts)
{
    struct build build = {.problem = problem, .chunkings = chunkings};
    struct exact_kinds *kinds = ARENA_NEW(arena, struct exact_kinds, 1);
    walk_init(arena, problem, &build.sight.walk);
    ports_init(arena, problem, &build.sight.ports);
    kinds->kind_of_job = ARENA_NEW(arena, uint32_t, problem->job_count);
    kinds->port_count = build.sight.ports.count;
    if (is_large(problem, chunkings))
        return NULL;
    hash_jobs(arena, &build);
    if (!find_kinds(arena, &build, most_parts, kinds->kind_of_job) || !find_parts(arena, &build, most_parts))
        return NULL;
    kinds->kind_count = (uint32_t)build.kinds.count;
    kinds->kinds = build.kinds.items;
    kinds->part_count = (uint32_t)build.parts.count;
    kinds->parts = build.parts.items;
    return kinds;
}
