/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/problem.h"

#include "schedule/pairs.h"

/** Per-device sums of the job at hand; only the entries of its devices are ever non-zero. */
struct scratch {
    uint64_t *traffic;
    bool *reads;         /* the old buffer that the job reads */
    bool *reads_derived; /* the old buffer of the job's item, read by the job of the item derived from it */
};

static void count_traffic(const struct problem *problem, struct job *job, struct scratch *scratch)
{
    const struct route *route = problem->route;
    const struct route_type *type = &route->types[job->type];
    for (uint32_t p = 0; p < type->piece_count; p++) {
        const struct route_piece *piece = &type->pieces[p];
        uint32_t source = route_source(type, job->index, p), stage = route_stage(type, job->index, p);
        job->reads_new = job->reads_new || piece->fresh;
        job->stages = stage < job->stages ? job->stages : stage + 1;
        job->passes = job->passes || piece->passing;
        scratch->reads[source] = scratch->reads[source] || (!piece->fresh && stage == 0);
        if (source == piece->taker)
            continue;
        uint64_t bytes = problem_aligned_bytes(piece->cell->elements, job->elem_bytes);
        job->largest = bytes > job->largest ? bytes : job->largest;
        scratch->traffic[source] += bytes;
        scratch->traffic[piece->taker] += bytes;
        job->bytes += (uint64_t)piece->cell->elements * job->elem_bytes;
    }
}

/** Item that is derived from this one; the item itself when none is. */
static uint32_t find_derived(const struct space *space, uint32_t item)
{
    const struct space_family *family = &space->families[space->items[item].family];
    uint32_t begin = item - (item - family->item_begin) % family->state_count;
    for (uint32_t i = begin; i < begin + family->state_count; i++) {
        if (i != item && space->items[i].derived_from == item)
            return i;
    }
    return item;
}

/** Mark (or clear) the devices whose old buffers of the job's item another job reads. */
static void mark_derived(const struct problem *problem, const struct job *job, struct scratch *scratch, bool reads)
{
    const struct route *route = problem->route;
    uint32_t derived = find_derived(route->space, job->item);
    const struct route_type *type = &route->types[route->item_type[derived]];
    for (uint32_t p = 0; derived != job->item && p < type->piece_count; p++) {
        if (!type->pieces[p].fresh && route_stage(type, route->item_index[derived], p) == 0)
            scratch->reads_derived[route_source(type, route->item_index[derived], p)] = reads;
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

/** Bytes of one element of an item on a side that count under the cap. */
static uint64_t counted_bytes(const struct side *side, enum space_side which, uint32_t item)
{
    return side_tier(side, item) == CFG_TIER_HOST ? 0 : side->space->items[item].elem_bytes[which];
}

/** Old and new buffers of the job's item in the sums of their devices; old ones that nobody reads. */
static void sum_buffers(struct problem *problem, const struct job *job, const struct scratch *scratch)
{
    const struct route *route = problem->route;
    const struct route_type *type = &route->types[job->type];
    uint64_t old_bytes = counted_bytes(route->from, SPACE_FROM, job->item);
    uint64_t new_bytes = counted_bytes(route->to, SPACE_TO, job->item);
    for (uint32_t o = 0; o < type->owner_count; o++) {
        const struct route_member *owner = &type->owners[o];
        struct problem_device *sums = &problem->devices[owner->device];
        uint64_t bytes = (uint64_t)route_own(route, type)->variants[owner->variant].elements * old_bytes;
        bool read = (scratch->reads[owner->device] && !type->key.derived) || scratch->reads_derived[owner->device];
        sums->from += bytes;
        if (owner->kept || read)
            continue;
        sums->unread += bytes;
        problem->frees_unread = true;
    }
    for (uint32_t t = 0; t < type->taker_count; t++) {
        const struct route_member *taker = &type->takers[t];
        problem->devices[taker->device].to +=
            (uint64_t)route_to(route, type)->variants[taker->variant].elements * new_bytes;
    }
}

/** Whether the job releases the old buffer that it reads on a device: it is not kept, and no later job reads it. */
static bool releases(const struct route *route, const struct job *job, const struct route_member *giver,
                     const struct scratch *scratch)
{
    const struct route_type *type = &route->types[job->type];
    if (!scratch->reads[giver->device] || scratch->reads_derived[giver->device])
        return false;
    if (!type->key.derived)
        return !giver->kept;
    const struct route_type *read = &route->types[route->item_type[route->space->items[job->item].derived_from]];
    const struct route_member *owner = route_find_member(read->owners, read->owner_count, giver->device);
    return owner == NULL || !owner->kept;
}

/** Merge the type's givers and takers, both ascending, into the job's memory. */
static void count_memory(struct arena *arena, const struct problem *problem, struct job *job,
                         const struct scratch *scratch)
{
    const struct route *route = problem->route;
    const struct route_type *type = &route->types[job->type];
    uint64_t read_bytes = counted_bytes(route->from, SPACE_FROM, route->space->items[job->item].derived_from);
    uint64_t new_bytes = counted_bytes(route->to, SPACE_TO, job->item);
    uint32_t g = 0, t = 0, capacity = type->giver_count + type->taker_count;
    while (g < type->giver_count || t < type->taker_count) {
        if (t == type->taker_count || (g < type->giver_count && type->givers[g].device <= type->takers[t].device)) {
            const struct route_member *giver = &type->givers[g++];
            if (releases(route, job, giver, scratch))
                find_memory(arena, job, giver->device, capacity)->release =
                    (uint64_t)route_from(route, type)->variants[giver->variant].elements * read_bytes;
        } else {
            const struct route_member *taker = &type->takers[t++];
            if (!taker->kept)
                find_memory(arena, job, taker->device, capacity)->alloc =
                    (uint64_t)route_to(route, type)->variants[taker->variant].elements * new_bytes;
        }
    }
}

static void reset_device(const struct problem *problem, struct job *job, struct scratch *scratch, uint32_t device)
{
    problem->devices[device].traffic += scratch->traffic[device];
    if (scratch->traffic[device] > job->traffic)
        job->traffic = scratch->traffic[device];
    scratch->traffic[device] = 0;
    scratch->reads[device] = false;
}

static void reset_scratch(const struct problem *problem, struct job *job, struct scratch *scratch)
{
    const struct route_type *type = &problem->route->types[job->type];
    for (uint32_t g = 0; g < type->giver_count; g++)
        reset_device(problem, job, scratch, type->givers[g].device);
    for (uint32_t t = 0; t < type->taker_count; t++)
        reset_device(problem, job, scratch, type->takers[t].device);
    for (uint32_t p = 0; p < type->piece_count; p++) {
        if (type->pieces[p].passing)
            reset_device(problem, job, scratch, type->pieces[p].taker);
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
    for (uint32_t j = 0; j < problem->job_count; j++)
        problem->piece_count += problem->route->types[problem->jobs[j].type].piece_count;
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
        if (device->fixed + larger > problem->peak_lower_bound)
            problem->peak_lower_bound = device->fixed + larger;
    }
}

/** A job whose item is derived from that of another job comes after it. */
static void order_pairs(struct arena *arena, struct problem *problem)
{
    const struct space *space = problem->route->space;
    if (!space->changes)
        return;
    uint32_t *job_of = ARENA_NEW(arena, uint32_t, space->item_count); /* + 1 */
    for (uint32_t j = 0; j < problem->job_count; j++)
        job_of[problem->jobs[j].item] = j + 1;
    for (uint32_t j = 0; j < problem->job_count; j++) {
        uint32_t read = space->items[problem->jobs[j].item].derived_from;
        if (read != problem->jobs[j].item && job_of[read] != 0)
            problem->jobs[j].after = job_of[read] - 1;
    }
}

/** Distinct devices that each one exchanges messages with; all zero where that takes no memory. */
static uint32_t *count_peers(struct arena *arena, const struct route *route)
{
    uint32_t *peers = ARENA_NEW(arena, uint32_t, route->world->device_count);
    struct pairs pairs = {0};
    for (uint32_t t = 0; route->world->cluster->transport_per_peer > 0 && t < route->type_count; t++) {
        const struct route_type *type = &route->types[t];
        for (uint64_t i = 0; i < (uint64_t)type->item_count * type->piece_count; i++) {
            uint32_t piece = (uint32_t)(i % type->piece_count), taker = type->pieces[piece].taker;
            uint32_t source = route_source(type, (uint32_t)(i / type->piece_count), piece);
            uint32_t low = source < taker ? source : taker, high = source < taker ? taker : source;
            if (low == high || !pairs_add(arena, &pairs, low, high, 0))
                continue;
            peers[low]++;
            peers[high]++;
        }
    }
    return peers;
}

/**
 * What each device has, and what is taken of it. Of a memory that is less than others have, plans may count the last
 * part of SHUNT_PLAN_SHORT_BYTES as missing.
 */
static void set_memory(struct arena *arena, struct problem *problem)
{
    const struct world *world = problem->route->world;
    const struct cfg_cluster *cluster = world->cluster;
    const uint32_t *peers = count_peers(arena, problem->route);
    uint64_t most = world_most_memory(world);
    for (uint32_t d = 0; d < world->device_count; d++) {
        struct problem_device *device = &problem->devices[d];
        uint64_t memory = world_machine(world, d)->memory;
        device->fixed = cluster->device_reserve + cluster->transport_buffers + peers[d] * cluster->transport_per_peer;
        device->memory = PROBLEM_NO_CAP;
        if (memory < most)
            device->memory = memory > SHUNT_PLAN_SHORT_BYTES ? memory - (SHUNT_PLAN_SHORT_BYTES - 1) : 0;
    }
}

struct problem *problem_build(struct arena *arena, const struct route *route, uint64_t cap, uint64_t staging)
{
    const struct space *space = route->space;
    uint32_t devices = route->world->device_count;
    struct problem *problem = ARENA_NEW(arena, struct problem, 1);
    struct scratch scratch = {.traffic = ARENA_NEW(arena, uint64_t, devices),
                              .reads = ARENA_NEW(arena, bool, devices),
                              .reads_derived = ARENA_NEW(arena, bool, devices)};
    problem->route = route;
    problem->cap = cap;
    problem->staging = staging;
    problem->devices = ARENA_NEW(arena, struct problem_device, devices);
    set_memory(arena, problem);
    problem->jobs = ARENA_NEW(arena, struct job, space->item_count);
    for (uint32_t i = 0; i < space->item_count; i++) {
        const struct space_item *item = &space->items[i];
        struct job *job = &problem->jobs[problem->job_count];
        job->item = i;
        job->type = route->item_type[i];
        job->index = route->item_index[i];
        job->elem_bytes = item->wire_bytes;
        job->after = JOB_NONE;
        job->stages = 1;
        count_traffic(problem, job, &scratch);
        mark_derived(problem, job, &scratch, true);
        sum_buffers(problem, job, &scratch);
        count_memory(arena, problem, job, &scratch);
        mark_derived(problem, job, &scratch, false);
        reset_scratch(problem, job, &scratch);
        if (job->memory_count > 0 || route->types[job->type].piece_count > 0)
            problem->job_count++;
        else
            *job = (struct job){0};
        problem->fills_kept = problem->fills_kept || type_fills_kept(route, &route->types[route->item_type[i]]);
    }
    order_pairs(arena, problem);
    find_maxima(problem);
    return problem;
}
