/* SPDX-License-Identifier: Apache-2.0 */

/* Refusals of the two forms of a layout that are not made by rules: meshes with placements, and holdings. */

#include "config/error_rows.h"

/* Lines 1 to 4; rules follow on line 5. */
#define MESH_HEAD      LAYOUT_HEAD "mesh: {names: [dp, tp], shape: [4, 2]}\nplacements:\n"
/* Lines 1 to 5; a complete layout but for what follows. */
#define MESH_BASE      MESH_HEAD "- {placements: [\"Shard(0)\", Replicate]}\n"
/* One rule on line 5 whose first placement is given. */
#define MESH_PLACED(p) MESH_HEAD "- {placements: [" p ", Replicate]}\n"
/* Lines 1 to 4; entries follow on line 5. */
#define HOLD_HEAD      LAYOUT_HEAD "ranks: 4\nholdings:\n"
/* Lines 1 to 5; a complete layout but for what follows. */
#define HOLD_BASE      HOLD_HEAD "- {ranks: 0-3, tensor: a, states: [param], shape: [4, 2], boxes: [\"0:4, 0:2\"]}\n"
/* One entry on line 5 with the given ranks, states, shape, boxes. */
#define HOLD_RANKS(r)  HOLD_HEAD "- {ranks: " r ", tensor: a, states: [param], shape: [4], boxes: [\"0:4\"]}\n"
#define HOLD_STATES(s) HOLD_HEAD "- {ranks: 0, tensor: a, states: " s ", shape: [4], boxes: [\"0:4\"]}\n"
#define HOLD_SHAPE(s)  HOLD_HEAD "- {ranks: 0, tensor: a, states: [param], shape: " s "}\n"
#define HOLD_BOX(b)    HOLD_HEAD "- {ranks: 0, tensor: a, states: [param], shape: [9], boxes: [" b "]}\n"

#define PLACED_AT     ":5:17: placements[0].placements[0]: found "
#define PLACED_WANTED "expected `Replicate`, `Shard(d)` or `_StridedShard(d, k)` with a dimension d below 6"
#define BOX_AT        ":5:62: holdings[0].boxes[0]: found "
#define BOX_WANTED    "expected lo:hi for each dimension, then perhaps @ and an offset, / and strides, such as"
#define ONE_FORM      "expected exactly one of `parallel`, `mesh` and `holdings`"

static const struct error_row form_rows[] = {
    /* exactly one form */
    {LAYOUT, LAYOUT_HEAD, ":1:1: document: found none of `parallel`, `mesh` and `holdings`, expected exactly one"},
    {LAYOUT, LAYOUT_HEAD "ranks: 4\nplacements: [{placements: [Replicate]}]\n",
     ":1:1: document: found none of `parallel`, `mesh` and `holdings`"},
    {LAYOUT, MESH_BASE "parallel: {tp: 8}\n", ":3:7: mesh: found it beside `parallel`, " ONE_FORM},
    {LAYOUT, HOLD_BASE "parallel: {tp: 4}\n", ":5:1: holdings: found it beside `parallel`, " ONE_FORM},
    {LAYOUT, HOLD_BASE "mesh: {names: [dp], shape: [4]}\n", ":5:1: holdings: found it beside `mesh`, " ONE_FORM},
    {LAYOUT, MESH_BASE "order: tp-dp\n",
     ":6:8: order: found it in a layout with `mesh`, expected it with `parallel` only"},
    {LAYOUT, MESH_BASE "pipeline: {first: 1}\n", ":6:11: pipeline: found it in a layout with `mesh`, expected it with"},
    {LAYOUT, MESH_BASE "shard: {rule: fsdp2}\n", ":6:8: shard: found it in a layout with `mesh`, expected it with"},
    {LAYOUT, MESH_BASE "attention: {kv: cut}\n", ":6:12: attention: found it in a layout with `mesh`, expected it"},
    {LAYOUT, MESH_BASE "vocab: {padded: 8}\n", ":6:8: vocab: found it in a layout with `mesh`, expected it with"},
    {LAYOUT, MESH_BASE "ranks: 8\n", ":6:8: ranks: found it in a layout with `mesh`, expected it with `holdings` only"},
    {LAYOUT, HOLD_BASE "order: tp-dp\n",
     ":6:8: order: found it in a layout with `holdings`, expected it with `parallel` only"},
    {LAYOUT, HOLD_BASE "pipeline: {}\n", ":6:11: pipeline: found it in a layout with `holdings`, expected it with"},
    {LAYOUT, HOLD_BASE "shard: {}\n", ":6:8: shard: found it in a layout with `holdings`, expected it with"},
    {LAYOUT, HOLD_BASE "vocab: {}\n", ":6:8: vocab: found it in a layout with `holdings`, expected it with"},
    {LAYOUT, HOLD_BASE "placements: [{placements: [Replicate]}]\n",
     ":6:13: placements: found it in a layout with `holdings`, expected it with `mesh` only"},
    {LAYOUT, LAYOUT_BASE "placements: [{placements: [Replicate]}]\n",
     ":4:13: placements: found it in a layout with `parallel`, expected it with `mesh` only"},
    {LAYOUT, LAYOUT_BASE "ranks: 4\n",
     ":4:8: ranks: found it in a layout with `parallel`, expected it with `holdings` only"},
    {LAYOUT, MESH_BASE "devices: 0-3\n", ":6:10: devices: found 4 devices, expected 8, one for each rank of `mesh`"},
    {LAYOUT, HOLD_BASE "devices: 0-4\n", ":6:10: devices: found 5 devices, expected 4, one for each rank of `ranks`"},

    /* meshes */
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [dp], shape: [4]}\n",
     ":1:1: placements: found no such key, expected what the axes of `mesh` do to each tensor"},
    {LAYOUT, LAYOUT_HEAD "mesh: [4, 2]\nplacements: [{placements: [Replicate]}]\n",
     ":3:7: mesh: found a list, expected a mapping with the keys names, shape"},
    {LAYOUT, LAYOUT_HEAD "mesh: {shape: [4]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:7: mesh.names: found no such key, expected a list of 1 to 6 names of axes, such as [dp, tp]"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [dp]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:7: mesh.shape: found no such key, expected a list of 1 to 6 counts"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [dp, dp], shape: [4, 2]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:20: mesh.names[1]: found \"dp\" a second time, expected distinct names"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [dp, no], shape: [4, 2]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:20: mesh.names[1]: found \"no\", which YAML reads as a boolean, expected a text"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: dp, shape: [4]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:15: mesh.names: found \"dp\", expected a list of 1 to 6 names of axes"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [], shape: [4]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:15: mesh.names: found a list (of 0), expected a list of 1 to 6 names of axes"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [a, b, c, d, e, f, g], shape: [4]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:15: mesh.names: found a list (of 7), expected a list of 1 to 6 names of axes"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [dp, tp], shape: [4]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:15: mesh.names: found 2 names, expected 1, one for each axis of `shape`"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [dp], shape: [0]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:29: mesh.shape[0]: found \"0\" (out of range), " COUNT_20},
    {LAYOUT,
     LAYOUT_HEAD
     "mesh: {names: [a, b, c], shape: [1048576, 1048576, 1048576]}\nplacements: [{placements: [Replicate]}]\n",
     ":3:33: mesh.shape: found axes whose product is more than 1048576, expected fewer ranks"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [dp], shape: [4], dim: 1}\nplacements: [{placements: [Replicate]}]\n",
     ":3:33: mesh.dim: found an unknown key, expected a mapping with the keys names, shape"},

    /* placements */
    {LAYOUT, MESH_PLACED("Partial"), PLACED_AT "\"Partial\" (partial sums are not state: reduce them first), "},
    {LAYOUT, MESH_PLACED("Partial(sum)"), PLACED_AT "\"Partial(sum)\" (partial sums are not state: reduce them first)"},
    {LAYOUT, MESH_PLACED("\"_NormPartial(2)\""), "(partial sums are not state: reduce them first)"},
    {LAYOUT, MESH_PLACED("shard(0)"), PLACED_AT "\"shard(0)\" (not a placement), " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("0"), PLACED_AT "\"0\" (not a placement), " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("\"\""), PLACED_AT "\"\", " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("[Replicate]"), PLACED_AT "a list, " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("Shard"), PLACED_AT "\"Shard\" (no opening bracket), " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("Shard()"), PLACED_AT "\"Shard()\" (not a number), " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("Shard(-1)"), PLACED_AT "\"Shard(-1)\" (out of range), " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("Shard(6)"), PLACED_AT "\"Shard(6)\" (out of range), " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("Shard(00)"), PLACED_AT "\"Shard(00)\" (a leading zero), "},
    {LAYOUT, MESH_PLACED("Shard(axis=0)"), PLACED_AT "\"Shard(axis=0)\" (not one of its arguments), "},
    {LAYOUT, MESH_PLACED("Shard(dim 0)"), PLACED_AT "\"Shard(dim 0)\" (an argument without `=`), "},
    {LAYOUT, MESH_PLACED("Shard(0"), PLACED_AT "\"Shard(0\" (no closing bracket), "},
    {LAYOUT, MESH_PLACED("\"Shard(0, 1)\""), PLACED_AT "\"Shard(0, 1)\" (no closing bracket), "},
    {LAYOUT, MESH_PLACED("Shard(0)0"), PLACED_AT "\"Shard(0)0\" (something behind it), "},
    {LAYOUT, MESH_PLACED("\"Shard(0)\\0\""), PLACED_AT "\"Shard(0)\\x00\" (something behind it), "},
    {LAYOUT, MESH_PLACED("Replicate(0)"), PLACED_AT "\"Replicate(0)\" (no closing bracket), "},
    {LAYOUT, MESH_PLACED("_StridedShard(0)"), "(no split factor; a comma needs quotes around the text), "},
    {LAYOUT, MESH_HEAD "- {placements: [_StridedShard(0, 2)]}\n",
     PLACED_AT "\"_StridedShard(0\" (no split factor; a comma needs quotes around the text), " PLACED_WANTED},
    {LAYOUT, MESH_PLACED("\"_StridedShard(0, 0)\""), PLACED_AT "\"_StridedShard(0, 0)\" (out of range), "},
    {LAYOUT, MESH_PLACED("\"_StridedShard(0, dim=2)\""), "(not one of its arguments), "},
    {LAYOUT, MESH_HEAD "- {placements: [\"Shard(0)\"]}\n",
     ":5:16: placements[0].placements: found 1 placements, expected 2, one for each axis of `mesh`"},
    {LAYOUT, MESH_HEAD "- {placements: []}\n",
     ":5:16: placements[0].placements: found a list (of 0), expected a list of 1 to 6 placements"},
    {LAYOUT, MESH_HEAD "- {placements: Replicate}\n",
     ":5:16: placements[0].placements: found \"Replicate\", expected a list of 1 to 6 placements"},
    {LAYOUT, MESH_HEAD "- {tensor: a}\n",
     ":5:3: placements[0].placements: found no such key, expected a list of 1 to 6 placements, such as"},
    {LAYOUT, LAYOUT_HEAD "mesh: {names: [a], shape: [2]}\nplacements: []\n",
     ":4:13: placements: found a list (of 0), expected a list of 1 to 1048576 mappings"},
    {LAYOUT, MESH_HEAD "- [Replicate, Replicate]\n", ":5:3: placements[0]: found a list, expected a mapping with"},

    /* rules beside each other */
    {LAYOUT, MESH_BASE "- {placements: [Replicate, Replicate]}\n",
     ":6:3: placements[1].tensor: found a second rule for `param` of every tensor (first on line 5), expected one for "
     "each state"},
    {LAYOUT, MESH_BASE "- {states: [master], placements: [Replicate, Replicate]}\n",
     ":6:3: placements[1].tensor: found a second rule for `master` of every tensor (first on line 5)"},
    {LAYOUT,
     MESH_BASE "- {tensor: b, placements: [Replicate, Replicate]}\n- {tensor: a, placements: [Replicate, Replicate]}\n"
               "- {tensor: b, states: [exp_avg, master], placements: [Replicate, Replicate]}\n",
     ":8:12: placements[3].tensor: found a second rule for `master` of \"b\" (first on line 6), expected one for each"},
    {LAYOUT, MESH_HEAD "- {states: [momentum], placements: [Replicate, Replicate]}\n",
     ":5:12: placements[0].states: found `momentum`, expected states that the layout's `state` keeps"},
    {LAYOUT, MESH_HEAD "- {states: [buffer], placements: [Replicate, Replicate]}\n",
     ":5:13: placements[0].states[0]: found \"buffer\", expected `param`, `grad`, `master`, `exp_avg`"},
    {LAYOUT, MESH_HEAD "- {states: [], placements: [Replicate, Replicate]}\n",
     ":5:12: placements[0].states: found a list (of 0), expected a list of states, such as [param]"},
    {LAYOUT, MESH_HEAD "- {states: param, placements: [Replicate, Replicate]}\n",
     ":5:12: placements[0].states: found \"param\", expected a list of states, such as [param]; buffers and scalars "
     "are"},
    {LAYOUT, MESH_HEAD "- {tensor: \"a.{x}\", placements: [Replicate, Replicate]}\n",
     ":5:12: placements[0].tensor: found \"a.{x}\", expected a name with at most one `{i}`"},

    /* ranks of holdings */
    {LAYOUT, LAYOUT_HEAD "holdings:\n- {ranks: 0-9, tensor: a, states: [param], shape: [4], boxes: [\"0:4\"]}\n",
     ":1:1: ranks: found no such key, expected the number of ranks of `holdings`"},
    {LAYOUT, LAYOUT_HEAD "ranks: 0\nholdings: []\n", ":3:8: ranks: found \"0\" (out of range), " COUNT_20},
    {LAYOUT, LAYOUT_HEAD "ranks: 1\nholdings: []\n",
     ":4:11: holdings: found a list (of 0), expected a list of 1 to 1048576 mappings"},
    {LAYOUT, LAYOUT_HEAD "ranks: 1\nholdings: {a: b}\n", ":4:11: holdings: found a mapping, expected a list of 1 to"},
    {LAYOUT, HOLD_HEAD "- a\n", ":5:3: holdings[0]: found \"a\", expected a mapping with the keys ranks, tensor"},
    {LAYOUT, HOLD_RANKS("4"), ":5:11: holdings[0].ranks: found rank 4, expected ranks below `ranks`, which is 4"},
    {LAYOUT, HOLD_RANKS("\"9,0-2\""), ":5:11: holdings[0].ranks: found rank 9, expected ranks below `ranks`, which"},
    {LAYOUT, HOLD_RANKS("[0, 2, 0]"), ":5:11: holdings[0].ranks: found rank 0 twice, expected distinct ranks"},
    {LAYOUT, HOLD_RANKS("\"0-2,1\""), ":5:11: holdings[0].ranks: found rank 1 twice, expected distinct ranks"},
    {LAYOUT, HOLD_RANKS("2-0"), ":5:11: holdings[0].ranks: found \"2-0\" (a range that counts down), expected ranks"},
    {LAYOUT, HOLD_RANKS("[]"), ":5:11: holdings[0].ranks: found a list (of none), expected ranks below 1048576"},
    {LAYOUT, HOLD_RANKS("all"), ":5:11: holdings[0].ranks: found \"all\" (not a number), expected ranks below 1048576"},
    {LAYOUT, HOLD_RANKS("1048576"), ":5:11: holdings[0].ranks: found \"1048576\" (out of range), expected ranks"},

    /* the rest of an entry */
    {LAYOUT, HOLD_HEAD "- {ranks: 0, states: [param], shape: [4], boxes: []}\n",
     ":5:3: holdings[0].tensor: found no such key, expected a text"},
    {LAYOUT, HOLD_HEAD "- {ranks: 0, tensor: a/b, states: [param], shape: [4], boxes: []}\n",
     ":5:22: holdings[0].tensor: found \"a/b\", expected a name without `/` and `..`"},
    {LAYOUT, HOLD_HEAD "- {ranks: 0, tensor: a, shape: [4], boxes: []}\n",
     ":5:3: holdings[0].states: found no such key, expected a list of states, such as [param, master]"},
    {LAYOUT, HOLD_HEAD "- {ranks: 0, tensor: a, states: [param], boxes: []}\n",
     ":5:3: holdings[0].shape: found no such key, expected a list of 1 to 6 counts"},
    {LAYOUT, HOLD_STATES("[param, param]"), ":5:41: holdings[0].states[1]: found \"param\" (a second time), expected"},
    {LAYOUT, HOLD_STATES("[exp_avgs]"), ":5:34: holdings[0].states[0]: found \"exp_avgs\" (did you mean `exp_avg`?)"},
    {LAYOUT, HOLD_STATES("[grad, param]"),
     ":5:33: holdings[0].states: found `grad`, expected states that the layout's `state` keeps"},
    {LAYOUT, HOLD_SHAPE("[0, 0]"),
     ":5:49: holdings[0].shape: found an extent of 0 in dimension 1, expected it in dimension 0 only"},
    {LAYOUT, HOLD_SHAPE("[2, 0]"), ":5:49: holdings[0].shape: found an extent of 0 in dimension 1, expected it in"},
    {LAYOUT, HOLD_SHAPE("[1, 1, 1, 1, 1, 1, 1]"),
     ":5:49: holdings[0].shape: found a list (of 7), expected a list of 1"},
    {LAYOUT, HOLD_SHAPE("[]"), ":5:49: holdings[0].shape: found a list (of 0), expected a list of 1 to 6 counts"},
    {LAYOUT, HOLD_SHAPE("[-1]"), ":5:50: holdings[0].shape[0]: found \"-1\" (out of range), expected a count from 0"},
    {LAYOUT, HOLD_SHAPE("[4]"),
     ":5:3: holdings[0].boxes: found no such key, expected a list of boxes, [] if all of the buffer is pad"},
    {LAYOUT, HOLD_SHAPE("[0, 3], boxes: [\"0:1, 0:3\"]"),
     ":5:64: holdings[0].boxes: found boxes in a buffer whose first extent is 0, expected none"},
    {LAYOUT, HOLD_SHAPE("[4], boxes: [], copy: yes"), ":5:71: holdings[0].copy: found \"yes\", expected `true` or"},
    {LAYOUT, HOLD_SHAPE("[4], boxes: \"0:4\""), ":5:61: holdings[0].boxes: found \"0:4\", expected a list of boxes"},

    /* boxes */
    {LAYOUT, HOLD_BOX("4:4"), BOX_AT "\"4:4\" (an empty range), " BOX_WANTED},
    {LAYOUT, HOLD_BOX("4:3"), BOX_AT "\"4:3\" (an empty range), " BOX_WANTED},
    {LAYOUT, HOLD_BOX("4"), BOX_AT "\"4\" (a number without a colon behind it), " BOX_WANTED},
    {LAYOUT, HOLD_BOX("\"4:\""), BOX_AT "\"4:\" (not a number), "},
    {LAYOUT, HOLD_BOX("\":4\""), BOX_AT "\":4\" (not a number), "},
    {LAYOUT, HOLD_BOX("\"\""), BOX_AT "\"\", " BOX_WANTED},
    {LAYOUT, HOLD_BOX("{a: b}"), BOX_AT "a mapping, " BOX_WANTED},
    {LAYOUT, HOLD_BOX("\"-1:4\""), BOX_AT "\"-1:4\" (out of range), "},
    {LAYOUT, HOLD_BOX("\"0:04\""), BOX_AT "\"0:04\" (a leading zero), "},
    {LAYOUT, HOLD_BOX("\"0:0x4\""), BOX_AT "\"0:0x4\" (a base prefix), "},
    {LAYOUT, HOLD_BOX("\"0:1099511627777\""), BOX_AT "\"0:1099511627777\" (out of range), "},
    {LAYOUT, HOLD_BOX("\"0:99999999999999999999\""), "(out of range), "},
    {LAYOUT, HOLD_BOX("\"0:4,\""), BOX_AT "\"0:4,\" (not a number), "},
    {LAYOUT, HOLD_BOX("\"0:1,0:1,0:1,0:1,0:1,0:1,0:1\""), "(more than 6 dimensions), "},
    {LAYOUT, HOLD_BOX("\"0:4 @\""), BOX_AT "\"0:4 @\" (not a number), "},
    {LAYOUT, HOLD_BOX("\"0:4 @ -1\""), BOX_AT "\"0:4 @ -1\" (out of range), "},
    {LAYOUT, HOLD_BOX("\"0:4 @ 1 2\""), BOX_AT "\"0:4 @ 1 2\" (something behind it), "},
    {LAYOUT, HOLD_BOX("\"0:4 / 1 @ 1\""), BOX_AT "\"0:4 / 1 @ 1\" (something behind it), "},
    {LAYOUT, HOLD_BOX("\"0:4 / 1,1\""), BOX_AT "\"0:4 / 1,1\" (more strides than dimensions), "},
    {LAYOUT, HOLD_BOX("\"0:4, 0:2 / 1\""), BOX_AT "\"0:4, 0:2 / 1\" (fewer strides than dimensions), "},
    {LAYOUT, HOLD_BOX("\"0:4 / -1\""), BOX_AT "\"0:4 / -1\" (out of range), "},
    {LAYOUT, HOLD_BOX("\"0:4\\t\""), BOX_AT "\"0:4\\x09\" (something behind it), "},
    {LAYOUT, HOLD_BOX("\"0:4, 0:2\", 0:4"),
     ":5:74: holdings[0].boxes[1]: found 1 dimensions, expected 2, as in the first box"},
};
