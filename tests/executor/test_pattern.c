/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"
#include "io/pattern.h"
#include "shunt/types.h"

#define BYTES 5000

static void is_the_same_however_it_is_cut(void)
{
    static unsigned char whole[BYTES], part[BYTES];
    uint64_t key = pattern_key(7, SHUNT_STATE_PARAM, "a.weight");
    pattern_write(key, 0, whole, BYTES);
    for (uint64_t begin = 0; begin < 40; begin++) {
        for (uint64_t count = 0; count < 70; count++) {
            pattern_write(key, begin, part, count);
            CHECK_MSG(memcmp(part, whole + begin, count) == 0, "begin %d count %d", (int)begin, (int)count);
        }
    }
    pattern_write(key, 13, part, BYTES - 13);
    CHECK(memcmp(part, whole + 13, BYTES - 13) == 0);
}

static void finds_the_first_difference(void)
{
    static unsigned char data[BYTES];
    uint64_t key = pattern_key(1, SHUNT_STATE_MASTER, "b");
    for (uint64_t begin = 0; begin < 9; begin++) {
        pattern_write(key, begin, data, BYTES);
        CHECK_EQ_U64(pattern_compare(key, begin, data, BYTES), BYTES);
        for (uint64_t at = 0; at < BYTES; at += 37) {
            data[at] ^= 4;
            data[BYTES - 1] ^= 1;
            CHECK_EQ_U64(pattern_compare(key, begin, data, BYTES), at);
            data[at] ^= 4;
            data[BYTES - 1] ^= 1;
        }
    }
    CHECK_EQ_U64(pattern_compare(key, 0, data, 0), 0);
}

static void differs_by_seed_state_and_name(void)
{
    uint64_t keys[] = {pattern_key(1, SHUNT_STATE_PARAM, "a"),  pattern_key(2, SHUNT_STATE_PARAM, "a"),
                       pattern_key(1, SHUNT_STATE_GRAD, "a"),   pattern_key(1, SHUNT_STATE_PARAM, "b"),
                       pattern_key(1, SHUNT_STATE_PARAM, "aa"), pattern_key(1, SHUNT_STATE_PARAM, "")};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (size_t j = i + 1; j < sizeof(keys) / sizeof(keys[0]); j++)
            CHECK_MSG(keys[i] != keys[j], "keys %zu and %zu", i, j);
    }
}

static const struct test_case cases[] = {
    {"is_the_same_however_it_is_cut", is_the_same_however_it_is_cut},
    {"finds_the_first_difference", finds_the_first_difference},
    {"differs_by_seed_state_and_name", differs_by_seed_state_and_name},
};
TEST_MAIN(cases)
