/* SPDX-License-Identifier: Apache-2.0 */
/**
 * CRC-32C (Castagnoli): reflected polynomial 0x82F63B78, initial value and final xor all
 * ones, as in RFC 3720 appendix B.4. Two bodies of the same function: the SSE4.2
 * instruction where the processor has it, and slicing-by-8 (eight tables, eight bytes a
 * step) elsewhere. Both work on the inverted register; shunt_crc32c() inverts.
 */
#include "crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "shunt/plan.h"

#define CRC32C_POLYNOMIAL 0x82F63B78u

static uint32_t crc32c_tables[8][256];
static pthread_once_t crc32c_once = PTHREAD_ONCE_INIT;

static void crc32c_fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (CRC32C_POLYNOMIAL & (0u - (crc & 1u)));
        crc32c_tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++) {
            uint32_t before = crc32c_tables[t - 1][i];
            crc32c_tables[t][i] = (before >> 8) ^ crc32c_tables[0][before & 0xFF];
        }
    }
}

static uint32_t crc32c_step8(uint32_t crc, uint64_t word)
{
    word ^= crc;
    uint32_t sum = 0;
    for (int t = 0; t < 8; t++)
        sum ^= crc32c_tables[7 - t][(word >> (8 * t)) & 0xFF];
    return sum;
}

uint32_t shunt_crc32c_portable(uint32_t crc, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    pthread_once(&crc32c_once, crc32c_fill_tables);
    crc = ~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        crc = crc32c_step8(crc, word);
    }
    for (; size > 0; size--, at++)
        crc = (crc >> 8) ^ crc32c_tables[0][(crc ^ *at) & 0xFF];
    return ~crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t wide = ~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size > 0; size--, at++)
        crc = _mm_crc32_u8(crc, *at);
    return ~crc;
}

uint32_t shunt_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, bytes, size);
    return shunt_crc32c_portable(crc, bytes, size);
}
#else
uint32_t shunt_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return shunt_crc32c_portable(crc, bytes, size);
}
#endif
