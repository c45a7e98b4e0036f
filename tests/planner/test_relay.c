/* SPDX-License-Identifier: Apache-2.0 */
/** Relayed routes of real moves: who sends on what, where it pays, in which rounds, and that plans of them are right. */

#include "move_room.h"
#include "routing/relay.h"
#include "routing/relay_ports.h"
#include "schedule/estimate.h"
#include "schedule/schedule.h"
#include "shunt/verify.h"

static const char model_text[] = "kind: model\nname: toy\nlayers: 4\nheads: 4\ntensors:\n"
                                 "  - {name: embed.weight, shape: [512, 64], stage: first, cut: {dim: 0}}\n"
                                 "  - {name: \"layer.{i}.up.weight\", shape: [256, 64], cut: {dim: 0}}\n"
                                 "  - {name: \"layer.{i}.down.weight\", shape: [64, 256], cut: {dim: 1}}\n";

static const struct {
    const char *name, *from, *to; /* what the layouts say of themselves */
    double most;                  /* seconds of the busiest port over the bound; 0: nothing is relayed */
    uint32_t stages;              /* most of a piece */
    const char *not_sent;         /* a state that is never sent on; NULL: none */
} moves[] = {
    {"replicas in new nodes", "parallel: {tp: 4}", "parallel: {dp: 12}", 1.10, 3, NULL},
    {"replicas in old nodes", "parallel: {tp: 4, pp: 2}", "parallel: {dp: 8}", 1.10, 2, NULL},
    {"one replica becomes three", "parallel: {tp: 4}", "parallel: {tp: 4, dp: 3}", 1.10, 2, NULL},
    {"holders that are gateways", "parallel: {tp: 4, pp: 4}\nstate: {param: bf16, " ADAM "}",
     "parallel: {tp: 4, pp: 4, dp: 3}\nstate: {param: bf16, " ADAM "}", 1.45, 2, NULL},
    {"weights from masters", "parallel: {tp: 4}\nstate: {param: bf16, " ADAM "}",
     "parallel: {dp: 8}\nshard: {rule: megatron}\nstate: {param: from-master, " ADAM "}", 1.50, 2, NULL},
    {"weights narrowed", "parallel: {tp: 4}\nstate: {param: fp32, momentum: fp32}",
     "parallel: {dp: 8}\nstate: {param: bf16, momentum: fp32}", 1.10, 2, NULL},
    {"masters widened", "parallel: {tp: 4}\nstate: {param: bf16}",
     "parallel: {dp: 8}\nstate: {param: bf16, master: from-param}", 3.00, 2, "master"},
    {"moments in host memory", "parallel: {tp: 4}\nstate: {param: bf16, " ADAM "}",
     "parallel: {dp: 8}\nstate: {param: bf16, master: fp32, exp_avg: {dtype: fp32, tier: host}, exp_avg_sq: fp32}",
     3.00, 2, "exp_avg"},
    {"one node", "parallel: {tp: 2}", "parallel: {dp: 4}", 0, 0, NULL},
    {"one taker in each node", "parallel: {tp: 4}", "parallel: {tp: 4}\ndevices: 4-7", 0, 0, NULL},
    {"nothing moves", "parallel: {tp: 4, dp: 2}", "parallel: {tp: 4, dp: 2}", 0, 0, NULL},
};

static void improve(struct room *room)
{
    room->better = relay_build(&room->arena, room->base);
}

static bool open_row(struct room *room, size_t row)
{
    const struct move_text move = {moves[row].name, model_text, moves[row].from, moves[row].to};
    return room_open(room, &move, improve);
}

/** The piece of the same cell that a device takes; piece_count: none. */
static uint32_t find_piece(const struct route_type *type, const struct route_cell *cell, uint32_t taker)
{
    uint32_t p = 0;
    while (p < type->piece_count && (type->pieces[p].cell != cell || type->pieces[p].taker != taker))
        p++;
    return p;
}

/** What is sent on has come one stage earlier, with the same chunk, whatever that is. */
static uint32_t check_item(const struct route_type *type, uint32_t index, const char *name)
{
    uint32_t stages = 0;
    for (uint32_t p = 0; p < type->piece_count; p++) {
        uint32_t stage = route_stage(type, index, p), source = route_source(type, index, p);
        stages = stage + 1 > stages ? stage + 1 : stages;
        if (stage == 0)
            continue;
        uint32_t brought = find_piece(type, type->pieces[p].cell, source);
        CHECK_MSG(brought < type->piece_count, "%s: piece %u comes from %u, which does not take it", name, p, source);
        if (brought == type->piece_count)
            continue;
        CHECK_MSG(route_stage(type, index, brought) + 1 == stage, "%s: piece %u of stage %u", name, p, stage);
        CHECK_MSG(type->pieces[p].joined && type->spreads[brought] == type->spreads[p], "%s: pieces %u and %u go apart",
                  name, p, brought);
    }
    return stages;
}

static void check_sources(const struct room *room, size_t row)
{
    const struct route *route = room->better;
    uint32_t stages = 0;
    for (uint32_t t = 0; t < route->type_count; t++) {
        const struct route_type *type = &route->types[t];
        for (uint32_t i = 0; i < type->item_count; i++) {
            uint32_t of_item = check_item(type, i, moves[row].name);
            const char *state = shunt_state_name(route->space->items[type->items[i]].state);
            CHECK_MSG(moves[row].not_sent == NULL || strcmp(moves[row].not_sent, state) != 0 || of_item <= 1,
                      "%s: %s is sent on", moves[row].name, state);
            stages = of_item > stages ? of_item : stages;
        }
    }
    CHECK_MSG(stages == moves[row].stages, "%s: found %u stages, expected %u", moves[row].name, stages,
              moves[row].stages);
}

/** No byte crosses more often, and none enters a node twice unless it may not be sent on. */
static void check_figures(struct room *room, size_t row)
{
    const struct route_figures *direct = &room->base->figures, *relayed = &room->better->figures;
    const char *name = moves[row].name;
    double seconds = relay_route_seconds(&room->arena, room->better);
    CHECK_EQ_U64(relayed->needed_remote, direct->needed_remote);
    CHECK_EQ_U64(relayed->moved, relayed->needed_remote);
    CHECK_EQ_U64(relayed->local, direct->local);
    CHECK_EQ_U64(relayed->inter_node_lower_bound, direct->inter_node_lower_bound);
    CHECK_MSG(relayed->forwarded > 0, "%s", name);
    CHECK_MSG(moves[row].not_sent != NULL || relayed->inter_node == relayed->inter_node_lower_bound, "%s", name);
    CHECK_MSG(seconds <= 0.98 * relay_route_seconds(&room->arena, room->base), "%s: %f s", name, seconds);
    CHECK_MSG(seconds <= moves[row].most * relayed->lower_bound_seconds, "%s: %f of %f s", name, seconds,
              relayed->lower_bound_seconds);
}

static void relays_where_it_pays(void)
{
    for (size_t row = 0; row < sizeof(moves) / sizeof(moves[0]); row++) {
        struct room room;
        if (!open_row(&room, row))
            continue;
        CHECK_MSG((room.better != NULL) == (moves[row].most > 0), "%s", moves[row].name);
        if (room.better != NULL && moves[row].most > 0) {
            check_sources(&room, row);
            check_figures(&room, row);
        }
        room_close(&room);
    }
}

/** Every chunk comes `depth` rounds or more behind the one that brings what it sends on. */
static void check_stages(struct room *room, const struct schedule *schedule, const char *name)
{
    const struct rounds *rounds = &schedule->rounds;
    const struct problem *problem = schedule->problem;
    uint32_t **round_of = ARENA_NEW(&room->arena, uint32_t *, problem->job_count);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < rounds->round_count; k++) {
            for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
                const struct unit *unit = &rounds->units[u];
                if (round_of[unit->job] == NULL)
                    round_of[unit->job] = ARENA_NEW(&room->arena, uint32_t, chunk_count(&unit->chunking));
                round_of[unit->job][unit->chunk] = k;
                CHECK_MSG(pass == 0 || chunk_stage(&unit->chunking, unit->chunk) == 0 ||
                              round_of[unit->job][unit->chunk - chunk_stride(&unit->chunking)] + rounds->depth <= k,
                          "%s: round %u unit %u", name, k, u);
            }
        }
    }
}

static struct problem *build_problem(struct room *room, const struct route *route, uint64_t cap)
{
    struct problem *problem = problem_build(&room->arena, route, cap, 0);
    problem->staging = UINT64_C(1) << 20;
    return problem;
}

/** Under caps from none to the least one: never slower than without relays, and no cap is lost. */
static void check_caps(struct room *room, const char *name)
{
    static const double caps[] = {100, 1.05, 1};
    uint64_t cap = UINT64_MAX / 4, least = 0;
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
        struct schedule both, alone;
        struct shunt_err err = {0};
        cap = i == 0 ? cap : (uint64_t)(caps[i] * (double)least);
        const struct problem *direct = build_problem(room, room->base, cap);
        const struct problem *relayed = build_problem(room, room->better, cap);
        CHECK_MSG(schedule_build(&room->arena, direct, relayed, METHOD_AUTO, &both, &err) == SHUNT_OK, "%s: %s", name,
                  err.text);
        CHECK_MSG(schedule_build(&room->arena, direct, NULL, METHOD_AUTO, &alone, &err) == SHUNT_OK, "%s: %s", name,
                  err.text);
        CHECK_EQ_U64(both.least_cap, alone.least_cap);
        CHECK(i > 0 || both.problem == relayed);
        least = both.least_cap;
        check_stages(room, &both, name);
        double seconds = estimate_seconds(&room->arena, both.problem, &both.rounds);
        CHECK_MSG(both.rounds.hold_old != alone.rounds.hold_old ||
                      seconds <= (1 + 1e-9) * estimate_seconds(&room->arena, direct, &alone.rounds),
                  "%s: cap %g of the least: %f s", name, caps[i], seconds);
    }
}

static void schedules_stages_under_caps(void)
{
    for (size_t row = 0; row < sizeof(moves) / sizeof(moves[0]); row++) {
        struct room room;
        if (moves[row].most == 0 || !open_row(&room, row))
            continue;
        if (room.better != NULL)
            check_caps(&room, moves[row].name);
        room_close(&room);
    }
}

/** What the verifier says of a plan, and the bytes that it sends on. */
static uint64_t prove(const struct room *room, uint64_t cap, const char *name, uint64_t *least_out)
{
    struct compile_options options = room->options;
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {0};
    void *bytes = NULL;
    size_t size = 0;
    uint64_t forwarded = 0;
    struct shunt_verify_report *report = malloc(sizeof(*report));
    options.cap = cap;
    options.cap_given = cap > 0;
    bool made = compile_plan(&options, &room->documents, &bytes, &size, &err) == SHUNT_OK &&
                shunt_plan_open_memory(bytes, size, &plan, &err) == SHUNT_OK;
    CHECK_MSG(made && shunt_plan_verify(plan, report, &err) == SHUNT_OK, "%s: %s", name, err.text);
    if (made) {
        const struct shunt_plan_summary *summary = shunt_plan_get_summary(plan);
        CHECK_EQ_U64(summary->moved, summary->needed_remote + summary->relayed);
        CHECK_EQ_U64(shunt_plan_get_header(plan)->version_minor >= 3, summary->forwarded > 0);
        forwarded = summary->forwarded;
        *least_out = summary->least_cap;
    }
    shunt_plan_close(plan);
    free(bytes);
    free(report);
    return forwarded;
}

static void plans_are_proved(void)
{
    for (size_t row = 0; row < sizeof(moves) / sizeof(moves[0]); row++) {
        struct room room;
        uint64_t least = 0, again = 0;
        if (!open_row(&room, row))
            continue;
        bool forwards = prove(&room, 0, moves[row].name, &least) > 0;
        CHECK_MSG(forwards == (moves[row].most > 0), "%s", moves[row].name);
        prove(&room, least, moves[row].name, &again);
        CHECK_EQ_U64(again, least);
        room_close(&room);
    }
}

static void test_routes(void)
{
    room_folder_around(relays_where_it_pays);
}

static void test_rounds(void)
{
    room_folder_around(schedules_stages_under_caps);
}

static void test_plans(void)
{
    room_folder_around(plans_are_proved);
}

static const struct test_case cases[] = {
    {"relays_where_it_pays", test_routes},
    {"schedules_stages_under_caps", test_rounds},
    {"plans_are_proved", test_plans},
};
TEST_MAIN(cases)
