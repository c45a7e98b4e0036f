/* SPDX-License-Identifier: Apache-2.0 */

/* Refusals of rules that speak of some tensors only: heads, storage, current weights. */

#include "config/error_rows.h"

/* One tensor on line 5 with the given rows and the keys of its cut. */
#define HEADS_MODEL         "kind: model\nname: m\nlayers: 1\nheads: 4\nkv_heads: 2\ntensors:\n"
#define HEADS_OF(rows, cut) HEADS_MODEL "- {name: t, shape: [" rows "], stage: all, cut: {dim: 0, " cut "}}\n"

static const struct error_row rule_rows[] = {
    /* heads of a tensor */
    {MODEL, HEADS_OF("16", "heads: qkv"),
     ":7:59: tensors[0].cut.heads: found it without `head_dim`, expected both or neither"},
    {MODEL, HEADS_OF("16", "head_dim: 2"),
     ":7:62: tensors[0].cut.head_dim: found it without `heads`, expected both or neither"},
    {MODEL, HEADS_OF("16", "heads: qvk, head_dim: 2"),
     ":7:59: tensors[0].cut.heads: found \"qvk\" (did you mean `qkv`?), expected `qkv`, `qgkv`, `q-k-v` or `kv`"},
    {MODEL, HEADS_OF("16", "heads: qkv, head_dim: 0"),
     "tensors[0].cut.head_dim: found \"0\" (out of range), expected a count from 1 to"},
    {MODEL, HEADS_OF("16", "pad: vocab, heads: qkv, head_dim: 2"),
     "tensors[0].cut.heads: found it beside `pad`, expected one or the other"},
    {MODEL, HEADS_OF("18", "heads: qkv, head_dim: 2"),
     ":7:3: tensors[0].cut.heads: found 18 rows, expected kv_heads times head_dim, which is 4, times 2 and the query"},
    {MODEL, HEADS_OF("8", "heads: qkv, head_dim: 2"), "found 8 rows, expected kv_heads times head_dim, which is 4"},
    {MODEL, HEADS_OF("20", "heads: qgkv, head_dim: 2"), "which is 4, times 2 and twice the query heads for each group"},
    {MODEL, HEADS_OF("16", "segments: [8, 8], heads: qkv, head_dim: 2"),
     "tensors[0].cut.heads: found 2 segments, expected 1 with `qkv`"},
    {MODEL, HEADS_OF("16", "segments: [8, 8], heads: q-k-v, head_dim: 2"),
     "tensors[0].cut.heads: found 2 segments, expected 3 with `q-k-v`"},
    {MODEL, HEADS_OF("16", "segments: [6, 4, 6], heads: q-k-v, head_dim: 2"),
     "tensors[0].cut.heads: found segment 0 of length 6, expected a multiple of 4, kv_heads times head_dim"},
    {MODEL, HEADS_OF("16", "segments: [8, 2, 6], heads: q-k-v, head_dim: 2"),
     "tensors[0].cut.heads: found segment 1 of length 2, expected 4, kv_heads times head_dim"},
    {MODEL, HEADS_OF("8", "heads: kv, head_dim: 2"),
     "found segment 0 of length 8, expected 4, kv_heads times head_dim"},
    {MODEL, MODEL_HEAD "- {name: t, shape: [8], stage: all, cut: {dim: 0, heads: kv, head_dim: 2}}\n",
     ":5:3: tensors[0].cut.heads: found heads in a model without `kv_heads`, expected how many there are"},
    {MODEL, MODEL_EXPERTS "- {name: \"l.{i}.e.{e}\", shape: [8], cut: {dim: 0, heads: kv, head_dim: 2}}\n",
     "tensors[0].cut.heads: found heads in a tensor with {e}, expected them in attention only"},
    {LAYOUT, LAYOUT_BASE "attention: {kv: copy}\n",
     ":4:17: attention.kv: found \"copy\", expected `cut` or `replicate`"},
    {LAYOUT, LAYOUT_BASE "attention: replicate\n",
     ":4:12: attention: found \"replicate\", expected a mapping with the"},

    /* current weights, in any form */
    {LAYOUT, LAYOUT_BASE "current: mine\n", ":4:10: current: found \"mine\", expected `all` or `owner`"},
    {LAYOUT, LAYOUT_BASE "current: onwer\n", ":4:10: current: found \"onwer\" (did you mean `owner`?), expected `all`"},
    {LAYOUT, LAYOUT_BASE "current: [owner]\n", ":4:10: current: found a list, expected `all` or `owner`"},

    /* dimensions in another order */
    {LAYOUT, LAYOUT_BASE "storage: []\n", ":4:10: storage: found a list (of 0), expected a list of 1 to"},
    {LAYOUT, LAYOUT_BASE "storage: [{tensor: a}]\n",
     ":4:11: storage[0].dims: found no such key, expected a list of 2 to"},
    {LAYOUT, LAYOUT_BASE "storage: [{dims: [1, 0]}]\n", ":4:11: storage[0].tensor: found no such key, expected"},
    {LAYOUT, LAYOUT_BASE "storage: [{tensor: a, dims: [0]}]\n",
     ":4:29: storage[0].dims: found a list (of 1), expected"},
    {LAYOUT, LAYOUT_BASE "storage: [{tensor: a, dims: [1, 1]}]\n",
     ":4:29: storage[0].dims: found another list, expected each of the dimensions 0 to 1 once"},
    {LAYOUT, LAYOUT_BASE "storage: [{tensor: a, dims: [2, 0]}]\n",
     ":4:29: storage[0].dims: found another list, expected each of the dimensions 0 to 1 once"},
    {LAYOUT, LAYOUT_BASE "storage: [{tensor: a, dims: [6, 0]}]\n",
     ":4:30: storage[0].dims[0]: found \"6\" (out of range)"},
    {LAYOUT, LAYOUT_BASE "storage: [{tensor: \"a.{x}\", dims: [1, 0]}]\n",
     ":4:20: storage[0].tensor: found \"a.{x}\", "},
    {LAYOUT,
     LAYOUT_BASE "storage:\n- {tensor: a, dims: [1, 0]}\n- {tensor: b, dims: [1, 0]}\n- {tensor: a, dims: [0, 1]}\n",
     ":7:3: storage[2]: found \"a\" a second time (first on line 5), expected distinct tensors"},
    {LAYOUT,
     LAYOUT_HEAD "mesh: {names: [a], shape: [1]}\nplacements: [{placements: [Replicate]}]\n"
                 "storage: [{tensor: a, dims: [1, 0]}]\n",
     ":5:10: storage: found it in a layout with `mesh`, expected it with `parallel` only"},

    /* experts in flat buffers */
    {LAYOUT, LAYOUT_BASE "shard: {rule: megatron, experts: stack}\n",
     "shard.experts: found \"stack\" (did you mean `stacked`?), expected `grouped`, `sequential` or `stacked`"},
    {LAYOUT, LAYOUT_BASE "shard: {rule: zero3, experts: stacked}\n",
     "shard.experts: found it with rule `zero3`, expected it with `megatron`, `zero1`, `zero2` or `fsdp1` only"},
};
