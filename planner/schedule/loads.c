/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/loads.h"

#include <stdlib.h>
#include <string.h>

#include "schedule/packed.h"
#include "schedule/pairs.h"
#include "schedule/twins.h"
#include "util/crew.h"

#define DIGIT_BITS 11u
#define DIGITS     (1u << DIGIT_BITS)
#define FEW_PORTS  64u

static int compare_ports(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/** Move ports to `to` in the order of one digit, and as they stood where that is the same. */
static void sort_digit(const uint32_t *ports, uint32_t *to, size_t count, uint32_t shift)
{
    uint32_t begin[DIGITS + 1] = {0};
    for (size_t i = 0; i < count; i++)
        begin[(ports[i] >> shift) % DIGITS + 1]++;
    for (uint32_t d = 0; d < DIGITS; d++)
        begin[d + 1] += begin[d];
    for (size_t i = 0; i < count; i++)
        to[begin[(ports[i] >> shift) % DIGITS]++] = ports[i];
}

/** Ascending; digit by digit where there are many. `spare` has room for all of them. */
static void sort_ports(uint32_t *ports, uint32_t *spare, size_t count, uint32_t port_count)
{
    if (count <= FEW_PORTS) {
        if (count > 1)
            qsort(ports, count, sizeof(*ports), compare_ports);
        return;
    }
    for (uint32_t shift = 0; shift < 32 && port_count >> shift > 0; shift += DIGIT_BITS) {
        sort_digit(ports, spare, count, shift);
        memcpy(ports, spare, count * sizeof(*ports));
    }
}

/** Jobs that are listed at a time. */
#define JOBS_AT_ONCE 16u

/** What one worker has of its own. */
struct lister {
    bool ready;
    struct ports ports;
    struct walk walk;
    uint32_t *spare;
    struct packed packed;
};

struct listing {
    const struct problem *problem;
    struct loads *loads;
    uint32_t *first_unit;   /* by job, and one behind the last */
    struct lister *listers; /* by worker */
    struct batch {
        uint32_t worker;
        size_t begin; /* in what that worker has packed */
    } * batches;      /* of jobs */
};

static struct lister *take_lister(struct arena *arena, struct listing *listing, uint32_t worker)
{
    struct lister *lister = &listing->listers[worker];
    if (lister->ready)
        return lister;
    ports_init(arena, listing->problem, &lister->ports);
    walk_init(arena, listing->problem, &lister->walk);
    lister->spare = ARENA_NEW(arena, uint32_t, lister->ports.count);
    lister->ready = true;
    return lister;
}

/** Pack the loads of some jobs; the number of those of unit u goes to begin[u + 1]. */
static void list_jobs(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    struct listing *listing = context;
    struct loads *loads = listing->loads;
    struct lister *lister = take_lister(arena, listing, worker);
    struct ports *ports = &lister->ports;
    listing->batches[begin / JOBS_AT_ONCE] = (struct batch){worker, packed_begin(&lister->packed)};
    for (uint32_t u = listing->first_unit[begin]; u < listing->first_unit[end]; u++) {
        ports_add_unit(arena, ports, &lister->walk, &loads->units[u]);
        sort_ports(ports->touched.items, lister->spare, ports->touched.count, ports->count);
        packed_add(arena, &lister->packed, ports->touched.items, ports->bytes, ports->touched.count);
        loads->begin[u + 1] = (uint32_t)ports->touched.count;
        ports_clear(ports);
    }
}

/** Go to a unit, one behind the other. @param job  that of the next batch */
static void start_unit(const struct listing *listing, struct unpacker *unpacker, uint32_t *job, uint32_t unit)
{
    unpack_unit(unpacker);
    if (*job >= listing->problem->job_count || listing->first_unit[*job] != unit)
        return;
    const struct batch *batch = &listing->batches[*job / JOBS_AT_ONCE];
    *unpacker = (struct unpacker){.at = listing->listers[batch->worker].packed.bytes + batch->begin};
    *job += JOBS_AT_ONCE;
}

static double load_seconds(const struct ports *ports, uint32_t port, uint64_t bytes)
{
    return (double)bytes * ports_rates(ports, port / PORT_KINDS)->seconds_per_byte[port % PORT_KINDS];
}

/** Sum the loads of all devices, in the order of the units: sums of seconds depend on it. */
static void sum_loads(struct arena *arena, const struct listing *listing, double **later, struct trace *traces)
{
    struct loads *loads = listing->loads;
    struct unpacker unpacker = {0};
    struct ports ports;
    uint32_t job = 0;
    ports_init(arena, listing->problem, &ports);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        double *stage = later[chunk_stage(&loads->units[u].chunking, loads->units[u].chunk)];
        start_unit(listing, &unpacker, &job, u);
        for (uint32_t l = 0; l < loads->begin[u + 1]; l++) {
            uint64_t bytes = unpack_load(&unpacker);
            uint32_t port = unpacker.port, device = port / PORT_KINDS;
            double seconds = load_seconds(&ports, port, bytes);
            loads->total[port] += seconds;
            loads->staged[device] += port_is_wire(port) ? bytes : 0;
            if (stage != NULL)
                stage[port] += seconds;
            if (traces != NULL)
                trace_load(&traces[device], u, port, bytes);
        }
        loads->load_count += loads->begin[u + 1];
    }
}

/** Make the loads of the devices that are not dropped; the numbers of loads in `begin` become their places. */
static void make_loads(struct arena *arena, const struct listing *listing, const bool *dropped, uint64_t kept)
{
    struct loads *loads = listing->loads;
    struct unpacker unpacker = {0};
    struct ports ports;
    uint32_t job = 0, count = 0;
    ports_init(arena, listing->problem, &ports);
    loads->loads = ARENA_NEW(arena, struct load, kept);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        start_unit(listing, &unpacker, &job, u);
        for (uint32_t l = loads->begin[u + 1]; l > 0; l--) {
            uint64_t bytes = unpack_load(&unpacker);
            uint32_t port = unpacker.port;
            if (dropped == NULL || !dropped[port / PORT_KINDS])
                loads->loads[count++] = (struct load){port, bytes, load_seconds(&ports, port, bytes)};
        }
        loads->begin[u + 1] = count;
    }
}

static void find_busiest(struct loads *loads)
{
    for (uint32_t p = 0; p < loads->port_count; p++) {
        if (port_is_link(p) && loads->total[p] > loads->busiest_seconds)
            loads->busiest_seconds = loads->total[p];
    }
    for (uint32_t p = 0; p < loads->port_count; p += PORT_KINDS) {
        double copies = loads->total[p + PORT_PACK] + loads->total[p + PORT_COPY] + loads->total[p + PORT_UNPACK];
        loads->copy_seconds = copies > loads->copy_seconds ? copies : loads->copy_seconds;
    }
}

/** Devices up to which a bit for each pair of them, which is quicker than a table, is little memory. */
#define FEW_DEVICES 20000u

/** Count the pairs that have a message in both devices' `messages`. */
static void count_pairs(struct arena *arena, const struct problem *problem, uint32_t *messages)
{
    size_t devices = problem->route->world->device_count;
    uint64_t *seen = ARENA_NEW(arena, uint64_t, devices * devices / 64 + 1);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        const struct route_type *type = &problem->route->types[job->type];
        for (uint32_t p = 0; p < type->piece_count; p++) {
            uint32_t source = route_source(type, job->index, p), taker = type->pieces[p].taker;
            /* takers in a row are often as far from their sources: their bits are then together */
            size_t apart = source >= taker ? source - taker : source + devices - taker;
            size_t pair = apart * devices + taker;
            if (source == taker || (seen[pair / 64] >> pair % 64 & 1) != 0)
                continue;
            seen[pair / 64] |= UINT64_C(1) << pair % 64;
            messages[source]++;
            messages[taker]++;
        }
    }
}

static uint32_t most_messages(struct arena *arena, const struct problem *problem)
{
    struct pairs pairs = {0};
    uint32_t devices = problem->route->world->device_count, most = 0;
    uint32_t *messages = ARENA_NEW(arena, uint32_t, devices);
    if (devices <= FEW_DEVICES)
        count_pairs(arena, problem, messages);
    for (uint32_t j = 0; devices > FEW_DEVICES && j < problem->job_count; j++) {
        const struct unit whole = {.job = j, .chunking = {.groups = 1, .slices = 1, .stages = 1}};
        pairs_add_unit(arena, &pairs, problem, &whole, 0, messages);
    }
    for (uint32_t d = 0; d < devices; d++)
        most = messages[d] > most ? messages[d] : most;
    return most;
}

/** Cut all jobs. @return by job, its first unit, and their number behind them */
static uint32_t *cut_jobs(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes, struct loads *loads)
{
    uint32_t *first = ARENA_NEW(arena, uint32_t, (size_t)problem->job_count + 1);
    VEC(struct unit) units = {0};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        struct unit unit = {.job = j, .chunking = rounds_cut_job(problem, &problem->jobs[j], chunk_bytes)};
        first[j] = (uint32_t)units.count;
        for (; unit.chunk < chunk_count(&unit.chunking); unit.chunk++)
            *VEC_PUSH(arena, &units) = unit;
    }
    first[problem->job_count] = (uint32_t)units.count;
    loads->units = units.items;
    loads->unit_count = (uint32_t)units.count;
    loads->begin = ARENA_NEW(arena, uint32_t, units.count + 1);
    return first;
}

/** Sums of seconds by port of the units of each stage; those of the first are not asked for. */
static double **later_sums(struct arena *arena, const struct problem *problem, const struct loads *loads)
{
    double **later = ARENA_NEW(arena, double *, ROUTE_STAGES);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        for (uint32_t s = 1; s < problem->jobs[j].stages; s++)
            later[s] = later[s] == NULL ? ARENA_NEW(arena, double, loads->port_count) : later[s];
    }
    return later;
}

static void sum_later(struct loads *loads, double *const *later)
{
    for (uint32_t s = 1; s < ROUTE_STAGES && later[s] != NULL; s++) {
        double most = 0;
        for (uint32_t p = 0; p < loads->port_count; p++)
            most = port_is_wire(p) && later[s][p] > most ? later[s][p] : most;
        loads->later_seconds += most;
    }
}

static uint64_t count_kept(const struct loads *loads, const struct trace *traces, const bool *dropped, uint32_t devices)
{
    uint64_t kept = 0;
    for (uint32_t d = 0; traces != NULL && d < devices; d++)
        kept += dropped[d] ? 0 : traces[d].loads;
    return traces != NULL ? kept : loads->load_count;
}

static struct loads *list_loads(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes, bool few)
{
    uint32_t devices = problem->route->world->device_count;
    struct loads *loads = ARENA_NEW(arena, struct loads, 1);
    struct listing listing = {.problem = problem, .loads = loads};
    loads->port_count = devices * PORT_KINDS;
    loads->total = ARENA_NEW(arena, double, loads->port_count);
    loads->staged = ARENA_NEW(arena, uint64_t, devices);
    listing.first_unit = cut_jobs(arena, problem, chunk_bytes, loads);
    struct crew *crew = crew_open(arena, problem_threads(problem));
    listing.listers = ARENA_NEW(arena, struct lister, crew_size(crew));
    listing.batches = ARENA_NEW(arena, struct batch, problem->job_count / JOBS_AT_ONCE + 1);
    crew_share(crew, problem->job_count, JOBS_AT_ONCE, list_jobs, &listing);
    double **later = later_sums(arena, problem, loads);
    struct trace *traces = few ? twins_begin(arena, problem) : NULL;
    sum_loads(arena, &listing, later, traces);
    const bool *dropped = few ? twins_find(arena, problem, traces) : NULL;
    make_loads(arena, &listing, dropped, count_kept(loads, traces, dropped, devices));
    crew_close(crew);
    find_busiest(loads);
    sum_later(loads, later);
    return loads;
}

struct loads *loads_build(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes)
{
    struct loads *loads = list_loads(arena, problem, chunk_bytes, false);
    loads->most_messages = most_messages(arena, problem);
    return loads;
}

struct loads *loads_build_few(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes,
                              const struct loads *other)
{
    struct loads *loads = list_loads(arena, problem, chunk_bytes, true);
    loads->most_messages = other != NULL ? other->most_messages : most_messages(arena, problem);
    return loads;
}
