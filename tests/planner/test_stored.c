/* SPDX-License-Identifier: Apache-2.0 */
/** Tensors whose dimensions lie in memory in another order, cut and sharded; and experts in flat buffers. */

#include "side_rig.h"
#include "space/registry.h"
#include "space/stored.h"

#define MOST 48

static int64_t two_segments[] = {4, 4};

/** gate and up of an expert, [8, 3], in Megatron's first grouped form: [3, 8] in memory; and a larger block. */
static struct cfg_tensor tensors[] = {
    {.name = (char *)"layer.{i}.fc1",
     .ndim = 2,
     .shape = {8, 3},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = 0,
     .segment_count = 2,
     .segments = two_segments,
     .layer_end = 1,
     .dtype = -1},
    {.name = (char *)"layer.{i}.block",
     .ndim = 3,
     .shape = {2, 3, 4},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = -1,
     .segment_count = 1,
     .layer_end = 1,
     .dtype = -1},
    {.name = (char *)"layer.{i}.norm",
     .ndim = 1,
     .shape = {6},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = -1,
     .segment_count = 1,
     .layer_end = 1,
     .dtype = -1},
};
static struct cfg_model model = {
    .path = (char *)"model.yaml", .name = (char *)"tiny", .layers = 1, .tensor_count = 3, .tensors = tensors};

static struct cfg_storage storage[] = {
    {.pos = {5, 3}, .tensor = (char *)"layer.{i}.fc1", .ndim = 2, .dims = {1, 0}},
    {.pos = {6, 3}, .tensor = (char *)"layer.{i}.block", .ndim = 3, .dims = {2, 0, 1}},
};

/** A layout and, of one rank and item, the element numbers of the tensor in the order of the rank's memory. */
struct stored_row {
    enum cfg_shard_rule rule;
    int64_t tp, dp;
    uint32_t family, state, rank;
    uint32_t ndim;
    int64_t shape[3];
    int64_t memory[MOST]; /* as many as the shape has */
};

static const struct stored_row stored_rows[] = {
    /* rows 0 to 7 of three columns: column 0 of all rows comes first */
    {CFG_SHARD_NONE, 1, 1, 0, 0, 0, 2, {3, 8}, {0,  3,  6,  9,  12, 15, 18, 21, 1,  4,  7,  10,
                                                13, 16, 19, 22, 2,  5,  8,  11, 14, 17, 20, 23}},
    /* tp 2: rank 1 has rows 2, 3 of the gate and 6, 7 of up, side by side in every column */
    {CFG_SHARD_NONE, 2, 1, 0, 1, 1, 2, {3, 4}, {6, 9, 18, 21, 7, 10, 19, 22, 8, 11, 20, 23}},
    /* a flat shard is a range of the memory: the second third of rank 1's twelve elements */
    {CFG_SHARD_ZERO3, 2, 3, 0, 1, 3, 1, {4}, {7, 10, 19, 22}},
    {CFG_SHARD_ZERO3, 2, 5, 0, 0, 3, 1, {3}, {21, 7, 10}},
    /* rows of the memory are columns of the tensor */
    {CFG_SHARD_FSDP2, 2, 2, 0, 1, 1, 2, {2, 4}, {6, 9, 18, 21, 7, 10, 19, 22}},
    {CFG_SHARD_FSDP2, 2, 2, 0, 1, 3, 2, {1, 4}, {8, 11, 20, 23}},
    /* the last dimension first: [4, 2, 3] */
    {CFG_SHARD_NONE, 1, 1, 1, 0, 0, 3, {4, 2, 3}, {0, 4, 8,  12, 16, 20, 1, 5, 9,  13, 17, 21,
                                                   2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23}},
    {CFG_SHARD_ZERO3, 1, 4, 1, 0, 1, 1, {6}, {1, 5, 9, 13, 17, 21}},
    /* another tensor is as ever */
    {CFG_SHARD_ZERO3, 1, 2, 2, 0, 1, 1, {3}, {3, 4, 5}},
};

/** Writes a holding's element numbers where they lie. */
static void write_holding(const struct placement_holding *holding, const struct space_family *family, int64_t *memory)
{
    int64_t dense[SHUNT_MAX_DIMS], at[SHUNT_MAX_DIMS];
    placement_dense_strides(family->ndim, family->shape, dense);
    memcpy(at, holding->box.lo, sizeof(at));
    for (int64_t n = box_volume(&holding->box); n > 0; n--) {
        int64_t number = 0, where = placement_offset(holding, at);
        for (uint32_t d = 0; d < family->ndim; d++)
            number += at[d] * dense[d];
        if (where < 0 || where >= MOST || memory[where] >= 0)
            CHECK_MSG(false, "element %lld at %lld", (long long)number, (long long)where);
        else
            memory[where] = number;
        for (uint32_t d = family->ndim; d-- > 0;) {
            if (++at[d] < holding->box.hi[d])
                break;
            at[d] = holding->box.lo[d];
        }
    }
}

static void check_memory(struct arena *arena, struct side *side, const void *row_)
{
    const struct stored_row *row = row_;
    const struct space_family *family = &side->space->families[row->family];
    const struct placement_variant *variant = side_variant(side, family->item_begin + row->state, row->rank);
    int64_t memory[MOST];
    (void)arena;
    memset(memory, 0xff, sizeof(memory));
    CHECK_EQ_U64(variant->ndim, row->ndim);
    for (uint32_t d = 0; d < row->ndim; d++)
        CHECK_EQ_U64(variant->shape[d], row->shape[d]);
    for (uint32_t h = 0; h < variant->holding_count; h++)
        write_holding(&variant->holdings[h], family, memory);
    for (int64_t e = 0; e < variant->elements && e < MOST; e++)
        CHECK_MSG(memory[e] == row->memory[e], "rule %d tp %lld dp %lld: place %lld has %lld, want %lld",
                  (int)row->rule, (long long)row->tp, (long long)row->dp, (long long)e, (long long)memory[e],
                  (long long)row->memory[e]);
}

static void memory_is_turned(void)
{
    for (size_t i = 0; i < sizeof(stored_rows) / sizeof(stored_rows[0]); i++) {
        struct cfg_layout layout = rig_layout();
        layout.size[CFG_AXIS_TP] = stored_rows[i].tp;
        layout.size[CFG_AXIS_DP] = stored_rows[i].dp;
        layout.shard.rule = stored_rows[i].rule;
        layout.storage = storage;
        layout.storage_count = 2;
        rig_side(&model, &layout, NULL, check_memory, &stored_rows[i]);
    }
}

static void entries_fit_the_model(void)
{
    static struct cfg_tensor padded = {.name = (char *)"embed",
                                       .ndim = 2,
                                       .shape = {5, 2},
                                       .stage = CFG_STAGE_FIRST,
                                       .cut_dim = 0,
                                       .pad_vocab = true,
                                       .segment_count = 1,
                                       .segments = two_segments,
                                       .dtype = -1};
    static const struct {
        const char *tensor;
        uint32_t ndim;
        const char *text;
    } rows[] = {
        {"layer.{i}.fc9", 2, "layout.yaml:5:3: storage[0].tensor: found \"layer.{i}.fc9\", expected a tensor as"},
        {"layer.{i}.fc1", 3, "layout.yaml:5:3: storage[0].dims: found 3 dimensions, expected the 2 of layer.{i}.fc1"},
        {"embed", 2, "not supported: pads that do not lie at the end"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cfg_storage entry = {
            .pos = {5, 3}, .tensor = (char *)rows[i].tensor, .ndim = rows[i].ndim, .dims = {1, 0, 2}};
        struct cfg_tensor two[] = {tensors[0], padded};
        struct cfg_model with_embed = model;
        struct cfg_layout layout = rig_layout();
        with_embed.tensors = two;
        with_embed.tensor_count = 2;
        layout.storage = &entry;
        layout.storage_count = 1;
        rig_side(&with_embed, &layout, rows[i].text, check_memory, NULL);
    }
}

/* ---- experts in flat buffers ---------------------------------------------------------- */

/** Two experts on a rank: fc1 of 60 elements with a bias of 10, fc2 of 100. */
static struct cfg_tensor expert_tensors[] = {
    {.name = (char *)"layer.{i}.e.{e}.fc1.weight", .expert = true, .ndim = 1, .shape = {60}, .dtype = -1},
    {.name = (char *)"layer.{i}.e.{e}.fc1.bias", .expert = true, .ndim = 1, .shape = {10}, .dtype = -1},
    {.name = (char *)"layer.{i}.e.{e}.fc2.weight", .expert = true, .ndim = 1, .shape = {100}, .dtype = -1},
};

struct order_row {
    enum cfg_experts how;
    int64_t start[6]; /* fc1 of 0 and 1, bias of 0 and 1, fc2 of 0 and 1, in a bucket of 512 */
};

/** From the end: the last tensor that is registered starts at 0, each at a multiple of 64; a stack runs forward. */
static const struct order_row order_rows[] = {
    {CFG_EXPERTS_GROUPED, {448, 320, 384, 256, 128, 0}},    /* w0 b0 w1 b1, fc2 of 0, of 1 */
    {CFG_EXPERTS_SEQUENTIAL, {448, 192, 384, 128, 256, 0}}, /* w0 b0 fc2 of 0, w1 b1 fc2 of 1 */
    {CFG_EXPERTS_STACKED, {320, 380, 256, 266, 0, 100}},    /* weights, biases, fc2 */
};

static void check_order(struct arena *arena, struct side *side, const void *row_)
{
    static const int64_t elements[] = {60, 10, 100};
    const struct order_row *row = row_;
    struct flat_place *places;
    struct shunt_err err = {0};
    const struct registry_input input = {.layout = side->layout,
                                         .space = side->space,
                                         .pipeline = &side->pipeline,
                                         .family_elements = elements,
                                         .local_experts = 2,
                                         .shards = 4,
                                         .expert_shards = 4};
    CHECK_MSG(registry_build(arena, &input, &places, &err) == SHUNT_OK, "%s", err.text);
    for (int t = 0; t < 6; t++)
        CHECK_MSG(places[t].start == row->start[t] && places[t].bucket == 512, "order %d tensor %d: %lld of %lld",
                  (int)row->how, t, (long long)places[t].start, (long long)places[t].bucket);
}

static void experts_in_registration_order(void)
{
    struct cfg_model experts = {.path = (char *)"m",
                                .name = (char *)"m",
                                .layers = 1,
                                .experts = 2,
                                .tensor_count = 3,
                                .tensors = expert_tensors};
    for (size_t t = 0; t < 3; t++) {
        expert_tensors[t].stage = CFG_STAGE_LAYER;
        expert_tensors[t].cut_dim = -1;
        expert_tensors[t].layer_end = 1;
    }
    for (size_t i = 0; i < sizeof(order_rows) / sizeof(order_rows[0]); i++) {
        struct cfg_layout layout = rig_layout();
        layout.size[CFG_AXIS_DP] = 4;
        layout.shard.rule = CFG_SHARD_MEGATRON;
        layout.shard.experts = order_rows[i].how;
        rig_side(&experts, &layout, NULL, check_order, &order_rows[i]);
    }
}

static const struct test_case cases[] = {
    {"experts in registration order", experts_in_registration_order},
    {"cuts and shards go by memory", memory_is_turned},
    {"entries must fit the model", entries_fit_the_model},
};
TEST_MAIN(cases)
