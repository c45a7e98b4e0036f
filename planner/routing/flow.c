/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/flow.h"

#include <math.h>
#include <string.h>

void flow_init(uint32_t vertex_count, struct flow *flow_out)
{
    *flow_out = (struct flow){.vertex_count = vertex_count};
}

uint32_t flow_add(struct arena *arena, struct flow *flow, uint32_t from, uint32_t to, int64_t capacity)
{
    *VEC_PUSH(arena, &flow->arcs) = (struct flow_arc){.from = from, .to = to, .capacity = capacity};
    *VEC_PUSH(arena, &flow->arcs) = (struct flow_arc){.from = to, .to = from};
    return (uint32_t)(flow->arcs.count / 2 - 1);
}

/** Arcs by the vertex they leave, by counting. */
static void index_arcs(struct arena *arena, struct flow *flow)
{
    flow->begin = ARENA_NEW(arena, uint32_t, (size_t)flow->vertex_count + 1);
    flow->order = ARENA_NEW(arena, uint32_t, flow->arcs.count);
    flow->level = ARENA_NEW(arena, uint32_t, flow->vertex_count);
    flow->next = ARENA_NEW(arena, uint32_t, flow->vertex_count);
    flow->path = ARENA_NEW(arena, uint32_t, flow->vertex_count);
    flow->queue = ARENA_NEW(arena, uint32_t, flow->vertex_count);
    for (size_t a = 0; a < flow->arcs.count; a++)
        flow->begin[flow->arcs.items[a].from + 1]++;
    for (uint32_t v = 0; v < flow->vertex_count; v++)
        flow->begin[v + 1] += flow->begin[v];
    memcpy(flow->next, flow->begin, flow->vertex_count * sizeof(uint32_t));
    for (size_t a = 0; a < flow->arcs.count; a++)
        flow->order[flow->next[flow->arcs.items[a].from]++] = (uint32_t)a;
}

static int64_t room_of(const struct flow *flow, uint32_t arc)
{
    return flow->arcs.items[arc].capacity - flow->arcs.items[arc].used;
}

/** Length of the shortest path with room from the source to each vertex, plus 1. Looks at all of them: that is the cut. */
static bool find_levels(struct flow *flow, uint32_t source, uint32_t sink)
{
    uint32_t head = 0, tail = 0;
    memset(flow->level, 0, flow->vertex_count * sizeof(uint32_t));
    flow->level[source] = 1;
    flow->queue[tail++] = source;
    while (head < tail) {
        uint32_t vertex = flow->queue[head++];
        for (uint32_t i = flow->begin[vertex]; i < flow->begin[vertex + 1]; i++) {
            uint32_t to = flow->arcs.items[flow->order[i]].to;
            if (flow->level[to] != 0 || room_of(flow, flow->order[i]) <= 0)
                continue;
            flow->level[to] = flow->level[vertex] + 1;
            flow->queue[tail++] = to;
        }
    }
    return flow->level[sink] != 0;
}

/** The next arc with room from a vertex towards the sink; false when there is none left. */
static bool find_arc(struct flow *flow, uint32_t vertex, uint32_t *arc_out)
{
    for (; flow->next[vertex] < flow->begin[vertex + 1]; flow->next[vertex]++) {
        uint32_t arc = flow->order[flow->next[vertex]];
        if (room_of(flow, arc) > 0 && flow->level[flow->arcs.items[arc].to] == flow->level[vertex] + 1) {
            *arc_out = arc;
            return true;
        }
    }
    return false;
}

/** Fill a path. @return its length up to and without the first arc that is full now */
static uint32_t fill_path(struct flow *flow, uint32_t length, int64_t *amount_out)
{
    int64_t amount = INT64_MAX;
    uint32_t keep = 0;
    for (uint32_t i = 0; i < length; i++) {
        int64_t room = room_of(flow, flow->path[i]);
        if (room < amount) {
            amount = room;
            keep = i;
        }
    }
    for (uint32_t i = 0; i < length; i++) {
        flow->arcs.items[flow->path[i]].used += amount;
        flow->arcs.items[flow->path[i] ^ 1].used -= amount;
    }
    *amount_out = amount;
    return keep;
}

/** Fill shortest paths until there are none of this length. */
static int64_t fill_level(struct flow *flow, uint32_t source, uint32_t sink)
{
    int64_t total = 0, amount;
    uint32_t length = 0, arc;
    memcpy(flow->next, flow->begin, flow->vertex_count * sizeof(uint32_t));
    for (;;) {
        uint32_t vertex = length == 0 ? source : flow->arcs.items[flow->path[length - 1]].to;
        if (vertex == sink) {
            length = fill_path(flow, length, &amount);
            total += amount;
        } else if (find_arc(flow, vertex, &arc)) {
            flow->path[length++] = arc;
        } else if (length > 0) {
            flow->next[flow->arcs.items[flow->path[--length]].from]++; /* a dead end */
        } else {
            return total;
        }
    }
}

int64_t flow_run(struct arena *arena, struct flow *flow, uint32_t source, uint32_t sink)
{
    int64_t total = 0;
    if (flow->begin == NULL)
        index_arcs(arena, flow);
    while (find_levels(flow, source, sink))
        total += fill_level(flow, source, sink);
    return total;
}

/** Whether an arc leads over the cut of the last run. */
static bool is_cut(const struct flow *flow, const struct flow_arc *arc)
{
    return flow_is_before_cut(flow, arc->from) && !flow_is_before_cut(flow, arc->to);
}

/** The cut of the last run, at the scale at which it would let through what is wanted; false if none would. */
static bool find_cut(const struct flow *flow, const struct flow_scale_input *input, struct flow_cut *cut_out)
{
    struct flow_cut cut = {.units = input->wanted};
    double weights = 0;
    for (size_t a = 0; a < flow->arcs.count; a += 2)
        cut.units -= is_cut(flow, &flow->arcs.items[a]) ? flow->arcs.items[a].capacity : 0;
    for (uint32_t p = 0; p < input->port_count; p++) {
        const struct flow_arc *arc = &flow->arcs.items[2 * (size_t)input->ports[p].arc];
        if (!is_cut(flow, arc))
            continue;
        cut.units += arc->capacity;
        weights += input->ports[p].weight;
        cut.first_port = cut.port_count == 0 ? p : cut.first_port;
        cut.port_count++;
    }
    if (cut.port_count == 0)
        return false;
    cut.scale = (double)cut.units / weights;
    *cut_out = cut;
    return true;
}

static void set_scale(struct flow *flow, const struct flow_scale_input *input, double scale)
{
    for (uint32_t p = 0; p < input->port_count; p++) {
        const struct flow_port *port = &input->ports[p];
        flow->arcs.items[2 * (size_t)port->arc].capacity = (int64_t)ceil(port->weight * scale);
    }
}

bool flow_least_scale(struct arena *arena, struct flow *flow, const struct flow_scale_input *input, double start,
                      struct flow_cut *cut_out)
{
    struct flow_cut cut = {.scale = start};
    double scale = start;
    int64_t sent = 0;
    for (size_t a = 0; a < flow->arcs.count; a++)
        sent += flow->arcs.items[a].from == input->source ? flow->arcs.items[a].used : 0;
    for (;;) {
        set_scale(flow, input, scale);
        sent += flow_run(arena, flow, input->source, input->sink);
        if (sent >= input->wanted)
            break;
        if (!find_cut(flow, input, &cut))
            return false;
        /* a cut that is too narrow by a rounding error alone must not be asked again at the same scale */
        scale = cut.scale > scale ? cut.scale : scale * (1 + 0x1p-50);
    }
    *cut_out = cut;
    return true;
}
