/* SPDX-License-Identifier: Apache-2.0 */
/** Boxes, pipeline split, tensor cut and rank placement: tables of inputs and right values. */

#include <stdlib.h>

#include "harness.h"
#include "space/cut.h"
#include "space/pipeline.h"
#include "space/world.h"

static struct cfg_layout plain_layout(void)
{
    struct cfg_layout layout = {.path = (char *)"layout.yaml",
                                .name = (char *)"layout",
                                .size = {1, 1, 1, 1, 1},
                                .order = {CFG_AXIS_TP, CFG_AXIS_CP, CFG_AXIS_EP, CFG_AXIS_DP, CFG_AXIS_PP},
                                .first_stage_layers = -1,
                                .last_stage_layers = -1,
                                .vocab_divisible_by = 128};
    for (int s = 0; s < SHUNT_STATE_COUNT; s++)
        layout.state_dtype[s] = -1;
    layout.state_dtype[SHUNT_STATE_PARAM] = SHUNT_DTYPE_BF16;
    layout.state_dtype[SHUNT_STATE_MASTER] = SHUNT_DTYPE_FP32;
    return layout;
}

/* ---- boxes ---------------------------------------------------------------------- */

static void box_slices_cover_exactly(void)
{
    static const struct {
        uint32_t ndim;
        int64_t shape[3];
        int64_t count;
    } rows[] = {
        {1, {10}, 3}, {1, {2}, 5}, {2, {3, 100}, 7}, {2, {8, 8}, 8}, {3, {1, 2, 3}, 4}, {2, {1, 1}, 9},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct box whole = box_whole(rows[i].ndim, rows[i].shape), before = whole;
        int64_t volume = 0;
        for (int64_t c = 0; c < rows[i].count; c++) {
            struct box slice = box_slice(&whole, c, rows[i].count), overlap;
            volume += box_volume(&slice);
            CHECK_MSG(c == 0 || box_empty(&slice) || box_empty(&before) || !box_intersect(&slice, &before, &overlap),
                      "row %zu slice %lld", i, (long long)c);
            before = slice;
        }
        CHECK_EQ_U64(volume, box_volume(&whole));
    }
}

static void box_slice_of_a_huge_extent(void)
{
    int64_t shape[] = {INT64_C(1) << 40};
    struct box whole = box_whole(1, shape);
    struct box last = box_slice(&whole, 4095, 4096);
    CHECK_EQ_U64(last.hi[0], shape[0]);
    CHECK_EQ_U64(box_volume(&last), shape[0] / 4096);
}

/* ---- pipeline ------------------------------------------------------------------- */

static void pipeline_splits(void)
{
    /* first and last: -1 not given. want[0] < 0: refused with `text` */
    static const struct {
        int64_t layers, stages, first, last;
        int64_t want[9];
        const char *text;
    } rows[] = {
        {16, 4, -1, -1, {0, 4, 8, 12, 16}, NULL},
        {22, 4, 4, 6, {0, 4, 10, 16, 22}, NULL},
        {14, 2, 6, 8, {0, 6, 14}, NULL},
        {12, 1, -1, -1, {0, 12}, NULL},
        {94, 8, 11, 11, {0, 11, 23, 35, 47, 59, 71, 83, 94}, NULL},
        {94, 4, -1, 22, {0, 24, 48, 72, 94}, NULL},
        {7, 3, 3, -1, {0, 3, 5, 7}, NULL},
        {4, 2, 4, -1, {0, 4, 4}, NULL},
        {80, 16, 5, -1, {0, 5, 10, 15}, NULL},
        {10, 4, -1, -1, {-1}, "parallel.pp: found 4, expected a divisor of the number of layers"},
        {80, 3, -1, -1, {-1}, "80 layers"},
        {10, 3, 4, -1, {0, 4, 7, 10}, NULL},
        {11, 3, 4, -1, {-1}, "divide evenly"},
        {11, 3, 12, -1, {-1}, "pipeline.first: found 12"},
        {11, 1, 5, 6, {-1}, "single stage"},
        {11, 2, 5, 5, {-1}, "leave the layers"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cfg_layout layout = plain_layout();
        struct shunt_err err = {0};
        int64_t bounds[17];
        layout.size[CFG_AXIS_PP] = rows[i].stages;
        layout.first_stage_layers = rows[i].first;
        layout.last_stage_layers = rows[i].last;
        enum shunt_status status = pipeline_split(&layout, rows[i].layers, bounds, &err);
        if (rows[i].want[0] < 0) {
            CHECK_MSG(status == SHUNT_ERR_INPUT, "row %zu", i);
            CHECK_CONTAINS(err.text, rows[i].text);
            continue;
        }
        CHECK_MSG(status == SHUNT_OK, "row %zu: %s", i, err.text);
        for (int64_t s = 0; s <= rows[i].stages && (s == 0 || rows[i].want[s] > 0); s++)
            CHECK_MSG(bounds[s] == rows[i].want[s], "row %zu stage %lld: %lld", i, (long long)s, (long long)bounds[s]);
    }
}

/* ---- vocabulary ----------------------------------------------------------------- */

static void vocabulary_pads(void)
{
    /* models.md 6.1 and bug case H9 */
    static const struct {
        int64_t rows, divisible_by, pinned, tp, want;
    } table[] = {
        {50257, 128, 0, 1, 50304},   {50257, 128, 0, 2, 50432},     {50257, 128, 0, 4, 50688},
        {50257, 128, 0, 8, 51200},   {50257, 128, 0, 16, 51200},    {32000, 128, 0, 4, 32256},
        {128256, 128, 0, 8, 129024}, {151936, 128, 0, 16, 153600},  {50257, 1, 0, 1, 50257},
        {50257, 1, 0, 2, 50258},     {50257, 128, 51200, 2, 51200}, {50257, 128, 50000, 2, 0},
        {50257, 128, 50259, 2, 0},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct cfg_layout layout = plain_layout();
        struct shunt_err err = {0};
        layout.vocab_divisible_by = table[i].divisible_by;
        layout.vocab_padded = table[i].pinned;
        layout.size[CFG_AXIS_TP] = table[i].tp;
        CHECK_EQ_U64(cut_padded_rows(&layout, table[i].rows, &err), table[i].want);
        CHECK_MSG((table[i].want == 0) == (err.text[0] != '\0'), "row %zu", i);
    }
}

/* ---- whole sides ---------------------------------------------------------------- */

static int64_t two_segments[] = {6, 6};
static int64_t one_segment[] = {5};

static struct cfg_tensor tensors[] = {
    {.name = (char *)"embed",
     .ndim = 2,
     .shape = {5, 2},
     .stage = CFG_STAGE_FIRST,
     .tied_last = true,
     .cut_dim = 0,
     .pad_vocab = true,
     .segment_count = 1,
     .segments = one_segment,
     .dtype = -1},
    {.name = (char *)"layer.{i}.gate_up",
     .ndim = 2,
     .shape = {12, 2},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = 0,
     .segment_count = 2,
     .segments = two_segments,
     .layer_begin = 0,
     .layer_end = 4,
     .dtype = -1},
    {.name = (char *)"layer.{i}.norm",
     .ndim = 1,
     .shape = {2},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = -1,
     .segment_count = 1,
     .layer_begin = 0,
     .layer_end = 4,
     .dtype = -1},
};
static struct cfg_scalar scalars[] = {{.name = (char *)"step", .dtype = SHUNT_DTYPE_I64, .count = 1}};
static struct cfg_model model = {.path = (char *)"model.yaml",
                                 .name = (char *)"tiny",
                                 .layers = 4,
                                 .tensor_count = 3,
                                 .tensors = tensors,
                                 .scalar_count = 1,
                                 .scalars = scalars};

static void with_side(struct cfg_layout *layout, void (*check)(const struct side *side))
{
    struct arena arena;
    struct space *space;
    struct side *side;
    struct shunt_err err = {0};
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        enum shunt_status status = space_build(&arena, &model, layout, layout, &space, &err);
        if (status == SHUNT_OK)
            status = side_build(&arena, space, layout, &side, &err);
        CHECK_MSG(status == SHUNT_OK, "%s", err.text);
        if (status == SHUNT_OK)
            check(side);
    } else {
        CHECK(!"out of memory");
    }
    arena_finish(&arena);
}

/** Item of a family's tensor in a layer, first state. */
static uint32_t item_of(const struct side *side, uint32_t family, int64_t layer)
{
    const struct space_family *f = &side->space->families[family];
    return f->item_begin + (uint32_t)(layer - f->layer_begin) * f->state_count;
}

static void check_cut_by_two(const struct side *side)
{
    const struct placement *gate = side_placement(side, item_of(side, 1, 2));
    const struct placement *embed = side_placement(side, item_of(side, 0, 0));
    CHECK_EQ_U64(side->rank_count, 4);
    CHECK_EQ_U64(gate->variant_count, 2);
    CHECK_EQ_U64(gate->variants[0].shape[0], 6);
    /* rank 1 of 2: gate rows [3,6) then up rows [9,12) */
    CHECK_EQ_U64(gate->variants[1].holding_count, 2);
    CHECK_EQ_U64(gate->variants[1].holdings[0].box.lo[0], 3);
    CHECK_EQ_U64(gate->variants[1].holdings[1].box.lo[0], 9);
    CHECK_EQ_U64(gate->variants[1].holdings[1].offset, 3 * 2);
    /* 5 rows padded to 256: rank 0 holds them all, rank 1 only pads */
    CHECK_EQ_U64(embed->variants[0].shape[0], 128);
    CHECK_EQ_U64(embed->variants[0].holding_count, 1);
    CHECK_EQ_U64(box_volume(&embed->variants[0].pad), 123 * 2);
    CHECK_EQ_U64(embed->variants[1].holding_count, 0);
    CHECK_EQ_U64(box_volume(&embed->variants[1].pad), 128 * 2);
    /* tied: both stages hold the embedding; layers are global: stage 1 has 2 and 3 */
    CHECK(side_variant(side, item_of(side, 0, 0), 3) != NULL);
    CHECK(side_variant(side, item_of(side, 1, 1), 2) == NULL);
    CHECK(side_variant(side, item_of(side, 1, 2), 2) != NULL);
    CHECK_EQ_U64(side_placement(side, item_of(side, 2, 3))->member_count, 2);
    CHECK_EQ_U64(gate->variants[1].rank_count, 1);
    CHECK_EQ_U64(gate->variants[1].ranks[0], 3);
}

static void side_tp2_pp2(void)
{
    struct cfg_layout layout = plain_layout();
    layout.size[CFG_AXIS_TP] = 2;
    layout.size[CFG_AXIS_PP] = 2;
    with_side(&layout, check_cut_by_two);
}

static void check_one_box(const struct side *side)
{
    /* neighbouring segments of one rank are one box */
    const struct placement *gate = side_placement(side, item_of(side, 1, 0));
    CHECK_EQ_U64(gate->variants[0].holding_count, 1);
    CHECK_EQ_U64(gate->variants[0].holdings[0].box.hi[0], 12);
}

static void side_tp1_merges_segments(void)
{
    struct cfg_layout layout = plain_layout();
    with_side(&layout, check_one_box);
}

static void check_order(const struct side *side)
{
    /* order pp-tp-dp: rank 5 of pp 2, tp 2, dp 2 is pp 1, tp 0, dp 1 */
    CHECK_EQ_U64(side->ranks[5].at[CFG_AXIS_PP], 1);
    CHECK_EQ_U64(side->ranks[5].at[CFG_AXIS_TP], 0);
    CHECK_EQ_U64(side->ranks[5].at[CFG_AXIS_DP], 1);
}

static void side_follows_the_order(void)
{
    struct cfg_layout layout = plain_layout();
    enum cfg_axis order[] = {CFG_AXIS_PP, CFG_AXIS_TP, CFG_AXIS_DP, CFG_AXIS_CP, CFG_AXIS_EP};
    memcpy(layout.order, order, sizeof(order));
    layout.size[CFG_AXIS_TP] = layout.size[CFG_AXIS_PP] = layout.size[CFG_AXIS_DP] = 2;
    with_side(&layout, check_order);
}

static void refusals(void)
{
    static const struct {
        const char *what;
        int64_t tp, ep, heads, kv_heads;
        enum shunt_status status;
        const char *text;
    } rows[] = {
        {"heads", 2, 1, 3, 3, SHUNT_ERR_INPUT, "parallel.tp: found 2, expected a divisor of heads 3"},
        {"kv heads", 2, 1, 6, 3, SHUNT_ERR_INPUT, "expected a divisor or a multiple of kv_heads 3"},
        {"kv heads fewer than tp are fine", 2, 1, 2, 1, SHUNT_OK, ""},
        {"segment", 5, 1, 0, 0, SHUNT_ERR_INPUT, "found 5, expected a divisor of 6, the length of segment 0"},
        {"experts", 1, 2, 0, 0, SHUNT_ERR_UNSUPPORTED, "not supported: expert parallelism"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cfg_layout layout = plain_layout();
        struct cfg_model with_heads = model;
        struct arena arena;
        struct space *space;
        struct side *side;
        struct shunt_err err = {0};
        layout.size[CFG_AXIS_TP] = rows[i].tp;
        layout.size[CFG_AXIS_EP] = rows[i].ep;
        with_heads.heads = rows[i].heads;
        with_heads.kv_heads = rows[i].kv_heads;
        arena_init(&arena);
        if (setjmp(arena.on_failure) == 0) {
            CHECK(space_build(&arena, &with_heads, &layout, &layout, &space, &err) == SHUNT_OK);
            CHECK_MSG(side_build(&arena, space, &layout, &side, &err) == rows[i].status, "%s: %s", rows[i].what,
                      err.text);
            CHECK_CONTAINS(err.text, rows[i].text);
        }
        arena_finish(&arena);
    }
}

static void unlike_states_are_refused(void)
{
    struct cfg_layout from = plain_layout(), to = plain_layout();
    struct arena arena;
    struct space *space;
    struct shunt_err err = {0};
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        to.state_dtype[SHUNT_STATE_MASTER] = SHUNT_DTYPE_BF16;
        CHECK(space_build(&arena, &model, &from, &to, &space, &err) == SHUNT_ERR_UNSUPPORTED);
        CHECK_CONTAINS(err.text, "state.master: found bf16, expected fp32");
        to.state_dtype[SHUNT_STATE_MASTER] = -1;
        CHECK(space_build(&arena, &model, &from, &to, &space, &err) == SHUNT_ERR_UNSUPPORTED);
        CHECK_CONTAINS(err.text, "state.master");
    }
    arena_finish(&arena);
}

static const struct test_case cases[] = {
    {"box slices cover exactly", box_slices_cover_exactly},
    {"box slice of a huge extent", box_slice_of_a_huge_extent},
    {"pipeline splits", pipeline_splits},
    {"vocabulary pads", vocabulary_pads},
    {"tp 2 pp 2: segments, pads, tied embedding, global layers", side_tp2_pp2},
    {"tp 1 merges segments", side_tp1_merges_segments},
    {"ranks follow the order string", side_follows_the_order},
    {"impossible layouts are refused", refusals},
    {"unlike states are refused", unlike_states_are_refused},
};
TEST_MAIN(cases)
