/* SPDX-License-Identifier: Apache-2.0 */
/** Time of rounds: rows worked out by hand, on ports of unlike rates. */

#include <math.h>

#include "harness.h"
#include "schedule/meter.h"

#define GB 1e9
#define MB 1000000u

/** Two nodes of two devices; the second has half of the network, one NIC for both, and a link to the host. */
static struct cfg_machine machines[] = {
    {.devices_per_node = 2,
     .intra_node = 100 * GB,
     .inter_node = 10 * GB,
     .node_inter_node = 20 * GB,
     .message = INFINITY,
     .host_to_device = INFINITY,
     .device_to_host = INFINITY,
     .copy = 1000 * GB,
     .pack = 500 * GB,
     .unpack = 250 * GB},
    {.devices_per_node = 2,
     .intra_node = 100 * GB,
     .inter_node = 5 * GB,
     .node_inter_node = 6 * GB,
     .message = 4 * GB,
     .host_to_device = 2 * GB,
     .device_to_host = 1 * GB,
     .copy = 1000 * GB,
     .pack = 500 * GB,
     .unpack = 250 * GB},
};
static struct world_device devices[] = {
    {.id = 0, .node = 0, .first = 0, .machine = 0},
    {.id = 1, .node = 0, .first = 0, .machine = 0},
    {.id = 2, .node = 1, .first = 2, .machine = 1},
    {.id = 3, .node = 1, .first = 2, .machine = 1},
};
static struct cfg_cluster cluster = {.message_seconds = 1e-3, .round_seconds = 5e-3, .group_count = 1};
static struct world world = {
    .cluster = &cluster, .machines = machines, .device_count = 4, .node_count = 2, .devices = devices};
static struct route route = {.world = &world};
static struct problem problem = {.route = &route};

struct move {
    uint32_t source, taker;
    uint64_t bytes, message; /* with those of the same message before it */
    bool from_host, to_host;
};

#define MOST_MOVES 4

static const struct {
    const char *name;
    struct move moves[MOST_MOVES];
    struct round_cost want;
} rows[] = {
    {"nothing", {{0}}, {0}},
    {"inside a node", {{0, 1, 100 * MB, 100 * MB, false, false}}, {1e-3, 2e-3, 0.2e-3, 0.4e-3}},
    {"the slower end counts", {{0, 2, 40 * MB, 40 * MB, false, false}}, {10e-3, 11e-3, 0.08e-3, 0.16e-3}},
    {"and its limit on one message",
     {{1, 2, 20 * MB, 20 * MB, false, false}, {1, 2, 20 * MB, 40 * MB, false, false}},
     {10e-3, 11e-3, 0.08e-3, 0.16e-3}},
    {"two messages pass it, and meet at the port",
     {{0, 2, 20 * MB, 20 * MB, false, false}, {1, 2, 20 * MB, 20 * MB, false, false}},
     {8e-3, 10e-3, 0.04e-3, 0.16e-3}},
    {"two devices share what their node has",
     {{2, 0, 20 * MB, 20 * MB, false, false}, {3, 1, 20 * MB, 20 * MB, false, false}},
     {40e-3 / 6, 40e-3 / 6, 0.04e-3, 0.08e-3}},
    {"node and network at once",
     {{0, 1, 300 * MB, 300 * MB, false, false}, {0, 2, 4 * MB, 4 * MB, false, false}},
     {3e-3, 5e-3, 0.608e-3, 1.2e-3}},
    {"both directions at once",
     {{0, 1, 100 * MB, 100 * MB, false, false}, {1, 0, 100 * MB, 100 * MB, false, false}},
     {1e-3, 3e-3, 0.2e-3, 0.4e-3}},
    {"a local copy", {{0, 0, 100 * MB, 0, false, false}}, {0, 0, 0.1e-3, 0}},
    {"host memory limits what is read from it", {{2, 3, 4 * MB, 4 * MB, true, false}}, {0.04e-3, 1.04e-3, 2e-3, 16e-6}},
    {"and what is written to it", {{2, 3, 4 * MB, 4 * MB, false, true}}, {0.04e-3, 1.04e-3, 8e-6, 4e-3}},
    {"and what is copied there", {{2, 2, 4 * MB, 0, false, true}}, {0, 0, 4e-3, 0}},
    {"where nothing limits it", {{0, 0, 500 * MB, 0, true, true}}, {0, 0, 0.5e-3, 0}},
};

static bool near(double got, double want)
{
    return fabs(got - want) <= 1e-12 + 1e-9 * want;
}

static void add_moves(struct arena *arena, struct meter *meter, const struct move *moves)
{
    for (int i = 0; i < MOST_MOVES && moves[i].bytes > 0; i++) {
        const struct move *move = &moves[i];
        bool local = move->source == move->taker;
        const struct port_use use = {.source = move->source,
                                     .taker = move->taker,
                                     .wire = local ? 0 : move->bytes,
                                     .packed = local ? 0 : move->bytes,
                                     .read = move->bytes,
                                     .written = move->bytes,
                                     .from_host = move->from_host,
                                     .to_host = move->to_host};
        meter_add(arena, meter, &use, move->message);
    }
}

/** All rows as rounds of one meter, so that nothing of a round may stay for the next. */
static void costs_by_hand(void)
{
    struct arena arena;
    struct meter meter;
    arena_init(&arena);
    if (setjmp(arena.on_failure) != 0) {
        CHECK(!"memory");
        return;
    }
    meter_init(&arena, &problem, &meter);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        add_moves(&arena, &meter, rows[i].moves);
        const struct round_cost got = meter_close(&meter), *want = &rows[i].want;
        CHECK_MSG(near(got.link, want->link) && near(got.wire, want->wire), "%s: link %g wire %g", rows[i].name,
                  got.link, got.wire);
        CHECK_MSG(near(got.before, want->before) && near(got.behind, want->behind), "%s: before %g behind %g",
                  rows[i].name, got.before, got.behind);
    }
    CHECK_EQ_U64(meter.total[0 * PORT_KINDS + PORT_NET_OUT], 64 * MB);
    CHECK_EQ_U64(meter.total[2 * PORT_KINDS + PORT_POOL_OUT], 40 * MB);
    CHECK_EQ_U64(meter.total[0 * PORT_KINDS + PORT_POOL_IN], 0);
    arena_finish(&arena);
}

static const struct {
    const char *name;
    uint32_t depth, count;
    struct round_cost costs[3];
    struct clock_sum want; /* total, links, messages, copies, rounds */
} sums[] = {
    {"no rounds", 2, 0, {{0}}, {0}},
    {"one round", 2, 1, {{4, 5, 1, 2}}, {9, 4, 1, 3, 1}},
    {"one after the other", 1, 2, {{4, 5, 1, 2}, {3, 3, 2, 1}}, {16, 7, 1, 6, 2}},
    {"beside each other", 2, 2, {{4, 5, 1, 2}, {3, 3, 2, 1}}, {12, 7, 1, 2, 2}},
    {"copies that the wire does not hide", 2, 3, {{1, 1, 1, 2}, {1, 1, 2, 3}, {1, 1, 2, 1}}, {14, 3, 0, 8, 3}},
    {"a round without messages is free of their cost", 2, 2, {{0, 0, 1, 0}, {2, 2, 0, 1}}, {5, 2, 0, 2, 1}},
};

static void sums_add_up(void)
{
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        const struct clock_sum got = clock_total(sums[i].costs, sums[i].count, sums[i].depth, 1);
        const struct clock_sum *want = &sums[i].want;
        CHECK_MSG(got.total == want->total && got.links == want->links && got.messages == want->messages &&
                      got.copies == want->copies && got.rounds == want->rounds,
                  "%s: %g = %g + %g + %g + %g", sums[i].name, got.total, got.links, got.messages, got.copies,
                  got.rounds);
    }
}

static const struct test_case cases[] = {
    {"costs_by_hand", costs_by_hand},
    {"sums_add_up", sums_add_up},
};
TEST_MAIN(cases)
