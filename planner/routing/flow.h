/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_FLOW_H
#define SHUNT_PLANNER_FLOW_H

/**
 * Largest flow from one vertex to another, in whole units, with its cut; and the least scale at which a network
 * carries all that is wanted.
 *
 *     classes of bytes     holders     ports
 *          +--> c0 --------> s0 --w0 T--+
 *     source               X            +--> sink      what is the least T at which all bytes of c0 and c1 leave?
 *          +--> c1 --------> s1 --w1 T--+
 *
 * The flow is Dinic's: shortest paths with room, all of one length at a time. The scale is Newton's method on cuts: a
 * cut that is too narrow at T says itself at which T it would be wide enough, and no plan can do with less.
 * Arcs are tried in the order in which they were added, so that the same network has the same flow everywhere.
 */

#include <stdbool.h>

#include "util/arena.h"

struct flow_arc {
    uint32_t from, to;
    int64_t capacity, used; /* used: below 0 on a backward arc */
};

/** Arc 2a is the one that was added as the a-th; 2a + 1 is the way back. */
struct flow {
    uint32_t vertex_count;
    VEC(struct flow_arc) arcs;
    uint32_t *begin, *order; /* arcs by the vertex they leave; made by the first run */
    uint32_t *level;         /* of the last search: 1 at the source; 0: not reached, behind the cut */
    uint32_t *next, *path, *queue;
};

void flow_init(uint32_t vertex_count, struct flow *flow_out);

/** Add an arc before the first run. @return its number */
uint32_t flow_add(struct arena *arena, struct flow *flow, uint32_t from, uint32_t to, int64_t capacity);

/** Send as much more as there is room for, over what is used already. @return what was added */
int64_t flow_run(struct arena *arena, struct flow *flow, uint32_t source, uint32_t sink);

/** Whether a vertex lies before the cut that the last run ended at. */
static inline bool flow_is_before_cut(const struct flow *flow, uint32_t vertex)
{
    return flow->level[vertex] != 0;
}

static inline int64_t flow_used(const struct flow *flow, uint32_t arc)
{
    return flow->arcs.items[2 * (size_t)arc].used;
}

/** Use some of an arc. The caller sees to it that what enters a vertex leaves it. */
static inline void flow_use(struct flow *flow, uint32_t arc, int64_t amount)
{
    flow->arcs.items[2 * (size_t)arc].used += amount;
    flow->arcs.items[2 * (size_t)arc + 1].used -= amount;
}

/** An arc that is as wide as its weight times the scale. */
struct flow_port {
    uint32_t arc;
    double weight; /* above 0 */
};

struct flow_scale_input {
    uint32_t source, sink;
    int64_t wanted; /* the arcs that leave the source carry no more */
    uint32_t port_count;
    const struct flow_port *ports;
};

/** What sets a scale: a cut, and what must pass through the ports that lead over it. */
struct flow_cut {
    double scale;
    int64_t units;
    uint32_t port_count; /* 0: the scale is that of the start */
    uint32_t first_port; /* of the ports */
};

/**
 * The least scale at which the flow is what is wanted; then the network carries that flow, and each port is over its
 * weight times the scale by less than one unit. Starts at `start`, which is known to be needed, from the flow that is
 * there, which fits then. The scale is that of a cut or the start: above the true one by rounding alone.
 *
 * @return false when no scale is enough
 */
bool flow_least_scale(struct arena *arena, struct flow *flow, const struct flow_scale_input *input, double start,
                      struct flow_cut *cut_out);

#endif
