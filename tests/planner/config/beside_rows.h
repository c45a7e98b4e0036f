/* SPDX-License-Identifier: Apache-2.0 */

/* Refusals of the state beside the tensors, and of the axes that it goes by. */

#ifndef SHUNT_TESTS_BESIDE_ROWS_H
#define SHUNT_TESTS_BESIDE_ROWS_H

#include "error_rows.h"

#define OTHER(entry)  MODEL_TENSOR "other_state: [" entry "]\n"
#define GROUPS        "param_groups: [{name: a, identity: wd 0.1, dtype: fp64}, {name: b, identity: wd 0, dtype: fp64}]\n"
#define GROUPED(rest) MODEL_HEAD "- {name: t, shape: [2], stage: all" rest "}\n" GROUPS

static const struct error_row beside_rows[] = {
    /* entries */
    {MODEL, OTHER("{name: s}"),
     ":6:15: other_state[0].dtype: found no such key, expected the element type, or `bytes`"},
    {MODEL, OTHER("{name: s, policy: keep, dtype: i64}"),
     ":6:33: other_state[0].policy: found \"keep\", expected `copy`, `copy-if-same`, `recompute` or `leave`"},
    {MODEL, OTHER("{name: s, bytes: 4, dtype: u8}"), "other_state[0].bytes: found it beside `dtype` or `count`"},
    {MODEL, OTHER("{name: s, bytes: 4, count: 2}"), "other_state[0].bytes: found it beside `dtype` or `count`"},
    {MODEL, OTHER("{name: s, bytes: 0}"), "other_state[0].bytes: found \"0\""},
    {MODEL, OTHER("{name: s, bytes: 1073741825}"), "other_state[0].bytes: found \"1073741825\""},
    {MODEL, OTHER("{name: a/b, bytes: 4}"), "other_state[0].name: found \"a/b\""},
    {MODEL, OTHER("{name: s, bytes: 4, why: \"a\\tb\"}"), "other_state[0].why: found "},
    {MODEL, OTHER("{name: s, bytes: 4, policy: leave}"),
     "other_state[0].bytes: found it with policy `leave`, expected it in entries that are copied only"},
    {MODEL, OTHER("{name: s, policy: recompute, per: [dp]}"),
     "other_state[0].per: found it with policy `recompute`, expected it in entries that are copied only"},
    {MODEL, OTHER("{name: s, policy: recompute, otherwise: leave}"), "other_state[0].otherwise: found it with policy"},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy, per: [pp]}"),
     "other_state[0].per: found it with policy `copy`, expected policy `copy-if-same`"},
    {MODEL, OTHER("{name: s, bytes: 4, otherwise: reseed}"),
     "other_state[0].otherwise: found it with policy `copy`, expected it with `copy-if-same` only"},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy-if-same}"),
     "other_state[0].per: found no such key, expected the axes along which copies differ"},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy-if-same, per: []}"), "other_state[0].per: found "},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy-if-same, per: [xp]}"), "other_state[0].per[0]: found \"xp\""},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy-if-same, per: [pp, pp]}"), "other_state[0].per[1]: found \"pp\""},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy-if-same, per: [pp], otherwise: drop}"),
     "other_state[0].otherwise: found \"drop\", expected `leave`, `reseed`, `recompute` or `refuse`"},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy-if-same, per: [tp, ep]}"),
     "other_state[0].per: found keys of both grids of ranks, expected pp, dp, cp and tp, or pp, ep and etp"},
    {MODEL, OTHER("{name: s, bytes: 4, policy: copy-if-same, per: [pp, etp]}"),
     "other_state[0].per: found ep or etp in a model without `experts`"},
    {MODEL, MODEL_TENSOR "include: [megatron-state]\n", ":6:10: include: found a list"},
    {MODEL, MODEL_TENSOR "include: deepspeed\n",
     ":6:10: include: found \"deepspeed\", expected `megatron-state` or `megatron-state-fp16`"},
    /* names */
    {MODEL, OTHER("{name: t, bytes: 4}"), ":6:15: other_state[0].name: found the name \"t\" a second time"},
    {MODEL, OTHER("{name: s, bytes: 4}, {name: s, policy: leave}"),
     ":6:36: other_state[1].name: found the name \"s\" a second time"},
    {MODEL, OTHER("{name: s, bytes: 4}") "scalars: [{name: s, dtype: i64}]\n",
     ":6:15: other_state[0].name: found the name \"s\" a second time, layers and experts expanded (first on line 7)"},
    {MODEL, GROUPED(", group: a") "scalars: [{name: b, dtype: i64}]\n",
     "param_groups[1].name: found the name \"b\" a second time"},
    {MODEL, MODEL_HEAD "- {name: rng.cuda, shape: [2], stage: all}\ninclude: megatron-state\n",
     ":6:10: include: found the name \"rng.cuda\" a second time, layers and experts expanded (first on line 5)"},
    /* parameter groups: H8 */
    {MODEL,
     MODEL_TENSOR "param_groups: [{name: a, identity: wd 1, dtype: fp64}, {name: b, identity: wd 1, dtype: i8}]\n",
     ":6:56: param_groups[1].identity: found \"wd 1\", as on line 6, expected groups that can be told apart whatever "
     "their order"},
    {MODEL, MODEL_TENSOR "param_groups: [{name: a, dtype: fp64}]\n", "param_groups[0].identity: found no such key"},
    {MODEL, GROUPED(""), ":5:3: tensors[0].group: found no such key, expected the group that the tensor belongs to"},
    {MODEL, GROUPED(", group: c"), ":5:3: tensors[0].group: found a group that `param_groups` does not list"},
    {MODEL, GROUPED(", group: a, kind: buffer"), ":5:3: tensors[0].group: found a group for a buffer, expected none"},
    {MODEL, MODEL_HEAD "- {name: t, shape: [2], stage: all, group: a}\n",
     ":5:3: tensors[0].group: found a group that `param_groups` does not list"},
    /* axes of holdings */
    {LAYOUT, LAYOUT_BASE "axes: {tp: 2}\n",
     ":4:7: axes: found it in a layout with `parallel`, expected it with `holdings`"},
    {LAYOUT, LAYOUT_HEAD "ranks: 1\naxes: {vpp: 2}\nholdings:\n- {ranks: 0, tensor: t, states: [param], shape: [0]}\n",
     ":4:8: axes.vpp: found an unknown key"},
    {LAYOUT, LAYOUT_HEAD "ranks: 1\naxes: {pp: 0}\nholdings:\n- {ranks: 0, tensor: t, states: [param], shape: [0]}\n",
     ":4:12: axes.pp: found \"0\""},
};

#endif
