/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies, fills and marks against element-by-element references, over random boxes. */
#include <stdlib.h>

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
    {"copies_like_the_reference", copies_like_the_reference},
    {"fills_like_the_reference", fills_like_the_reference},
    {"marks_like_the_reference", marks_like_the_reference},
    {"merges_what_is_contiguous", merges_what_is_contiguous},
};
TEST_MAIN(cases)
