/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/lanes.h"

#include <stdlib.h>
#include <string.h>

/** How finely proportions are compared, from fine to the set of devices alone. */
static const uint32_t grains[] = {64, 8, 2, 0};
#define GRAIN_COUNT (sizeof(grains) / sizeof(grains[0]))

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/** Share of a whole, rounded to a grain. */
static uint64_t share(double part, double whole, uint32_t grain)
{
    if (grain == 0 || whole <= 0)
        return part > 0;
    return (uint64_t)(part / whole * grain + 0.5);
}

/** What the whole of a job brings: its loads are those of a single unit. */
struct whole {
    struct loads *loads; /* one unit per job */
    uint64_t *bytes;     /* by job */
};

static struct whole weigh_jobs(struct arena *arena, const struct problem *problem)
{
    struct whole whole = {.loads = loads_build(arena, problem, UINT64_MAX / 4),
                          .bytes = ARENA_NEW(arena, uint64_t, problem->job_count)};
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        for (uint32_t m = 0; m < job->memory_count; m++)
            whole.bytes[j] += job->memory[m].alloc + job->memory[m].release;
        for (uint32_t l = whole.loads->begin[j]; l < whole.loads->begin[j + 1]; l++)
            whole.bytes[j] += whole.loads->loads[l].bytes;
    }
    return whole;
}

/** Jobs of one direction have one hash, and with 64 bits nothing else has it. */
static uint64_t direction_of(const struct problem *problem, const struct whole *whole, uint32_t j, uint32_t grain)
{
    const struct job *job = &problem->jobs[j];
    double most_memory = 0, most_load = 0;
    uint64_t hash = job->reads_new ? 2 : 1;
    for (uint32_t m = 0; m < job->memory_count; m++) {
        most_memory = (double)job->memory[m].alloc > most_memory ? (double)job->memory[m].alloc : most_memory;
        most_memory = (double)job->memory[m].release > most_memory ? (double)job->memory[m].release : most_memory;
    }
    for (uint32_t l = whole->loads->begin[j]; l < whole->loads->begin[j + 1]; l++)
        most_load = whole->loads->loads[l].seconds > most_load ? whole->loads->loads[l].seconds : most_load;
    for (uint32_t m = 0; m < job->memory_count; m++) {
        hash = mix(hash, job->memory[m].device);
        hash = mix(hash, share((double)job->memory[m].alloc, most_memory, grain));
        hash = mix(hash, share((double)job->memory[m].release, most_memory, grain));
    }
    for (uint32_t l = whole->loads->begin[j]; l < whole->loads->begin[j + 1]; l++) {
        const struct load *load = &whole->loads->loads[l];
        hash = mix(hash, load->port);
        hash = mix(hash, share(load->seconds, most_load, grain));
    }
    return hash;
}

struct keyed {
    uint64_t key;
    uint32_t number;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/** Number what has equal keys alike, in the order of the first of each. @return how many numbers */
static uint32_t number_keys(struct arena *arena, const uint64_t *keys, uint32_t count, uint32_t *number_out)
{
    struct keyed *sorted = ARENA_NEW(arena, struct keyed, count);
    uint32_t *first = ARENA_NEW(arena, uint32_t, count), numbers = 0;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = (struct keyed){keys[i], i};
    if (count > 1)
        qsort(sorted, count, sizeof(*sorted), compare_keyed);
    for (uint32_t i = 0; i < count; i++) {
        bool same = i > 0 && sorted[i].key == sorted[i - 1].key;
        first[sorted[i].number] = same ? first[sorted[i - 1].number] : sorted[i].number;
    }
    for (uint32_t i = 0; i < count; i++)
        number_out[i] = first[i] == i ? numbers++ : number_out[first[i]];
    return numbers;
}

static void find_lanes(struct arena *arena, const struct problem *problem, const struct whole *whole,
                       uint32_t most_lanes, struct lanes *classes)
{
    uint64_t *keys = ARENA_NEW(arena, uint64_t, problem->job_count);
    classes->lane_of_job = ARENA_NEW(arena, uint32_t, problem->job_count);
    for (size_t g = 0; g < GRAIN_COUNT; g++) {
        for (uint32_t j = 0; j < problem->job_count; j++)
            keys[j] = direction_of(problem, whole, j, grains[g]);
        classes->lane_count = number_keys(arena, keys, problem->job_count, classes->lane_of_job);
        if (classes->lane_count <= most_lanes)
            break;
    }
}

/** Sums of a lane: by device and by port, zero between lanes. */
struct sums {
    struct lane_memory *memory;
    struct load *loads;
    VEC(uint32_t) devices;
    VEC(uint32_t) ports;
};

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void add_job(struct arena *arena, const struct problem *problem, const struct whole *whole, uint32_t j,
                    struct sums *sums)
{
    const struct job *job = &problem->jobs[j];
    for (uint32_t m = 0; m < job->memory_count; m++) {
        struct lane_memory *sum = &sums->memory[job->memory[m].device];
        if (sum->alloc + sum->release == 0 && job->memory[m].alloc + job->memory[m].release > 0)
            *VEC_PUSH(arena, &sums->devices) = job->memory[m].device;
        sum->alloc += job->memory[m].alloc;
        sum->release += job->memory[m].release;
    }
    for (uint32_t l = whole->loads->begin[j]; l < whole->loads->begin[j + 1]; l++) {
        const struct load *load = &whole->loads->loads[l];
        if (sums->loads[load->port].bytes == 0)
            *VEC_PUSH(arena, &sums->ports) = load->port;
        sums->loads[load->port].bytes += load->bytes;
        sums->loads[load->port].seconds += load->seconds;
    }
}

static void take_sums(struct arena *arena, struct sums *sums, struct lane *lane)
{
    if (sums->devices.count > 1)
        qsort(sums->devices.items, sums->devices.count, sizeof(uint32_t), compare_numbers);
    if (sums->ports.count > 1)
        qsort(sums->ports.items, sums->ports.count, sizeof(uint32_t), compare_numbers);
    lane->memory = ARENA_NEW(arena, struct lane_memory, sums->devices.count);
    lane->loads = ARENA_NEW(arena, struct load, sums->ports.count);
    for (size_t i = 0; i < sums->devices.count; i++) {
        struct lane_memory *sum = &sums->memory[sums->devices.items[i]];
        sum->device = sums->devices.items[i];
        lane->memory[lane->memory_count++] = *sum;
        *sum = (struct lane_memory){0};
    }
    for (size_t i = 0; i < sums->ports.count; i++) {
        struct load *sum = &sums->loads[sums->ports.items[i]];
        sum->port = sums->ports.items[i];
        lane->loads[lane->load_count++] = *sum;
        *sum = (struct load){0};
    }
    sums->devices.count = sums->ports.count = 0;
}

static void sum_lanes(struct arena *arena, const struct problem *problem, const struct whole *whole,
                      struct lanes *classes)
{
    struct sums sums = {.memory = ARENA_NEW(arena, struct lane_memory, problem->route->world->device_count),
                        .loads = ARENA_NEW(arena, struct load, whole->loads->port_count)};
    classes->lanes = ARENA_NEW(arena, struct lane, classes->lane_count);
    for (uint32_t j = 0; j < problem->job_count; j++)
        classes->lanes[classes->lane_of_job[j]].job_count++;
    for (uint32_t l = 0; l < classes->lane_count; l++) {
        classes->lanes[l].jobs = ARENA_NEW(arena, uint32_t, classes->lanes[l].job_count);
        classes->lanes[l].job_count = 0;
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        struct lane *lane = &classes->lanes[classes->lane_of_job[j]];
        lane->jobs[lane->job_count++] = j;
        lane->bytes += classes->job_bytes[j];
    }
    for (uint32_t l = 0; l < classes->lane_count; l++) {
        for (uint32_t i = 0; i < classes->lanes[l].job_count; i++)
            add_job(arena, problem, whole, classes->lanes[l].jobs[i], &sums);
        take_sums(arena, &sums, &classes->lanes[l]);
    }
}

/** A device is what its buffers are, and what each lane does to it. */
static void find_classes(struct arena *arena, const struct problem *problem, struct lanes *classes)
{
    uint32_t devices = problem->route->world->device_count;
    uint64_t *keys = ARENA_NEW(arena, uint64_t, devices);
    for (uint32_t d = 0; d < devices; d++)
        keys[d] = mix(mix(mix(3, problem->devices[d].from), problem->devices[d].to), problem->devices[d].unread);
    for (uint32_t l = 0; l < classes->lane_count; l++) {
        const struct lane *lane = &classes->lanes[l];
        for (uint32_t m = 0; m < lane->memory_count; m++) {
            uint64_t *key = &keys[lane->memory[m].device];
            *key = mix(mix(mix(*key, l), lane->memory[m].alloc), lane->memory[m].release);
        }
        for (uint32_t i = 0; i < lane->load_count; i++) {
            uint64_t *key = &keys[lane->loads[i].port / PORT_KINDS];
            *key = mix(mix(mix(*key, l), lane->loads[i].port % PORT_KINDS), lane->loads[i].bytes);
        }
    }
    classes->class_of_device = ARENA_NEW(arena, uint32_t, devices);
    classes->class_count = number_keys(arena, keys, devices, classes->class_of_device);
    classes->class_device = ARENA_NEW(arena, uint32_t, classes->class_count);
    classes->class_size = ARENA_NEW(arena, uint32_t, classes->class_count);
    for (uint32_t d = devices; d-- > 0;) {
        classes->class_device[classes->class_of_device[d]] = d;
        classes->class_size[classes->class_of_device[d]]++;
    }
}

struct lanes *lanes_build(struct arena *arena, const struct problem *problem, uint32_t most_lanes)
{
    struct lanes *classes = ARENA_NEW(arena, struct lanes, 1);
    struct whole whole = weigh_jobs(arena, problem);
    classes->job_bytes = whole.bytes;
    find_lanes(arena, problem, &whole, most_lanes, classes);
    sum_lanes(arena, problem, &whole, classes);
    find_classes(arena, problem, classes);
    return classes;
}
