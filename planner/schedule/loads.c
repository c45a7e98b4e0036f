/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/loads.h"

#include <stdlib.h>
#include <string.h>

#include "schedule/pairs.h"

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

typedef VEC(struct load) load_vec;

/** Turn what the ports have into the loads of a unit. */
static void take_loads(struct arena *arena, struct ports *ports, struct loads *loads, uint32_t *spare, load_vec *list)
{
    sort_ports(ports->touched.items, spare, ports->touched.count, ports->count);
    for (size_t i = 0; i < ports->touched.count; i++) {
        uint32_t port = ports->touched.items[i];
        struct load *load = VEC_EXTEND(arena, list);
        *load = (struct load){.port = port, .bytes = ports->bytes[port], .seconds = ports_seconds(ports, port)};
        loads->total[port] += load->seconds;
        if (port_is_wire(port))
            loads->staged[port / PORT_KINDS] += load->bytes;
    }
    ports_clear(ports);
}

/** Seconds by port of the units of one stage. */
static double *sum_stage(struct arena *arena, const struct loads *loads, uint32_t stage)
{
    double *seconds = ARENA_NEW(arena, double, loads->port_count);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        if (chunk_stage(&loads->units[u].chunking, loads->units[u].chunk) != stage)
            continue;
        for (uint32_t l = loads->begin[u]; l < loads->begin[u + 1]; l++)
            seconds[loads->loads[l].port] += loads->loads[l].seconds;
    }
    return seconds;
}

static void sum_later(struct arena *arena, const struct problem *problem, struct loads *loads)
{
    uint32_t stages = 1;
    for (uint32_t j = 0; j < problem->job_count; j++)
        stages = problem->jobs[j].stages > stages ? problem->jobs[j].stages : stages;
    for (uint32_t s = 1; s < stages; s++) {
        const double *seconds = sum_stage(arena, loads, s);
        double most = 0;
        for (uint32_t p = 0; p < loads->port_count; p++)
            most = port_is_wire(p) && seconds[p] > most ? seconds[p] : most;
        loads->later_seconds += most;
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

struct loads *loads_build(struct arena *arena, const struct problem *problem, uint64_t chunk_bytes)
{
    struct loads *loads = ARENA_NEW(arena, struct loads, 1);
    struct ports ports;
    struct walk walk;
    ports_init(arena, problem, &ports);
    walk_init(arena, problem, &walk);
    uint32_t *spare = ARENA_NEW(arena, uint32_t, ports.count);
    loads->port_count = ports.count;
    loads->total = ARENA_NEW(arena, double, ports.count);
    loads->staged = ARENA_NEW(arena, uint64_t, problem->route->world->device_count);
    VEC(struct unit) units = {0};
    VEC(uint32_t) begin = {0};
    load_vec list = {0};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        struct chunking chunking = rounds_cut_job(problem, job, chunk_bytes);
        for (uint32_t c = 0; c < chunk_count(&chunking); c++) {
            struct unit unit = {.job = j, .chunk = c, .chunking = chunking};
            ports_add_unit(arena, &ports, &walk, &unit);
            *VEC_PUSH(arena, &units) = unit;
            *VEC_PUSH(arena, &begin) = (uint32_t)list.count;
            take_loads(arena, &ports, loads, spare, &list);
        }
    }
    *VEC_PUSH(arena, &begin) = (uint32_t)list.count;
    loads->units = units.items;
    loads->unit_count = (uint32_t)units.count;
    loads->begin = begin.items;
    loads->loads = list.items;
    find_busiest(loads);
    sum_later(arena, problem, loads);
    loads->most_messages = most_messages(arena, problem);
    return loads;
}
