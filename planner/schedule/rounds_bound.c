/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/rounds_bound.h"

#include <math.h>

#include "schedule/pairs.h"
#include "schedule/ports.h"
#include "schedule/walk.h"

/** What the whole move asks of every device. */
struct totals {
    struct ports ports;
    uint32_t *messages; /* by device: distinct pairs */
    uint64_t *longest;  /* by device: most bytes between it and one device of another node */
};

static double most(double a, double b)
{
    return a > b ? a : b;
}

/** Bytes between two devices of different nodes, however many messages they are sent in. */
static void raise_longest(struct arena *arena, struct totals *totals, struct pairs *pairs, const struct port_use *use)
{
    const struct world_device *devices = totals->ports.world->devices;
    uint64_t bytes = pairs_extend(arena, pairs, use->source, use->taker, 0, use->wire);
    totals->messages[use->source] += bytes == use->wire;
    totals->messages[use->taker] += bytes == use->wire;
    if (devices[use->source].node == devices[use->taker].node)
        return;
    if (bytes > totals->longest[use->source])
        totals->longest[use->source] = bytes;
    if (bytes > totals->longest[use->taker])
        totals->longest[use->taker] = bytes;
}

static void add_job(struct arena *arena, struct walk *walk, uint32_t j, struct pairs *pairs, struct totals *totals)
{
    const struct unit whole = {.job = j, .chunking = {.groups = 1, .slices = 1, .stages = 1}};
    struct port_use use;
    walk_unit(arena, walk, &whole);
    for (uint32_t i = 0; i < walk->count; i++) {
        if (!ports_piece(walk, walk_piece(walk, i), &use))
            continue;
        ports_add(arena, &totals->ports, &use);
        if (use.source != use.taker)
            raise_longest(arena, totals, pairs, &use);
    }
}

static void sum_jobs(struct arena *arena, const struct problem *problem, struct totals *totals)
{
    uint32_t devices = problem->route->world->device_count;
    struct pairs pairs = {0};
    struct walk walk;
    walk_init(arena, problem, &walk);
    ports_init(arena, problem, &totals->ports);
    totals->messages = ARENA_NEW(arena, uint32_t, devices);
    totals->longest = ARENA_NEW(arena, uint64_t, devices);
    for (uint32_t j = 0; j < problem->job_count; j++)
        add_job(arena, &walk, j, &pairs, totals);
}

/** Staging that a device may have: what is asked for, or what the cap leaves. */
static double staging_of(const struct problem *problem, uint32_t device)
{
    const struct problem_device *sums = &problem->devices[device];
    uint64_t taken = sums->fixed + (sums->from > sums->to ? sums->from : sums->to);
    uint64_t cap = problem_cap(problem, problem->cap, device), left = cap > taken ? cap - taken : 0;
    return (double)(left < problem->staging ? left : problem->staging);
}

/** Seconds of a device over the whole move, by what bounds a round; messages apart. */
struct device_seconds {
    double link, pool, before, behind;
    double traffic; /* bytes through its staging */
};

static struct device_seconds seconds_of(const struct totals *totals, uint32_t device)
{
    const struct ports *ports = &totals->ports;
    double seconds[PORT_KINDS];
    struct device_seconds sum = {.link = (double)totals->longest[device] * ports_rates(ports, device)->message};
    for (uint32_t kind = 0; kind < PORT_KINDS; kind++) {
        uint32_t port = device * PORT_KINDS + kind;
        seconds[kind] = ports_seconds(ports, port);
        sum.traffic += port_is_wire(port) ? (double)ports->bytes[port] : 0;
        sum.link = port_is_wire(port) ? most(sum.link, seconds[kind]) : sum.link;
    }
    sum.pool = most(seconds[PORT_POOL_OUT], seconds[PORT_POOL_IN]);
    sum.before = most(seconds[PORT_PACK] + seconds[PORT_COPY], most(seconds[PORT_HOST_READ], seconds[PORT_HOST_COPY]));
    sum.behind = most(seconds[PORT_UNPACK], seconds[PORT_HOST_WRITE]);
    return sum;
}

/** Seconds and rounds of one depth; what comes before groups and behind them is each of the device with most of it. */
struct depth_bound {
    double wire, before, behind, rounds;
};

static void raise_depth(struct depth_bound *bound, const struct device_seconds *own, double messages, double rounds)
{
    bound->wire = most(bound->wire, most(own->link + messages, own->pool));
    bound->before = most(bound->before, own->before);
    bound->behind = most(bound->behind, own->behind);
    bound->rounds = most(bound->rounds, rounds);
}

static void raise_bounds(const struct problem *problem, uint32_t device, const struct totals *totals,
                         struct depth_bound *one, struct depth_bound *two)
{
    const struct device_seconds own = seconds_of(totals, device);
    double message_seconds = problem->route->world->cluster->message_seconds, staging = staging_of(problem, device);
    double rounds = own.traffic > 0 && staging > 0 ? ceil(own.traffic / staging) : 0,
           both = most(2 * rounds - 1, rounds);
    double messages = totals->messages[device];
    raise_depth(one, &own, most(messages, rounds) * message_seconds, rounds);
    raise_depth(two, &own, most(messages, both) * message_seconds, both);
}

struct bound_work {
    const struct problem *problem;
    struct rounds_bound bound;
};

/**
 * With one slot, groups and copies follow each other. With two, the time of a round is the most of its group and of the
 * copies beside it: so all groups together, or all copies, whichever takes longer.
 */
static void compute(struct arena *scratch, void *context)
{
    struct bound_work *work = context;
    const struct problem *problem = work->problem;
    struct totals totals;
    struct depth_bound one = {0}, two = {0};
    sum_jobs(scratch, problem, &totals);
    for (uint32_t d = 0; d < problem->route->world->device_count; d++)
        raise_bounds(problem, d, &totals, &one, &two);
    double round_seconds = problem->route->world->cluster->round_seconds;
    double serial = one.wire + one.before + one.behind + one.rounds * round_seconds;
    double overlapped = most(two.wire, two.before + two.behind) + two.rounds * round_seconds;
    work->bound = (struct rounds_bound){.seconds = serial < overlapped ? serial : overlapped,
                                        .rounds = two.rounds < UINT32_MAX ? (uint32_t)two.rounds : UINT32_MAX};
}

struct rounds_bound rounds_bound_compute(struct arena *arena, const struct problem *problem)
{
    struct bound_work work = {.problem = problem};
    arena_with_scratch(arena, compute, &work);
    return work.bound;
}
