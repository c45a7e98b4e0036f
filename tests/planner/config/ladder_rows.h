/* SPDX-License-Identifier: Apache-2.0 */

/* Ladders and indices of plans: what is refused, one a row. */

#ifndef SHUNT_TESTS_LADDER_ROWS_H
#define SHUNT_TESTS_LADDER_ROWS_H

#include "error_rows.h"

#define FILE_NAME "expected 1 to 100 letters, digits, `.`, `_` or `-`, the first no `.` or `-`"

static const struct error_row ladder_rows[] = {
    {LADDER, "kind: ladder\nname: l\nsteps: []\n",
     ":3:8: steps: found a list (of 0), expected a list of 1 to 4096 mappings"},
    {LADDER, "kind: ladder\nname: l\n", ":1:1: steps: found no such key"},
    {LADDER, LADDER_HEAD "- {name: a, from: b}\n", ":4:3: steps[0].to: found no such key"},
    {LADDER, LADDER_HEAD "- {name: a, from: b, to: c, form: d}\n",
     ":4:29: steps[0].form: found an unknown key (did you mean `from`?)"},
    {LADDER, LADDER_HEAD "- {name: a/b, from: b, to: c}\n", ":4:10: steps[0].name: found \"a/b\", " FILE_NAME},
    {LADDER, LADDER_HEAD "- {name: .., from: b, to: c}\n", ":4:10: steps[0].name: found \"..\", " FILE_NAME},
    {LADDER, LADDER_HEAD "- {name: -a, from: b, to: c}\n", ":4:10: steps[0].name: found \"-a\", " FILE_NAME},
    {LADDER, LADDER_HEAD "- {name: \"a b\", from: b, to: c}\n", ":4:10: steps[0].name: found \"a b\", " FILE_NAME},
    {LADDER, LADDER_HEAD "- {name: \"\", from: b, to: c}\n", ":4:10: steps[0].name: found \"\", " FILE_NAME},
    {LADDER, LADDER_HEAD "- {name: \"a\\u00e9\", from: b, to: c}\n", "steps[0].name: found \"a\xc3\xa9\", " FILE_NAME},
    {LADDER, LADDER_HEAD "- {name: " HEX_64("a") HEX_16("b") HEX_16("c") "defgh, from: b, to: c}\n",
     ":4:10: steps[0].name: found \"aaaa"},
    {LADDER, LADDER_HEAD "- {name: x, from: b, to: c}\n- {name: z, from: b, to: c}\n- {name: X, from: b, to: c}\n",
     ":6:3: steps[2].name: found the name `X` a second time (first on line 4), expected unique names"},
    {LADDER, LADDER_HEAD "- {name: a, from: b, to: c, cap: 5}\n", ":4:34: steps[0].cap: found \"5\""},
    {LADDER, LADDER_HEAD "- {name: a, from: b, to: c, cap: 0 B}\n",
     ":4:34: steps[0].cap: found \"0 B\" (out of range)"},
    {LADDER, LADDER_HEAD "- {name: a, from: b, to: c, staging: 4096 TiB}\n",
     ":4:38: steps[0].staging: found \"4096 TiB\" (out of range)"},
    {LADDER, LAYOUT_BASE, ":1:7: kind: found a layout document, expected kind `ladder`"},
    {LAYOUT, LADDER_HEAD "- {name: a, from: b, to: c}\n",
     ":1:7: kind: found a ladder document, expected kind `layout`"},
    {INDEX, "{\"kind\": \"index\", \"ladder\": \"l\"}\n", ":1:1: plans: found no such key"},
    {INDEX, INDEX_HEAD INDEX_TEXTS("1", "1.plan", "m") INDEX_COUNTS("-1") "]}\n",
     ": plans[0].bytes: found \"-1\" (out of range)"},
    {INDEX, INDEX_HEAD INDEX_TEXTS("1", "../1.plan", "m") INDEX_COUNTS("1") "]}\n",
     ": plans[0].plan: found \"../1.plan\", expected the name of a step and `.plan`"},
    {INDEX, INDEX_HEAD "{\"plan_id\": \"" HEX_64("A") "\"}]}\n", "expected a digest of 64 hexadecimal digits"},
    {INDEX, INDEX_HEAD "{\"plan_id\": \"" HEX_64("a") "0\"}]}\n", "expected a digest of 64 hexadecimal digits"},
};

#endif
