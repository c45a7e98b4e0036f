/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of pieces, end to end: what they are taken of, and that every spoilt message is found and named. */
#include "device/copy.h"
#include "device/digest.h"
#include "rig.h"

static bool have_digests(void)
{
    if (!digest_available())
        test_skip("built without xxhash");
    return digest_available();
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* A random view whose elements do not overlap, and its dense form. */
static void random_views(uint64_t *state, struct shunt_plan_view *view, struct shunt_plan_view *dense)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    *view = (struct shunt_plan_view){.ndim = 1 + (uint32_t)next_random(state) % 4,
                                     .elem_bytes = sizes[next_random(state) % 4]};
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++)
        view->shape[d] = 1;
    for (uint32_t d = 0; d < view->ndim; d++)
        view->shape[d] = 1 + (int64_t)next_random(state) % (d + 1 == view->ndim ? 3000 : 5);
    *dense = *view;
    int64_t wide = view->elem_bytes, narrow = view->elem_bytes;
    for (int d = (int)view->ndim - 1; d >= 0; d--) {
        view->stride[d] = wide * (1 + (int64_t)next_random(state) % 2);
        dense->stride[d] = narrow;
        wide = view->stride[d] * view->shape[d];
        narrow *= view->shape[d];
    }
}

static void places_do_not_matter(void)
{
    if (!have_digests())
        return;
    uint64_t state = 7;
    for (int trial = 0; trial < 200; trial++) {
        struct shunt_plan_view view, dense;
        random_views(&state, &view, &dense);
        uint64_t extent = shunt_plan_view_extent(&view), bytes = shunt_plan_view_extent(&dense);
        unsigned char *wide = malloc(extent), *narrow = malloc(bytes);
        for (uint64_t i = 0; i < extent; i++)
            wide[i] = (unsigned char)next_random(&state);
        copy_box(narrow, &dense, wide, &view);
        uint64_t digest = digest_box(narrow, &dense);
        CHECK_MSG(digest_box(wide, &view) == digest, "trial %d", trial);
        narrow[next_random(&state) % bytes] ^= (unsigned char)(1 << next_random(&state) % 8);
        CHECK_MSG(digest_box(narrow, &dense) != digest, "trial %d", trial);
        free(wide);
        free(narrow);
    }
}

struct plan_case {
    const char *name;
    struct build *(*build)(void);
};
static const struct plan_case plans[] = {{"tiny", build_tiny}, {"cast", build_cast}, {"scratch", build_scratch}};
#define PLAN_COUNT (sizeof(plans) / sizeof(plans[0]))

static const struct rig_options on = {.transport = &transport_faulty, .checksum = true, .watched = -1};

static void whole_moves_pass(void)
{
    if (!have_digests())
        return;
    for (size_t i = 0; i < PLAN_COUNT; i++) {
        struct rig rig;
        rig_open(&rig, plans[i].build(), &on);
        rig_bind(&rig, 5, false);
        CHECK_MSG(rig_run(&rig) == SHUNT_OK, "%s: %s", plans[i].name, rig.err.text);
        uint64_t received = 0, checksummed = 0;
        for (uint32_t d = 0; d < rig.count; d++) {
            struct shunt_exec_stats stats;
            shunt_exec_get_stats(rig.execs[d], &stats);
            received += stats.received_bytes;
            checksummed += stats.checksummed_bytes;
        }
        CHECK(received > 0);
        CHECK_EQ_U64(checksummed, received);
        rig_close(&rig);
    }
}

/* All receives of a plan, one after the other. */
static uint32_t spoil_each(const struct plan_case *row, enum fault_kind kind)
{
    uint32_t spoilt = 0;
    for (uint32_t device = 0, message = 0;;) {
        struct rig rig;
        rig_open(&rig, row->build(), &on);
        const struct shunt_plan_part *part = &rig.execs[device]->engine.part;
        while (message < part->header->message_count && part->messages[message].direction == SHUNT_SEND)
            message++;
        if (message == part->header->message_count) {
            message = 0;
            bool last = ++device == rig.count;
            rig_close(&rig);
            if (last)
                return spoilt;
            continue;
        }
        fault = (struct fault){.kind = kind, .device = device, .peer = part->messages[message].peer};
        while (part->rounds[fault.round + 1].message_begin <= message)
            fault.round++;
        rig_bind(&rig, 5, false);
        char text[80];
        snprintf(text, sizeof(text), "device %u: round %u: checksum of ", device, fault.round);
        CHECK_MSG(rig_run(&rig) == SHUNT_ERR_CHECK, "%s, message %u: %s", row->name, message, rig.err.text);
        CHECK_CONTAINS(rig.err.text, text);
        snprintf(text, sizeof(text), " from device %u differs: piece 1 of ", fault.peer);
        CHECK_CONTAINS(rig.err.text, text);
        fault.kind = FAULT_NONE;
        rig_close(&rig);
        spoilt++;
        message++;
    }
}

static void every_spoilt_message_is_named(void)
{
    if (!have_digests())
        return;
    for (size_t i = 0; i < PLAN_COUNT; i++) {
        CHECK(spoil_each(&plans[i], FAULT_CORRUPT) > 0);
        CHECK(spoil_each(&plans[i], FAULT_LIE) > 0);
    }
}

static void tensor_and_piece_are_named(void)
{
    if (!have_digests())
        return;
    struct rig rig;
    fault = (struct fault){FAULT_CORRUPT, 0, 1, 0};
    rig_open(&rig, build_tiny(), &on);
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_CHECK);
    CHECK_CONTAINS(rig.err.text,
                   "device 1: round 0: checksum of param/embed.weight from device 0 differs: piece 1 of ");
    CHECK_CONTAINS(rig.err.text, "at byte ");
    fault.kind = FAULT_NONE;
    rig_close(&rig);
}

/* Nobody moves anything then. */
static void all_devices_or_none(void)
{
    if (!have_digests())
        return;
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    shunt_exec_close(rig.execs[1]);
    struct shunt_exec_config config = {.plan = rig.plan, .device = 1, .on = rig.on, .checksum = 1};
    CHECK_EQ_U64(shunt_exec_open(&config, &rig.execs[1], &rig.err), SHUNT_OK);
    CHECK_EQ_U64(shunt_exec_trust(rig.execs[1], &rig.err), SHUNT_OK);
    rig_bind(&rig, 3, false);
    CHECK_EQ_U64(rig_run(&rig), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(rig.err.text, "nothing was moved: device 1 has checksums on");
    rig_close(&rig);
}

/* In a build without them they are refused. */
static void refused_where_missing(void)
{
    struct rig rig;
    rig_open(&rig, build_tiny(), &(struct rig_options){.watched = -1});
    struct shunt_exec_config config = {.plan = rig.plan, .device = 0, .on = rig.on, .checksum = 1};
    struct shunt_exec *exec = NULL;
    enum shunt_status st = shunt_exec_open(&config, &exec, &rig.err);
    CHECK_EQ_U64(st, digest_available() ? SHUNT_OK : SHUNT_ERR_UNSUPPORTED);
    if (!digest_available())
        CHECK_CONTAINS(rig.err.text, "not supported: built without xxhash");
    shunt_exec_close(exec);
    rig_close(&rig);
}

static const struct test_case cases[] = {
    {"places_do_not_matter", places_do_not_matter},
    {"whole_moves_pass", whole_moves_pass},
    {"every_spoilt_message_is_named", every_spoilt_message_is_named},
    {"tensor_and_piece_are_named", tensor_and_piece_are_named},
    {"all_devices_or_none", all_devices_or_none},
    {"refused_where_missing", refused_where_missing},
};
TEST_MAIN(cases)
