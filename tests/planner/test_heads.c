/* SPDX-License-Identifier: Apache-2.0 */
/** Key and value heads that are replicated by a rule: which rows every rank has, and in which order. */

#include "side_rig.h"

#define MOST_RUNS 4

/** A tensor of heads, a size of tp, and the rows of one rank as runs. */
struct heads_row {
    enum cfg_heads heads;
    int64_t rows, head_dim, query, kv, tp;
    uint32_t segment_count;
    int64_t segments[3];
    uint32_t rank;
    int64_t runs[MOST_RUNS][2]; /* empty ends the list */
    const char *text;           /* refused with this */
};

static const struct heads_row heads_rows[] = {
    /* H19: 64 query heads, 2 key/value heads; rank 2 starts inside group 0, rank 3 ends at its key head */
    {CFG_HEADS_QKV, 8704, 128, 64, 2, 8, 1, {0}, 0, {{0, 1024}, {4096, 4352}}, NULL},
    {CFG_HEADS_QKV, 8704, 128, 64, 2, 8, 1, {0}, 2, {{2048, 3072}, {4096, 4352}}, NULL},
    {CFG_HEADS_QKV, 8704, 128, 64, 2, 8, 1, {0}, 3, {{3072, 4352}}, NULL},
    {CFG_HEADS_QKV, 8704, 128, 64, 2, 8, 1, {0}, 4, {{4352, 5376}, {8448, 8704}}, NULL},
    {CFG_HEADS_QKV, 8704, 128, 64, 2, 8, 1, {0}, 7, {{7424, 8704}}, NULL},
    /* as many ranks as key/value heads, or fewer: the plain cut, group by group */
    {CFG_HEADS_QKV, 8704, 128, 64, 2, 2, 1, {0}, 1, {{4352, 8704}}, NULL},
    {CFG_HEADS_QKV, 48, 2, 8, 8, 4, 1, {0}, 1, {{12, 24}}, NULL},
    /* one key/value head for all */
    {CFG_HEADS_QKV, 8, 1, 6, 1, 3, 1, {0}, 1, {{2, 4}, {6, 8}}, NULL},
    /* gates stand behind the group's query heads: 3 q, 3 gates, k, v */
    {CFG_HEADS_QGKV, 64, 4, 6, 2, 6, 1, {0}, 4, {{36, 40}, {48, 52}, {56, 64}}, NULL},
    /* three segments, and key or value heads alone, one or two tensors in one */
    {CFG_HEADS_Q_K_V, 20, 2, 6, 2, 6, 3, {12, 4, 4}, 3, {{6, 8}, {14, 16}, {18, 20}}, NULL},
    {CFG_HEADS_KV, 4, 2, 6, 2, 6, 1, {0}, 2, {{0, 2}}, NULL},
    {CFG_HEADS_KV, 8, 2, 6, 2, 6, 2, {4, 4}, 5, {{2, 4}, {6, 8}}, NULL},
    /* heads that do not go round */
    {CFG_HEADS_QKV, 16, 2, 6, 2, 6, 1, {0}, 0, {{0}}, "found 6, expected a multiple of the 2 key/value heads and a"},
    {CFG_HEADS_NONE, 16, 0, 4, 2, 4, 1, {0}, 0, {{0}}, "attention.kv: found replicate, expected it with a model"},
    {CFG_HEADS_QKV, 20, 2, 6, 2, 4, 1, {0}, 0, {{0}}, "found 4, expected a divisor of heads 6"},
    {CFG_HEADS_QKV, 30, 1, 24, 3, 4, 1, {0}, 0, {{0}}, "expected a divisor or a multiple of kv_heads 3"},
};

/** Row by row: the holdings are the runs, one behind the other in the rank's memory. */
static void check_runs(struct arena *arena, struct side *side, const void *row_)
{
    const struct heads_row *row = row_;
    const struct placement_variant *variant = side_variant(side, 0, row->rank);
    int64_t at = 0;
    uint32_t h = 0;
    (void)arena;
    for (; h < MOST_RUNS && row->runs[h][1] > 0; h++) {
        CHECK_MSG(h < variant->holding_count, "rank %u of %lld", row->rank, (long long)row->tp);
        if (h >= variant->holding_count)
            return;
        const struct placement_holding *holding = &variant->holdings[h];
        CHECK_MSG(holding->box.lo[0] == row->runs[h][0] && holding->box.hi[0] == row->runs[h][1] &&
                      holding->box.lo[1] == 0 && holding->box.hi[1] == 3 && holding->offset == at * 3 &&
                      holding->stride[0] == 3 && holding->stride[1] == 1,
                  "rank %u of %lld, run %u: [%lld,%lld) at %lld", row->rank, (long long)row->tp, h,
                  (long long)holding->box.lo[0], (long long)holding->box.hi[0], (long long)holding->offset);
        at += row->runs[h][1] - row->runs[h][0];
    }
    CHECK_EQ_U64(variant->holding_count, h);
    CHECK_EQ_U64(variant->shape[0], at);
    CHECK_EQ_U64(variant->pad_count, 0);
}

static void ranks_have_their_heads(void)
{
    for (size_t i = 0; i < sizeof(heads_rows) / sizeof(heads_rows[0]); i++) {
        const struct heads_row *row = &heads_rows[i];
        int64_t segments[3] = {row->segment_count == 1 ? row->rows : row->segments[0], row->segments[1],
                               row->segments[2]};
        struct cfg_tensor tensor = {.name = (char *)"layer.{i}.qkv",
                                    .ndim = 2,
                                    .shape = {row->rows, 3},
                                    .stage = CFG_STAGE_LAYER,
                                    .segment_count = row->segment_count,
                                    .segments = segments,
                                    .heads = row->heads,
                                    .head_dim = row->head_dim,
                                    .layer_end = 1,
                                    .dtype = -1};
        struct cfg_model model = {.path = (char *)"model.yaml",
                                  .name = (char *)"tiny",
                                  .layers = 1,
                                  .heads = row->query,
                                  .kv_heads = row->kv,
                                  .tensor_count = 1,
                                  .tensors = &tensor};
        struct cfg_layout layout = rig_layout();
        layout.size[CFG_AXIS_TP] = row->tp;
        layout.kv_replicate = true;
        rig_side(&model, &layout, row->text, check_runs, row);
    }
}

static const struct test_case cases[] = {
    {"every rank has its query heads and the key/value head that serves them", ranks_have_their_heads},
};
TEST_MAIN(cases)
