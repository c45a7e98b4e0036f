/* SPDX-License-Identifier: Apache-2.0 */
#include "io/pattern.h"

#include <string.h>

#define BLOCK_WORDS 64u /* a block's compare is one flag, so that the compiler can vectorise it */

static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint64_t pattern_key(uint64_t seed, unsigned state, const char *tensor)
{
    uint64_t key = mix(seed + UINT64_C(0x9E3779B97F4A7C15)) ^ mix(state + 1);
    for (const unsigned char *c = (const unsigned char *)tensor; *c != '\0'; c++)
        key = mix(key ^ *c) + UINT64_C(0x9E3779B97F4A7C15);
    return mix(key);
}

/* Up to 8 bytes of one word. */
static void part_of_word(uint64_t key, uint64_t begin, void *dst, uint64_t count)
{
    uint64_t word = mix(key + begin / 8);
    memcpy(dst, (const char *)&word + begin % 8, count);
}

static uint64_t head_bytes(uint64_t begin, uint64_t count)
{
    uint64_t head = (8 - begin % 8) % 8;
    return head < count ? head : count;
}

void pattern_write(uint64_t key, uint64_t begin, void *dst, uint64_t count)
{
    char *out = dst;
    uint64_t head = head_bytes(begin, count);
    if (head != 0)
        part_of_word(key, begin, out, head);
    uint64_t first = key + (begin + head) / 8, words = (count - head) / 8;
    out += head;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t word = mix(first + i);
        memcpy(out + 8 * i, &word, 8);
    }
    uint64_t done = head + 8 * words;
    if (done < count)
        part_of_word(key, begin + done, out + 8 * words, count - done);
}

static uint64_t compare_bytes(uint64_t key, uint64_t begin, const char *data, uint64_t count)
{
    char want[8 * BLOCK_WORDS];
    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < sizeof(want) ? count - done : sizeof(want);
        pattern_write(key, begin + done, want, n);
        for (uint64_t i = 0; i < n; i++) {
            if (want[i] != data[done + i])
                return done + i;
        }
        done += n;
    }
    return count;
}

uint64_t pattern_compare(uint64_t key, uint64_t begin, const void *data, uint64_t count)
{
    const char *in = data;
    uint64_t done = head_bytes(begin, count);
    uint64_t bad = compare_bytes(key, begin, in, done);
    if (bad < done)
        return bad;
    while (count - done >= 8 * BLOCK_WORDS) {
        uint64_t first = key + (begin + done) / 8, differs = 0;
        for (uint64_t i = 0; i < BLOCK_WORDS; i++) {
            uint64_t word;
            memcpy(&word, in + done + 8 * i, 8);
            differs |= word ^ mix(first + i);
        }
        if (differs != 0)
            break;
        done += 8 * BLOCK_WORDS;
    }
    return done + compare_bytes(key, begin + done, in + done, count - done);
}
