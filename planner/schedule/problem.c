/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/problem.h"

#include "shunt/plan_format.h"

uint64_t problem_aligned_bytes(int64_t elements, uint32_t elem_bytes)
{
    uint64_t bytes = (uint64_t)elements * elem_bytes;
    return (bytes + SHUNT_PLAN_MESSAGE_ALIGN - 1) & ~(uint64_t)(SHUNT_PLAN_MESSAGE_ALIGN - 1);
}

/** Per-device sums of the job at hand; only the entries of its devices are ever non-zero. */
struct scratch {
    uint64_t *traffic;
    bool *reads;
};

static void count_traffic(const struct problem *problem, struct job *job, struct scratch *scratch)
{
    const struct route *route = problem->route;
    const struct route_type *type = &route->types[job->type];
    for (uint32_t p = 0; p < type->piece_count; p++) {
        const struct route_piece *piece = &type->pieces[p];
        uint32_t source = route_source(type, job->index, p);
        scratch->reads[source] = true;
        if (source == piece->taker)
            continue;
        uint64_t bytes = problem_aligned_bytes(piece->cell->elements, job->elem_bytes);
        job->largest = bytes > job->largest ? bytes : job->largest;
        scratch->traffic[source] += bytes;
        scratch->traffic[piece->taker] += bytes;
        job->bytes += (uint64_t)piece->cell->elements * job->elem_bytes;
    }
}

static struct job_memory *find_memory(struct arena *arena, struct job *job, uint32_t device, uint32_t capacity)
{
    if (job->memory == NULL)
        job->memory = ARENA_NEW(arena, struct job_memory, capacity);
    if (job->memory_count > 0 && job->memory[job->memory_count - 1].device == device)
        return &job->memory[job->memory_count - 1];
    struct job_memory *memory = &job->memory[job->memory_count++];
    memory->device = device;
    return memory;
}

/** Bytes of one element of an item that count under the cap. */
static uint64_t counted_bytes(const struct side *side, const struct job *job)
{
    return side_tier(side, job->item) == CFG_TIER_HOST ? 0 : job->elem_bytes;
}

/** Merge the type's givers and takers, both ascending, into the job's memory and the device sums. */
static void count_memory(struct arena *arena, struct problem *problem, struct job *job, struct scratch *scratch)
{
    const struct route *route = problem->route;
    const struct route_type *type = &route->types[job->type];
    const struct placement_variant *from_variants = route_from(route, type)->variants;
    const struct placement_variant *to_variants = route_to(route, type)->variants;
    uint64_t from_bytes = counted_bytes(route->from, job), to_bytes = counted_bytes(route->to, job);
    uint32_t g = 0, t = 0, capacity = type->giver_count + type->taker_count;
    while (g < type->giver_count || t < type->taker_count) {
        bool from =
            t == type->taker_count || (g < type->giver_count && type->givers[g].device <= type->takers[t].device);
        uint32_t device = from ? type->givers[g].device : type->takers[t].device;
        bool kept = from ? type->givers[g].kept : type->takers[t].kept;
        uint64_t bytes = from ? from_bytes * (uint64_t)from_variants[type->givers[g].variant].elements
                              : to_bytes * (uint64_t)to_variants[type->takers[t].variant].elements;
        struct problem_device *sums = &problem->devices[device];
        if (from)
            sums->from += bytes;
        else
            sums->to += bytes;
        if (!kept && from && !scratch->reads[device]) {
            sums->unread += bytes;
            problem->frees_unread = true;
        } else if (!kept && from)
            find_memory(arena, job, device, capacity)->release = bytes;
        else if (!kept)
            find_memory(arena, job, device, capacity)->alloc = bytes;
        g += from;
        t += !from;
    }
}

static void reset_scratch(const struct problem *problem, struct job *job, struct scratch *scratch)
{
    const struct route_type *type = &problem->route->types[job->type];
    for (uint32_t i = 0; i < type->giver_count + type->taker_count; i++) {
        uint32_t device = i < type->giver_count ? type->givers[i].device : type->takers[i - type->giver_count].device;
        problem->devices[device].traffic += scratch->traffic[device];
        if (scratch->traffic[device] > job->traffic)
            job->traffic = scratch->traffic[device];
        scratch->traffic[device] = 0;
        scratch->reads[device] = false;
    }
}

static bool type_fills_kept(const struct route *route, const struct route_type *type)
{
    for (uint32_t t = 0; t < type->taker_count; t++) {
        if (type->takers[t].kept && route_to(route, type)->variants[type->takers[t].variant].pad_count > 0)
            return true;
    }
    return false;
}

static void find_maxima(struct problem *problem)
{
    for (uint32_t d = 0; d < problem->route->world->device_count; d++) {
        const struct problem_device *device = &problem->devices[d];
        uint64_t larger = device->from > device->to ? device->from : device->to;
        if (device->from > problem->from_max)
            problem->from_max = device->from;
        if (device->to > problem->to_max)
            problem->to_max = device->to;
        if (device->traffic > problem->traffic_max)
            problem->traffic_max = device->traffic;
        if (device->unread > problem->unread_max)
            problem->unread_max = device->unread;
        if (problem->fixed + larger > problem->peak_lower_bound)
            problem->peak_lower_bound = problem->fixed + larger;
    }
}

struct problem *problem_build(struct arena *arena, const struct route *route, uint64_t cap, uint64_t staging)
{
    const struct space *space = route->space;
    uint32_t devices = route->world->device_count;
    struct problem *problem = ARENA_NEW(arena, struct problem, 1);
    struct scratch scratch = {.traffic = ARENA_NEW(arena, uint64_t, devices), .reads = ARENA_NEW(arena, bool, devices)};
    problem->route = route;
    problem->fixed = route->world->cluster->device_reserve + route->world->cluster->transport_buffers;
    problem->cap = cap;
    problem->staging = staging;
    problem->devices = ARENA_NEW(arena, struct problem_device, devices);
    problem->jobs = ARENA_NEW(arena, struct job, space->item_count);
    for (uint32_t i = 0; i < space->item_count; i++) {
        const struct space_item *item = &space->items[i];
        struct job *job = &problem->jobs[problem->job_count];
        job->item = i;
        job->type = route->item_type[i];
        job->index = route->item_index[i];
        job->elem_bytes = item->elem_bytes;
        count_traffic(problem, job, &scratch);
        count_memory(arena, problem, job, &scratch);
        reset_scratch(problem, job, &scratch);
        if (job->memory_count > 0 || route->types[job->type].piece_count > 0)
            problem->job_count++;
        else
            *job = (struct job){0};
        problem->fills_kept = problem->fills_kept || type_fills_kept(route, &route->types[route->item_type[i]]);
    }
    find_maxima(problem);
    return problem;
}
