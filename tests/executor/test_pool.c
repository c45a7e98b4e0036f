/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that go from old blocks to new ones: sizes, contents, what is kept. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/memory.h"
#include "device/pool.h"
#include "harness.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

static uint64_t random_state = 99;

static uint32_t pick(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

static void pages_are_reused(void)
{
    struct pool pool = {0};
    struct pool_block a, b;
    pool_reserve(&pool, 4 * MIB);
    CHECK_EQ_U64(pool.spare_bytes, 4 * MIB);
    CHECK(pool_take(&pool, 3 * MIB, &a));
    CHECK_EQ_U64(pool.spare_bytes, MIB);
    memset(a.data, 0x5a, 3 * MIB);
    pool_give(&pool, &a);
    CHECK_EQ_U64(pool.spare_bytes, 4 * MIB);
    CHECK(pool_take(&pool, 4 * MIB, &a)); /* out of two pieces */
    CHECK_EQ_U64(pool.spare_bytes, 0);
    CHECK(a.piece_count == 2);
    uint64_t old = 0;
    for (uint64_t i = 0; i < 4 * MIB; i++)
        old += ((unsigned char *)a.data)[i] == 0x5a;
    CHECK_EQ_U64(old, 3 * MIB);           /* the very pages */
    CHECK(pool_take(&pool, MIB + 1, &b)); /* nothing left: fresh ones */
    memset(b.data, 1, MIB + 1);
    pool_give(&pool, &b);
    CHECK_EQ_U64(pool.spare_bytes, pool_footprint(MIB + 1));
    pool_reserve(&pool, 64 * KIB);
    CHECK_EQ_U64(pool.spare_bytes, 64 * KIB);
    pool_reserve(&pool, 0);
    CHECK_EQ_U64(pool.spare_bytes, 0);
    pool_give(&pool, &a);
    pool_finish(&pool);
}

/* mremap refuses a source that is not mapped, after it has unmapped the target. */
static void a_refused_move_leaves_good_pages(void)
{
    struct pool pool = {0};
    struct pool_block a;
    pool_reserve(&pool, MIB);
    CHECK(pool.count == 1);
    CHECK(munmap(pool.spare[0].at, MIB) == 0);
    CHECK(pool_take(&pool, MIB, &a));
    memset(a.data, 1, MIB);
    CHECK_EQ_U64(pool.spare_bytes, MIB);
    pool.count = 0; /* the piece that is none */
    pool.spare_bytes = 0;
    pool_give(&pool, &a);
    pool_finish(&pool);
}

static void small_blocks_are_heap_memory(void)
{
    struct pool pool = {0};
    struct pool_block a;
    static const uint64_t sizes[] = {0, 1, 63, 4096, 65535};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        CHECK(pool_take(&pool, sizes[i], &a));
        CHECK(a.data != NULL && (uintptr_t)a.data % 64 == 0);
        CHECK_EQ_U64(pool_footprint(sizes[i]), 0);
        memset(a.data, 1, sizes[i]);
        pool_give(&pool, &a);
        CHECK_EQ_U64(pool.spare_bytes, 0);
    }
    pool_finish(&pool);
}

/* Live blocks keep their contents whatever happens around them. */
static void blocks_do_not_disturb_each_other(void)
{
    enum { LIVE = 12 };
    struct pool pool = {0};
    struct pool_block live[LIVE] = {{0}};
    unsigned char fill[LIVE] = {0};
    for (int step = 0; step < 3000; step++) {
        uint32_t i = pick(LIVE);
        if (live[i].data != NULL) {
            const unsigned char *data = live[i].data;
            uint64_t bytes = live[i].bytes;
            CHECK_MSG(data[0] == fill[i] && data[bytes - 1] == fill[i] && memcmp(data, data + 1, bytes - 1) == 0,
                      "step %d block %u", step, i);
            pool_give(&pool, &live[i]);
            continue;
        }
        if (pick(20) == 0)
            pool_reserve(&pool, pick(2000) * KIB);
        CHECK(pool_take(&pool, 1 + pick(700) * KIB + pick(5000), &live[i]));
        fill[i] = (unsigned char)pick(256);
        memset(live[i].data, fill[i], live[i].bytes);
    }
    for (int i = 0; i < LIVE; i++) {
        if (live[i].data != NULL)
            pool_give(&pool, &live[i]);
    }
    pool_finish(&pool);
}

static void memory_turns(void)
{
    struct memory memory = {0};
    void *a = memory_alloc(&memory, "param/b", false, MIB);
    CHECK(a != NULL && memory_find(&memory, "param/b") == NULL); /* new side until it turns */
    CHECK(memory_alloc(&memory, "param/a", false, 10) != NULL);
    CHECK(memory_turn(&memory));
    const struct memory_item *item = memory_find(&memory, "param/b");
    CHECK(item != NULL && item->block.data == a && item->block.bytes == MIB);
    void *newer = memory_alloc(&memory, "param/b", false, 2 * MIB);
    CHECK(newer != NULL && newer != a);
    memory_release(&memory, "param/b");
    memory_release(&memory, "param/none");
    CHECK_EQ_U64(memory.pool.spare_bytes, MIB);
    CHECK(memory_turn(&memory));
    item = memory_find(&memory, "param/b");
    CHECK(item != NULL && item->block.data == newer);
    CHECK(memory_find(&memory, "param/a") != NULL);
    CHECK_EQ_U64(memory.old_side.count, 2);
    memory_finish(&memory);
}

static const struct test_case cases[] = {
    {"pages_are_reused", pages_are_reused},
    {"a_refused_move_leaves_good_pages", a_refused_move_leaves_good_pages},
    {"small_blocks_are_heap_memory", small_blocks_are_heap_memory},
    {"blocks_do_not_disturb_each_other", blocks_do_not_disturb_each_other},
    {"memory_turns", memory_turns},
};
TEST_MAIN(cases)
