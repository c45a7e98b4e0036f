/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_TWINS_H
#define SHUNT_PLANNER_TWINS_H

/**
 * Twins are devices of which every unit asks the same. Whatever round units go to, their ports have the same loads
 * in it, so that rounds that are balanced for one of them are balanced for all: thousands of replicas cost no more
 * than one does.
 */

#include "schedule/ports.h"

/** What all units ask of a device, in two hashes: of unlike devices, no two have ever both alike. */
struct trace {
    uint64_t first, second;
    uint64_t loads; /* their number */
};

/** Traces of all devices, of which nothing is asked yet. */
struct trace *twins_begin(struct arena *arena, const struct problem *problem);

static inline uint64_t trace_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/** Add a load of the trace's device; by ascending unit and port. */
static inline void trace_load(struct trace *trace, uint32_t unit, uint32_t port, uint64_t bytes)
{
    const uint64_t place = (uint64_t)unit * PORT_KINDS + port % PORT_KINDS;
    trace->first = trace_mix(trace_mix(trace->first, place), bytes);
    trace->second = trace_mix(trace_mix(trace->second, bytes + 1), ~place);
    trace->loads++;
}

/** By device, whether another one has the same trace, and a lower number. */
const bool *twins_find(struct arena *arena, const struct problem *problem, const struct trace *traces);

#endif
