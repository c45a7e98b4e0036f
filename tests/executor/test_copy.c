/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies, fills and marks against element-by-element references, over random boxes. */
#include <stdlib.h>

#include "device/cast.h"
#include "device/copy.h"
#include "device/walk.h"
#include "harness.h"
#include "replay/track.h"

#define SPACE  (1u << 16)
#define TRIALS 4000

static uint64_t random_state = 12345;

static uint32_t pick(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

/* A shape, and strides as a permuted, gapped, sometimes dense layout of it. */
static struct shunt_plan_view random_view(uint32_t ndim, uint32_t elem, const int64_t *shape)
{
    struct shunt_plan_view view = {.ndim = ndim, .elem_bytes = elem};
    int64_t stride = elem;
    bool swap = ndim > 1 && pick(4) == 0;
    for (uint32_t d = 0; d < SHUNT_MAX_DIMS; d++)
        view.shape[d] = d < ndim ? shape[d] : 1;
    for (uint32_t n = ndim; n-- > 0;) {
        uint32_t d = n;
        if (swap && n >= ndim - 2)
            d = 2 * ndim - 3 - n; /* the last two the other way round */
        view.stride[d] = stride;
        stride *= shape[d];
        if (pick(3) == 0)
            stride += (int64_t)pick(3) * elem;
    }
    return view;
}

static void random_shape(uint32_t *ndim, uint32_t *elem, int64_t *shape)
{
    static const uint32_t widths[] = {1, 2, 4, 8};
    *ndim = 1 + pick(SHUNT_MAX_DIMS);
    *elem = widths[pick(4)];
    for (uint32_t d = 0; d < *ndim; d++)
        shape[d] = 1 + pick(*ndim > 3 ? 3 : 9);
}

static uint64_t offset_of(const struct shunt_plan_view *view, uint64_t linear)
{
    uint64_t offset = 0;
    for (uint32_t d = view->ndim; d-- > 0;) {
        offset += linear % (uint64_t)view->shape[d] * (uint64_t)view->stride[d];
        linear /= (uint64_t)view->shape[d];
    }
    return offset;
}

static void copies_like_the_reference(void)
{
    static unsigned char src[SPACE], got[SPACE], want[SPACE];
    for (uint32_t i = 0; i < SPACE; i++)
        src[i] = (unsigned char)pick(256);
    for (int trial = 0; trial < TRIALS; trial++) {
        uint32_t ndim, elem;
        int64_t shape[SHUNT_MAX_DIMS];
        random_shape(&ndim, &elem, shape);
        struct shunt_plan_view a = random_view(ndim, elem, shape), b = random_view(ndim, elem, shape);
        memset(got, 0xCC, SPACE);
        memset(want, 0xCC, SPACE);
        copy_box(got, &a, src, &b);
        for (uint64_t i = 0; i < shunt_plan_view_elements(&a); i++)
            memcpy(want + offset_of(&a, i), src + offset_of(&b, i), elem);
        CHECK_MSG(memcmp(got, want, SPACE) == 0, "trial %d", trial);
    }
}

static void fills_like_the_reference(void)
{
    static unsigned char got[SPACE], want[SPACE];
    for (int trial = 0; trial < TRIALS; trial++) {
        uint32_t ndim, elem;
        int64_t shape[SHUNT_MAX_DIMS];
        random_shape(&ndim, &elem, shape);
        struct shunt_plan_view view = random_view(ndim, elem, shape);
        memset(got, 0xCC, SPACE);
        memset(want, 0xCC, SPACE);
        fill_box(got, &view, 0);
        for (uint64_t i = 0; i < shunt_plan_view_elements(&view); i++)
            memset(want + offset_of(&view, i), 0, elem);
        CHECK_MSG(memcmp(got, want, SPACE) == 0, "trial %d", trial);
    }
}

static void marks_like_the_reference(void)
{
    static unsigned char want[SPACE];
    for (int trial = 0; trial < TRIALS / 4; trial++) {
        uint32_t ndim, elem;
        int64_t shape[SHUNT_MAX_DIMS];
        random_shape(&ndim, &elem, shape);
        struct shunt_plan_view view = random_view(ndim, elem, shape);
        uint64_t lead = pick(100), elems = shunt_plan_view_extent(&view) / elem + lead + pick(70), marked = 0;
        struct track track;
        CHECK(track_init(&track, elems, elem));
        memset(want, 0, SPACE);
        track_mark_box(&track, lead * elem, &view);
        for (uint64_t i = 0; i < shunt_plan_view_elements(&view); i++) {
            uint64_t at = lead + offset_of(&view, i) / elem;
            marked += want[at] == 0;
            want[at] = 1;
        }
        CHECK_EQ_U64(track_count(&track), marked);
        for (uint64_t i = 0; i < elems; i++) {
            uint64_t next = i;
            while (next < elems && !want[next])
                next++;
            CHECK_EQ_U64(track_find(&track, i, true), next);
        }
        track_finish(&track);
    }
}

static void rounds_to_nearest_even(void)
{
    static const struct {
        uint32_t from;
        uint16_t to;
    } rows[] = {
        {0x00000000, 0x0000}, {0x80000000, 0x8000},                       /* zeros keep their signs */
        {0x3F800000, 0x3F80}, {0x3F807FFF, 0x3F80}, {0x3F808001, 0x3F81}, /* below and above the middle */
        {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0xBF818000, 0xBF82}, /* ties go to even */
        {0x3FFFFFFF, 0x4000}, {0x7F7F7FFF, 0x7F7F},                       /* into the next exponent, and just not */
        {0x7F7F8000, 0x7F80}, {0x7F7FFFFF, 0x7F80}, {0xFF7FFFFF, 0xFF80}, /* too large: infinity */
        {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80},                       /* infinities */
        {0x7F800001, 0x7FC0}, {0xFF80FFFF, 0xFFC0}, {0x7FFFFFFF, 0x7FFF}, /* NaNs stay NaNs */
        {0x00000001, 0x0000}, {0x00008000, 0x0000}, {0x00008001, 0x0001}, /* subnormals round as well */
        {0x00018000, 0x0002}, {0x007FFFFF, 0x0080}, {0x80008001, 0x8001},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_MSG(cast_to_bf16(rows[i].from) == rows[i].to, "0x%08x became 0x%04x", rows[i].from,
                  cast_to_bf16(rows[i].from));
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        uint32_t wide = cast_to_fp32((uint16_t)half);
        bool nan = (half & 0x7FFF) > 0x7F80;
        CHECK_EQ_U64(wide, half << 16);
        CHECK_EQ_U64(cast_to_bf16(wide), nan ? half | 0x40 : half);
    }
}

/* Against the middle between two neighbours, in double arithmetic that shares no trick with the cast. */
static void rounds_like_the_reference(void)
{
    for (int trial = 0; trial < 200000; trial++) {
        uint32_t bits = pick(1u << 16) << 16 | pick(1u << 16);
        if ((bits & 0x7F800000) == 0x7F800000 || (bits & 0x7FFF0000) == 0x7F7F0000)
            continue; /* in the table above */
        uint32_t below = bits & 0xFFFF0000, above = below + 0x10000;
        float x, lo, hi;
        memcpy(&x, &bits, 4);
        memcpy(&lo, &below, 4);
        memcpy(&hi, &above, 4);
        double to_lo = (double)x - (double)lo, to_hi = (double)hi - (double)x;
        to_lo = to_lo < 0 ? -to_lo : to_lo;
        to_hi = to_hi < 0 ? -to_hi : to_hi;
        bool up = to_hi < to_lo || (to_hi == to_lo && (below >> 16 & 1) != 0);
        CHECK_MSG(cast_to_bf16(bits) == (up ? above : below) >> 16, "0x%08x", bits);
    }
}

static void casts_like_the_reference(void)
{
    static unsigned char src[SPACE], got[SPACE], want[SPACE];
    for (int trial = 0; trial < TRIALS; trial++) {
        uint32_t ndim, elem;
        int64_t shape[SHUNT_MAX_DIMS];
        unsigned cast = trial % 2 == 0 ? SHUNT_CAST_FP32_BF16 : SHUNT_CAST_BF16_FP32;
        random_shape(&ndim, &elem, shape);
        struct shunt_plan_view from = random_view(ndim, cast == SHUNT_CAST_FP32_BF16 ? 4 : 2, shape);
        struct shunt_plan_view to = random_view(ndim, cast == SHUNT_CAST_FP32_BF16 ? 2 : 4, shape);
        for (size_t i = 0; i < SPACE; i++)
            src[i] = (unsigned char)pick(256);
        memset(got, 0x5A, SPACE);
        memset(want, 0x5A, SPACE);
        cast_box(got, &to, src, &from, cast);
        for (uint64_t i = 0; i < shunt_plan_view_elements(&to); i++)
            cast_run(want + offset_of(&to, i), src + offset_of(&from, i), 1, cast);
        CHECK_MSG(memcmp(got, want, SPACE) == 0, "trial %d", trial);
    }
}

static void merges_what_is_contiguous(void)
{
    /* the example in walk.h */
    int64_t shape[3] = {2, 3, 4}, dense[3] = {24, 8, 2}, gapped[3] = {48, 16, 2};
    struct walk walk;
    walk_init(&walk, 3, 2, shape, dense, gapped);
    CHECK_EQ_U64(walk.unit_bytes, 8);
    CHECK_EQ_U64(walk.count, 6);
    CHECK_EQ_U64(walk.a_step, 8);
    CHECK_EQ_U64(walk.b_step, 16);
    CHECK(!walk_next(&walk));
    walk_init(&walk, 3, 2, shape, dense, dense);
    CHECK_EQ_U64(walk.unit_bytes, 48);
    CHECK_EQ_U64(walk.count, 1);
    CHECK(!walk_next(&walk));
}

static const struct test_case cases[] = {
    {"copies_like_the_reference", copies_like_the_reference}, {"fills_like_the_reference", fills_like_the_reference},
    {"marks_like_the_reference", marks_like_the_reference},   {"rounds_to_nearest_even", rounds_to_nearest_even},
    {"rounds_like_the_reference", rounds_like_the_reference}, {"casts_like_the_reference", casts_like_the_reference},
    {"merges_what_is_contiguous", merges_what_is_contiguous},
};
TEST_MAIN(cases)
