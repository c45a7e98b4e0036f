/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas: what they hand out is zero, stays in its place, and is there until it is given back. */
#include <string.h>

#include "harness.h"
#include "util/arena.h"

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

static const struct test_case cases[] = {
    {"hands_out_zeros", hands_out_zeros},
    {"extends_vectors", extends_vectors},
};
TEST_MAIN(cases)
