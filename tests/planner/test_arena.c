/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas: what they hand out is zero, stays in its place, and is there until it is given back; also among threads. */
#include <string.h>

#include "harness.h"
#include "util/arena.h"
#include "util/crew.h"

static bool is_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* Of all sizes, blocks of their own and mappings among them; once more where they have been before. */
static void hands_out_zeros(void)
{
    static const size_t sizes[] = {8, 3000, 70000, 300000, (1 << 20) - 8, 1 << 20, 5 << 20, 16};
    struct arena arena;
    arena_init(&arena);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            unsigned char *bytes = ARENA_NEW(&arena, unsigned char, sizes[i]);
            CHECK((uintptr_t)bytes % 16 == 0 && is_zero(bytes, sizes[i]));
            memset(bytes, 0xA5, sizes[i]);
        }
        arena_clear(&arena);
    }
    arena_finish(&arena);
}

/* A vector that is extended keeps its items, and its next one is zero, whatever lies beside it. */
static void extends_vectors(void)
{
    struct arena arena;
    VEC(uint64_t) a = {0}, b = {0};
    arena_init(&arena);
    for (uint64_t i = 0; i < 600000; i++) {
        uint64_t *item = VEC_EXTEND(&arena, &a), *other = i % 3 == 0 ? VEC_EXTEND(&arena, &b) : NULL;
        CHECK_EQ_U64(*item, 0);
        *item = i + 1;
        if (other != NULL)
            *other = ~i;
        if (i % 1000 == 0)
            memset(ARENA_NEW(&arena, unsigned char, 100), 0xA5, 100);
    }
    for (uint64_t i = 0; i < 600000; i++) {
        CHECK_EQ_U64(a.items[i], i + 1);
        CHECK(i % 3 != 0 || b.items[i / 3] == ~i);
    }
    arena_finish(&arena);
}

#define THINGS 1000u

static void square(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    uint64_t **squares = context;
    (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        squares[i] = ARENA_NEW(arena, uint64_t, 1000);
        *squares[i] = (uint64_t)i * i;
    }
}

/* What workers make is there until the crew is closed, whoever made it. */
static void shares_work(void)
{
    for (uint32_t threads = 0; threads <= 4; threads++) {
        struct arena arena;
        arena_init(&arena);
        uint64_t **squares = ARENA_NEW(&arena, uint64_t *, THINGS);
        struct crew *crew = crew_open(&arena, threads);
        CHECK_EQ_U64(crew_size(crew), threads == 0 ? 1 : threads);
        crew_share(crew, THINGS, 7, square, squares);
        for (uint32_t i = 0; i < THINGS; i++)
            CHECK_EQ_U64(*squares[i], (uint64_t)i * i);
        crew_close(crew);
        arena_finish(&arena);
    }
}

static void ask_too_much(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)context, (void)worker, (void)end;
    ARENA_NEW(arena, uint64_t, begin == 8 ? SIZE_MAX / 64 : 1000);
}

/* An allocation that fails in a worker fails in the arena that the crew is of. */
static void fails_as_a_whole(void)
{
    for (volatile uint32_t threads = 1; threads <= 3; threads++) {
        struct arena arena;
        volatile bool failed = true;
        arena_init(&arena);
        if (setjmp(arena.on_failure) == 0) {
            crew_share(crew_open(&arena, threads), 64, 4, ask_too_much, NULL);
            failed = false;
        }
        CHECK(failed);
        arena_finish(&arena);
    }
}

static const struct test_case cases[] = {
    {"hands_out_zeros", hands_out_zeros},
    {"extends_vectors", extends_vectors},
    {"shares work", shares_work},
    {"fails as a whole", fails_as_a_whole},
};
TEST_MAIN(cases)
