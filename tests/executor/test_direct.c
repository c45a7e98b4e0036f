/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that go from buffer to buffer: with every piece large enough, moves and faults are as they are with staging. */
#include "replay/direct.h"
#include "rig.h"

struct plan_case {
    const char *name;
    struct build *(*build)(void);
};
static const struct plan_case plans[] = {{"tiny", build_tiny}, {"cast", build_cast}, {"scratch", build_scratch}};
#define PLAN_COUNT (sizeof(plans) / sizeof(plans[0]))

static void cut_everything(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->count; d++)
        CHECK(direct_create(&rig->execs[d]->engine, 1, &rig->execs[d]->engine.segments));
}

static uint32_t count_left_out(const struct rig *rig)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < rig->count; d++) {
        for (uint32_t i = 0; i < rig->execs[d]->engine.part.header->op_count; i++)
            count += rig->execs[d]->engine.segments->left_out[i];
    }
    return count;
}

/* What is left out has no cast and no scratch, and both ends cut alike: else the pair round would refuse. */
static void moves_are_the_same(void)
{
    for (size_t p = 0; p < PLAN_COUNT; p++) {
        struct rig rig;
        rig_open(&rig, plans[p].build(),
                 &(struct rig_options){.transport = &transport_faulty, .track = true, .watched = -1});
        cut_everything(&rig);
        uint32_t left_out = count_left_out(&rig);
        CHECK_MSG(left_out > 0, "%s", plans[p].name);
        rig_bind(&rig, 5, false);
        CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s: %s", plans[p].name, rig.err.text);
        struct contents_report report = rig_check(&rig, 5, false);
        CHECK_MSG(report.wrong_bytes + report.never_bytes == 0 && report.checked_bytes > 0, "%s: %s", plans[p].name,
                  report.first);
        CHECK_EQ_U64(count_left_out(&rig), left_out);
        rig_close(&rig);
    }
}

/* Nothing but 16-byte steps may lie between segments, and every piece is in one. */
static void segments_cover_all_pieces(void)
{
    for (size_t p = 0; p < PLAN_COUNT; p++) {
        struct rig rig;
        rig_open(&rig, plans[p].build(), &(struct rig_options){.watched = -1});
        cut_everything(&rig);
        for (uint32_t d = 0; d < rig.count; d++) {
            const struct engine *engine = &rig.execs[d]->engine;
            const struct direct *direct = engine->segments;
            uint64_t planned = 0, cut = 0;
            for (uint32_t i = 0; i < engine->part.header->message_count; i++)
                planned += engine->part.messages[i].bytes;
            for (uint32_t i = 0; i < direct->round_begin[engine->header->round_count]; i++) {
                const struct shunt_plan_message *m = &engine->part.messages[direct->plan_messages[i]];
                cut += (direct->messages[i].bytes + 15) / 16 * 16;
                CHECK(direct->offsets[i] >= m->offset && direct->messages[i].bytes > 0);
                CHECK(direct->offsets[i] + direct->messages[i].bytes <= m->offset + m->bytes);
            }
            CHECK_EQ_U64(cut, planned);
        }
        rig_close(&rig);
    }
}

static void faults_are_found(void)
{
    static const struct fault faults[] = {
        {FAULT_SKIP, 0, 2, 0}, {FAULT_TRUNCATE, 1, 1, 0}, {FAULT_CORRUPT, 0, 1, 0}, {FAULT_LIE, 1, 2, 1}};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct rig rig;
        fault = faults[i];
        rig_open(&rig, build_tiny(),
                 &(struct rig_options){.transport = &transport_faulty, .track = true, .watched = -1});
        cut_everything(&rig);
        rig_bind(&rig, 3, false);
        CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%zu: %s", i, rig.err.text);
        struct contents_report report = rig_check(&rig, 3, false);
        CHECK_MSG(report.wrong_bytes + report.never_bytes > 0, "%zu", i);
        fault.kind = FAULT_NONE;
        rig_close(&rig);
    }
}

/* A device that cuts another way would send other messages than its peers expect. */
static void ends_must_cut_alike(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    cut_everything(&rig);
    direct_destroy(rig.execs[0]->engine.segments);
    rig.execs[0]->engine.segments = NULL;
    rig_bind(&rig, 3, false);
    CHECK(rig_run(&rig) != SHUNT_OK);
    rig_close(&rig);
}

static const struct test_case cases[] = {
    {"moves_are_the_same", moves_are_the_same},
    {"segments_cover_all_pieces", segments_cover_all_pieces},
    {"faults_are_found", faults_are_found},
    {"ends_must_cut_alike", ends_must_cut_alike},
};
TEST_MAIN(cases)
