/* SPDX-License-Identifier: Apache-2.0 */
/** Largest flows and least scales of small networks against all of their cuts. */

#include <math.h>

#include "harness.h"
#include "routing/flow.h"

#define MOST_VERTICES 9
#define MOST_ARCS     40
#define UNITS         INT64_C(1000003)

struct random {
    uint64_t state;
};

static uint32_t draw(struct random *random, uint32_t below)
{
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random->state >> 33) % below);
}

/** A network with arcs anywhere, both ways, some of them of no use. Vertex 0 sends to the last one. */
struct network {
    uint32_t vertices, arc_count;
    struct {
        uint32_t from, to;
        int64_t capacity;
        double weight; /* 0: not a port */
    } arcs[MOST_ARCS];
};

static void draw_network(struct random *random, struct network *network)
{
    *network =
        (struct network){.vertices = 2 + draw(random, MOST_VERTICES - 1), .arc_count = 1 + draw(random, MOST_ARCS)};
    int64_t widest = draw(random, 3) == 0 ? 2 : 1000;
    for (uint32_t a = 0; a < network->arc_count; a++) {
        network->arcs[a].from = draw(random, network->vertices);
        network->arcs[a].to = draw(random, network->vertices);
        network->arcs[a].capacity = (int64_t)draw(random, (uint32_t)widest + 1) * UNITS;
        if (network->arcs[a].to == network->vertices - 1)
            network->arcs[a].weight = 1 + draw(random, 7);
    }
}

static void build(struct arena *arena, const struct network *network, struct flow *flow)
{
    flow_init(network->vertices + 1, flow);
    for (uint32_t a = 0; a < network->arc_count; a++)
        flow_add(arena, flow, network->arcs[a].from, network->arcs[a].to, network->arcs[a].capacity);
}

/** Every arc within its room, and what enters a vertex leaves it. */
static void check_flow(const struct flow *flow, uint32_t source, uint32_t sink, int64_t sent)
{
    int64_t balance[MOST_VERTICES + 1] = {0};
    balance[source] = sent;
    balance[sink] = -sent;
    for (size_t a = 0; a < flow->arcs.count; a += 2) {
        const struct flow_arc *arc = &flow->arcs.items[a];
        CHECK(arc->used >= 0 && arc->used <= arc->capacity);
        balance[arc->from] -= arc->used;
        balance[arc->to] += arc->used;
    }
    for (uint32_t v = 0; v < flow->vertex_count; v++)
        CHECK(balance[v] == 0);
}

static bool is_crossed(const struct network *network, uint32_t arc, uint32_t before)
{
    return (before >> network->arcs[arc].from & 1) != 0 && (before >> network->arcs[arc].to & 1) == 0;
}

/** The narrowest of all cuts. */
static int64_t least_cut(const struct network *network)
{
    int64_t least = INT64_MAX;
    for (uint32_t before = 1; before < 1u << (network->vertices - 1); before += 2) {
        int64_t width = 0;
        for (uint32_t a = 0; a < network->arc_count; a++)
            width += is_crossed(network, a, before) ? network->arcs[a].capacity : 0;
        least = width < least ? width : least;
    }
    return least;
}

/** Over all cuts, the largest scale that one of them needs; infinity when one has no ports and is too narrow. */
static double least_scale(const struct network *network, int64_t wanted)
{
    double scale = 0;
    for (uint32_t before = 1; before < 1u << (network->vertices - 1); before += 2) {
        int64_t width = 0;
        double weights = 0;
        for (uint32_t a = 0; a < network->arc_count; a++) {
            if (!is_crossed(network, a, before))
                continue;
            width += network->arcs[a].weight > 0 ? 0 : network->arcs[a].capacity;
            weights += network->arcs[a].weight;
        }
        if (wanted > width)
            scale = fmax(scale, weights > 0 ? (double)(wanted - width) / weights : INFINITY);
    }
    return scale;
}

/** A case with an arena of its own. */
static bool with_arena(bool (*work)(struct arena *arena, struct random *random), struct random *random)
{
    struct arena arena;
    arena_init(&arena);
    bool answer = setjmp(arena.on_failure) == 0 && work(&arena, random);
    arena_finish(&arena);
    return answer;
}

static bool try_flow(struct arena *arena, struct random *random)
{
    struct network network;
    struct flow flow;
    draw_network(random, &network);
    build(arena, &network, &flow);
    int64_t sent = flow_run(arena, &flow, 0, network.vertices - 1);
    CHECK(sent == least_cut(&network));
    check_flow(&flow, 0, network.vertices - 1, sent);
    CHECK(flow_is_before_cut(&flow, 0) && !flow_is_before_cut(&flow, network.vertices - 1));
    CHECK(flow_run(arena, &flow, 0, network.vertices - 1) == 0);
    return sent > 0;
}

static void largest_flows(void)
{
    struct random random = {7};
    int full = 0;
    for (int round = 0; round < 3000; round++)
        full += with_arena(try_flow, &random);
    CHECK(full > 1000);
}

static bool try_scale(struct arena *arena, struct random *random)
{
    struct network network;
    struct flow flow;
    struct flow_port ports[MOST_ARCS];
    draw_network(random, &network);
    struct flow_scale_input input = {.source = network.vertices,
                                     .sink = network.vertices - 1,
                                     .wanted = (1 + draw(random, 2000)) * UNITS,
                                     .ports = ports};
    build(arena, &network, &flow);
    flow_add(arena, &flow, input.source, 0, input.wanted); /* no more than that */
    for (uint32_t a = 0; a < network.arc_count; a++) {
        if (network.arcs[a].weight > 0)
            ports[input.port_count++] = (struct flow_port){.arc = a, .weight = network.arcs[a].weight};
    }
    struct flow_cut cut = {0};
    double want = least_scale(&network, input.wanted);
    bool found = flow_least_scale(arena, &flow, &input, 0, &cut);
    CHECK(found == (bool)isfinite(want));
    if (!found)
        return false;
    /* ports are rounded up to whole units, and a weight is 1 or more */
    CHECK_MSG(cut.scale <= want * (1 + 1e-12) && cut.scale > want - 1, "%g, want %g", cut.scale, want);
    CHECK(cut.port_count > 0 ? cut.first_port < input.port_count && cut.units > 0 : cut.scale == 0);
    check_flow(&flow, input.source, input.sink, input.wanted);
    for (uint32_t p = 0; p < input.port_count; p++)
        CHECK((double)flow_used(&flow, ports[p].arc) < ports[p].weight * cut.scale + 1);
    return true;
}

static void least_scales(void)
{
    struct random random = {11};
    int found = 0;
    for (int round = 0; round < 3000; round++)
        found += with_arena(try_scale, &random);
    CHECK(found > 300 && found < 2700);
}

/** Flow that is there already counts, and gives way where it must. */
static bool try_start(struct arena *arena, struct random *random)
{
    struct flow flow;
    flow_init(6, &flow);
    uint32_t in[2] = {flow_add(arena, &flow, 0, 1, 10), flow_add(arena, &flow, 0, 2, 10)};
    uint32_t both = flow_add(arena, &flow, 1, 3, 100), other = flow_add(arena, &flow, 1, 4, 100);
    flow_add(arena, &flow, 2, 3, 100);
    struct flow_port ports[] = {{flow_add(arena, &flow, 3, 5, 0), 1}, {flow_add(arena, &flow, 4, 5, 0), 1}};
    const struct flow_scale_input input = {.sink = 5, .wanted = 20, .port_count = 2, .ports = ports};
    struct flow_cut cut = {0};
    (void)random;
    flow_use(&flow, in[0], 10);
    flow_use(&flow, both, 10);
    flow_use(&flow, ports[0].arc, 10);
    CHECK(flow_least_scale(arena, &flow, &input, 10, &cut) && cut.scale == 10 && cut.port_count == 0);
    CHECK(flow_used(&flow, in[1]) == 10 && flow_used(&flow, both) == 0 && flow_used(&flow, other) == 10);
    return true;
}

static void starts_from_flow(void)
{
    CHECK(with_arena(try_start, NULL));
}

static const struct test_case cases[] = {{"largest flows are least cuts", largest_flows},
                                         {"least scales are those of the tightest cut", least_scales},
                                         {"a search starts from the flow that is there", starts_from_flow}};
TEST_MAIN(cases)
