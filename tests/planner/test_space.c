/* SPDX-License-Identifier: Apache-2.0 */
/** Boxes, flat ranges, pipeline, grids, tensor cut and placements: tables of inputs and right values. */

#include <stdlib.h>

#include "harness.h"
#include "side_rig.h"
#include "space/cut.h"
#include "space/flat.h"
#include "space/registry.h"
#include "space/stages.h"
#include "space/world.h"

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
            CHECK_EQ_U64(box_slice_volume(&whole, c, rows[i].count), box_volume(&slice));
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
    CHECK_EQ_U64(box_slice_volume(&whole, 4095, 4096), shape[0] / 4096);
}

/* ---- flat ranges ---------------------------------------------------------------- */

static void check_flat_range(uint32_t ndim, const int64_t *shape, int64_t begin, int64_t end, int *seen)
{
    struct box boxes[2 * SHUNT_MAX_DIMS];
    int64_t stride[SHUNT_MAX_DIMS], total = 1;
    uint32_t count = flat_boxes(ndim, shape, begin, end, boxes);
    placement_dense_strides(ndim, shape, stride);
    for (uint32_t d = 0; d < ndim; d++)
        total *= shape[d];
    memset(seen, 0, (size_t)total * sizeof(*seen));
    CHECK(count <= 2 * ndim - 1);
    for (uint32_t b = 0; b < count; b++) {
        int64_t at = 0; /* every box is one run of the flattened tensor */
        for (uint32_t d = 0; d < ndim; d++)
            at += boxes[b].lo[d] * stride[d];
        for (int64_t i = 0; i < box_volume(&boxes[b]); i++)
            seen[at + i]++;
    }
    for (int64_t i = 0; i < total; i++)
        CHECK_MSG(seen[i] == (i >= begin && i < end), "[%lld,%lld) element %lld", (long long)begin, (long long)end,
                  (long long)i);
}

static void flat_ranges_are_covered(void)
{
    static const struct {
        uint32_t ndim;
        int64_t shape[4];
    } rows[] = {{1, {5}},       {2, {4, 5}},       {2, {1, 5}},       {2, {5, 1}},      {3, {3, 1, 4}},
                {3, {2, 3, 4}}, {4, {2, 2, 2, 3}}, {4, {1, 1, 1, 4}}, {4, {3, 2, 1, 2}}};
    int seen[64];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t total = 1;
        for (uint32_t d = 0; d < rows[i].ndim; d++)
            total *= rows[i].shape[d];
        for (int64_t begin = 0; begin < total; begin++) {
            for (int64_t end = begin + 1; end <= total; end++)
                check_flat_range(rows[i].ndim, rows[i].shape, begin, end, seen);
        }
    }
}

/* ---- pipeline ------------------------------------------------------------------- */

/** One row: what a layout says, and where the chunks begin (or the text of the refusal). */
struct pipeline_row {
    int64_t layers, stages, vpp, first, last;
    bool embedding, loss, mtp;
    const char *layout;
    int64_t want[20]; /* begins of the chunks behind the first; 0 ends the list */
    const char *text; /* refused with this */
    int64_t final_chunk;
};

static const struct pipeline_row pipeline_rows[] = {
    /* layout-facts.md section 2 */
    {16, 4, 2, -1, -1, 0, 0, 0, NULL, {2, 4, 6, 8, 10, 12, 14, 16}, NULL, 7},
    {28, 4, 2, 6, 6, 0, 0, 0, NULL, {3, 7, 11, 14, 17, 21, 25, 28}, NULL, 7},
    {22, 4, 1, 4, 6, 0, 0, 0, NULL, {4, 10, 16, 22}, NULL, 3},
    {14, 2, 1, 6, 8, 0, 0, 0, NULL, {6, 14}, NULL, 1},
    {30, 4, 2, -1, -1, 1, 1, 0, NULL, {3, 7, 11, 15, 19, 23, 27, 30}, NULL, 7},
    {61,
     16,
     1,
     -1,
     -1,
     0,
     0,
     1,
     "Et*3|(tt|)*29,m|L",
     {3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35},
     NULL,
     29},
    /* configs.md and models.md section 7 */
    {94, 8, 1, 11, 11, 0, 0, 0, NULL, {11, 23, 35, 47, 59, 71, 83, 94}, NULL, 7},
    {94, 4, 1, -1, 22, 0, 0, 0, NULL, {24, 48, 72, 94}, NULL, 3},
    {126, 16, 1, -1, -1, 1, 1, 0, NULL, {7, 15, 23}, NULL, 15},
    {12, 1, 1, -1, -1, 0, 0, 0, NULL, {12}, NULL, 0},
    {4, 2, 1, 4, -1, 0, 0, 0, NULL, {4, 4}, NULL, 1},
    {4, 2, 1, -1, -1, 0, 0, 0, "Ett||tt|L", {2, 2, 4, 4}, NULL, 3},
    {3, 1, 1, -1, -1, 0, 0, 1, "Etttm|L", {0}, "not the last one of its stage", 0},
    {3, 2, 1, -1, -1, 0, 0, 1, "Ettt|mL", {3, 3}, NULL, 0},
    {80, 16, 2, -1, -1, 0, 0, 0, NULL, {0}, "parallel.vpp: found 2, expected pp times vpp to divide", 0}, /* H11 */
    {80, 16, 5, -1, -1, 0, 0, 0, NULL, {1, 2, 3}, NULL, 79},
    {10, 4, 1, -1, -1, 0, 0, 0, NULL, {0}, "parallel.pp: found 4, expected pp times vpp to divide", 0},
    {11, 3, 1, 4, -1, 0, 0, 0, NULL, {0}, "divide evenly", 0},
    {11, 3, 1, 12, -1, 0, 0, 0, NULL, {0}, "pipeline.first: found 12", 0},
    {11, 1, 1, 5, 6, 0, 0, 0, NULL, {0}, "single stage", 0},
    {11, 2, 1, 5, 5, 0, 0, 0, NULL, {0}, "leave the layers", 0},
    {12, 2, 2, 5, -1, 0, 0, 0, NULL, {0}, "vpp to divide the layers of every stage", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "Ett|tL", {0}, "another number of layers", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "Ett|t|tL", {0}, "chunks that pp does not divide", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "tt|ttL", {0}, "no single E", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "Ett|tt", {0}, "no single L", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "Ett|ttmL", {0}, "no MTP block", 0},
    {4, 2, 1, -1, -1, 0, 0, 1, "Ett|ttL", {0}, "no m, although", 0},
    {4, 2, 1, -1, -1, 0, 0, 1, "Emtt|ttL", {0}, "in front of a layer", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "E(tt|tt)L", {2}, NULL, 1},
    {4, 2, 1, -1, -1, 0, 0, 0, "E((tt)|tt)L", {0}, "nested", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "E()tt|ttL", {0}, "empty brackets", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "Et*|ttL", {0}, "without a count", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "Et*99999999|ttL", {0}, "too long", 0},
    {4, 2, 1, -1, -1, 0, 0, 0, "Ettx|ttL", {0}, "character other than", 0},
};

static void check_pipeline(struct arena *arena, const struct pipeline_row *row, size_t number)
{
    struct cfg_layout layout = rig_layout();
    struct cfg_model model = {.layers = row->layers, .mtp = row->mtp};
    struct pipeline pipeline;
    struct shunt_err err = {0};
    layout.size[CFG_AXIS_PP] = row->stages;
    layout.vpp = row->vpp;
    layout.first_stage_layers = row->first;
    layout.last_stage_layers = row->last;
    layout.count_embedding = row->embedding;
    layout.count_loss = row->loss;
    layout.pipeline_layout = (char *)row->layout;
    enum shunt_status status = pipeline_build(arena, &layout, &model, &pipeline, &err);
    CHECK_MSG((status == SHUNT_OK) == (row->text == NULL), "row %zu: %s", number, err.text);
    if (row->text != NULL) {
        CHECK_CONTAINS(err.text, row->text);
        return;
    }
    for (size_t s = 0; status == SHUNT_OK && s < 20 && row->want[s] != 0; s++)
        CHECK_MSG(pipeline.chunk_begin[s + 1] == row->want[s], "row %zu chunk %zu: %lld", number, s,
                  (long long)pipeline.chunk_begin[s + 1]);
    if (status == SHUNT_OK) {
        CHECK_EQ_U64(pipeline.chunk_begin[pipeline.chunks], row->layers);
        CHECK_EQ_U64(pipeline.final_chunk, row->final_chunk);
    }
}

static void pipeline_splits(void)
{
    struct arena arena;
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        for (size_t i = 0; i < sizeof(pipeline_rows) / sizeof(pipeline_rows[0]); i++)
            check_pipeline(&arena, &pipeline_rows[i], i);
    }
    arena_finish(&arena);
}

/* ---- grids ---------------------------------------------------------------------- */

/** layout-facts.md section 1: 16 ranks, tp 2 cp 2 pp 2 (dp 2), ep 4 etp 1 (edp 2). */
static void grids_of_sixteen_ranks(void)
{
    static const struct {
        int64_t tp, cp, dp, pp, d, etp, ep, edp;
    } want[8] = {{0, 0, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0, 1, 0}, {0, 1, 0, 0, 1, 0, 2, 0},
                 {1, 1, 0, 0, 1, 0, 3, 0}, {0, 0, 1, 0, 2, 0, 0, 1}, {1, 0, 1, 0, 2, 0, 1, 1},
                 {0, 1, 1, 0, 3, 0, 2, 1}, {1, 1, 1, 0, 3, 0, 3, 1}};
    struct cfg_layout layout = rig_layout();
    struct arena arena;
    struct grid grid;
    struct shunt_err err = {0};
    layout.size[CFG_AXIS_TP] = layout.size[CFG_AXIS_CP] = layout.size[CFG_AXIS_DP] = layout.size[CFG_AXIS_PP] = 2;
    layout.size[CFG_AXIS_EP] = 4;
    layout.etp = 1;
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        CHECK_MSG(grid_build(&arena, &layout, true, &grid, &err) == SHUNT_OK, "%s", err.text);
        for (uint32_t r = 0; r < 16; r++) {
            const struct grid_rank *rank = &grid.ranks[r];
            CHECK_MSG(rank->at[CFG_AXIS_TP] == want[r % 8].tp && rank->at[CFG_AXIS_CP] == want[r % 8].cp &&
                          rank->at[CFG_AXIS_DP] == want[r % 8].dp && rank->at[CFG_AXIS_PP] == r / 8 &&
                          rank->dp_cp == want[r % 8].d && rank->etp == want[r % 8].etp &&
                          rank->at[CFG_AXIS_EP] == want[r % 8].ep && rank->edp == want[r % 8].edp,
                      "rank %u", r);
        }
        enum cfg_axis order[] = {CFG_AXIS_TP, CFG_AXIS_CP, CFG_AXIS_EP, CFG_AXIS_PP, CFG_AXIS_DP};
        memcpy(layout.order, order, sizeof(order));
        CHECK(grid_build(&arena, &layout, false, &grid, &err) == SHUNT_OK);
        CHECK(grid.ranks[5].at[CFG_AXIS_TP] == 1 && grid.ranks[5].at[CFG_AXIS_PP] == 1);
        CHECK(grid.ranks[10].at[CFG_AXIS_DP] == 1 && grid.ranks[10].dp_cp == 3);
        layout.etp = 2;
        layout.size[CFG_AXIS_EP] = 1;
        CHECK(grid_build(&arena, &layout, true, &grid, &err) == SHUNT_ERR_INPUT);
        CHECK_CONTAINS(err.text, "expected the same stages");
    }
    arena_finish(&arena);
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
        struct cfg_layout layout = rig_layout();
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
    return space_item(f, (uint32_t)(layer - f->layers[0]), 0);
}

static void check_cut_by_two(const struct side *side)
{
    const struct placement *gate = side_placement(side, item_of(side, 1, 2));
    const struct placement *embed = side_placement(side, item_of(side, 0, 0));
    CHECK_EQ_U64(side->grid.rank_count, 4);
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
    CHECK_EQ_U64(placement_pad_elements(&embed->variants[0]), 123 * 2);
    CHECK_EQ_U64(embed->variants[1].holding_count, 0);
    CHECK_EQ_U64(placement_pad_elements(&embed->variants[1]), 128 * 2);
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
    struct cfg_layout layout = rig_layout();
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
    struct cfg_layout layout = rig_layout();
    with_side(&layout, check_one_box);
}

static void check_order(const struct side *side)
{
    /* order pp-tp-dp: rank 5 of pp 2, tp 2, dp 2 is pp 1, tp 0, dp 1 */
    CHECK_EQ_U64(side->grid.ranks[5].at[CFG_AXIS_PP], 1);
    CHECK_EQ_U64(side->grid.ranks[5].at[CFG_AXIS_TP], 0);
    CHECK_EQ_U64(side->grid.ranks[5].at[CFG_AXIS_DP], 1);
}

static void side_follows_the_order(void)
{
    struct cfg_layout layout = rig_layout();
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
        {"experts", 1, 2, 0, 0, SHUNT_ERR_INPUT, "parallel.ep: found 2, expected a divisor of experts 1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cfg_layout layout = rig_layout();
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

/** A state of the old and the new layout, -1: not kept; and the refusal, or NULL. */
static const struct states_row {
    enum shunt_state state;
    int from, to;
    bool made;
    const char *want;
} states_rows[] = {
    {SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, SHUNT_DTYPE_BF16, false, NULL},
    {SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_DTYPE_FP32, false, NULL},
    {SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, -1, false, NULL},
    {SHUNT_STATE_EXP_AVG, SHUNT_DTYPE_FP32, SHUNT_DTYPE_FP16, false,
     "state.exp_avg: found fp16, expected fp32 as in from.yaml (not supported: a change of dtype other than between "
     "fp32 and bf16)"},
    {SHUNT_STATE_PARAM, SHUNT_DTYPE_FP8_E4M3, SHUNT_DTYPE_BF16, false, "state.param: found bf16, expected fp8_e4m3"},
    {SHUNT_STATE_EXP_AVG, -1, SHUNT_DTYPE_FP32, false,
     "state.exp_avg: found it in to.yaml only, expected a state of from.yaml too (not supported: adding a state)"},
    {SHUNT_STATE_MASTER, -1, SHUNT_DTYPE_FP32, false,
     "(not supported: adding a state, unless it is made: `master: from-param`)"},
    {SHUNT_STATE_MASTER, -1, SHUNT_DTYPE_FP32, true, NULL},
    {SHUNT_STATE_MASTER, SHUNT_DTYPE_FP32, SHUNT_DTYPE_FP32, true,
     "state.master: found from-param, expected `master: fp32`, which keeps the master of from.yaml"},
    {SHUNT_STATE_MASTER, SHUNT_DTYPE_I16, SHUNT_DTYPE_FP32, true, "found from-param, expected `master: i16`"},
    {SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_DTYPE_BF16, true, NULL},
};

static void expect_space(const struct cfg_layout *from, const struct cfg_layout *to, const char *want)
{
    struct arena arena;
    struct space *space;
    struct shunt_err err = {0};
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        enum shunt_status status = space_build(&arena, &model, from, to, &space, &err);
        CHECK_MSG(status == (want == NULL ? SHUNT_OK : SHUNT_ERR_UNSUPPORTED), "%s: %s", want, err.text);
        CHECK_CONTAINS(err.text, want == NULL ? "" : want);
    }
    arena_finish(&arena);
}

static void states_are_compared(void)
{
    for (size_t i = 0; i < sizeof(states_rows) / sizeof(states_rows[0]); i++) {
        const struct states_row *row = &states_rows[i];
        struct cfg_layout from = rig_layout(), to = rig_layout();
        from.path = (char *)"from.yaml";
        to.path = (char *)"to.yaml";
        from.state_dtype[row->state] = row->from;
        to.state_dtype[row->state] = row->to;
        to.state_derived[row->state] = row->made;
        expect_space(&from, &to, row->want);
    }
}

/** Weights can be made from an fp32 master alone: the remainders of an int16 one say too little. */
static void weights_need_an_fp32_master(void)
{
    static const struct {
        int master;
        const char *want;
    } rows[] = {
        {-1, "state.param: found from-master, expected a dtype: from.yaml keeps no master to make it from"},
        {SHUNT_DTYPE_I16, "state.param: found from-master, expected a dtype: from.yaml keeps master as i16"},
        {SHUNT_DTYPE_BF16, "from.yaml keeps master as bf16 (not supported: casts other than between fp32 and bf16)"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cfg_layout from = rig_layout(), to = rig_layout();
        from.path = (char *)"from.yaml";
        from.state_dtype[SHUNT_STATE_MASTER] = rows[i].master;
        to.state_dtype[SHUNT_STATE_MASTER] = -1;
        to.state_derived[SHUNT_STATE_PARAM] = true;
        expect_space(&from, &to, rows[i].want);
    }
}

/** What an item is read from, what crosses the network, and what it becomes. */
static void items_know_their_origin(void)
{
    struct cfg_layout from = rig_layout(), to = rig_layout();
    struct arena arena;
    struct space *space;
    struct shunt_err err = {0};
    from.state_dtype[SHUNT_STATE_EXP_AVG] = SHUNT_DTYPE_BF16;
    to.state_dtype[SHUNT_STATE_EXP_AVG] = SHUNT_DTYPE_FP32;
    to.state_derived[SHUNT_STATE_PARAM] = true;
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0) {
        CHECK(space_build(&arena, &model, &from, &to, &space, &err) == SHUNT_OK);
        const struct space_item *param = &space->items[0], *master = &space->items[1], *avg = &space->items[2];
        CHECK(space->changes);
        CHECK(param->state == SHUNT_STATE_PARAM && master->state == SHUNT_STATE_MASTER);
        CHECK(param->derived_from == 1 && param->fresh && param->read_dtype == SHUNT_DTYPE_FP32);
        CHECK_EQ_U64(param->wire_bytes, 2);
        CHECK(master->derived_from == 1 && !master->fresh && !space_is_rewritten(space, 1));
        CHECK_EQ_U64(master->wire_bytes, 4);
        CHECK(avg->derived_from == 2 && !avg->fresh && space_is_rewritten(space, 2));
        CHECK_EQ_U64(avg->wire_bytes, 2);
        CHECK_EQ_U64(avg->elem_bytes[SPACE_FROM], 2);
        CHECK_EQ_U64(avg->elem_bytes[SPACE_TO], 4);
    }
    arena_finish(&arena);
}

/* ---- flat shards ---------------------------------------------------------------- */

/** Flat places of a model's tensors on a shard group of the layout's dp; `elements` by tensor. */
static const struct flat_place *flat_places(struct arena *arena, const struct cfg_model *of,
                                            const struct cfg_layout *layout, const int64_t *elements)
{
    struct space *space;
    struct pipeline pipeline;
    struct flat_place *places = NULL;
    struct shunt_err err = {0};
    CHECK(space_build(arena, of, layout, layout, &space, &err) == SHUNT_OK);
    CHECK_MSG(pipeline_build(arena, layout, of, &pipeline, &err) == SHUNT_OK, "%s", err.text);
    const struct registry_input input = {.layout = layout,
                                         .space = space,
                                         .pipeline = &pipeline,
                                         .family_elements = elements,
                                         .shards = layout->size[CFG_AXIS_DP],
                                         .expert_shards = 1};
    CHECK_MSG(registry_build(arena, &input, &places, &err) == SHUNT_OK, "%s", err.text);
    return places;
}

/** The worked example of layout-facts.md 4.5, one bucket row per tensor: start and bucket of each. */
static void megatron_buckets(void)
{
    static struct cfg_tensor example[] = {
        {.name = (char *)"emb", .ndim = 1, .shape = {1000}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
        {.name = (char *)"proj", .ndim = 1, .shape = {300}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
        {.name = (char *)"qkv.ln", .ndim = 1, .shape = {20}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
        {.name = (char *)"qkv", .ndim = 1, .shape = {700}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
        {.name = (char *)"fc1.ln", .ndim = 1, .shape = {20}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
        {.name = (char *)"fc1", .ndim = 1, .shape = {900}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
        {.name = (char *)"fc2", .ndim = 1, .shape = {500}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
    };
    static const struct {
        int64_t dp, bucket;
        struct flat_place want[7]; /* start inside the bucket, length of the bucket, stage 0 */
    } rows[] = {
        {4, 1000, {{0, 1024}, {832, 1152}, {768, 1152}, {64, 1152}, {0, 1152}, {512, 1536}, {0, 1536}}},
        {3, 0, {{2624, 3840}, {2304, 3840}, {2240, 3840}, {1536, 3840}, {1472, 3840}, {512, 3840}, {0, 3840}}},
    };
    static const int64_t elements[] = {1000, 300, 20, 700, 20, 900, 500};
    struct cfg_model flat_model = {
        .path = (char *)"m", .name = (char *)"m", .layers = 1, .tensor_count = 7, .tensors = example};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cfg_layout layout = rig_layout();
        struct arena arena;
        layout.size[CFG_AXIS_DP] = rows[i].dp;
        layout.shard =
            (struct cfg_shard){.rule = CFG_SHARD_MEGATRON, .instances = 1, .bucket_elements = rows[i].bucket};
        arena_init(&arena);
        if (setjmp(arena.on_failure) == 0) {
            const struct flat_place *places = flat_places(&arena, &flat_model, &layout, elements);
            for (int t = 0; t < 7; t++)
                CHECK_MSG(places[t].start == rows[i].want[t].start && places[t].bucket == rows[i].want[t].bucket,
                          "row %zu tensor %s: %lld of %lld", i, example[t].name, (long long)places[t].start,
                          (long long)places[t].bucket);
        }
        arena_finish(&arena);
    }
}

/** A tensor of 1000 that is tied, two layers of 300, a prediction block of 200; two shards. */
struct tied_row {
    const char *what, *string;
    int64_t pp;
    enum cfg_shard_rule rule;
    bool last, mtp;
    uint32_t copies;
    struct flat_place want[3]; /* start, bucket, stage */
    struct flat_place layer1;
};

static bool same_place(const struct flat_place *a, const struct flat_place *b)
{
    return a->start == b->start && a->bucket == b->bucket && a->stage == b->stage;
}

static void check_places(const struct tied_row *row, const struct flat_place *places)
{
    uint32_t n = 0;
    for (const struct flat_place *place = &places[0]; place != NULL && n < row->copies; place = place->next, n++)
        CHECK_MSG(same_place(place, &row->want[n]), "%s, copy %u: %lld of %lld on %lld", row->what, n,
                  (long long)place->start, (long long)place->bucket, (long long)place->stage);
    CHECK_MSG(n == row->copies && (n < 2 || places[0].next != NULL), "%s: %u copies", row->what, n);
    CHECK_MSG(same_place(&places[2], &row->layer1), "%s, layer 1: %lld of %lld", row->what, (long long)places[2].start,
              (long long)places[2].bucket);
}

static void check_tied_row(const struct tied_row *row)
{
    struct cfg_tensor list[] = {
        {.name = (char *)"emb", .ndim = 1, .shape = {1000}, .stage = CFG_STAGE_FIRST, .cut_dim = -1, .dtype = -1},
        {.name = (char *)"layer.{i}.w", .ndim = 1, .shape = {300}, .cut_dim = -1, .dtype = -1, .layer_end = 2},
        {.name = (char *)"mtp.w", .ndim = 1, .shape = {200}, .stage = CFG_STAGE_MTP, .cut_dim = -1, .dtype = -1},
    };
    static const int64_t elements[] = {1000, 300, 200};
    const struct cfg_model tied_model = {
        .path = (char *)"m", .name = (char *)"m", .layers = 2, .mtp = true, .tensor_count = 3, .tensors = list};
    struct cfg_layout layout = rig_layout();
    struct arena arena;
    list[0].tied_last = row->last;
    list[0].tied_mtp = row->mtp;
    list[1].stage = CFG_STAGE_LAYER;
    layout.size[CFG_AXIS_DP] = 2;
    layout.size[CFG_AXIS_PP] = row->pp;
    layout.pipeline_layout = (char *)row->string;
    layout.shard = (struct cfg_shard){.rule = row->rule, .instances = 1};
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0)
        check_places(row, flat_places(&arena, &tied_model, &layout, elements));
    arena_finish(&arena);
}

/** Worked out by hand. Megatron: the tied tensor is alone in its bucket; layer 1 shows what lies behind it. */
static void places_of_tied_tensors(void)
{
    static const struct tied_row rows[] = {
        {"head", "Et|tmL", 2, CFG_SHARD_MEGATRON, true, false, 2, {{0, 1024, 0}, {0, 1024, 1}}, {256, 640, 1}},
        {"mtp last", "Et|tmL", 2, CFG_SHARD_MEGATRON, false, true, 2, {{0, 1024, 0}, {0, 1024, 1}}, {256, 640, 1}},
        {"both", "Et|tmL", 2, CFG_SHARD_MEGATRON, true, true, 2, {{0, 1024, 0}, {0, 1024, 1}}, {1280, 1664, 1}},
        {"both, one stage", "EttmL", 1, CFG_SHARD_MEGATRON, true, true, 1, {{896, 1920, 0}}, {256, 1920, 0}},
        {"mid",
         "E|ttm|L",
         3,
         CFG_SHARD_MEGATRON,
         true,
         true,
         3,
         {{0, 1024}, {0, 1024, 1}, {0, 1024, 2}},
         {256, 896, 1}},
        {"mtp on stage 0", "Et|t|m|L", 2, CFG_SHARD_MEGATRON, true, true, 2, {{0, 1024, 0}, {0, 1024, 1}}, {0, 384, 1}},
        {"mtp on stage 0, no head", "Et|t|m|L", 2, CFG_SHARD_MEGATRON, false, true, 1, {{0, 1024, 0}}, {0, 384, 1}},
        {"ZeRO", "Et|tmL", 2, CFG_SHARD_ZERO1, true, true, 2, {{0, 1300, 0}, {0, 1500, 1}}, {1000, 1500, 1}},
        {"FSDP1, head", "Et|tmL", 2, CFG_SHARD_FSDP1, true, false, 2, {{0, 1000, 0}, {200, 1200, 1}}, {0, 300, 1}},
        {"FSDP1, block", "Et|tmL", 2, CFG_SHARD_FSDP1, false, true, 2, {{0, 1000, 0}, {0, 1200, 1}}, {0, 300, 1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_tied_row(&rows[i]);
}

static const struct test_case cases[] = {
    {"box slices cover exactly", box_slices_cover_exactly},
    {"box slice of a huge extent", box_slice_of_a_huge_extent},
    {"flat ranges are covered", flat_ranges_are_covered},
    {"pipeline splits", pipeline_splits},
    {"grids of sixteen ranks", grids_of_sixteen_ranks},
    {"distributed optimizer buckets", megatron_buckets},
    {"places of tied tensors", places_of_tied_tensors},
    {"vocabulary pads", vocabulary_pads},
    {"tp 2 pp 2: segments, pads, tied embedding, global layers", side_tp2_pp2},
    {"tp 1 merges segments", side_tp1_merges_segments},
    {"ranks follow the order string", side_follows_the_order},
    {"impossible layouts are refused", refusals},
    {"states are compared", states_are_compared},
    {"weights need an fp32 master", weights_need_an_fp32_master},
    {"items know their origin", items_know_their_origin},
};
TEST_MAIN(cases)
