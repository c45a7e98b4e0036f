/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cast.h"

#include <assert.h>
#include <string.h>

#include "device/walk.h"

static void narrow(char *dst, uint64_t dst_step, const char *src, uint64_t src_step, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t wide;
        memcpy(&wide, src + i * src_step, sizeof(wide));
        uint16_t half = cast_to_bf16(wide);
        memcpy(dst + i * dst_step, &half, sizeof(half));
    }
}

static void widen(char *dst, uint64_t dst_step, const char *src, uint64_t src_step, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, src + i * src_step, sizeof(half));
        uint32_t wide = cast_to_fp32(half);
        memcpy(dst + i * dst_step, &wide, sizeof(wide));
    }
}

/* Steps that are the element sizes get loops of their own, which the compiler can vectorise. */
static void cast_line(char *dst, uint64_t dst_step, const char *src, uint64_t src_step, uint64_t count, unsigned cast)
{
    if (cast == SHUNT_CAST_FP32_BF16 && dst_step == 2 && src_step == 4)
        narrow(dst, 2, src, 4, count);
    else if (cast == SHUNT_CAST_FP32_BF16)
        narrow(dst, dst_step, src, src_step, count);
    else if (dst_step == 4 && src_step == 2)
        widen(dst, 4, src, 2, count);
    else
        widen(dst, dst_step, src, src_step, count);
}

void cast_run(void *dst, const void *src, uint64_t count, unsigned cast)
{
    cast_line(dst, shunt_dtype_bytes(shunt_plan_cast_to(cast)), src, shunt_dtype_bytes(shunt_plan_cast_from(cast)),
              count, cast);
}

/*
 * A walk wants one element size, so both sides are walked in elements of one byte: strides in
 * elements of their own. What is contiguous on both is then a run of elements.
 */
void cast_box(void *dst, const struct shunt_plan_view *dst_view, const void *src,
              const struct shunt_plan_view *src_view, unsigned cast)
{
    uint64_t to = dst_view->elem_bytes, from = src_view->elem_bytes;
    int64_t dst_stride[SHUNT_MAX_DIMS], src_stride[SHUNT_MAX_DIMS];
    struct walk walk;
    assert(dst_view->ndim == src_view->ndim);
    for (uint32_t d = 0; d < dst_view->ndim; d++) {
        dst_stride[d] = dst_view->stride[d] / (int64_t)to;
        src_stride[d] = src_view->stride[d] / (int64_t)from;
    }
    walk_init(&walk, dst_view->ndim, 1, dst_view->shape, dst_stride, src_stride);
    do {
        char *line = (char *)dst + walk.a * to;
        const char *other = (const char *)src + walk.b * from;
        if (walk.unit_bytes == 1)
            cast_line(line, walk.a_step * to, other, walk.b_step * from, walk.count, cast);
        else
            for (uint64_t i = 0; i < walk.count; i++)
                cast_run(line + i * walk.a_step * to, other + i * walk.b_step * from, walk.unit_bytes, cast);
    } while (walk_next(&walk));
}
