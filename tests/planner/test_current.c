/* SPDX-License-Identifier: Apache-2.0 */
/** `current: owner`: what of an old weight counts as held, and which layouts have no owners. */

#include "side_rig.h"
#include "space/current.h"

static int64_t two_segments[] = {4, 4};

static struct cfg_tensor tensors[] = {
    {.name = (char *)"layer.{i}.up",
     .ndim = 2,
     .shape = {8, 3},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = 0,
     .segment_count = 2,
     .segments = two_segments,
     .layer_end = 1,
     .dtype = -1},
    {.name = (char *)"layer.{i}.bias",
     .ndim = 1,
     .shape = {4},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = -1,
     .kind = CFG_KIND_BUFFER,
     .layer_end = 1,
     .dtype = SHUNT_DTYPE_FP32},
};
static struct cfg_model model = {
    .path = (char *)"model.yaml", .name = (char *)"tiny", .layers = 1, .tensor_count = 2, .tensors = tensors};

/** One flat group of one tensor of 24 elements, 12 of them on each of two tensor-parallel ranks. */
static struct cfg_layout layout_of(enum cfg_shard_rule rule, int64_t tp, int64_t dp)
{
    struct cfg_layout layout = rig_layout();
    layout.size[CFG_AXIS_TP] = tp;
    layout.size[CFG_AXIS_DP] = dp;
    layout.shard.rule = rule;
    layout.current_owner = true;
    layout.current_pos = (struct cfg_pos){7, 10};
    return layout;
}

static void check_holding(const struct placement_variant *variant, uint32_t h, int64_t lo0, int64_t hi0, int64_t lo1,
                          int64_t hi1, int64_t offset)
{
    CHECK_MSG(h < variant->holding_count, "holding %u", h);
    if (h >= variant->holding_count)
        return;
    const struct placement_holding *holding = &variant->holdings[h];
    CHECK_MSG(holding->box.lo[0] == lo0 && holding->box.hi[0] == hi0 && holding->box.lo[1] == lo1 &&
                  holding->box.hi[1] == hi1 && holding->offset == offset && holding->stride[0] == 3,
              "holding %u: [%lld,%lld)x[%lld,%lld) at %lld", h, (long long)holding->box.lo[0],
              (long long)holding->box.hi[0], (long long)holding->box.lo[1], (long long)holding->box.hi[1],
              (long long)holding->offset);
}

/** ZeRO-1, tp 2, dp 3: the group has 12 elements, of which dp d owns [4 d, 4 d + 4). */
static void check_thirds(struct arena *arena, struct side *full, const void *row)
{
    struct side *side;
    struct shunt_err err = {0};
    (void)row;
    CHECK(current_side_build(arena, full->space, full->layout, &side, &err) == SHUNT_OK);
    for (uint32_t r = 0; r < 6; r++) {
        const struct placement_variant *whole = side_variant(full, 0, r), *now = side_variant(side, 0, r);
        const struct placement_variant *shard = side_variant(side, 1, r);
        int64_t held = 0, owned = 0;
        for (uint32_t h = 0; h < now->holding_count; h++)
            held += box_volume(&now->holdings[h].box);
        for (uint32_t h = 0; h < shard->holding_count; h++)
            owned += box_volume(&shard->holdings[h].box);
        CHECK_EQ_U64(whole->elements, 12);
        CHECK_EQ_U64(now->elements, 12); /* the buffer stays */
        CHECK_EQ_U64(now->shape[0], 4);
        CHECK_EQ_U64(held, 4);
        CHECK_EQ_U64(owned, 4);
        CHECK(side_variant(side, 2, r)->holding_count == 1); /* buffers are current everywhere */
        CHECK(!placement_same_content(whole, now));
    }
    /* tp 1 (rows 2, 3, then 6, 7), dp 1: local elements 4 to 7, the end of row 3 and the head of row 6 */
    const struct placement_variant *middle = side_variant(side, 0, 3);
    CHECK_EQ_U64(middle->holding_count, 2);
    check_holding(middle, 0, 3, 4, 1, 3, 4);
    check_holding(middle, 1, 6, 7, 0, 2, 6);
}

static void owners_hold_their_part(void)
{
    struct cfg_layout layout = layout_of(CFG_SHARD_ZERO1, 2, 3);
    rig_side(&model, &layout, NULL, check_thirds, NULL);
}

/** dp 1: the only rank owns everything, and nothing is narrower than before. */
static void check_alone(struct arena *arena, struct side *full, const void *row)
{
    struct side *side;
    struct shunt_err err = {0};
    (void)row;
    CHECK(current_side_build(arena, full->space, full->layout, &side, &err) == SHUNT_OK);
    CHECK(placement_same_content(side_variant(full, 0, 0), side_variant(side, 0, 0)));
}

static void one_rank_owns_all(void)
{
    struct cfg_layout layout = layout_of(CFG_SHARD_MEGATRON, 1, 1);
    rig_side(&model, &layout, NULL, check_alone, NULL);
}

/** Ranks past the end of a group own nothing: 12 elements padded to 20 over ten ranks, two each. */
static void check_empty(struct arena *arena, struct side *full, const void *row)
{
    struct side *side;
    struct shunt_err err = {0};
    (void)row;
    CHECK(current_side_build(arena, full->space, full->layout, &side, &err) == SHUNT_OK);
    const struct placement_variant *none = side_variant(side, 0, 18);
    CHECK(none != NULL && none->holding_count == 0 && none->elements == 12);
    CHECK(side_variant(side, 1, 18) == NULL);
}

static void a_rank_may_own_nothing(void)
{
    struct cfg_layout layout = layout_of(CFG_SHARD_ZERO1, 2, 10);
    rig_side(&model, &layout, NULL, check_empty, NULL);
}

static void layouts_without_owners(void)
{
    static const struct {
        enum cfg_shard_rule rule;
        bool master;
        const char *text;
    } rows[] = {
        {CFG_SHARD_NONE, true, "layout.yaml:7:10: current: found owner in a layout whose optimizer states lie as its"},
        {CFG_SHARD_ZERO3, true, "current: found owner in a layout whose optimizer states lie as its weights do"},
        {CFG_SHARD_FSDP2, true, "current: found owner in a layout whose optimizer states lie as its weights do"},
        {CFG_SHARD_FSDP1, true, "current: found owner in a layout whose optimizer states lie as its weights do"},
        {CFG_SHARD_MEGATRON, false, "layout.yaml:7:10: current: found owner in a layout without optimizer states"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cfg_layout layout = layout_of(rows[i].rule, 1, 2);
        if (!rows[i].master)
            layout.state_dtype[SHUNT_STATE_MASTER] = -1;
        rig_side(&model, &layout, rows[i].text, check_alone, NULL);
    }
}

static const struct test_case cases[] = {
    {"a weight counts as held where its shard is", owners_hold_their_part},
    {"the only rank owns everything", one_rank_owns_all},
    {"a rank may own nothing", a_rank_may_own_nothing},
    {"layouts without owners are refused", layouts_without_owners},
};
TEST_MAIN(cases)
