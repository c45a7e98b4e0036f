/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/rounds_bound.h"

#include <math.h>

#include "schedule/pairs.h"

/** Payload of one device over the whole move. */
struct device_sums {
    uint64_t node_out, node_in, net_out, net_in, packed, copied, unpacked;
};

static void add_job(const struct problem *problem, const struct job *job, struct device_sums *sums)
{
    const struct route *route = problem->route;
    const struct route_type *type = &route->types[job->type];
    const struct world_device *devices = route->world->devices;
    uint64_t new_bytes = route->space->items[job->item].elem_bytes[SPACE_TO];
    for (uint32_t p = 0; p < type->piece_count; p++) {
        uint32_t source = route_source(type, job->index, p), taker = type->pieces[p].taker;
        uint64_t elements = (uint64_t)type->pieces[p].cell->elements, bytes = elements * job->elem_bytes;
        if (source == taker) {
            sums[taker].copied += elements * new_bytes;
            continue;
        }
        bool inside = devices[source].node == devices[taker].node;
        *(inside ? &sums[source].node_out : &sums[source].net_out) += bytes;
        *(inside ? &sums[taker].node_in : &sums[taker].net_in) += bytes;
        sums[source].packed += bytes;
        sums[taker].unpacked += type->pieces[p].passing ? bytes : elements * new_bytes;
    }
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

/** Staging that a device may have: what is asked for, or what the cap leaves. */
static double staging_of(const struct problem *problem, uint32_t device)
{
    const struct problem_device *sums = &problem->devices[device];
    uint64_t taken = sums->fixed + (sums->from > sums->to ? sums->from : sums->to);
    uint64_t cap = problem_cap(problem, problem->cap, device), left = cap > taken ? cap - taken : 0;
    return (double)(left < problem->staging ? left : problem->staging);
}

struct bound_work {
    const struct problem *problem;
    struct rounds_bound bound;
};

/** Seconds and rounds of one depth: `wire` and `copies` are of the device with most of each, one after the other. */
struct depth_bound {
    double seconds, copies, rounds;
};

/** Seconds of a device over the whole move. */
struct device_seconds {
    double wire, copies;
};

static struct device_seconds seconds_of(const struct cfg_machine *machine, const struct device_sums *sums)
{
    return (struct device_seconds){
        .wire = most(most((double)sums->node_out, (double)sums->node_in) / machine->intra_node,
                     most((double)sums->net_out, (double)sums->net_in) / machine->inter_node),
        .copies = (double)sums->packed / machine->pack + (double)sums->copied / machine->copy +
                  (double)sums->unpacked / machine->unpack};
}

static void raise_bounds(const struct problem *problem, uint32_t device, const struct device_sums *sums,
                         uint32_t messages, struct depth_bound *one, struct depth_bound *two)
{
    const struct world *world = problem->route->world;
    const struct device_seconds own = seconds_of(world_machine(world, device), sums);
    double message_seconds = world->cluster->message_seconds, staging = staging_of(problem, device);
    double traffic = (double)(sums->node_out + sums->node_in) + (double)(sums->net_out + sums->net_in);
    double rounds = traffic > 0 && staging > 0 ? ceil(traffic / staging) : 0, both = most(2 * rounds - 1, rounds);
    one->rounds = most(one->rounds, rounds);
    two->rounds = most(two->rounds, both);
    one->seconds = most(one->seconds, own.wire + own.copies + most(messages, rounds) * message_seconds);
    two->seconds = most(two->seconds, own.wire + most(messages, both) * message_seconds);
    two->copies = most(two->copies, own.copies);
}

static void compute(struct arena *scratch, void *context)
{
    struct bound_work *work = context;
    const struct problem *problem = work->problem;
    uint32_t devices = problem->route->world->device_count;
    struct device_sums *sums = ARENA_NEW(scratch, struct device_sums, devices);
    uint32_t *messages = ARENA_NEW(scratch, uint32_t, devices);
    struct pairs pairs = {0};
    struct depth_bound one = {0}, two = {0};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct unit whole = {.job = j, .chunking = {.groups = 1, .slices = 1, .stages = 1}};
        add_job(problem, &problem->jobs[j], sums);
        pairs_add_unit(scratch, &pairs, problem, &whole, 0, messages);
    }
    for (uint32_t d = 0; d < devices; d++)
        raise_bounds(problem, d, &sums[d], messages[d], &one, &two);
    double round_seconds = problem->route->world->cluster->round_seconds;
    double serial = one.seconds + one.rounds * round_seconds;
    double overlapped = most(two.seconds, two.copies) + two.rounds * round_seconds;
    work->bound = (struct rounds_bound){.seconds = serial < overlapped ? serial : overlapped,
                                        .rounds = two.rounds < UINT32_MAX ? (uint32_t)two.rounds : UINT32_MAX};
}

struct rounds_bound rounds_bound_compute(struct arena *arena, const struct problem *problem)
{
    struct bound_work work = {.problem = problem};
    arena_with_scratch(arena, compute, &work);
    return work.bound;
}
