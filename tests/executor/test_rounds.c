/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of rounds: they are there when they are asked for, and add up to those of the run. */
#include "harness.h"
#include "rig.h"

static const struct {
    const char *name;
    struct build *(*build)(void);
} plans[] = {{"tiny", build_tiny}, {"cast", build_cast}, {"scratch", build_scratch}};

static void check_times(const struct shunt_exec_round *round)
{
    CHECK(round->pack_seconds >= 0 && round->pack_seconds < 60);
    CHECK(round->wire_seconds >= 0 && round->wire_seconds < 60);
    CHECK(round->wait_seconds >= 0 && round->wait_seconds < 60);
    CHECK(round->unpack_seconds >= 0 && round->unpack_seconds < 60);
}

/* Bytes of all rounds of a device, beside those of its run. */
static void check_device(const struct shunt_exec *exec, uint32_t device, uint32_t round_count)
{
    struct shunt_exec_stats stats;
    struct shunt_exec_round sum = {0};
    uint32_t count;
    const struct shunt_exec_round *rounds = shunt_exec_get_rounds(exec, &count);
    shunt_exec_get_stats(exec, &stats);
    CHECK_EQ_U64(count, round_count);
    for (uint32_t k = 0; k < count; k++) {
        CHECK_EQ_U64(rounds[k].device, device);
        CHECK_EQ_U64(rounds[k].round, k);
        CHECK_EQ_U64(rounds[k].finished, 1);
        check_times(&rounds[k]);
        sum.sent_bytes += rounds[k].sent_bytes;
        sum.received_bytes += rounds[k].received_bytes;
        sum.wire_sent_bytes += rounds[k].wire_sent_bytes;
        sum.wire_received_bytes += rounds[k].wire_received_bytes;
        sum.copied_bytes += rounds[k].copied_bytes;
        sum.filled_bytes += rounds[k].filled_bytes;
        sum.pack_seconds += rounds[k].pack_seconds;
        sum.wire_seconds += rounds[k].wire_seconds;
    }
    CHECK_EQ_U64(sum.sent_bytes, stats.sent_bytes);
    CHECK_EQ_U64(sum.received_bytes, stats.received_bytes);
    CHECK_EQ_U64(sum.wire_sent_bytes, stats.wire_sent_bytes);
    CHECK_EQ_U64(sum.wire_received_bytes, stats.wire_received_bytes);
    CHECK_EQ_U64(sum.copied_bytes, stats.copied_bytes);
    CHECK_EQ_U64(sum.filled_bytes, stats.filled_bytes);
    CHECK(sum.pack_seconds > 0 && sum.wire_seconds > 0);
}

/* The bytes of one round as the plan has them. */
static uint64_t planned_bytes(const struct engine *engine, uint32_t round, uint32_t direction)
{
    uint64_t bytes = 0;
    for (uint32_t m = engine->part.rounds[round].message_begin; m < engine->part.rounds[round + 1].message_begin; m++)
        bytes += engine->part.messages[m].direction == direction ? engine->part.messages[m].bytes : 0;
    return bytes;
}

static void figures_add_up(void)
{
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        struct rig rig;
        rig_open(&rig, plans[i].build(), &(struct rig_options){.watched = -1, .figures = true});
        for (uint64_t seed = 1; seed <= 2; seed++) { /* the second run's figures are its own */
            rig_bind(&rig, seed, false);
            CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s: %s", plans[i].name, rig.err.text);
            uint64_t moved = 0;
            for (uint32_t d = 0; d < rig.count; d++) {
                const struct engine *engine = &rig.execs[d]->engine;
                uint32_t count;
                const struct shunt_exec_round *rounds = shunt_exec_get_rounds(rig.execs[d], &count);
                check_device(rig.execs[d], d, engine->header->round_count);
                for (uint32_t k = 0; k < count; k++) {
                    CHECK_EQ_U64(rounds[k].wire_sent_bytes, planned_bytes(engine, k, SHUNT_SEND));
                    CHECK_EQ_U64(rounds[k].wire_received_bytes, planned_bytes(engine, k, SHUNT_RECV));
                    moved += rounds[k].sent_bytes;
                }
            }
            CHECK_EQ_U64(moved, shunt_plan_get_summary(rig.plan)->moved);
            rig_unbind(&rig);
        }
        rig_close(&rig);
    }
}

static void a_broken_run_has_those_of_what_it_finished(void)
{
    struct rig rig;
    uint32_t count;
    fault = (struct fault){FAULT_LATE, 1, 1, 0};
    rig_open(&rig, build_tiny(), &(struct rig_options){.transport = &transport_faulty, .watched = -1, .figures = true});
    rig_bind(&rig, 5, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_TIMEOUT);
    const struct shunt_exec_round *rounds = shunt_exec_get_rounds(rig.execs[0], &count);
    CHECK(count >= 2);
    CHECK_EQ_U64(rounds[1].finished, 0);
    CHECK_EQ_U64(rounds[1].wire_received_bytes, 0);
    fault.kind = FAULT_NONE;
    rig_close(&rig);
}

static void nobody_asks_nobody_keeps(void)
{
    struct rig rig;
    uint32_t count = 7;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    rig_bind(&rig, 5, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_OK);
    CHECK(shunt_exec_get_rounds(rig.execs[0], &count) == NULL);
    CHECK_EQ_U64(count, 0);
    rig_close(&rig);
}

static const struct test_case cases[] = {
    {"figures_add_up", figures_add_up},
    {"a_broken_run_has_those_of_what_it_finished", a_broken_run_has_those_of_what_it_finished},
    {"nobody_asks_nobody_keeps", nobody_asks_nobody_keeps},
};
TEST_MAIN(cases)
