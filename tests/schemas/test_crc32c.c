/* SPDX-License-Identifier: Apache-2.0 */
#include "crc32c.h"
#include "harness.h"
#include "shunt/plan.h"

typedef uint32_t crc_function(uint32_t crc, const void *bytes, size_t size);

static crc_function *const bodies[] = {shunt_crc32c, shunt_crc32c_portable};
#define BODY_COUNT (sizeof(bodies) / sizeof(bodies[0]))

/* RFC 3720 appendix B.4, and the check value of the CRC catalogue. */
static void known_answers(void)
{
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xFF, sizeof(ones));
    for (unsigned i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    for (size_t b = 0; b < BODY_COUNT; b++) {
        CHECK_EQ_U64(bodies[b](0, "", 0), 0);
        CHECK_EQ_U64(bodies[b](0, "123456789", 9), 0xE3069283);
        CHECK_EQ_U64(bodies[b](0, zeros, 32), 0x8A9136AA);
        CHECK_EQ_U64(bodies[b](0, ones, 32), 0x62A8AB43);
        CHECK_EQ_U64(bodies[b](0, up, 32), 0x46DD794E);
        CHECK_EQ_U64(bodies[b](0, down, 32), 0x113FDB5C);
    }
}

/* One bit at a time, from the definition. */
static uint32_t slow_crc(uint32_t crc, const unsigned char *bytes, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

static void any_length_and_alignment(void)
{
    unsigned char bytes[96];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t b = 0; b < BODY_COUNT; b++) {
        for (size_t begin = 0; begin < 9; begin++) {
            for (size_t size = 0; begin + size <= 80; size++)
                CHECK_EQ_U64(bodies[b](0x1234, bytes + begin, size), slow_crc(0x1234, bytes + begin, size));
        }
    }
}

static void continues_over_pieces(void)
{
    static const char text[] = "double buffering: pack of round k+1 while round k is on the wire";
    size_t size = sizeof(text) - 1;
    for (size_t b = 0; b < BODY_COUNT; b++) {
        uint32_t whole = bodies[b](0, text, size);
        for (size_t cut = 0; cut <= size; cut++)
            CHECK_EQ_U64(bodies[b](bodies[b](0, text, cut), text + cut, size - cut), whole);
    }
}

static const struct test_case cases[] = {
    {"known_answers", known_answers},
    {"any_length_and_alignment", any_length_and_alignment},
    {"continues_over_pieces", continues_over_pieces},
};
TEST_MAIN(cases)
