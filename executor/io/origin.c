/* SPDX-License-Identifier: Apache-2.0 */
#include "io/origin.h"

#include "device/cast.h"
#include "io/pattern.h"

#define BLOCK_ELEMENTS 256u

struct origin origin_of(const struct shunt_plan_buffer *buffer, uint64_t seed, const char *tensor)
{
    struct origin origin = {.key = pattern_key(seed, shunt_plan_origin_state(buffer), tensor)};
    if (shunt_plan_origin_dtype(buffer) != buffer->dtype)
        origin.cast = buffer->dtype == SHUNT_DTYPE_BF16 ? SHUNT_CAST_FP32_BF16 : SHUNT_CAST_BF16_FP32;
    return origin;
}

void origin_write(const struct origin *origin, uint64_t begin, void *dst, uint64_t count)
{
    char block[4 * BLOCK_ELEMENTS];
    if (origin->cast == SHUNT_CAST_NONE) {
        pattern_write(origin->key, begin, dst, count);
        return;
    }
    uint64_t from = shunt_dtype_bytes(shunt_plan_cast_from(origin->cast));
    uint64_t to = shunt_dtype_bytes(shunt_plan_cast_to(origin->cast));
    for (uint64_t done = 0; done < count / to;) {
        uint64_t left = count / to - done, n = left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS;
        pattern_write(origin->key, (begin / to + done) * from, block, n * from);
        cast_run((char *)dst + done * to, block, n, origin->cast);
        done += n;
    }
}

uint64_t origin_compare(const struct origin *origin, uint64_t begin, const void *data, uint64_t count)
{
    const char *found = data;
    char want[4 * BLOCK_ELEMENTS];
    if (origin->cast == SHUNT_CAST_NONE)
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
