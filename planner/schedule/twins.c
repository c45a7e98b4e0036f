/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/twins.h"

#include <stdlib.h>

struct trace *twins_begin(struct arena *arena, const struct problem *problem)
{
    const struct world *world = problem->route->world;
    struct trace *traces = ARENA_NEW(arena, struct trace, world->device_count);
    for (uint32_t d = 0; d < world->device_count; d++)
        traces[d].first = world->devices[d].machine;
    return traces;
}

struct traced {
    const struct trace *trace;
    uint32_t device;
};

static bool is_twin(const struct trace *a, const struct trace *b)
{
    return a->first == b->first && a->second == b->second;
}

static int compare_traces(const void *a, const void *b)
{
    const struct traced *x = a, *y = b;
    if (x->trace->first != y->trace->first)
        return x->trace->first < y->trace->first ? -1 : 1;
    if (x->trace->second != y->trace->second)
        return x->trace->second < y->trace->second ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

const bool *twins_find(struct arena *arena, const struct problem *problem, const struct trace *traces)
{
    uint32_t devices = problem->route->world->device_count;
    struct traced *order = ARENA_NEW(arena, struct traced, devices);
    bool *dropped = ARENA_NEW(arena, bool, devices);
    for (uint32_t d = 0; d < devices; d++)
        order[d] = (struct traced){&traces[d], d};
    qsort(order, devices, sizeof(*order), compare_traces);
    for (uint32_t d = 1; d < devices; d++)
        dropped[order[d].device] = is_twin(order[d].trace, order[d - 1].trace);
    return dropped;
}
