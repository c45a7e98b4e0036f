/* SPDX-License-Identifier: Apache-2.0 */
/** Devices of which every unit asks the same: one of them is kept, and all that are unlike are. */

#include "route_rig.h"
#include "routing/relay.h"
#include "schedule/loads.h"
#include "schedule/packed.h"

/** Bytes by unit and kind of port that a device has in some loads. */
static uint64_t *list_bytes(struct arena *arena, const struct loads *loads, uint32_t device)
{
    uint64_t *bytes = ARENA_NEW(arena, uint64_t, (size_t)loads->unit_count * PORT_KINDS);
    for (uint32_t u = 0; u < loads->unit_count; u++) {
        for (uint32_t l = loads->begin[u]; l < loads->begin[u + 1]; l++) {
            if (loads->loads[l].port / PORT_KINDS == device)
                bytes[(size_t)u * PORT_KINDS + loads->loads[l].port % PORT_KINDS] = loads->loads[l].bytes;
        }
    }
    return bytes;
}

static bool is_zero(const uint64_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/** The one device of each set of twins that is kept has the bytes that it had, and no twin among those kept. */
static void check_twins(struct arena *arena, const struct problem *problem, const char *what, uint32_t most)
{
    uint32_t devices = problem->route->world->device_count, kept_count = 0;
    const struct loads *all = loads_build(arena, problem, UINT64_C(32) << 20);
    const struct loads *few = loads_build_few(arena, problem, UINT64_C(32) << 20, all);
    size_t count = (size_t)all->unit_count * PORT_KINDS, bytes = count * sizeof(uint64_t);
    uint64_t **before = ARENA_NEW(arena, uint64_t *, devices);
    bool *kept = ARENA_NEW(arena, bool, devices);
    for (uint32_t d = 0; d < devices; d++) {
        before[d] = list_bytes(arena, all, d);
        const uint64_t *after = list_bytes(arena, few, d);
        kept[d] = !is_zero(after, count);
        kept_count += kept[d];
        CHECK_MSG(!kept[d] || memcmp(before[d], after, bytes) == 0, "%s: device %u", what, d);
    }
    for (uint32_t d = 0; d < devices; d++) {
        uint32_t twins = 0;
        for (uint32_t e = 0; e < devices; e++)
            twins += kept[e] && memcmp(before[d], before[e], bytes) == 0;
        CHECK_MSG(twins == !is_zero(before[d], count), "%s: device %u has %u", what, d, twins);
    }
    CHECK_MSG(kept_count <= most, "%s: %u devices are kept", what, kept_count);
}

static void check_direct(struct arena *arena, const struct route *route, const char *what)
{
    check_twins(arena, problem_build(arena, route, PROBLEM_NO_CAP, UINT64_C(256) << 20), what, 12);
}

static void check_relayed(struct arena *arena, const struct route *route, const char *what)
{
    const struct route *relayed = relay_build(arena, route);
    CHECK_MSG(relayed != NULL, "%s", what);
    if (relayed != NULL)
        check_twins(arena, problem_build(arena, relayed, PROBLEM_NO_CAP, UINT64_C(256) << 20), what, 16);
}

static void test_direct(void)
{
    rig_route("plans/layouts", "gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp4pp2dp2", "a100", check_direct);
    rig_route("plans/layouts", "gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp8pp2", "a100", check_direct);
}

static void test_relayed(void)
{
    rig_route("plans/layouts", "gpt3-6.7b-8-tp4pp2", "gpt3-6.7b-16-tp4pp2dp2", "a100", check_relayed);
    rig_route("plans/layouts", "llama-2-7b-16-tp4pp2dp2", "llama-2-7b-16-dp16", "a800", check_relayed);
}

/** Loads come out of their few bytes as they went in, whatever lies between their ports and however large they are. */
static void test_packed(void)
{
    static const uint32_t ports[] = {0, 1, 127, 128, 11 * PORT_KINDS, 12 * PORT_KINDS, 200000};
    static const uint64_t values[] = {1, UINT64_MAX, 0x7F, 0x80, 4096, 4096, UINT64_C(1) << 40};
    const size_t count = sizeof(ports) / sizeof(ports[0]);
    struct arena arena;
    struct packed packed = {0};
    struct unpacker unpacker = {0};
    arena_init(&arena);
    uint64_t *bytes = ARENA_NEW(&arena, uint64_t, ports[count - 1] + 1);
    for (size_t i = 0; i < count; i++)
        bytes[ports[i]] = values[i];
    CHECK_EQ_U64(packed_begin(&packed), 0);
    packed_add(&arena, &packed, &ports[1], bytes, 3);
    size_t begin = packed_begin(&packed);
    for (int unit = 0; unit < 100; unit++)
        packed_add(&arena, &packed, ports, bytes, count);
    unpacker.at = packed.bytes + begin;
    for (int unit = 0; unit < 100; unit++) {
        unpack_unit(&unpacker);
        for (size_t i = 0; i < count; i++) {
            uint64_t value = unpack_load(&unpacker);
            CHECK_EQ_U64(value, values[i]);
            CHECK_EQ_U64(unpacker.port, ports[i]);
        }
    }
    arena_finish(&arena);
}

static const struct test_case cases[] = {
    {"twins of direct routes", test_direct},
    {"twins of relayed routes", test_relayed},
    {"packed loads", test_packed},
};

TEST_MAIN(cases)
