/* SPDX-License-Identifier: Apache-2.0 */
/** Routes over the network ports of neighbours: whose, how much, in which rounds, and that plans of them are right. */

#include "emit/file.h"
#include "move_room.h"
#include "routing/pool.h"
#include "routing/relay.h"
#include "routing/relay_ports.h"
#include "schedule/balance.h"
#include "schedule/peak.h"
#include "schedule/schedule.h"
#include "shunt/verify.h"

static const char model_text[] = "kind: model\nname: toy\nlayers: 4\nheads: 8\ntensors:\n"
                                 "  - {name: embed.weight, shape: [512, 64], stage: first, cut: {dim: 0}}\n"
                                 "  - {name: norm.weight, shape: [60], stage: last}\n"
                                 "  - {name: \"layer.{i}.up.weight\", shape: [256, 64], cut: {dim: 0}}\n"
                                 "  - {name: \"layer.{i}.down.weight\", shape: [64, 256], cut: {dim: 1}}\n";

static const struct {
    const char *name, *from, *to; /* what the layouts say of themselves */
    double most;                  /* seconds of the busiest port over the bound; 0: nothing goes over neighbours */
    uint32_t stages;              /* most of a piece */
} moves[] = {
    {"idle senders", "parallel: {tp: 2}", "parallel: {tp: 4}\ndevices: 2-5", 1.10, 2},
    {"idle receivers", "parallel: {tp: 4, pp: 2}", "parallel: {tp: 2, pp: 2}\ndevices: 4-7", 1.10, 2},
    {"both", "parallel: {pp: 4}\ndevices: 0,1,5,6", "parallel: {pp: 4}\ndevices: 4,1,5,6", 1.10, 3},
    {"one sender of four", "parallel: {tp: 1}", "parallel: {tp: 8}", 1.10, 2},
    {"copies behind it", "parallel: {tp: 2}", "parallel: {tp: 2, dp: 4}", 1.15, 3},
    {"weights from masters", "parallel: {tp: 2}\nstate: {param: bf16, " ADAM "}",
     "parallel: {tp: 8}\nshard: {rule: megatron}\nstate: {param: from-master, " ADAM "}", 1.10, 2},
    {"weights narrowed", "parallel: {tp: 2}\nstate: {param: fp32, momentum: fp32}",
     "parallel: {tp: 8}\nstate: {param: bf16, momentum: fp32}", 1.10, 2},
    {"masters widened", "parallel: {tp: 2}\nstate: {param: bf16}",
     "parallel: {tp: 8}\nstate: {param: bf16, master: from-param}", 1.10, 2},
    {"moments in host memory", "parallel: {tp: 2}\nstate: {param: bf16, " ADAM "}",
     "parallel: {tp: 8}\nstate: {param: bf16, master: fp32, exp_avg: {dtype: fp32, tier: host}, exp_avg_sq: fp32}",
     1.10, 2},
    {"all senders are busy", "parallel: {tp: 4}", "parallel: {tp: 4}\ndevices: 4-7", 0, 0},
    {"one node", "parallel: {tp: 2}", "parallel: {dp: 4}", 0, 0},
    {"nothing moves", "parallel: {tp: 4, dp: 2}", "parallel: {tp: 4, dp: 2}", 0, 0},
};
#define MOVE_COUNT (sizeof(moves) / sizeof(moves[0]))

static void improve(struct room *room)
{
    struct route *relayed = relay_build(&room->arena, room->base);
    room->base = relayed != NULL ? relayed : room->base;
    room->better = pool_build(&room->arena, room->base);
}

static bool open_row(struct room *room, size_t row)
{
    const struct move_text move = {moves[row].name, model_text, moves[row].from, moves[row].to};
    return room_open(room, &move, improve);
}

/* ---- routes -------------------------------------------------------------------------- */

/** The piece of a cell, from `begin` on, that a device takes; piece_count: none. */
static uint32_t find_piece(const struct route_type *type, const struct route_cell *cell, uint32_t taker, uint32_t begin)
{
    while (begin < type->piece_count &&
           (type->pieces[begin].cell != cell || type->pieces[begin].taker != taker || !type->pieces[begin].joined))
        begin++;
    return begin;
}

/** What is sent on has come one stage earlier, with the same chunk, into the memory that it is read from. */
static void check_brought(const struct route_type *type, uint32_t index, uint32_t p, const char *name)
{
    const struct route_piece *piece = &type->pieces[p];
    uint32_t brought = find_piece(type, piece->cell, route_source(type, index, p), 0);
    while (brought < type->piece_count && type->pieces[brought].passing != piece->passed)
        brought = find_piece(type, piece->cell, route_source(type, index, p), brought + 1);
    CHECK_MSG(brought < type->piece_count, "%s: piece %u comes from where it never was", name, p);
    if (brought == type->piece_count)
        return;
    CHECK_MSG(route_stage(type, index, brought) + 1 == route_stage(type, index, p), "%s: piece %u of stage %u", name, p,
              route_stage(type, index, p));
    CHECK_MSG(piece->joined && type->spreads[brought] == type->spreads[p], "%s: pieces %u and %u go apart", name, p,
              brought);
}

/** What passes through a device is sent on, and comes there once. */
static void check_passing(const struct route_type *type, uint32_t index, uint32_t p, const char *name)
{
    const struct route_piece *piece = &type->pieces[p];
    bool sent = false;
    for (uint32_t q = 0; q < type->piece_count; q++) {
        const struct route_piece *other = &type->pieces[q];
        if (other->cell != piece->cell)
            continue;
        sent = sent || (other->passed && route_source(type, index, q) == piece->taker);
        CHECK_MSG(q == p || !other->passing || other->taker != piece->taker, "%s: pieces %u and %u", name, p, q);
    }
    CHECK_MSG(sent, "%s: piece %u ends on its way", name, p);
}

static void check_pieces(const struct room *room, size_t row)
{
    const struct route *route = room->better;
    const char *name = moves[row].name;
    uint32_t stages = 0;
    for (uint32_t i = 0; i < route->space->item_count; i++)
        CHECK_EQ_U64(route->types[route->item_type[i]].items[route->item_index[i]], i);
    for (uint32_t t = 0; t < route->type_count; t++) {
        const struct route_type *type = &route->types[t];
        for (uint32_t n = 0; n < type->item_count * type->piece_count; n++) {
            uint32_t i = n / type->piece_count, p = n % type->piece_count, stage = route_stage(type, i, p);
            stages = stage + 1 > stages ? stage + 1 : stages;
            if (stage > 0)
                check_brought(type, i, p, name);
            if (type->pieces[p].passing)
                check_passing(type, i, p, name);
        }
    }
    CHECK_MSG(stages == moves[row].stages, "%s: found %u stages, expected %u", name, stages, moves[row].stages);
}

/** As much is needed and crosses between nodes, more inside them; the busiest port is near what no plan beats. */
static void check_figures(struct room *room, size_t row)
{
    const struct route_figures *base = &room->base->figures, *pooled = &room->better->figures;
    double seconds = relay_route_seconds(&room->arena, room->better);
    CHECK_EQ_U64(pooled->needed_remote, base->needed_remote);
    CHECK_EQ_U64(pooled->local, base->local);
    CHECK_EQ_U64(pooled->saved, base->saved);
    CHECK_EQ_U64(pooled->moved, pooled->needed_remote + pooled->relayed);
    CHECK_MSG(pooled->inter_node <= base->inter_node, "%s", moves[row].name);
    CHECK_MSG(pooled->relayed > 0, "%s", moves[row].name);
    CHECK_MSG(seconds <= 0.9 * relay_route_seconds(&room->arena, room->base), "%s: %f s", moves[row].name, seconds);
    CHECK_MSG(seconds <= moves[row].most * pooled->lower_bound_seconds, "%s: %.9f of %.9f s", moves[row].name, seconds,
              pooled->lower_bound_seconds);
}

static void pools_where_it_pays(void)
{
    for (size_t row = 0; row < MOVE_COUNT; row++) {
        struct room room;
        if (!open_row(&room, row))
            continue;
        CHECK_MSG((room.better != NULL) == (moves[row].most > 0), "%s", moves[row].name);
        if (room.better != NULL && moves[row].most > 0) {
            check_pieces(&room, row);
            check_figures(&room, row);
        }
        room_close(&room);
    }
}

/* ---- plans --------------------------------------------------------------------------- */

/** Write the plan of some rounds and let the verifier look at it. @return its peak */
static uint64_t prove(struct room *room, const struct problem *problem, const struct rounds *rounds, const char *name)
{
    const struct schedule schedule = {.problem = problem, .rounds = *rounds, .method = "test"};
    const struct file_input input = {.model = room->documents.model,
                                     .cluster = room->documents.cluster,
                                     .route = problem->route,
                                     .problem = problem,
                                     .schedule = &schedule,
                                     .threads = 1};
    struct shunt_verify_report *report = malloc(sizeof(*report));
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {0};
    struct output *output = NULL;
    uint64_t peak = 0;
    bool made = output_open(NULL, &output, &err) == SHUNT_OK &&
                file_assemble(&room->arena, &input, output, &err) == SHUNT_OK &&
                output_plan(output, &plan, &err) == SHUNT_OK;
    CHECK_MSG(made && shunt_plan_verify(plan, report, &err) == SHUNT_OK, "%s: %s", name, err.text);
    if (made) {
        const struct shunt_plan_summary *summary = shunt_plan_get_summary(plan);
        CHECK_EQ_U64(summary->relayed, problem->route->figures.relayed);
        CHECK_EQ_U64(summary->moved, summary->needed_remote + summary->relayed);
        CHECK_EQ_U64(shunt_plan_get_header(plan)->version_minor, 3);
        peak = summary->peak;
    }
    shunt_plan_close(plan);
    output_close(output);
    free(report);
    return peak;
}

static struct problem *build_problem(struct room *room, const struct route *route, uint64_t cap)
{
    struct problem *problem = problem_build(&room->arena, route, cap, 0);
    problem->staging = UINT64_C(1) << 17;
    return problem;
}

static uint32_t *plain_order(struct arena *arena, const struct problem *problem)
{
    uint32_t *order = ARENA_NEW(arena, uint32_t, problem->job_count);
    for (uint32_t j = 0; j < problem->job_count; j++)
        order[j] = j;
    return order;
}

/**
 * Lists of chunks under ever smaller caps: what is planned stays under them, scratch memory and all.
 *
 * @return how many there were beside the first
 */
static uint32_t check_lists(struct room *room, uint32_t depth, const char *name)
{
    struct problem *problem = build_problem(room, room->better, UINT64_MAX / 4);
    struct rounds_options options = {.depth = depth,
                                     .slot_bytes = problem->staging / depth,
                                     .chunk_bytes = 1 << 14,
                                     .window = 256,
                                     .order = plain_order(&room->arena, problem)};
    uint32_t made = 0;
    uint64_t cap = problem->cap;
    struct rounds rounds;
    while (made < 6 && rounds_build(&room->arena, problem, &options, &rounds)) {
        uint64_t peak = prove(room, problem, &rounds, name);
        CHECK_EQ_U64(peak_of_rounds(&room->arena, problem, &rounds), peak);
        CHECK_MSG(peak <= cap, "%s: %llu bytes of %llu", name, (unsigned long long)peak, (unsigned long long)cap);
        problem->cap = cap = peak - 1 - peak / 200;
        made++;
    }
    CHECK_MSG(made > 0, "%s", name);
    return made - (made > 0);
}

/** The same of rounds that are balanced. */
static void check_balanced(struct room *room, bool hold_old, const char *name)
{
    const struct problem *problem = build_problem(room, room->better, UINT64_MAX / 4);
    const struct balance_options options = {.depth = 2,
                                            .hold_old = hold_old,
                                            .round_factor = 1,
                                            .slot_bytes = problem->staging / 2,
                                            .chunk_bytes = 1 << 14};
    struct rounds rounds;
    bool made = balance_build(&room->arena, problem, &options, &rounds);
    CHECK_MSG(made, "%s", name);
    if (made)
        CHECK_EQ_U64(prove(room, problem, &rounds, name), peak_of_rounds(&room->arena, problem, &rounds));
}

static void plans_are_proved(void)
{
    uint32_t tight = 0;
    for (size_t row = 0; row < MOVE_COUNT; row++) {
        struct room room;
        if (!open_row(&room, row))
            continue;
        if (room.better != NULL) {
            tight += check_lists(&room, 1, moves[row].name);
            tight += check_lists(&room, 2, moves[row].name);
            check_balanced(&room, false, moves[row].name);
            check_balanced(&room, true, moves[row].name);
        }
        room_close(&room);
    }
    CHECK_MSG(tight >= MOVE_COUNT, "%u caps were met", tight);
}

/** The compiler takes them, and no cap is lost. */
static void compiler_chooses(void)
{
    for (size_t row = 0; row < MOVE_COUNT; row++) {
        struct room room;
        struct schedule all, alone;
        struct shunt_err err = {0};
        if (!open_row(&room, row))
            continue;
        const struct problem *base = build_problem(&room, room.base, UINT64_MAX / 4);
        const struct problem *pooled = room.better != NULL ? build_problem(&room, room.better, UINT64_MAX / 4) : NULL;
        CHECK_MSG(schedule_build(&room.arena, base, pooled, METHOD_AUTO, &all, &err) == SHUNT_OK, "%s: %s",
                  moves[row].name, err.text);
        CHECK_MSG((all.problem == pooled) == (moves[row].most > 0), "%s", moves[row].name);
        CHECK_MSG(schedule_build(&room.arena, base, NULL, METHOD_AUTO, &alone, &err) == SHUNT_OK, "%s: %s",
                  moves[row].name, err.text);
        CHECK_EQ_U64(all.least_cap, alone.least_cap);
        struct problem *tight = build_problem(&room, room.base, all.least_cap);
        struct problem *other = pooled != NULL ? build_problem(&room, room.better, all.least_cap) : NULL;
        CHECK_MSG(schedule_build(&room.arena, tight, other, METHOD_AUTO, &all, &err) == SHUNT_OK, "%s: %s",
                  moves[row].name, err.text);
        CHECK(peak_of_rounds(&room.arena, all.problem, &all.rounds) <= tight->cap);
        room_close(&room);
    }
}

static void test_routes(void)
{
    room_folder_around(pools_where_it_pays);
}

static void test_plans(void)
{
    room_folder_around(plans_are_proved);
}

static void test_choice(void)
{
    room_folder_around(compiler_chooses);
}

static const struct test_case cases[] = {
    {"pools_where_it_pays", test_routes},
    {"plans_are_proved", test_plans},
    {"compiler_chooses", test_choice},
};
TEST_MAIN(cases)
