/* SPDX-License-Identifier: Apache-2.0 */
/** Box sets and grids against brute force over every point. */
#include <stdlib.h>
#include <time.h>

#include "harness.h"
#include "verify_box.h"
#include "verify_late.h"
#include "verify_region.h"

enum { SIDE = 7, MOST = 48 };

static uint64_t random_state = 0xB0CE5;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* A box inside [0, SIDE)^ndim. */
static struct vbox random_box(int ndim, int64_t most_side)
{
    struct vbox box = {{0}, {1, 1, 1, 1, 1, 1}};
    for (int d = 0; d < ndim; d++) {
        int64_t side = 1 + (int64_t)(next_random() % (uint64_t)most_side);
        box.lo[d] = (int64_t)(next_random() % (uint64_t)(SIDE - side + 1));
        box.hi[d] = box.lo[d] + side;
    }
    return box;
}

static struct vbox whole_box(int ndim)
{
    struct vbox box = {{0}, {1, 1, 1, 1, 1, 1}};
    for (int d = 0; d < ndim; d++)
        box.hi[d] = SIDE;
    return box;
}

/* Cut a region into boxes at random; returns how many. */
static size_t cut_up(struct vbox region, int ndim, struct vbox *out, size_t room)
{
    int d = (int)(next_random() % (uint64_t)ndim);
    if (room < 2 || region.hi[d] - region.lo[d] < 2 || next_random() % 8 == 0) {
        out[0] = region;
        return 1;
    }
    int64_t at = region.lo[d] + 1 + (int64_t)(next_random() % (uint64_t)(region.hi[d] - region.lo[d] - 1));
    struct vbox below = region, above = region;
    below.hi[d] = above.lo[d] = at;
    size_t count = cut_up(below, ndim, out, room / 2);
    return count + cut_up(above, ndim, out + count, room - count);
}

/* Boxes of a set that hold each point of [0, SIDE)^3, in row-major order. */
static void count_points(const struct vbox *boxes, size_t count, int *counts)
{
    int64_t point[SHUNT_MAX_DIMS] = {0};
    for (int i = 0; i < SIDE * SIDE * SIDE; i++) {
        point[0] = i / (SIDE * SIDE);
        point[1] = i / SIDE % SIDE;
        point[2] = i % SIDE;
        counts[i] = 0;
        for (size_t b = 0; b < count; b++)
            counts[i] += vbox_holds_point(&boxes[b], point);
    }
}

static int index_of(const int64_t *point)
{
    return (int)(point[0] * SIDE * SIDE + point[1] * SIDE + point[2]);
}

static void tiles_like_brute_force(void)
{
    static int plus_counts[SIDE * SIDE * SIDE], minus_counts[SIDE * SIDE * SIDE];
    int tilings = 0;
    for (int i = 0; i < 3000; i++) {
        int ndim = 1 + i % 3;
        struct vbox plus[MOST], minus = whole_box(ndim);
        size_t count = cut_up(minus, ndim, plus, MOST);
        if (i % 2 == 1) /* spoil one */
            plus[next_random() % count] = random_box(ndim, SIDE);
        count_points(plus, count, plus_counts);
        count_points(&minus, 1, minus_counts);
        int first = 0;
        while (first < SIDE * SIDE * SIDE && plus_counts[first] == minus_counts[first])
            first++;
        int64_t point[SHUNT_MAX_DIMS], excess = 0;
        enum vbox_answer answer = vbox_tiles(plus, count, &minus, 1, point, &excess);
        CHECK(answer == (first == SIDE * SIDE * SIDE ? VBOX_YES : VBOX_NO));
        tilings += answer == VBOX_YES;
        if (answer == VBOX_NO) {
            CHECK_EQ_U64(index_of(point), first);
            CHECK_EQ_U64(excess, plus_counts[first] - minus_counts[first]);
        }
    }
    CHECK(tilings >= 1500 && tilings < 2500);
}

static void tiles_of_nothing(void)
{
    struct vbox whole = whole_box(2);
    int64_t point[SHUNT_MAX_DIMS], excess = 0;
    CHECK(vbox_tiles(NULL, 0, NULL, 0, point, &excess) == VBOX_YES);
    CHECK(vbox_tiles(NULL, 0, &whole, 1, point, &excess) == VBOX_NO);
    CHECK(excess == -1 && point[0] == 0 && point[1] == 0);
    struct vbox twice[] = {whole, whole};
    CHECK(vbox_tiles(twice, 2, &whole, 1, point, &excess) == VBOX_NO);
    CHECK(excess == 1);
}

static void meetings_like_brute_force(void)
{
    int met = 0;
    for (int i = 0; i < 3000; i++) {
        int ndim = 1 + i % 3;
        struct vbox boxes[MOST];
        size_t count = cut_up(whole_box(ndim), ndim, boxes, MOST), first = 0, second = 0;
        if (i % 2 == 1)
            boxes[next_random() % count] = random_box(ndim, 2);
        bool any = false;
        for (size_t a = 0; a < count; a++) {
            for (size_t b = a + 1; b < count; b++)
                any |= vbox_meet(&boxes[a], &boxes[b]);
        }
        enum vbox_answer answer = vbox_find_meeting(boxes, count, &first, &second);
        CHECK(answer == (any ? VBOX_YES : VBOX_NO));
        CHECK(!any || (first < second && vbox_meet(&boxes[first], &boxes[second])));
        met += any;
    }
    CHECK(met > 200 && met < 2000);
}

static void gaps_like_brute_force(void)
{
    static int counts[SIDE * SIDE * SIDE];
    int gaps = 0;
    for (int i = 0; i < 3000; i++) {
        int ndim = 1 + i % 3;
        struct vbox boxes[MOST], region = whole_box(ndim), gap;
        size_t count = 0;
        if (i % 2 == 0)
            count = cut_up(region, ndim, boxes, MOST / 2);
        if (i % 4 == 0)
            boxes[next_random() % count] = random_box(ndim, 3);
        while (count < MOST && next_random() % 16 != 0)
            boxes[count++] = random_box(ndim, SIDE);
        count_points(boxes, count, counts);
        bool any = false;
        for (int64_t at = 0; at < (ndim == 1 ? SIDE : ndim == 2 ? SIDE * SIDE : SIDE * SIDE * SIDE); at++) {
            int64_t side = SIDE;
            int64_t index = ndim == 3 ? at : ndim == 2 ? at / side * side * side + at % side * side : at * side * side;
            any |= counts[index] == 0;
        }
        enum vbox_answer answer = vbox_find_gap(&region, boxes, count, &gap);
        CHECK(answer == (any ? VBOX_YES : VBOX_NO));
        for (size_t b = 0; any && b < count; b++)
            CHECK(!vbox_meet(&gap, &boxes[b]));
        CHECK(!any || vbox_shared(&gap, &region) == vbox_volume(&gap));
        gaps += any;
    }
    CHECK(gaps > 200 && gaps < 2800);
}

/* ---- regions and grids -------------------------------------------------------------- */

static struct shunt_plan_view view_of(uint32_t elem_bytes, uint32_t ndim, const int64_t *shape, const int64_t *stride)
{
    struct shunt_plan_view view = {.ndim = ndim, .elem_bytes = elem_bytes, .shape = {1, 1, 1, 1, 1, 1}};
    memcpy(view.shape, shape, ndim * sizeof(*shape));
    memcpy(view.stride, stride, ndim * sizeof(*stride));
    return view;
}

/* Add 1 to the element of each byte offset that a view reaches. */
static void mark_view(const struct shunt_plan_view *view, uint64_t offset, int *marks)
{
    int64_t at[SHUNT_MAX_DIMS] = {0};
    for (uint64_t n = shunt_plan_view_elements(view); n > 0; n--) {
        uint64_t byte = offset;
        for (uint32_t d = 0; d < view->ndim; d++)
            byte += (uint64_t)(at[d] * view->stride[d]);
        marks[byte / view->elem_bytes]++;
        for (uint32_t d = view->ndim; d-- > 0 && ++at[d] == view->shape[d];)
            at[d] = 0;
    }
}

static void mark_box(const struct vgrid *grid, const struct vbox *box, uint32_t elem_bytes, int *marks)
{
    int64_t at[SHUNT_MAX_DIMS];
    memcpy(at, box->lo, sizeof(at));
    for (uint64_t n = vbox_volume(box); n > 0; n--) {
        marks[vgrid_offset(grid, at) / elem_bytes]++;
        for (int d = SHUNT_MAX_DIMS; d-- > 0 && ++at[d] == box->hi[d];)
            at[d] = box->lo[d];
    }
}

/* A nested region over a random selection of the strides 1, 5, 15 and 60, times the element size. */
static struct shunt_plan_view random_region(uint32_t elem_bytes, uint64_t elements, uint64_t *offset_out)
{
    static const int64_t strides[] = {60, 15, 5, 1};
    int64_t shape[SHUNT_MAX_DIMS], stride[SHUNT_MAX_DIMS], above = (int64_t)elements, extent = 1;
    uint32_t ndim = 0;
    for (int i = 0; i < 4; i++) {
        if (next_random() % 2 == 0 && !(i == 3 && ndim == 0))
            continue;
        stride[ndim] = strides[i] * elem_bytes;
        shape[ndim] = 1 + (int64_t)(next_random() % (uint64_t)(above / strides[i] > 0 ? above / strides[i] : 1));
        above = strides[i];
        extent += (shape[ndim] - 1) * strides[i];
        ndim++;
    }
    *offset_out = next_random() % (elements - (uint64_t)extent + 1) * elem_bytes;
    return view_of(elem_bytes, ndim, shape, stride);
}

static void splits_like_brute_force(void)
{
    enum { ELEMENTS = 200 };
    static const int64_t shape[] = {2, 2, 2, 2}, stride[] = {120, 30, 10, 2};
    struct shunt_plan_view all = view_of(2, 4, shape, stride);
    struct vgrid grid;
    vgrid_begin(&grid, 2);
    CHECK(vgrid_add_view(&grid, &all) && vgrid_end(&grid, ELEMENTS * 2));
    CHECK_EQ_U64(grid.levels, 4);
    for (int i = 0; i < 3000; i++) {
        int want[ELEMENTS + 200] = {0}, got[ELEMENTS + 200] = {0};
        uint64_t offset;
        struct vbox_list list = {0};
        struct shunt_plan_view view = random_region(2, ELEMENTS, &offset);
        mark_view(&view, offset, want);
        CHECK(vview_is_nested(&view));
        CHECK(vgrid_split(&grid, &view, offset, &list) == VBOX_YES);
        for (size_t b = 0; b < list.count; b++)
            mark_box(&grid, &list.at[b], 2, got);
        CHECK(memcmp(want, got, sizeof(want)) == 0);
        vbox_list_finish(&list);
    }
}

static void splits_a_whole_buffer(void)
{
    static const int64_t shape[] = {2, 2}, stride[] = {28, 4};
    struct shunt_plan_view view = view_of(4, 2, shape, stride);
    for (uint64_t bytes = 36; bytes <= 120; bytes += 4) {
        struct vgrid grid;
        struct vbox_list list = {0};
        int want[64] = {0}, got[64] = {0};
        vgrid_begin(&grid, 4);
        CHECK(vgrid_add_view(&grid, &view) && vgrid_end(&grid, bytes));
        CHECK(vgrid_split_all(&grid, bytes, &list) == VBOX_YES);
        for (uint64_t i = 0; i < bytes / 4; i++)
            want[i] = 1;
        for (size_t b = 0; b < list.count; b++)
            mark_box(&grid, &list.at[b], 4, got);
        CHECK(memcmp(want, got, sizeof(want)) == 0);
        vbox_list_finish(&list);
    }
}

static void refuses_what_is_not_nested(void)
{
    static const struct {
        int64_t shape[3], stride[3];
        bool nested;
    } rows[] = {
        {{4, 3, 2}, {6, 2, 1}, true},  {{4, 3, 2}, {1, 4, 12}, true}, {{4, 3, 2}, {7, 2, 1}, true},
        {{4, 3, 2}, {5, 2, 1}, false}, {{4, 3, 2}, {6, 2, 0}, false}, {{4, 3, 2}, {2, 2, 1}, false},
        {{1, 3, 2}, {0, 2, 1}, true},  {{4, 1, 1}, {1, 0, 0}, true},  {{2, 1, 2}, {1, 5, 1}, false},
        {{2, 3, 2}, {6, 1, 3}, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shunt_plan_view view = view_of(1, 3, rows[i].shape, rows[i].stride);
        CHECK_MSG(vview_is_nested(&view) == rows[i].nested, "row %zu", i);
    }
}

/* Holding [4, 6] of 2-byte elements, rows 16 bytes apart, from byte 8. */
static void locates_regions(void)
{
    static const struct {
        int64_t shape[2], stride[2];
        uint64_t offset;
        bool inside;
        int64_t start[2];
    } rows[] = {
        {{4, 6}, {16, 2}, 8, true, {0, 0}},   {{1, 1}, {0, 0}, 8 + 3 * 16 + 10, true, {3, 5}},
        {{2, 3}, {16, 2}, 30, true, {1, 3}},  {{2, 3}, {16, 2}, 32, false, {0, 0}},
        {{1, 1}, {0, 0}, 6, false, {0, 0}},   {{1, 1}, {0, 0}, 8 + 12, false, {0, 0}},
        {{2, 1}, {16, 2}, 56, false, {0, 0}}, {{2, 1}, {16, 0}, 40, true, {2, 0}},
        {{2, 2}, {12, 2}, 8, false, {0, 0}},  {{1, 2}, {99, 2}, 8, true, {0, 0}},
        {{1, 1}, {0, 0}, 9, false, {0, 0}},   {{1, 7}, {16, 2}, 8, false, {0, 0}},
    };
    static const int64_t shape[] = {4, 6}, stride[] = {16, 2};
    struct shunt_plan_view holding = view_of(2, 2, shape, stride);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shunt_plan_view view = view_of(2, 2, rows[i].shape, rows[i].stride);
        int64_t start[SHUNT_MAX_DIMS] = {0};
        bool inside = vregion_locate(&holding, 8, &view, rows[i].offset, start);
        CHECK_MSG(inside == rows[i].inside, "row %zu", i);
        CHECK_MSG(!inside || (start[0] == rows[i].start[0] && start[1] == rows[i].start[1]), "row %zu", i);
    }
}

static void grid_limits(void)
{
    static const int64_t shape[] = {2, 2, 2, 2, 2, 2}, stride[] = {64, 32, 16, 8, 4, 2}, odd[] = {3};
    struct shunt_plan_view view = view_of(1, 6, shape, stride);
    struct vgrid grid;
    vgrid_begin(&grid, 1);
    CHECK(!vgrid_add_view(&grid, &view)); /* six strides and the element */
    vgrid_begin(&grid, 2);
    CHECK(vgrid_add_view(&grid, &view));
    CHECK(vgrid_end(&grid, 128));
    view = view_of(2, 1, shape, odd);
    vgrid_begin(&grid, 2);
    CHECK(vgrid_add_view(&grid, &view));
    CHECK(!vgrid_end(&grid, 128)); /* 3 is no multiple of 2 */
}

/* Writes of all rounds, apart or not, and reads of any box. */
static void late_writes_like_brute_force(void)
{
    enum { WRITES = 200, READS = 100, ROUNDS = 5 };
    uint32_t found = 0, missed = 0;
    for (int trial = 0; trial < 40; trial++) {
        struct vlate_write writes[WRITES];
        struct vlate late;
        uint32_t count = trial == 0 ? 0 : (uint32_t)(next_random() % WRITES) + 1;
        for (uint32_t i = 0; i < count; i++)
            writes[i] = (struct vlate_write){random_box(1 + trial % 4, 3), (uint32_t)(next_random() % ROUNDS)};
        CHECK(vlate_build(&late, writes, count));
        for (int i = 0; i < READS; i++) {
            struct vbox box = random_box(1 + trial % 4, 3);
            uint32_t first = (uint32_t)(next_random() % (ROUNDS + 1));
            bool want = false;
            for (uint32_t w = 0; w < count; w++)
                want |= writes[w].round >= first && vbox_meet(&writes[w].box, &box);
            const struct vlate_write *got = vlate_find(&late, &box, first);
            CHECK((got != NULL) == want);
            CHECK(got == NULL || (got->round >= first && vbox_meet(&got->box, &box)));
            *(want ? &found : &missed) += 1;
        }
        vlate_finish(&late);
    }
    CHECK(found > 100 && missed > 100);
}

/* Boxes that a hash without a key, whose code can be read, puts into one slot. */
static void no_boxes_share_a_slot(void)
{
    enum { COUNT = 50000 };
    struct vbox_set set;
    struct vbox box = {.hi = {0, 1, 1, 1, 1, 1}};
    CHECK(vbox_set_begin(&set));
    clock_t begin = clock();
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t mixed = i * UINT64_C(0x9E3779B97F4A7C15);
            uint32_t number = 0;
            box.lo[0] = (int64_t)i;
            box.hi[0] = (int64_t)(mixed ^ (mixed >> 32));
            if (!vbox_set_add(&set, &box, &number) || number != i)
                CHECK_MSG(false, "box %d is number %u", (int)i, number);
        }
    }
    CHECK_EQ_U64(set.list.count, COUNT);
    CHECK((double)(clock() - begin) / CLOCKS_PER_SEC < 2);
    vbox_set_finish(&set);
}

static const struct test_case cases[] = {
    {"tiles_like_brute_force", tiles_like_brute_force},
    {"tiles_of_nothing", tiles_of_nothing},
    {"meetings_like_brute_force", meetings_like_brute_force},
    {"gaps_like_brute_force", gaps_like_brute_force},
    {"splits_like_brute_force", splits_like_brute_force},
    {"splits_a_whole_buffer", splits_a_whole_buffer},
    {"refuses_what_is_not_nested", refuses_what_is_not_nested},
    {"locates_regions", locates_regions},
    {"grid_limits", grid_limits},
    {"late_writes_like_brute_force", late_writes_like_brute_force},
    {"no_boxes_share_a_slot", no_boxes_share_a_slot},
};
TEST_MAIN(cases)
