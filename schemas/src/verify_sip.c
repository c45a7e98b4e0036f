/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_sip.h"

#include <sys/random.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

__attribute__((always_inline)) static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32) + s->v3;
    s->v2 += s->v1;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static struct sip sip_begin(const uint64_t key[2])
{
    return (struct sip){key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                        key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
}

__attribute__((always_inline)) static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

static uint64_t sip_end(struct sip *s, uint64_t bytes)
{
    sip_word(s, bytes << 56);
    s->v2 ^= 0xFF;
    for (int i = 0; i < 4; i++)
        sip_round(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

uint64_t vsip_words(const uint64_t key[2], const uint64_t *words, uint32_t count)
{
    struct sip s = sip_begin(key);
    for (uint32_t i = 0; i < count; i++)
        sip_word(&s, words[i]);
    return sip_end(&s, count * sizeof(*words));
}

bool vsip_draw(uint64_t *words, uint32_t count)
{
    return getrandom(words, count * sizeof(*words), 0) == (ssize_t)(count * sizeof(*words));
}
