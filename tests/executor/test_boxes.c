/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the CUDA kernel against the host's copies: random boxes, the kernel's own body, bit for bit. */
#include <stdlib.h>

#include "device/boxes.h"
#include "device/cast.h"
#include "device/copy.h"
#include "harness.h"

#define ARENA_BYTES (1u << 16)
#define CASES       4000

static uint64_t state;

static uint64_t next_u64(void)
{
    uint64_t x = state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static uint64_t below(uint64_t n)
{
    return next_u64() % n;
}

/* One op, the memory that it needs, and the arenas that it works in. */
struct trial {
    struct shunt_plan_view dst, src;
    struct device_work work;
    uint64_t dst_bytes, src_bytes; /* from the base */
};

/* Strides that leave gaps now and then, often multiples of 16, and some dimensions out of order. */
static uint64_t lay_out(struct shunt_plan_view *view, uint64_t offset)
{
    uint64_t step = view->elem_bytes;
    uint32_t order[SHUNT_MAX_DIMS];
    for (uint32_t d = 0; d < view->ndim; d++)
        order[d] = view->ndim - 1 - d;
    if (view->ndim > 1 && below(4) == 0) {
        uint32_t swap = order[0];
        order[0] = order[1];
        order[1] = swap;
    }
    for (uint32_t n = 0; n < view->ndim; n++) {
        view->stride[order[n]] = (int64_t)step;
        step *= (uint64_t)view->shape[order[n]];
        if (below(3) == 0)
            step += view->elem_bytes * below(5);
        if (below(3) == 0)
            step = (step + 15) / 16 * 16;
    }
    return offset + shunt_plan_view_extent(view);
}

static bool make_trial(struct trial *t)
{
    static const uint32_t widths[] = {1, 2, 4, 8};
    static const uint64_t extents[] = {1, 2, 3, 4, 7, 8, 16, 33, 64, 128};
    unsigned cast = below(3) == 0 ? 1 + (unsigned)below(2) : 0;
    uint32_t width = widths[below(4)], ndim = 1 + (uint32_t)below(SHUNT_MAX_DIMS);
    *t = (struct trial){.work = {.dst = {.base = 0}, .src = {.base = 1}, .cast = (uint8_t)cast}};
    t->dst.ndim = t->src.ndim = ndim;
    t->dst.elem_bytes = cast != 0 ? shunt_dtype_bytes(shunt_plan_cast_to(cast)) : width;
    t->src.elem_bytes = cast != 0 ? shunt_dtype_bytes(shunt_plan_cast_from(cast)) : width;
    t->work.zero = cast == 0 && below(4) == 0;
    for (uint32_t d = 0; d < ndim; d++)
        t->dst.shape[d] = t->src.shape[d] = (int64_t)(ndim == 1 ? 1 + below(9000) : extents[below(10)]);
    t->work.dst = (struct device_end){0, t->dst.elem_bytes * below(9), &t->dst};
    t->work.src = (struct device_end){1, t->src.elem_bytes * below(9), &t->src};
    if (below(2) == 0)
        t->work.dst.offset = t->work.dst.offset / 16 * 16, t->work.src.offset = t->work.src.offset / 16 * 16;
    t->dst_bytes = lay_out(&t->dst, t->work.dst.offset);
    t->src_bytes = lay_out(&t->src, t->work.src.offset);
    return t->dst_bytes <= ARENA_BYTES && t->src_bytes <= ARENA_BYTES;
}

static void as_the_host_does(const struct trial *t, char *dst, const char *src)
{
    const struct device_work *w = &t->work;
    if (w->zero)
        fill_box(dst + w->dst.offset, &t->dst, 0);
    else if (w->cast != SHUNT_CAST_NONE)
        cast_box(dst + w->dst.offset, &t->dst, src + w->src.offset, &t->src, w->cast);
    else
        copy_box(dst + w->dst.offset, &t->dst, src + w->src.offset, &t->src);
}

static void as_the_kernel_does(const struct boxes *boxes, char *dst, const char *src, uint32_t lanes)
{
    for (uint32_t i = 0; i < boxes->tile_count; i++) {
        for (uint32_t lane = 0; lane < lanes; lane++)
            kernel_move(&boxes->boxes[boxes->tiles[i].box], boxes->tiles[i].index, dst, src, lane, lanes);
    }
}

static _Alignas(64) char source[ARENA_BYTES + 64], want[ARENA_BYTES + 64], got[ARENA_BYTES + 64];

static void boxes_do_what_the_host_does(void)
{
    static const uint32_t lanes[] = {1, 32, 256};
    uint32_t done = 0, kinds[4] = {0}, wide = 0, long_rows = 0;
    state = 1;
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (char)next_u64();
    while (done < CASES) {
        struct trial t;
        struct boxes boxes;
        if (!make_trial(&t))
            continue;
        uint32_t shift = below(3) == 0 ? (uint32_t)below(16) : 0; /* a base that is not aligned */
        CHECK_EQ_U64(boxes_create(&boxes, &t.work, 1, NULL), SHUNT_OK);
        memset(want, 0x5A, sizeof(want));
        memset(got, 0x5A, sizeof(got));
        as_the_host_does(&t, want + shift, source);
        as_the_kernel_does(&boxes, got + shift, source, lanes[done % 3]);
        CHECK_MSG(memcmp(want, got, sizeof(want)) == 0, "case %u, kind %u, %u dims", done, boxes.boxes[0].kind,
                  t.dst.ndim);
        for (uint32_t b = 0; b < boxes.box_count; b++) {
            kinds[boxes.boxes[b].kind]++;
            wide += boxes.boxes[b].dst_bytes == 16;
            long_rows += boxes.boxes[b].tile_rows == 0;
        }
        boxes_destroy(&boxes);
        done++;
    }
    for (int k = 0; k < 4; k++)
        CHECK_MSG(kinds[k] > CASES / 50, "kind %d: %u boxes", k, kinds[k]);
    CHECK(wide > CASES / 20);
    CHECK(long_rows > CASES / 100);
}

static void rows_that_are_no_multiple_of_16_are_cut(void)
{
    struct shunt_plan_view view = {.ndim = 2, .elem_bytes = 2, .shape = {3, 1001}, .stride = {2016, 2}};
    struct device_work work = {.dst = {0, 32, &view}, .src = {1, 0, &view}};
    struct boxes boxes;
    CHECK_EQ_U64(boxes_create(&boxes, &work, 1, NULL), SHUNT_OK);
    CHECK_EQ_U64(boxes.box_count, 2);
    CHECK_EQ_U64(boxes.boxes[0].dst_bytes, 16);
    CHECK_EQ_U64(boxes.boxes[0].row_vectors, 125);
    CHECK_EQ_U64(boxes.boxes[1].dst_bytes, 2);
    CHECK_EQ_U64(boxes.boxes[1].dst_offset, 32 + 2000);
    boxes_destroy(&boxes);
}

/* Rows of a box are counted in 31 bits, whatever the op has. */
static void more_rows_than_31_bits_are_cut(void)
{
    struct shunt_plan_view dst = {
        .ndim = 2, .elem_bytes = 2, .shape = {INT64_C(3) << 20, 4096}, .stride = {3 * 8192, 6}};
    struct shunt_plan_view src = {.ndim = 2, .elem_bytes = 2, .shape = {INT64_C(3) << 20, 4096}, .stride = {8192, 2}};
    struct device_work work = {.dst = {0, 0, &dst}, .src = {1, 0, &src}};
    struct boxes boxes;
    CHECK_EQ_U64(boxes_create(&boxes, &work, 1, NULL), SHUNT_OK);
    uint64_t rows = 0, next = 0;
    for (uint32_t b = 0; b < boxes.box_count; b++) {
        CHECK(boxes.boxes[b].rows < UINT32_C(1) << 31);
        CHECK_EQ_U64(boxes.boxes[b].src_offset, next);
        rows += boxes.boxes[b].rows;
        next += (uint64_t)boxes.boxes[b].rows * 2;
    }
    CHECK(boxes.box_count > 1);
    CHECK_EQ_U64(rows, (UINT64_C(3) << 20) * 4096);
    boxes_destroy(&boxes);
}

static void skipped_ops_have_no_tiles(void)
{
    struct shunt_plan_view view = {.ndim = 1, .elem_bytes = 4, .shape = {100000}, .stride = {4}};
    struct device_work work[3] = {
        {.dst = {0, 0, &view}, .src = {1, 0, &view}},
        {.dst = {0, 0, &view}, .src = {1, 0, &view}, .skipped = true},
        {.dst = {0, 0, &view}, .zero = true},
    };
    struct boxes boxes;
    CHECK_EQ_U64(boxes_create(&boxes, work, 3, NULL), SHUNT_OK);
    CHECK_EQ_U64(boxes.tile_begin[1], 13); /* 400000 bytes in tiles of 32 KiB */
    CHECK_EQ_U64(boxes.tile_begin[2], boxes.tile_begin[1]);
    CHECK_EQ_U64(boxes.tile_begin[3], 26);
    boxes_destroy(&boxes);
}

static void divisors_are_exact(void)
{
    static const uint32_t numbers[] = {1, 2, 3, 5, 7, 641, 65535, 65536, 65537, 1000003, 0x7FFFFFFF};
    state = 7;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct kernel_divisor by = boxes_divisor(numbers[i]);
        for (int n = 0; n < 20000; n++) {
            uint32_t value = (uint32_t)next_u64() >> below(32);
            CHECK_MSG(kernel_divide(value, by) == value / numbers[i], "%u / %u", value, numbers[i]);
            value = (uint32_t)(numbers[i] * below(UINT32_MAX / numbers[i] + UINT64_C(1)));
            CHECK_MSG(kernel_divide(value, by) == value / numbers[i], "%u / %u", value, numbers[i]);
            CHECK_MSG(kernel_divide(value - 1, by) == (value - 1) / numbers[i], "%u / %u", value - 1, numbers[i]);
        }
    }
}

static const struct test_case cases[] = {
    {"boxes_do_what_the_host_does", boxes_do_what_the_host_does},
    {"rows_that_are_no_multiple_of_16_are_cut", rows_that_are_no_multiple_of_16_are_cut},
    {"more_rows_than_31_bits_are_cut", more_rows_than_31_bits_are_cut},
    {"skipped_ops_have_no_tiles", skipped_ops_have_no_tiles},
    {"divisors_are_exact", divisors_are_exact},
};
TEST_MAIN(cases)
