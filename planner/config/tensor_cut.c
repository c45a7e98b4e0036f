/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "heads.h"
#include "model.h"

enum { CUT_DIM, CUT_SEGMENTS, CUT_PAD, CUT_HEADS, CUT_HEAD_DIM };

static void check_cut(struct cfg_scope *scope)
{
    const struct cfg_tensor *tensor = scope->object;
    cfg_heads_check_cut(scope);
    if (!tensor->pad_vocab)
        return;
    if (cfg_scope_usable(scope, CFG_BIT(CUT_DIM)) && tensor->cut_dim != 0)
        cfg_scope_report(scope, "pad", "found `vocab` with dim %" PRId32 ", expected it with dim 0 only",
                         tensor->cut_dim);
    if (cfg_node_find(scope->node, "segments") != NULL)
        cfg_scope_report(scope, "pad", "found `vocab` beside segments, expected one or the other");
}

static const struct cfg_choice pads[] = {{"vocab", 1}, {NULL, 0}};

static const struct cfg_field cut_fields[] = {
    [CUT_DIM] = {.key = "dim",
                 .type = CFG_COUNT,
                 .required = true,
                 CFG_MEMBER(struct cfg_tensor, cut_dim),
                 .max = SHUNT_MAX_DIMS - 1,
                 .absent = -1,
                 .help = "Dimension that is split over tp, or over etp in a tensor with {e}"},
    [CUT_SEGMENTS] = {.key = "segments",
                      .type = CFG_LIST,
                      CFG_MEMBER(struct cfg_tensor, segments),
                      CFG_NUMBER(struct cfg_tensor, segment_count),
                      .min = 1,
                      .max = 4096,
                      .element_max = CFG_MOST_EXTENT,
                      .help = "Lengths of fused parts along dim, each split by itself; absent: one part"},
    [CUT_PAD] = {.key = "pad",
                 .type = CFG_CHOICE,
                 CFG_MEMBER(struct cfg_tensor, pad_vocab),
                 .choices = pads,
                 .absent = 0,
                 .help = "`vocab`: dim 0 is padded as the layout's `vocab` says before it is split"},
    [CUT_HEADS] = {.key = "heads",
                   .type = CFG_CHOICE,
                   CFG_MEMBER(struct cfg_tensor, heads),
                   .choices = cfg_heads_choices,
                   .absent = CFG_HEADS_NONE,
                   .help = "Attention heads along dim. `qkv`: for each group its query heads, its key head, its value "
                           "head; `qgkv`: an output gate for each query head behind them; `q-k-v`: three segments; "
                           "`kv`: key or value heads alone, all of them in each segment"},
    [CUT_HEAD_DIM] = {.key = "head_dim",
                      .type = CFG_COUNT,
                      CFG_MEMBER(struct cfg_tensor, head_dim),
                      .min = 1,
                      .max = CFG_MOST_EXTENT,
                      .absent = 0,
                      .help = "Rows of a head along dim; with `heads`"},
};

const struct cfg_table cfg_cut_table = {
    .help = "How a tensor is split over tp",
    .fields = cut_fields,
    .field_count = sizeof(cut_fields) / sizeof(cut_fields[0]),
    .check = check_cut,
};
