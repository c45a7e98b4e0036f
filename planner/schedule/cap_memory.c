/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/cap_memory.h"

#include <stdlib.h>

#define NO_DEVICE UINT32_MAX

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

struct trace {
    uint64_t first, second; /* two hashes: of unlike devices, no two have ever both alike */
    uint32_t device;
};

static void trace_value(struct trace *trace, uint64_t value)
{
    trace->first = mix(trace->first, value);
    trace->second = mix(trace->second, ~value);
}

static int compare_traces(const void *a, const void *b)
{
    const struct trace *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->second != y->second)
        return x->second < y->second ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

static struct trace *trace_devices(struct arena *arena, const struct problem *problem)
{
    uint32_t devices = problem->route->world->device_count;
    struct trace *traces = ARENA_NEW(arena, struct trace, devices);
    for (uint32_t d = 0; d < devices; d++) {
        const struct problem_device *sums = &problem->devices[d];
        traces[d].device = d;
        trace_value(&traces[d], sums->from - sums->unread);
        trace_value(&traces[d], problem_cap(problem, problem->cap, d) - sums->fixed);
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++) {
            const struct job_memory *at = &problem->jobs[j].memory[m];
            trace_value(&traces[at->device], j);
            trace_value(&traces[at->device], at->alloc);
            trace_value(&traces[at->device], at->release);
        }
    }
    qsort(traces, devices, sizeof(*traces), compare_traces);
    return traces;
}

/** Bytes for buffers on a device; below 0 when the rest alone takes more than the cap. */
static double room_of(const struct problem *problem, uint32_t device, uint64_t slots)
{
    return (double)problem_cap(problem, problem->cap, device) - (double)problem->devices[device].fixed - (double)slots;
}

/** Number the devices that count. @return their numbers, by device */
static uint32_t *number_devices(struct arena *arena, const struct problem *problem, uint64_t slots,
                                struct cap_memory *memory)
{
    uint32_t devices = problem->route->world->device_count;
    const struct trace *traces = trace_devices(arena, problem);
    uint32_t *number = ARENA_NEW(arena, uint32_t, devices);
    memory->devices = ARENA_NEW(arena, struct cap_device, devices);
    for (uint32_t i = 0; i < devices; i++) {
        uint32_t d = traces[i].device;
        const struct problem_device *sums = &problem->devices[d];
        double room = room_of(problem, d, slots);
        bool again = i > 0 && traces[i].first == traces[i - 1].first && traces[i].second == traces[i - 1].second;
        number[d] = NO_DEVICE;
        if (again || (double)sums->from + (double)sums->to <= room)
            continue;
        struct cap_device *device = &memory->devices[memory->device_count];
        number[d] = memory->device_count++;
        device->room = room;
        device->live = ARENA_NEW(arena, double, memory->rounds);
        for (uint32_t t = 0; t < memory->rounds; t++)
            device->live[t] = (double)(sums->from - sums->unread);
    }
    return number;
}

static void list_shares(struct arena *arena, const struct problem *problem, const uint32_t *number,
                        struct cap_memory *memory)
{
    VEC(struct cap_share) shares = {0};
    memory->begin = ARENA_NEW(arena, uint32_t, (size_t)problem->job_count + 1);
    for (uint32_t j = 0; j < problem->job_count; j++) {
        memory->begin[j] = (uint32_t)shares.count;
        for (uint32_t m = 0; m < problem->jobs[j].memory_count; m++) {
            const struct job_memory *at = &problem->jobs[j].memory[m];
            if (number[at->device] == NO_DEVICE || at->alloc + at->release == 0)
                continue;
            *VEC_PUSH(arena, &shares) = (struct cap_share){
                .device = number[at->device], .alloc = (double)at->alloc, .release = (double)at->release};
        }
    }
    memory->begin[problem->job_count] = (uint32_t)shares.count;
    memory->shares = shares.items;
}

struct cap_memory *cap_memory_build(struct arena *arena, const struct problem *problem, uint32_t rounds, uint32_t depth,
                                    uint64_t slots)
{
    struct cap_memory *memory = ARENA_NEW(arena, struct cap_memory, 1);
    memory->rounds = rounds;
    memory->depth = depth;
    list_shares(arena, problem, number_devices(arena, problem, slots, memory), memory);
    memory->spare = ARENA_NEW(arena, double, (size_t)rounds + 2);
    memory->first = ARENA_NEW(arena, uint32_t, problem->job_count);
    memory->last = ARENA_NEW(arena, uint32_t, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++)
        memory->first[j] = memory->last[j] = rounds;
    return memory;
}

/** Bytes are there from round `now` on, no longer from round `before` on. */
static void shift(double *live, uint32_t rounds, uint32_t before, uint32_t now, double bytes)
{
    for (uint32_t t = now; t < before && t < rounds; t++)
        live[t] += bytes;
    for (uint32_t t = before; t < now && t < rounds; t++)
        live[t] -= bytes;
}

void cap_memory_move(struct cap_memory *memory, uint32_t job, uint32_t first, uint32_t last)
{
    uint32_t old_first = memory->first[job], old_last = memory->last[job];
    if (first == old_first && last == old_last)
        return;
    for (uint32_t s = memory->begin[job]; s < memory->begin[job + 1]; s++) {
        const struct cap_share *share = &memory->shares[s];
        double *live = memory->devices[share->device].live;
        shift(live, memory->rounds, old_first, first, share->alloc);
        shift(live, memory->rounds, old_last + memory->depth, last + memory->depth, -share->release);
    }
    memory->first[job] = first;
    memory->last[job] = last;
}

static double over(double bytes, double room)
{
    return bytes > room ? bytes - room : 0;
}

/** What it costs that bytes are there in a round beside those that are. */
static double more_over(const struct cap_device *device, uint32_t round, double bytes)
{
    return over(device->live[round] + bytes, device->room) - over(device->live[round], device->room);
}

/** The first unit of a job: from then on its new buffers are there, and soon the old ones are not. */
static void score_first(struct cap_memory *memory, const struct cap_share *share, uint32_t begin, uint32_t end,
                        double price, double *score)
{
    const struct cap_device *device = &memory->devices[share->device];
    uint32_t rounds = memory->rounds, depth = memory->depth;
    double *behind = memory->spare; /* by round: from it to the end, without the old buffers */
    behind[rounds] = 0;
    for (uint32_t t = rounds; t-- > begin;)
        behind[t] = behind[t + 1] + more_over(device, t, share->alloc - share->release);
    for (uint32_t t = begin; t < end; t++) {
        double sum = t + depth < rounds ? behind[t + depth] : 0;
        for (uint32_t r = t; r < t + depth && r < rounds; r++)
            sum += more_over(device, r, share->alloc);
        score[t] += price * sum;
    }
}

/** Another unit of it: new buffers are there sooner, or old ones longer. */
static void score_other(const struct cap_memory *memory, uint32_t job, const struct cap_share *share, uint32_t begin,
                        uint32_t end, double price, double *score)
{
    const struct cap_device *device = &memory->devices[share->device];
    double sum = 0;
    for (uint32_t t = memory->first[job]; share->alloc > 0 && t-- > begin;) {
        sum += more_over(device, t, share->alloc);
        if (t < end)
            score[t] += price * sum;
    }
    sum = 0;
    for (uint32_t t = memory->last[job] + 1; share->release > 0 && t < end; t++) {
        uint32_t longer = t + memory->depth - 1;
        sum += longer < memory->rounds ? more_over(device, longer, share->release) : 0;
        if (t >= begin)
            score[t] += price * sum;
    }
}

void cap_memory_score(struct cap_memory *memory, uint32_t job, uint32_t begin, uint32_t end, double price,
                      double *score)
{
    for (uint32_t s = memory->begin[job]; s < memory->begin[job + 1]; s++) {
        if (memory->first[job] == memory->rounds)
            score_first(memory, &memory->shares[s], begin, end, price, score);
        else
            score_other(memory, job, &memory->shares[s], begin, end, price, score);
    }
}

double cap_memory_over(const struct cap_memory *memory)
{
    double most = 0;
    for (uint32_t d = 0; d < memory->device_count; d++) {
        for (uint32_t t = 0; t < memory->rounds; t++) {
            double bytes = over(memory->devices[d].live[t], memory->devices[d].room);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}
