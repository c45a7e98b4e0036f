/* SPDX-License-Identifier: Apache-2.0 */
#include "device/copy.h"

#include <assert.h>
#include <string.h>

#include "device/walk.h"

/* A line of units of a size the compiler knows: loads and stores instead of a call each. */
#define COPY_LINE(bytes)                                                                                               \
    case bytes:                                                                                                        \
        for (uint64_t i = 0; i < walk->count; i++)                                                                     \
            memcpy(dst + i * walk->a_step, src + i * walk->b_step, bytes);                                             \
        break

static void copy_line(char *dst, const char *src, const struct walk *walk)
{
    switch (walk->unit_bytes) {
        COPY_LINE(1);
        COPY_LINE(2);
        COPY_LINE(4);
        COPY_LINE(8);
        COPY_LINE(16);
        COPY_LINE(32);
    default:
        for (uint64_t i = 0; i < walk->count; i++)
            memcpy(dst + i * walk->a_step, src + i * walk->b_step, walk->unit_bytes);
    }
}

void copy_box(void *dst, const struct shunt_plan_view *dst_view, const void *src,
              const struct shunt_plan_view *src_view)
{
    struct walk walk;
    assert(dst_view->ndim == src_view->ndim && dst_view->elem_bytes == src_view->elem_bytes);
    walk_init(&walk, dst_view->ndim, dst_view->elem_bytes, dst_view->shape, dst_view->stride, src_view->stride);
    do
        copy_line((char *)dst + walk.a, (const char *)src + walk.b, &walk);
    while (walk_next(&walk));
}

void fill_box(void *dst, const struct shunt_plan_view *view, unsigned char byte)
{
    struct walk walk;
    walk_init(&walk, view->ndim, view->elem_bytes, view->shape, view->stride, view->stride);
    do {
        for (uint64_t i = 0; i < walk.count; i++)
            memset((char *)dst + walk.a + i * walk.a_step, byte, walk.unit_bytes);
    } while (walk_next(&walk));
}
