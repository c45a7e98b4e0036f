/* SPDX-License-Identifier: Apache-2.0 */
/** Balanced rounds of real moves: complete, inside their slots, near what their busiest port needs, and well estimated. */

#include <stdlib.h>
#include <unistd.h>

#include "compile.h"
#include "emit/lower.h"
#include "emit/timing.h"
#include "harness.h"
#include "routing/route.h"
#include "schedule/balance.h"
#include "schedule/estimate.h"
#include "schedule/pairs.h"
#include "schedule/peak.h"
#include "schedule/schedule.h"
#include "space/pair.h"

struct room {
    struct arena arena;
    struct compile_documents documents;
    struct problem *problem;
};

static bool build_problem(struct room *room, struct shunt_err *err)
{
    struct arena *arena = &room->arena;
    const struct compile_documents *documents = &room->documents;
    struct pair pair;
    struct world *world;
    struct route *route;
    if (pair_build(arena, documents->model, documents->from, documents->to, &pair, err) != SHUNT_OK ||
        world_build(arena, documents->cluster, pair.from, pair.to, &world, err) != SHUNT_OK ||
        route_build(arena, pair.space, pair.from, pair.to, world, &route, err) != SHUNT_OK)
        return false;
    room->problem = problem_build(arena, route, UINT64_MAX / 4, 0);
    room->problem->staging = schedule_default_staging(room->problem);
    return true;
}

/** A built-in layout, or one of `folder`: those that are written here. */
static void find_layout(const char *name, const char *folder, char *path, size_t room)
{
    bool written = strncmp(name, "made-", 5) == 0;
    snprintf(path, room, "%s%s/%s.yaml", written ? folder : SHUNT_SOURCE_PLANS, written ? "" : "/layouts", name);
}

static char folder[] = "/tmp/shunt-schedule-XXXXXX";

static bool room_open(struct room *room, const char *from, const char *to, const char *cluster)
{
    char paths[2][256];
    struct shunt_err err = {0};
    find_layout(from, folder, paths[0], sizeof(paths[0]));
    find_layout(to, folder, paths[1], sizeof(paths[1]));
    struct compile_options options = {.from_path = paths[0], .to_path = paths[1], .cluster = cluster};
    memset(room, 0, sizeof(*room));
    if (compile_load(&options, &room->documents, stdout) != SHUNT_OK)
        return false;
    arena_init(&room->arena);
    bool built = setjmp(room->arena.on_failure) == 0 && build_problem(room, &err);
    CHECK_MSG(built, "%s -> %s: %s", from, to, err.text);
    return built;
}

static void room_close(struct room *room)
{
    arena_finish(&room->arena);
    compile_unload(&room->documents);
}

/** Every chunk of every job once. */
static void check_complete(struct room *room, const struct rounds *rounds, const char *name)
{
    const struct problem *problem = room->problem;
    uint32_t *seen = ARENA_NEW(&room->arena, uint32_t, problem->job_count);
    for (uint32_t u = 0; u < rounds->unit_count; u++) {
        const struct unit *unit = &rounds->units[u];
        CHECK_MSG(unit->chunk < chunk_count(&unit->chunking), "%s: unit %u", name, u);
        seen[unit->job] += 1;
    }
    for (uint32_t u = 0; u < rounds->unit_count; u++)
        CHECK_MSG(seen[rounds->units[u].job] == chunk_count(&rounds->units[u].chunking), "%s: unit %u", name, u);
    for (uint32_t j = 0; j < problem->job_count; j++)
        CHECK_MSG(seen[j] > 0, "%s: job %u", name, j);
}

/** What one job makes from the new side of another one comes when that is there. */
static void check_order(struct room *room, const struct rounds *rounds, const char *name)
{
    const struct problem *problem = room->problem;
    uint32_t *first = ARENA_NEW(&room->arena, uint32_t, problem->job_count);
    uint32_t *last = ARENA_NEW(&room->arena, uint32_t, problem->job_count);
    memset(first, 0xff, problem->job_count * sizeof(*first));
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        for (uint32_t u = rounds->round_begin[k]; u < rounds->round_begin[k + 1]; u++) {
            uint32_t j = rounds->units[u].job;
            first[j] = k < first[j] ? k : first[j];
            last[j] = k;
        }
    }
    for (uint32_t j = 0; j < problem->job_count; j++) {
        const struct job *job = &problem->jobs[j];
        uint32_t wait = job->reads_new ? rounds->depth : 0;
        CHECK_MSG(job->after == JOB_NONE || first[j] >= last[job->after] + wait, "%s: job %u after %u", name, j,
                  job->after);
    }
}

/** No slot holds more than it may. */
static void check_slots(struct room *room, const struct rounds *rounds, const struct balance_options *options,
                        const char *name)
{
    const struct problem *problem = room->problem;
    const struct lowered *lowered = lower_build(&room->arena, problem, rounds);
    uint32_t devices = problem->route->world->device_count;
    uint64_t *least = ARENA_NEW(&room->arena, uint64_t, devices), *used = ARENA_NEW(&room->arena, uint64_t, devices);
    rounds_least_slots(&room->arena, problem, options->chunk_bytes, least);
    uint32_t round = 0;
    for (uint32_t i = 0; i < lowered->transfer_count; i++) {
        const struct transfer *transfer = &lowered->transfers[i];
        if (transfer->round != round)
            memset(used, 0, devices * sizeof(*used));
        round = transfer->round;
        if (transfer->source == transfer->taker)
            continue;
        used[transfer->source] += transfer->bytes;
        used[transfer->taker] += transfer->bytes;
        CHECK_MSG(used[transfer->source] <= options->slot_bytes || used[transfer->source] <= least[transfer->source],
                  "%s: round %u device %u", name, round, transfer->source);
        CHECK_MSG(used[transfer->taker] <= options->slot_bytes || used[transfer->taker] <= least[transfer->taker],
                  "%s: round %u device %u", name, round, transfer->taker);
    }
}

static const struct {
    const char *from, *to, *cluster;
    double most; /* seconds of the rounds over those of the busiest port; with the costs of rounds and messages */
    double peak; /* of ordered rounds, over max(old, new) */
} moves[] = {
    {"gpt2-tp4-pp2", "gpt2-tp2-pp4", "local", 1.10, 1.40},
    {"gpt2-tp4-pp2", "made-gpt2", "local", 1.30, 1.60},
    {"gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp4pp4", "a100", 1.05, 1.25},
    {"llama-2-7b-16-dp16", "llama-2-7b-16-tp4dp4", "a800", 1.30, 1.20},
    {"llama-3-70b-tp8-pp4", "llama-3-70b-tp4-pp8", "h100", 1.10, 1.30},
    {"llama-3-70b-64-tp4cp2pp4vpp5dp2", "llama-3-70b-64-tp4pp8vpp5dp2", "h100", 1.10, 1.25},
    {"qwen3-30b-a3b-16-pp2dp8ep8-weights", "qwen3-30b-a3b-16-tp8dp2-rollout", "h100", 1.15, 1.60},
};

static void check_move(size_t row, bool hold_old)
{
    struct room room;
    const char *name = moves[row].to;
    if (!room_open(&room, moves[row].from, moves[row].to, moves[row].cluster))
        return;
    const struct balance_options options = {.depth = 2,
                                            .hold_old = hold_old,
                                            .round_factor = 1,
                                            .slot_bytes = room.problem->staging / 2,
                                            .chunk_bytes = room.problem->staging / 32};
    struct rounds rounds;
    bool built = balance_build(&room.arena, room.problem, &options, &rounds);
    CHECK_MSG(built, "%s", name);
    if (built) {
        check_complete(&room, &rounds, name);
        check_order(&room, &rounds, name);
        check_slots(&room, &rounds, &options, name);
        double seconds = estimate_seconds(&room.arena, room.problem, &rounds);
        double least = estimate_least_seconds(&room.arena, room.problem);
        const struct lowered *lowered = lower_build(&room.arena, room.problem, &rounds);
        double predicted = timing_compute(&room.arena, room.problem, &rounds, lowered).predicted_seconds;
        uint64_t peak = peak_of_rounds(&room.arena, room.problem, &rounds);
        CHECK_MSG(least <= predicted * (1 + 1e-9), "%s: %f of %f s", name, predicted, least);
        CHECK_MSG(!hold_old || predicted <= moves[row].most * least, "%s: %f of %f s", name, predicted, least);
        CHECK_MSG(seconds <= 1.01 * predicted && seconds >= 0.99 * predicted, "%s: %f for %f s", name, seconds,
                  predicted);
        CHECK_MSG(hold_old || (double)peak <= moves[row].peak * (double)room.problem->peak_lower_bound,
                  "%s: %.3f of the least", name, (double)peak / (double)room.problem->peak_lower_bound);
    }
    room_close(&room);
}

/** A layout whose weights are made from their masters. */
static void write_layout(const char *path)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (file == NULL)
        return;
    fputs("kind: layout\nname: made-gpt2\nmodel: gpt2-124m\ncluster: local\nparallel: {tp: 2, pp: 4}\n"
          "state: {param: from-master, master: fp32, exp_avg: fp32, exp_avg_sq: fp32}\n",
          file);
    fclose(file);
}

static void balances_rounds(void)
{
    char path[64];
    if (mkdtemp(folder) == NULL) {
        test_skip("no temporary folder");
        return;
    }
    snprintf(path, sizeof(path), "%s/made-gpt2.yaml", folder);
    write_layout(path);
    for (size_t row = 0; row < sizeof(moves) / sizeof(moves[0]); row++) {
        check_move(row, true);
        check_move(row, false);
    }
    unlink(path);
    rmdir(folder);
}

/** The fastest that fits: less memory never makes a plan faster, and every plan obeys its cap. */
static void chooses_by_time(void)
{
    static const double caps[] = {4, 1.5, 1.25, 1.1, 1.05, 1.02};
    struct room room;
    if (!room_open(&room, "gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp4pp4", "a100"))
        return;
    double before = 0;
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
        struct schedule schedule;
        struct shunt_err err = {0};
        room.problem->cap = (uint64_t)(caps[i] * (double)room.problem->peak_lower_bound);
        room.problem->staging = UINT64_C(256) << 20;
        CHECK_MSG(schedule_build(&room.arena, room.problem, NULL, METHOD_AUTO, &schedule, &err) == SHUNT_OK, "%s",
                  err.text);
        double seconds = estimate_seconds(&room.arena, room.problem, &schedule.rounds);
        CHECK(peak_of_rounds(&room.arena, room.problem, &schedule.rounds) <= room.problem->cap);
        CHECK_MSG(seconds >= 0.98 * before, "cap %.2f: %f s after %f s", caps[i], seconds, before);
        CHECK_MSG(seconds <= 1.15 * estimate_least_seconds(&room.arena, room.problem), "cap %.2f: %f s", caps[i],
                  seconds);
        before = seconds;
    }
    room_close(&room);
}

static void pairs_count_once_a_round(void)
{
    struct arena arena;
    struct pairs pairs = {0};
    arena_init(&arena);
    if (setjmp(arena.on_failure) != 0) {
        CHECK(!"memory");
        return;
    }
    uint32_t fresh = 0;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t n = 0; n < 4000; n++)
            fresh += pairs_add(&arena, &pairs, n % 1000, n % 7, round);
    }
    CHECK_EQ_U64(fresh, 3 * 4000);
    CHECK(!pairs_add(&arena, &pairs, 5, 5, 2));
    CHECK(pairs_add(&arena, &pairs, 5, 5, 3));
    arena_finish(&arena);
}

struct scratch_work {
    struct arena *out;
    bool inside, in_out;
    int reached;
};

static void nested(struct arena *scratch, void *context)
{
    struct scratch_work *work = context;
    memset(ARENA_NEW(scratch, char, 1 << 20), 1, 1 << 20);
    work->reached++;
    if (work->inside)
        arena_alloc(work->in_out ? work->out : scratch, SIZE_MAX, 2);
    else
        arena_with_scratch(scratch, nested, &(struct scratch_work){work->out, true, work->in_out, 0});
    work->reached++;
}

/** What fails in a scratch arena, or in the one around it, fails there, and nothing stays behind (asan sees leaks). */
static void scratch_fails_upward(void)
{
    for (int in_out = 0; in_out < 2; in_out++) {
        struct arena arena;
        struct scratch_work work = {.out = &arena, .in_out = in_out};
        arena_init(&arena);
        volatile bool failed = true;
        if (setjmp(arena.on_failure) == 0) {
            arena_with_scratch(&arena, nested, &work);
            failed = false;
        }
        CHECK(failed);
        arena_finish(&arena);
        CHECK(arena.blocks == NULL && arena.scratch == NULL);
    }
}

static const struct test_case cases[] = {
    {"balances_rounds", balances_rounds},
    {"chooses_by_time", chooses_by_time},
    {"pairs_count_once_a_round", pairs_count_once_a_round},
    {"scratch_fails_upward", scratch_fails_upward},
};
TEST_MAIN(cases)
