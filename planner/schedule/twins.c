/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/twins.h"

#include <stdlib.h>

/** What all units ask of a device, in two hashes: of unlike devices, no two have ever both alike. */
struct trace {
    uint64_t first, second;
    uint32_t device;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static void trace_load(struct trace *trace, uint32_t unit, const struct load *load)
{
    const uint64_t place = (uint64_t)unit * PORT_KINDS + load->port % PORT_KINDS;
    trace->first = mix(mix(trace->first, place), load->bytes);
    trace->second = mix(mix(trace->second, load->bytes + 1), ~place);
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

static struct trace *trace_devices(struct arena *arena, const struct problem *problem, const struct loads *loads)
{
    uint32_t devices = problem->route->world->device_count;
    struct trace *traces = ARENA_NEW(arena, struct trace, devices);
    for (uint32_t d = 0; d < devices; d++)
        traces[d] = (struct trace){.first = problem->route->world->devices[d].machine, .device = d};
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        for (uint32_t l = loads->begin[u]; l < loads->begin[u + 1]; l++)
            trace_load(&traces[loads->loads[l].port / PORT_KINDS], u, &loads->loads[l]);
    }
    qsort(traces, devices, sizeof(*traces), compare_traces);
    return traces;
}

void twins_drop(struct arena *arena, const struct problem *problem, struct loads *loads)
{
    uint32_t devices = problem->route->world->device_count, count = 0, begin = 0;
    const struct trace *traces = trace_devices(arena, problem, loads);
    bool *dropped = ARENA_NEW(arena, bool, devices);
    for (uint32_t d = 1; d < devices; d++)
        dropped[traces[d].device] = traces[d].first == traces[d - 1].first && traces[d].second == traces[d - 1].second;
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        for (uint32_t l = begin; l < loads->begin[u + 1]; l++) {
            if (!dropped[loads->loads[l].port / PORT_KINDS])
                loads->loads[count++] = loads->loads[l];
        }
        begin = loads->begin[u + 1];
        loads->begin[u + 1] = count;
    }
}
