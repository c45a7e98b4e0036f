/* SPDX-License-Identifier: Apache-2.0 */
#include "io/origin.h"

#include "device/cast.h"
#include "io/pattern.h"

#define BLOCK_ELEMENTS 256u

struct descent descent_of(const struct shunt_plan_buffer *buffer)
{
    struct descent descent = {.state = (uint8_t)shunt_plan_origin_state(buffer)};
    if (shunt_plan_origin_dtype(buffer) != buffer->dtype)
        descent.casts[descent.cast_count++] =
            buffer->dtype == SHUNT_DTYPE_BF16 ? SHUNT_CAST_FP32_BF16 : SHUNT_CAST_BF16_FP32;
    return descent;
}

struct descent descent_join(const struct descent *first, const struct descent *then)
{
    struct descent joined = *first;
    for (uint32_t i = 0; i < then->cast_count; i++) {
        /* casts alternate: after three the numbers have been narrow once, and going there and back keeps them */
        if (joined.cast_count == DESCENT_CASTS)
            joined.cast_count--;
        else
            joined.casts[joined.cast_count++] = then->casts[i];
    }
    return joined;
}

struct origin origin_of(const struct descent *descent, uint64_t seed, const char *tensor)
{
    return (struct origin){.key = pattern_key(seed, descent->state, tensor), .descent = *descent};
}

/** A block of elements, from the pattern through all casts. */
static void write_block(const struct origin *origin, uint64_t first, char *dst, uint64_t elements)
{
    const struct descent *descent = &origin->descent;
    char made[2][4 * BLOCK_ELEMENTS];
    uint64_t from = shunt_dtype_bytes(shunt_plan_cast_from(descent->casts[0]));
    pattern_write(origin->key, first * from, made[0], elements * from);
    for (uint32_t i = 0; i < descent->cast_count; i++) {
        char *to = i + 1 == descent->cast_count ? dst : made[(i + 1) % 2];
        cast_run(to, made[i % 2], elements, descent->casts[i]);
    }
}

void origin_write(const struct origin *origin, uint64_t begin, void *dst, uint64_t count)
{
    const struct descent *descent = &origin->descent;
    if (descent->cast_count == 0) {
        pattern_write(origin->key, begin, dst, count);
        return;
    }
    uint64_t bytes = shunt_dtype_bytes(shunt_plan_cast_to(descent->casts[descent->cast_count - 1]));
    for (uint64_t done = 0; done < count / bytes;) {
        uint64_t left = count / bytes - done, n = left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS;
        write_block(origin, begin / bytes + done, (char *)dst + done * bytes, n);
        done += n;
    }
}

uint64_t origin_compare(const struct origin *origin, uint64_t begin, const void *data, uint64_t count)
{
    const char *found = data;
    char want[4 * BLOCK_ELEMENTS];
    if (origin->descent.cast_count == 0)
        return pattern_compare(origin->key, begin, data, count);
    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < sizeof(want) ? count - done : sizeof(want);
        origin_write(origin, begin + done, want, n);
        for (uint64_t i = 0; i < n; i++) {
            if (want[i] != found[done + i])
                return done + i;
        }
        done += n;
    }
    return count;
}
