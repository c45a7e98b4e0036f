/* SPDX-License-Identifier: Apache-2.0 */
/* The replay engine over loopback: results, binding, states, memory, and transports that misbehave. */
#include <stdlib.h>
#include <time.h>

#include "harness.h"
#include "rig.h"

static const struct rig_options plain = {.watched = -1};
static const struct rig_options tracked = {.track = true, .watched = -1};
static const struct rig_options faulty = {.transport = &transport_faulty, .track = true, .watched = -1};

static void moves_the_tiny_plan(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &tracked);
    rig_bind(&rig, 11, false);
    CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s", rig.err.text);
    struct contents_report report = rig_check(&rig, 11, false);
    CHECK_EQ_U64(report.checked_bytes, 2 * 8 * 2 * 2 + 2 * 16 + 24);
    CHECK_EQ_U64(report.wrong_bytes, 0);
    CHECK_EQ_U64(report.never_bytes, 0);
    CHECK_STR(report.first, "");
    report = rig_check(&rig, 12, false);
    CHECK(report.wrong_bytes > 0);
    uint64_t moved = 0, received = 0;
    for (uint32_t d = 0; d < 3; d++) {
        struct shunt_exec_stats stats;
        shunt_exec_get_stats(rig.execs[d], &stats);
        const struct shunt_plan_summary *summary = shunt_plan_get_summary(rig.plan);
        moved += stats.sent_bytes;
        received += stats.received_bytes;
        CHECK_EQ_U64(stats.peak_bytes + summary->reserve + summary->transport, stats.plan_peak_bytes);
    }
    CHECK_EQ_U64(moved, shunt_plan_get_summary(rig.plan)->moved);
    CHECK_EQ_U64(received, moved);
    rig_close(&rig);
}

static void casts_on_the_way(void)
{
    struct rig rig;
    rig_open(&rig, build_cast(), &tracked);
    rig_bind(&rig, 5, false);
    CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s", rig.err.text);
    struct contents_report report = rig_check(&rig, 5, false);
    CHECK_EQ_U64(report.checked_bytes, 2 * (32 + 64) + 32 + 64);
    CHECK_EQ_U64(report.wrong_bytes, 0);
    CHECK_EQ_U64(report.never_bytes, 0);
    CHECK_STR(report.first, "");
    CHECK(rig_check(&rig, 6, false).wrong_bytes > report.checked_bytes / 2);
    uint64_t moved = 0, received = 0, copied = 0;
    for (uint32_t d = 0; d < 2; d++) {
        struct shunt_exec_stats stats;
        shunt_exec_get_stats(rig.execs[d], &stats);
        moved += stats.sent_bytes;
        received += stats.received_bytes;
        copied += stats.copied_bytes;
    }
    CHECK_EQ_U64(moved, shunt_plan_get_summary(rig.plan)->moved);
    CHECK_EQ_U64(received, moved);
    CHECK_EQ_U64(copied, shunt_plan_get_summary(rig.plan)->local);
    rig_close(&rig);
}

/* What the engine had in memory is what the plan says; of scratch nothing is left. */
static void check_memory(struct rig *rig)
{
    uint64_t host_peak = 0;
    for (uint32_t d = 0; d < rig->count; d++) {
        struct shunt_exec_stats stats;
        struct shunt_exec_buffer buffer;
        shunt_exec_get_stats(rig->execs[d], &stats);
        host_peak = stats.host_peak_bytes > host_peak ? stats.host_peak_bytes : host_peak;
        CHECK_EQ_U64(stats.peak_bytes, stats.plan_peak_bytes);
        for (uint32_t i = 0; i < shunt_exec_buffer_count(rig->execs[d]); i++) {
            shunt_exec_get_buffer(rig->execs[d], i, &buffer);
            CHECK(buffer.side != SHUNT_SIDE_SCRATCH || buffer.data == NULL);
        }
    }
    CHECK_EQ_U64(host_peak, shunt_plan_get_summary(rig->plan)->host_peak);
}

/* The caller's allocator hears of its own buffers only. */
static void check_events(struct rig *rig)
{
    CHECK_EQ_U64(rig->event_count, 2 + 3);
    for (uint32_t i = 0; i < rig->event_count; i++) {
        int64_t own = engine_find(&rig->execs[0]->engine, rig->events[i].name, SHUNT_SIDE_TO);
        CHECK(strncmp(rig->events[i].name, "scratch:", 8) != 0);
        if (rig->events[i].what == 'a')
            rig_give(rig->execs[0]->engine.buffers[own].data, rig->events[i].bytes);
    }
}

/* Through the memory of another device, and through host memory. */
static void scratch_on_the_way(void)
{
    struct rig rig;
    rig_open(&rig, build_scratch(), &(struct rig_options){.track = true, .watched = 0});
    CHECK_EQ_U64(shunt_exec_bind(rig.execs[1], SHUNT_SIDE_SCRATCH, "scratch:1", SHUNT_DTYPE_BF16, &rig, 32, &rig.err),
                 SHUNT_ERR_MISMATCH);
    rig_bind(&rig, 5, false);
    CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s", rig.err.text);
    struct contents_report report = rig_check(&rig, 5, false);
    CHECK_EQ_U64(report.checked_bytes, 2 * 32 + 32 + 16);
    CHECK_EQ_U64(report.wrong_bytes, 0);
    CHECK_EQ_U64(report.never_bytes, 0);
    CHECK_STR(report.first, "");
    CHECK(rig_check(&rig, 6, false).wrong_bytes > report.checked_bytes / 2);
    check_memory(&rig);
    check_events(&rig);
    rig_close(&rig);
}

/* Whatever a run would tell its caller, a dry one does not, and a run may follow. */
static void dry_runs_move_nothing(void)
{
    struct build *(*const plans[])(void) = {build_tiny, build_cast, build_scratch};
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        struct rig rig;
        rig_open(&rig, plans[i](), &(struct rig_options){.track = true, .watched = 0});
        rig_bind(&rig, 9, false);
        for (int time = 0; time < 2; time++)
            CHECK_MSG(shunt_exec_dry_run(rig.world, rig.execs, rig.count, 10, &rig.err) == SHUNT_OK, "%s",
                      rig.err.text);
        CHECK_EQ_U64(rig.event_count, 0);
        for (uint32_t d = 0; d < rig.count; d++) {
            struct shunt_exec_stats stats;
            shunt_exec_get_stats(rig.execs[d], &stats);
            CHECK_EQ_U64(stats.sent_bytes + stats.received_bytes + stats.copied_bytes + stats.filled_bytes, 0);
            CHECK_EQ_U64(shunt_exec_get_state(rig.execs[d]), SHUNT_EXEC_BOUND);
            for (uint32_t b = 0; b < shunt_exec_buffer_count(rig.execs[d]); b++) {
                struct shunt_exec_buffer buffer;
                shunt_exec_get_buffer(rig.execs[d], b, &buffer);
                CHECK((buffer.data == NULL) == (buffer.side == SHUNT_SIDE_TO || buffer.side == SHUNT_SIDE_SCRATCH) ||
                      buffer.bytes == 0);
            }
        }
        rig_close(&rig);
        rig_open(&rig, plans[i](), &tracked);
        rig_bind(&rig, 9, false);
        CHECK_EQ_U64(shunt_exec_dry_run(rig.world, rig.execs, rig.count, 10, &rig.err), SHUNT_OK);
        CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s", rig.err.text);
        struct contents_report report = rig_check(&rig, 9, false);
        CHECK(report.checked_bytes > 0);
        CHECK_EQ_U64(report.wrong_bytes + report.never_bytes, 0);
        CHECK(shunt_exec_dry_run(rig.world, rig.execs, rig.count, 10, &rig.err) == SHUNT_ERR_USAGE); /* done */
        rig_close(&rig);
    }
}

static void runs_again_with_other_memory(void)
{
    /* three runs, each over new memory: the third result is as good as the first */
    struct build *(*const plans[])(void) = {build_tiny, build_scratch};
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        struct rig rig;
        rig_open(&rig, plans[i](), &plain);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            rig_bind(&rig, seed, false);
            CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s", rig.err.text);
            CHECK_EQ_U64(rig_check(&rig, seed, false).wrong_bytes, 0);
            rig_unbind(&rig);
        }
        rig_close(&rig);
    }
}

static void refuses_a_changed_buffer_table(void)
{
    static const struct {
        const char *name;
        unsigned dtype;
        uint64_t bytes;
        enum shunt_status status;
        const char *text;
    } rows[] = {
        {"param/embed.weight", SHUNT_DTYPE_BF16, 12, SHUNT_ERR_MISMATCH,
         "buffer table changed: param/embed.weight has 12 bytes, plan says 24"},
        {"param/embed.weight", SHUNT_DTYPE_BF16, 48, SHUNT_ERR_MISMATCH, "has 48 bytes"},
        {"param/embed.weight", SHUNT_DTYPE_FP16, 24, SHUNT_ERR_MISMATCH,
         "buffer table changed: param/embed.weight is fp16, plan says bf16"},
        {"param/embed.weight", 99, 24, SHUNT_ERR_MISMATCH, "of no known dtype"},
        {"param/embed", SHUNT_DTYPE_BF16, 24, SHUNT_ERR_MISMATCH, "no old-side buffer param/embed on device 0"},
        {"grad/embed.weight", SHUNT_DTYPE_BF16, 24, SHUNT_ERR_MISMATCH, "no old-side buffer"},
        {"param/embed.weight", SHUNT_DTYPE_BF16, 24, SHUNT_OK, ""},
    };
    struct rig rig;
    static _Alignas(8) char memory[64];
    rig_open(&rig, build_tiny(), &plain);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig.err.text[0] = '\0';
        enum shunt_status st = shunt_exec_bind(rig.execs[0], SHUNT_SIDE_FROM, rows[i].name, rows[i].dtype, memory,
                                               rows[i].bytes, &rig.err);
        CHECK_EQ_U64(st, rows[i].status);
        CHECK_CONTAINS(rig.err.text, rows[i].text);
    }
    CHECK_EQ_U64(shunt_exec_bind(rig.execs[0], SHUNT_SIDE_FROM, "param/embed.weight", SHUNT_DTYPE_BF16, memory + 1, 24,
                                 &rig.err),
                 SHUNT_ERR_USAGE);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_USAGE);
    CHECK_CONTAINS(rig.err.text, "not bound");
    rig_close(&rig);
}

/* All of a table, or nothing of it. */
static void binds_whole_tables(void)
{
    static _Alignas(8) char memory[RIG_MAX_BUFFERS][64];
    struct rig rig;
    struct shunt_exec_binding table[RIG_MAX_BUFFERS];
    uint32_t count = 0;
    rig_open(&rig, build_tiny(), &plain);
    for (uint32_t i = 0; i < shunt_exec_buffer_count(rig.execs[0]); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(rig.execs[0], i, &buffer);
        if (buffer.side != SHUNT_SIDE_TO && buffer.side != SHUNT_SIDE_SCRATCH)
            table[count++] =
                (struct shunt_exec_binding){SHUNT_SIDE_FROM, buffer.dtype, buffer.name, memory[i], buffer.bytes};
    }
    CHECK(count > 1);
    table[count - 1].bytes++;
    CHECK_EQ_U64(shunt_exec_bind_all(rig.execs[0], table, count, &rig.err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(rig.err.text, table[count - 1].name);
    for (uint32_t i = 0; i < shunt_exec_buffer_count(rig.execs[0]); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(rig.execs[0], i, &buffer);
        CHECK(buffer.data == NULL);
    }
    table[count - 1].bytes--;
    CHECK_EQ_U64(shunt_exec_bind_all(rig.execs[0], table, count - 1, &rig.err), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[0]), SHUNT_EXEC_VERIFIED);
    CHECK_EQ_U64(shunt_exec_bind_all(rig.execs[0], table, count, &rig.err), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[0]), SHUNT_EXEC_BOUND);
    CHECK_EQ_U64(shunt_exec_reset(rig.execs[0], &rig.err), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_bind_all(rig.execs[0], table, 0, &rig.err), SHUNT_OK);
    rig_close(&rig);
}

static void works_on_the_callers_stream(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.track = true, .watched = -1, .stream = true});
    rig_bind(&rig, 4, false);
    CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s", rig.err.text);
    for (uint32_t d = 0; d < rig.count; d++)
        CHECK(shunt_exec_get_stream(rig.execs[d]) == rig.stream);
    struct contents_report report = rig_check(&rig, 4, false);
    CHECK(report.checked_bytes > 0);
    CHECK_EQ_U64(report.wrong_bytes + report.never_bytes, 0);
    struct shunt_exec_config config = {.plan = rig.plan, .stream = &rig}; /* on the host */
    struct shunt_exec *exec = NULL;
    CHECK_EQ_U64(shunt_exec_open(&config, &exec, &rig.err), SHUNT_ERR_USAGE);
    CHECK_CONTAINS(rig.err.text, "a stream is given, and host memory has none");
    rig_close(&rig);
}

static void keeps_to_its_states(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &plain);
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[0]), SHUNT_EXEC_VERIFIED);
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[2]), SHUNT_EXEC_BOUND); /* nothing to bind on a newcomer */
    CHECK_EQ_U64(shunt_exec_trust(rig.execs[0], &rig.err), SHUNT_ERR_USAGE);
    rig_bind(&rig, 1, false);
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[0]), SHUNT_EXEC_BOUND);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[0]), SHUNT_EXEC_DONE);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_USAGE);
    CHECK_EQ_U64(
        shunt_exec_bind(rig.execs[0], SHUNT_SIDE_FROM, "param/embed.weight", SHUNT_DTYPE_BF16, &rig, 24, &rig.err),
        SHUNT_ERR_USAGE);
    CHECK_CONTAINS(rig.err.text, "in state done");
    rig_close(&rig);

    struct shunt_exec *exec;
    struct shunt_exec_config config = {.plan_path = "/nonexistent.plan"};
    CHECK_EQ_U64(shunt_exec_open(&config, &exec, &rig.err), SHUNT_ERR_IO);
    shunt_exec_close(NULL);
    shunt_world_close(NULL);
}

static void verifies_the_plan(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &plain);
    struct shunt_exec *exec;
    struct shunt_exec_config config = {.plan = rig.plan, .device = 1};
    CHECK_EQ_U64(shunt_exec_open(&config, &exec, &rig.err), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_bind(exec, SHUNT_SIDE_FROM, "param/norm.weight", SHUNT_DTYPE_FP32, &rig, 16, &rig.err),
                 SHUNT_ERR_USAGE);
    CHECK_MSG(shunt_exec_verify(exec, &rig.err) == SHUNT_OK, "%s", rig.err.text);
    CHECK_EQ_U64(shunt_exec_get_state(exec), SHUNT_EXEC_VERIFIED);
    shunt_exec_close(exec);
    config.device = 3;
    CHECK_EQ_U64(shunt_exec_open(&config, &exec, &rig.err), SHUNT_ERR_USAGE);
    rig_close(&rig);
}

static void allocates_and_releases_as_planned(void)
{
    static const char *const want[] = {"a24 param/embed.weight", "r24 param/embed.weight", "a24 exp_avg/flat",
                                       "r4 exp_avg/flat"};
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = 1});
    rig_bind(&rig, 1, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_OK);
    CHECK_EQ_U64(rig_check(&rig, 1, false).wrong_bytes, 0);
    uint32_t allocs = 0, releases = 0;
    for (uint32_t i = 0; i < rig.event_count; i++) {
        allocs += rig.events[i].what == 'a';
        releases += rig.events[i].what == 'r';
        CHECK(strcmp(rig.events[i].name, "param/norm.weight") != 0); /* kept */
    }
    CHECK_EQ_U64(allocs, 2);
    CHECK_EQ_U64(releases, 2);
    CHECK_EQ_U64(rig.events[0].what, 'a');
    CHECK_STR(rig.events[0].name, want[0] + 4);
    for (uint32_t i = 0; i < shunt_exec_buffer_count(rig.execs[1]); i++) {
        struct shunt_exec_buffer buffer;
        shunt_exec_get_buffer(rig.execs[1], i, &buffer);
        if (buffer.side == SHUNT_SIDE_FROM)
            CHECK(buffer.data == NULL);
        if (buffer.side == SHUNT_SIDE_TO)
            rig_give(buffer.data, buffer.bytes);
    }
    rig_close(&rig);
}

static void stops_when_memory_runs_out(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = 1});
    rig_bind(&rig, 1, false);
    rig.refuse_alloc = "param/embed.weight";
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_NOMEM);
    CHECK_CONTAINS(rig.err.text, "device 1: round 0: no memory for param/embed.weight");
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[0]), SHUNT_EXEC_FAILED);
    rig_close(&rig);
}

static void uses_memory_that_the_caller_bound(void)
{
    unsigned char found[32] = {0};
    struct rig rig;
    rig_open(&rig, build_tiny(), &plain);
    rig_bind(&rig, 5, false);
    void *mine = rig_take(32);
    CHECK_EQ_U64(
        shunt_exec_bind(rig.execs[1], SHUNT_SIDE_TO, "param/embed.weight", SHUNT_DTYPE_BF16, mine, 32, &rig.err),
        SHUNT_OK);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_OK);
    CHECK_EQ_U64(rig_check(&rig, 5, false).wrong_bytes, 0);
    rig_peek(found, mine, sizeof(found));
    CHECK(found[0] != 0 || found[1] != 0 || found[2] != 0);
    rig_give(mine, 32);
    rig_close(&rig);
}

/* Loopback for one message between two devices, as groups of NCCL have. */
static struct transport_ops transport_single;

static enum shunt_status single_open(const struct transport_config *config, struct transport **transport_out,
                                     struct shunt_err *err)
{
    enum shunt_status st = transport_loopback.open(config, transport_out, err);
    if (st == SHUNT_OK)
        (*transport_out)->ops = &transport_single;
    return st;
}

static uint32_t whole_messages(const struct rig *rig)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < rig->count; d++) {
        const struct engine *engine = &rig->execs[d]->engine;
        for (uint32_t m = 0; m < engine->part.header->message_count; m++)
            count += engine->whole[m] != SHUNT_PLAN_NONE;
    }
    return count;
}

/* The 16 bytes of norm, from and to buffers themselves, if those are aligned; on the host a copy costs less. */
static void whole_pieces_need_no_staging(void)
{
    transport_single = transport_loopback;
    transport_single.open = single_open;
    transport_single.many_messages = false;
    for (uint32_t shift = 0; shift <= 8; shift += 8) {
        struct rig rig;
        rig_open(&rig, build_tiny(),
                 &(struct rig_options){.transport = &transport_single, .shift = shift, .track = true, .watched = -1});
        rig_bind(&rig, 9, false);
        CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s", rig.err.text);
        struct contents_report report = rig_check(&rig, 9, false);
        CHECK_EQ_U64(report.wrong_bytes + report.never_bytes, 0);
        uint32_t want = !rig.on->ops->asynchronous ? 0 : shift == 0 ? 2 : 1; /* what is received is in new memory */
        CHECK_EQ_U64(whole_messages(&rig), want);
        rig_close(&rig);
    }
}

/* ---- transports that misbehave ---------------------------------------------------- */

struct fault_case {
    const char *name;
    struct fault fault;
    bool zeros;
    const char *tensor; /* the report names it, and */
    const char *text;
};

/* round 0: device 2 receives columns of embed from devices 0 and 1; round 1: device 1 receives flat from 0 */
static const struct fault_case fault_table[] = {
    {"skip", {FAULT_SKIP, 0, 2, 0}, false, "param/embed.weight", "6 elements were never written"},
    {"skip, all zeros", {FAULT_SKIP, 0, 2, 0}, true, "param/embed.weight", "local elements [0, 6)"},
    {"skip the last round", {FAULT_SKIP, 1, 1, 0}, false, "exp_avg/flat", "5 elements were never written"},
    {"lie", {FAULT_LIE, 0, 2, 1}, false, "param/embed.weight", "6 elements wrong"},
    {"lie, all zeros", {FAULT_LIE, 0, 2, 1}, true, "param/embed.weight", "found 0xa5a5, expected 0x0000"},
    {"lie, all zeros, kept source", {FAULT_LIE, 1, 2, 1}, true, "param/norm.weight", "the first at [0]"},
    {"truncate", {FAULT_TRUNCATE, 1, 1, 0}, false, "exp_avg/flat", "2 elements were never written"},
    {"truncate, all zeros", {FAULT_TRUNCATE, 1, 1, 0}, true, "exp_avg/flat", "local elements [3, 5)"},
    {"corrupt", {FAULT_CORRUPT, 0, 1, 0}, false, "param/embed.weight", "1 elements wrong on device 1 (new rank 0)"},
    {"corrupt, all zeros", {FAULT_CORRUPT, 1, 2, 1}, true, "param/norm.weight", "found 0x00000010"},
};

static void faults_are_found_and_named(void)
{
    for (size_t i = 0; i < sizeof(fault_table) / sizeof(fault_table[0]); i++) {
        const struct fault_case *row = &fault_table[i];
        struct rig rig;
        fault = row->fault;
        rig_open(&rig, build_tiny(), &faulty);
        rig_bind(&rig, 3, row->zeros);
        CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s: %s", row->name, rig.err.text);
        struct contents_report report = rig_check(&rig, 3, row->zeros);
        CHECK_MSG(report.wrong_bytes + report.never_bytes > 0, "%s", row->name);
        CHECK_CONTAINS(report.first, row->tensor);
        CHECK_CONTAINS(report.first, row->text);
        fault.kind = FAULT_NONE;
        rig_close(&rig);
    }
}

static void missing_bytes_end_a_run_without_check(void)
{
    struct rig rig;
    fault = (struct fault){FAULT_TRUNCATE, 1, 1, 0};
    rig_open(&rig, build_tiny(), &(struct rig_options){.transport = &transport_faulty, .watched = -1});
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_TRANSPORT);
    CHECK_CONTAINS(rig.err.text, "device 1: round 1: 16 of 32 bytes came from device 0, for exp_avg/flat");
    fault.kind = FAULT_NONE;
    rig_close(&rig);
}

static void ends_of_unlike_size_end_a_run(void)
{
    struct rig rig;
    fault = (struct fault){FAULT_SHORT, 1, 1, 0};
    rig_open(&rig, build_tiny(), &faulty);
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_TRANSPORT);
    CHECK_CONTAINS(rig.err.text, "32 bytes here, 16 there");
    fault.kind = FAULT_NONE;
    rig_close(&rig);
}

/* ---- plans that only the reader has seen ------------------------------------------ */

static void pairs_are_compared_before_anything_moves(void)
{
    struct build *build = build_tiny();
    build_message_at(build, 1, TINY_D1_RECV_FLAT)->bytes = 16;
    struct rig rig;
    rig_open(&rig, build, &plain);
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(rig.err.text,
                   "device 0 would send 2 messages of 48 bytes in all to device 1, which expects 2 of 32");
    CHECK_EQ_U64(shunt_exec_get_state(rig.execs[0]), SHUNT_EXEC_BOUND);
    rig_close(&rig);
}

static void messages_outlive_a_failed_pair_round(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &faulty);
    rig_bind(&rig, 1, false);
    abandoned = 0;
    fault = (struct fault){.kind = FAULT_LATE, .round = TRANSPORT_PAIR_ROUND, .device = 1};
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_TIMEOUT);
    CHECK_CONTAINS(rig.err.text, "timed out by the test");
    CHECK_EQ_U64(abandoned, 1);
    CHECK(late == NULL && rig.world->told);
    shunt_world_abandon(rig.world, SHUNT_ERR_TIMEOUT, rig.err.text);
    CHECK_EQ_U64(abandoned, 1);
    fault = (struct fault){0};
    rig_close(&rig);
}

static void a_missing_receive_is_found(void)
{
    struct build *build = build_tiny();
    build_remove_message(build, 2, TINY_D2_RECV_NORM);
    struct rig rig;
    rig_open(&rig, build, &plain);
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(rig.err.text, "device 1 would send 2 messages");
    rig_close(&rig);
}

static void uses_outside_a_lifetime_are_refused(void)
{
    static const struct {
        const char *name;
        uint32_t device, buffer;
        uint32_t alloc_round, free_round;
        const char *text;
    } rows[] = {
        {"written before it exists", 1, TINY_D1_EMBED_NEW, 1, SHUNT_PLAN_NONE, "writes param/embed.weight"},
        {"read after it was freed", 0, TINY_D0_FLAT, SHUNT_PLAN_NONE, 0, "reads exp_avg/flat"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct build *build = build_tiny();
        struct shunt_plan_buffer *buffer = build_buffer_at(build, rows[i].device, rows[i].buffer);
        buffer->alloc_round = rows[i].alloc_round;
        buffer->free_round = rows[i].free_round;
        struct image image = build_encode(build);
        build_destroy(build);
        struct shunt_plan *plan;
        struct shunt_exec *exec;
        struct shunt_err err = {{0}};
        CHECK_EQ_U64(shunt_plan_open_memory(image.bytes, image.size, &plan, &err), SHUNT_OK);
        struct shunt_exec_config config = {.plan = plan, .device = rows[i].device};
        CHECK_EQ_U64(shunt_exec_open(&config, &exec, &err), SHUNT_ERR_PLAN);
        CHECK_CONTAINS(err.text, rows[i].text);
        shunt_plan_close(plan);
        image_finish(&image);
    }
}

static void one_name_twice_is_refused(void)
{
    struct build *build = build_tiny();
    build_buffer_at(build, 0, TINY_D0_NORM)->tensor = TINY_EMBED; /* reads, but both are param/embed.weight now */
    build_buffer_at(build, 0, TINY_D0_NORM)->holding_count = 0;
    build_buffer_at(build, 0, TINY_D0_FLAT)->holding_begin = 1;
    build_buffer_at(build, 0, TINY_D0_FLAT)->holding_count = 3;
    struct image image = build_encode(build);
    build_destroy(build);
    struct shunt_plan *plan;
    struct shunt_exec *exec;
    struct shunt_err err = {{0}};
    CHECK_EQ_U64(shunt_plan_open_memory(image.bytes, image.size, &plan, &err), SHUNT_OK);
    struct shunt_exec_config config = {.plan = plan, .device = 0};
    CHECK_EQ_U64(shunt_exec_open(&config, &exec, &err), SHUNT_ERR_PLAN);
    shunt_plan_close(plan);
    image_finish(&image);
}

#define MANY_BUFFERS 100000u

static struct image many_buffers(void)
{
    struct build *build = build_create(1, 0, 1);
    static const int64_t one[1] = {1}, zero[1];
    for (uint32_t i = 0; i < MANY_BUFFERS; i++) {
        char name[24];
        snprintf(name, sizeof(name), "t%u", i);
        build_buffer(build, 0, build_tensor(build, name, 1, one), SHUNT_STATE_PARAM, SHUNT_DTYPE_U8, SHUNT_SIDE_BOTH, 1,
                     one, 0);
        build_holding(&build->parts[0], 1, zero, one, NULL, 0);
    }
    build->header.from_rank_count = build->header.to_rank_count = 1;
    build->devices[0].from_rank = build->devices[0].to_rank = 0;
    build_account(build);
    struct image image = build_encode(build);
    build_destroy(build);
    return image;
}

/* Opening sorts the names; a bind that looks at every buffer costs some 50 times as much for so many of them. */
static void binds_in_linear_time(void)
{
    struct image image = many_buffers();
    struct shunt_plan *plan;
    struct shunt_exec *exec;
    struct shunt_err err = {{0}};
    CHECK_MSG(shunt_plan_open_memory(image.bytes, image.size, &plan, &err) == SHUNT_OK, "%s", err.text);
    struct shunt_exec_config config = {.plan = plan};
    clock_t start = clock();
    CHECK_MSG(shunt_exec_open(&config, &exec, &err) == SHUNT_OK, "%s", err.text);
    CHECK_EQ_U64(shunt_exec_trust(exec, &err), SHUNT_OK);
    clock_t opened = clock();
    for (uint32_t i = 0; i < MANY_BUFFERS; i++) {
        struct shunt_exec_buffer buffer;
        char memory;
        CHECK_EQ_U64(shunt_exec_get_state(exec), SHUNT_EXEC_VERIFIED);
        shunt_exec_get_buffer(exec, i, &buffer);
        CHECK_EQ_U64(shunt_exec_bind(exec, SHUNT_SIDE_FROM, buffer.name, buffer.dtype, &memory, 1, &err), SHUNT_OK);
    }
    CHECK_EQ_U64(shunt_exec_get_state(exec), SHUNT_EXEC_BOUND);
    clock_t bound = clock();
    CHECK_MSG(bound - opened < 10 * (opened - start) + CLOCKS_PER_SEC / 10, "open %.3f s, bind %.3f s",
              (double)(opened - start) / CLOCKS_PER_SEC, (double)(bound - opened) / CLOCKS_PER_SEC);
    printf("# %u buffers: open %.3f s, bind %.3f s\n", MANY_BUFFERS, (double)(opened - start) / CLOCKS_PER_SEC,
           (double)(bound - opened) / CLOCKS_PER_SEC);
    CHECK_EQ_U64(shunt_exec_reset(exec, &err), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_get_state(exec), SHUNT_EXEC_VERIFIED);
    shunt_exec_close(exec);
    shunt_plan_close(plan);
    image_finish(&image);
}

static const struct test_case cases[] = {
    {"moves_the_tiny_plan", moves_the_tiny_plan},
    {"binds_in_linear_time", binds_in_linear_time},
    {"casts_on_the_way", casts_on_the_way},
    {"scratch_on_the_way", scratch_on_the_way},
    {"dry_runs_move_nothing", dry_runs_move_nothing},
    {"runs_again_with_other_memory", runs_again_with_other_memory},
    {"refuses_a_changed_buffer_table", refuses_a_changed_buffer_table},
    {"binds_whole_tables", binds_whole_tables},
    {"works_on_the_callers_stream", works_on_the_callers_stream},
    {"keeps_to_its_states", keeps_to_its_states},
    {"verifies_the_plan", verifies_the_plan},
    {"allocates_and_releases_as_planned", allocates_and_releases_as_planned},
    {"stops_when_memory_runs_out", stops_when_memory_runs_out},
    {"uses_memory_that_the_caller_bound", uses_memory_that_the_caller_bound},
    {"whole_pieces_need_no_staging", whole_pieces_need_no_staging},
    {"faults_are_found_and_named", faults_are_found_and_named},
    {"missing_bytes_end_a_run_without_check", missing_bytes_end_a_run_without_check},
    {"ends_of_unlike_size_end_a_run", ends_of_unlike_size_end_a_run},
    {"pairs_are_compared_before_anything_moves", pairs_are_compared_before_anything_moves},
    {"messages_outlive_a_failed_pair_round", messages_outlive_a_failed_pair_round},
    {"a_missing_receive_is_found", a_missing_receive_is_found},
    {"uses_outside_a_lifetime_are_refused", uses_outside_a_lifetime_are_refused},
    {"one_name_twice_is_refused", one_name_twice_is_refused},
};
TEST_MAIN(cases)
