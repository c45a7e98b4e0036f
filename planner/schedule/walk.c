/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/walk.h"

#include <string.h>

void walk_init(struct arena *arena, const struct problem *problem, struct walk *walk_out)
{
    uint32_t most = 0;
    for (uint32_t t = 0; t < problem->route->type_count; t++)
        most = problem->route->types[t].cell_count > most ? problem->route->types[t].cell_count : most;
    *walk_out = (struct walk){.problem = problem,
                              .jobs = ARENA_NEW(arena, struct walk_job, problem->job_count),
                              .cells = ARENA_NEW(arena, struct walk_cell, most)};
}

/** The chunk of all slices of a stage and group that a piece is in. */
static uint32_t bin_of(const struct chunk *chunk, uint32_t piece)
{
    uint32_t stage = chunk->stages == 1 ? 0 : route_stage(chunk->type, chunk->job->index, piece);
    return stage * chunk->groups + chunk_group(chunk, piece);
}

/** Sort the pieces of the job at hand by counting. */
static void sort_job(struct arena *arena, const struct chunk *chunk, struct walk_job *job)
{
    uint32_t bins = chunk->stages * chunk->groups, pieces = chunk->type->piece_count;
    if (job->pieces == NULL)
        job->pieces = ARENA_NEW(arena, uint32_t, pieces);
    job->begin = ARENA_NEW(arena, uint32_t, (size_t)bins + 2) + 1;
    job->groups = chunk->groups;
    job->stages = chunk->stages;
    for (uint32_t p = 0; p < pieces; p++)
        job->begin[bin_of(chunk, p) + 1]++;
    for (uint32_t b = 0; b < bins; b++)
        job->begin[b + 1] += job->begin[b];
    for (uint32_t p = 0; p < pieces; p++)
        job->pieces[job->begin[bin_of(chunk, p)]++] = p;
    job->begin--; /* each entry moved on to the end of its bin: the beginning of the next */
}

static struct walk_item describe_item(const struct problem *problem, uint32_t index)
{
    const struct route *route = problem->route;
    const struct space_item *item = &route->space->items[index];
    return (struct walk_item){.wire_bytes = item->wire_bytes,
                              .read_bytes = shunt_dtype_bytes(item->read_dtype),
                              .new_bytes = item->elem_bytes[SPACE_TO],
                              .old_in_host = side_tier(route->from, item->derived_from) == CFG_TIER_HOST,
                              .fresh_in_host = side_tier(route->to, item->derived_from) == CFG_TIER_HOST,
                              .to_host = side_tier(route->to, index) == CFG_TIER_HOST,
                              .read = item->derived_from};
}

void walk_unit(struct arena *arena, struct walk *walk, const struct unit *unit)
{
    struct walk_job *job = &walk->jobs[unit->job];
    walk->chunk = rounds_chunk(walk->problem, &walk->problem->jobs[unit->job], &unit->chunking, unit->chunk);
    walk->item = describe_item(walk->problem, walk->chunk.job->item);
    walk->sources = &walk->chunk.type->sources[(size_t)walk->chunk.job->index * walk->chunk.type->piece_count];
    walk->serial++;
    walk->count = walk->chunk.type->piece_count;
    walk->pieces = NULL;
    if (walk->chunk.stages * walk->chunk.groups == 1)
        return;
    if (job->groups != walk->chunk.groups || job->stages != walk->chunk.stages)
        sort_job(arena, &walk->chunk, job);
    uint32_t bin = walk->chunk.stage * walk->chunk.groups + walk->chunk.group;
    walk->pieces = &job->pieces[job->begin[bin]];
    walk->count = job->begin[bin + 1] - job->begin[bin];
}

int64_t walk_slice_elements(struct walk *walk, const struct route_cell *cell)
{
    struct walk_cell *known = &walk->cells[cell->number];
    if (known->serial != walk->serial) {
        int64_t elements = box_slice_volume(&cell->box, walk->chunk.slice, walk->chunk.slices);
        *known = (struct walk_cell){.serial = walk->serial, .elements = elements};
    }
    return known->elements;
}
