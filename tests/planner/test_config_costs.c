/* SPDX-License-Identifier: Apache-2.0 */

/* The YAML loader: what a document may cost. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/rig.h"
#include "config/text_check.h"
#include "harness.h"

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

static double cpu_seconds(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6;
}

/** CPU seconds that may be spent where a quiet machine needs less than one: others share its caches and cores. */
static double limit_seconds(void)
{
    struct rusage before, after;
    volatile uint64_t state = 1;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 20000000; i++)
        state = state * UINT64_C(6364136223846793005) + 1;
    getrusage(RUSAGE_SELF, &after);
    double quiet = 0.02, now = cpu_seconds(&after) - cpu_seconds(&before);
    return now > quiet ? now / quiet : 1.0;
}

/*
 * Load in a child with a small stack; it must refuse with `want` within a second of CPU time and 64 MiB, which
 * those bytes come on top of that only a document with a large list may have.
 */
static void refuses_cheaply(const char *name, enum kind kind, const char *bytes, size_t size, const char *want)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit stack = {512 << 10, 512 << 10};
        if (!UNDER_ASAN)
            setrlimit(RLIMIT_STACK, &stack);
        struct loaded loaded = load_bytes(kind, bytes, size);
        bool good = loaded.status == SHUNT_ERR_INPUT && strstr(loaded.log, want) != NULL;
        if (!good)
            fprintf(stderr, "# %s: %s", name, loaded.log);
        _exit(good ? 0 : 1);
    }
    int state = -1;
    struct rusage usage = {0};
    CHECK(child > 0 && wait4(child, &state, 0, &usage) == child);
    double seconds = cpu_seconds(&usage);
    CHECK_MSG(WIFEXITED(state) && WEXITSTATUS(state) == 0, "%s", name);
    CHECK_MSG(UNDER_ASAN || seconds < limit_seconds(), "%s took %.2f s", name, seconds);
    long most = (64 << 10) + (long)(size > CFG_MAX_BYTES ? size >> 10 : 0);
    CHECK_MSG(UNDER_ASAN || usage.ru_maxrss < most, "%s took %ld KiB", name, usage.ru_maxrss);
}

static void refuses_alias_bombs(void)
{
    char text[2048] = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int level = 1; level <= 9; level++) {
        size_t used = strlen(text);
        int n = snprintf(text + used, sizeof(text) - used, "a%d: &a%d [", level, level);
        used += (size_t)n;
        for (int k = 0; k < 9; k++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s*a%d", k == 0 ? "" : ", ", level - 1);
        snprintf(text + used, sizeof(text) - used, "]\n");
    }
    refuses_cheaply("bomb", LAYOUT, text, strlen(text), "a5[1]: found more than 200000 values after expanding aliases");
    static const char loop[] = "layout: &loop [*loop]\n";
    refuses_cheaply("loop", LAYOUT, loop, sizeof(loop) - 1, "inside its own anchor");
}

/* Nesting by aliases alone: each level wraps the one before. */
static void refuses_deep_aliases(void)
{
    char text[8192] = "a0: &a0 [x]\n";
    for (int level = 1; level < 70; level++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "a%d: &a%d [*a%d]\n", level, level, level - 1);
    refuses_cheaply("deep aliases", LAYOUT, text, strlen(text), "a63[0]: found nesting deeper than 64");
}

/* `head`, then `unit` over and over up to `size` bytes in all, then `tail`. */
struct bulk_row {
    const char *name, *head, *unit, *tail;
    size_t size;
    const char *want;
};

#define BOX_LIST_10 "0:1, 0:1, 0:1, 0:1, 0:1, 0:1, 0:1, 0:1, 0:1, 0:1, "
#define BOX_LIST_50 BOX_LIST_10 BOX_LIST_10 BOX_LIST_10 BOX_LIST_10 BOX_LIST_10
#define BOXES_HEAD                                                                                                     \
    LAYOUT_HEAD                                                                                                        \
    "ranks: 1\nholdings:\n- {ranks: 1, tensor: a, states: [param], shape: [9], boxes: &b [" BOX_LIST_50 BOX_LIST_50    \
        BOX_LIST_50 BOX_LIST_50 "]}\n"

static const struct bulk_row bulk_rows[] = {
    {"20000 brackets", "", "[", "", 20000, ":1:65: [0][0]"},
    {"20000 brackets, a line each", "", "[\n", "", 40000, ":65:1: [0][0]"},
    {"braces", "", "{a: ", "", 80000, "found nesting deeper than 64, expected less"},
    {"dashes", "", "- ", "", CFG_MAX_BYTES, "found nesting deeper than 64, expected less"},
    {"question marks", "", "? ", "", CFG_MAX_BYTES, "found nesting deeper than 64, expected less"},
    {"brackets in a full document", "", "[", "", CFG_MAX_BYTES, "found nesting deeper than 64, expected less"},
    {"one byte too many", MODEL_HEAD, "#", "", CFG_MAX_BYTES + 1,
     "found more than 8388608 bytes, expected a smaller document"},
    {"one byte too many without holdings", "", "a", "", CFG_MAX_BYTES + 1,
     "found more than 8388608 bytes without values of `holdings`, expected a smaller document"},
    {"one plain scalar", "", "a", "", CFG_MAX_BYTES, "found a text of 8388608 bytes, expected at most 65536"},
    {"one quoted scalar", "\"", "\\n", "\"", CFG_MAX_BYTES, "found a text of 4194303 bytes, expected at most 65536"},
    {"one literal", "a: |\n", " x\n", "", CFG_MAX_BYTES, "a: found a text of"},
    {"65537 bytes", "", "a", "", 65537, "found a text of 65537 bytes, expected at most 65536"},
    {"spaces", "", " ", "", CFG_MAX_BYTES, "found an empty document"},
    {"line ends", "", "\n", "", CFG_MAX_BYTES, "found an empty document"},
    {"comments", "", "#\n", "", CFG_MAX_BYTES, "found an empty document"},
    {"pairs", "", "a: b\n", "", CFG_MAX_BYTES, "found more than 200000 values"},
    {"lists", "[", "[],", "]", CFG_MAX_BYTES, "found more than 200000 values"},
    {"scalar aliases", "a: &a x\nb: [", "*a,", "]", CFG_MAX_BYTES, "found more than 200000 values"},
    {"tags", "", "- !x a\n", "", CFG_MAX_BYTES, "found the tag \"!x\""},
    {"tag directives", "%FOO\n", "%TAG !x! y\n", "", CFG_MAX_BYTES, "found a line that starts with `%`"},
    {"tag directives behind a document", "a: b\n...\n", "%TAG !x! y\n", "", CFG_MAX_BYTES, "found a line that starts"},
    {"documents", "", "---\n", "", CFG_MAX_BYTES, "found a second document"},
    {"unknown keys", "kind: layout\n", "\"?\": 1\n", "", 600000, "found an unknown key"},
    {"a long key", "? ", "a", ": b", CFG_MAX_BYTES, "found a text of"},
    {"a long anchor", "&", "a", " x", CFG_MAX_BYTES, "expected a mapping"},
    {"numbers in short layers", MODEL_HEAD, "- {name: \"a.{i}\", shape: [1], layers: 0-65535}\n", "", 800000,
     "tensors[64].layers: found more than 4194304 numbers in all lists of the document, expected fewer"},
    {"numbers in short ranks", HOLD_HEAD, "- {ranks: 0-1048575, tensor: a, states: [param], shape: [0]}\n", "", 600000,
     "holdings[4].ranks: found more than 4194304 numbers in all lists of the document, expected fewer"},
    {"equal rules", MESH_HEAD, "- {placements: [Shard(0), Shard(0)]}\n", "", 800000, "a second rule for `param`"},
    {"aliases in holdings", LAYOUT_HEAD "ranks: 1\na: &a [x, x, x, x, x, x, x, x, x]\nholdings: [", "*a, ", "]", 600000,
     "holdings[19998]: found more than 200000 values after expanding aliases"},
    {"boxes by alias", BOXES_HEAD, "- {ranks: 1, tensor: a, states: [param], shape: [9], boxes: *b}\n", "", 60000,
     "found rank 1, expected ranks below `ranks`, which is 1"},
    {"equal tensors", MODEL_HEAD, "- {name: a, shape: [1], stage: all}\n", "", 800000,
     "a second time, layers and experts expanded"},
    {"one byte too many with holdings", "", "a", "", CFG_MAX_BULK_BYTES + 1,
     "found more than 67108864 bytes, expected"},
    {"many comments", "", "#\n", "", CFG_MAX_BULK_BYTES, "found more than 8388608 bytes without values of `holdings`"},
    {"one large scalar", "", "a", "", CFG_MAX_BULK_BYTES, "found more than 8388608 bytes without values of `holdings`"},
    {"comments in holdings", "holdings: [\n", "#\n", "", CFG_MAX_BULK_BYTES,
     "holdings[0]: found more than 8388608 bytes without values of `holdings`, expected a smaller document"},
    {"one scalar in holdings", "holdings: [", "a", "", CFG_MAX_BULK_BYTES,
     "holdings[0]: found more than 8388608 bytes"},
    {"other lists behind holdings", "holdings: [a]\nb: [", "[], ", "", CFG_MAX_BULK_BYTES, "found more than 200000"},
};

static void refuses_bulk(void)
{
    for (size_t r = 0; r < sizeof(bulk_rows) / sizeof(bulk_rows[0]); r++) {
        const struct bulk_row *row = &bulk_rows[r];
        char *bytes = malloc(row->size);
        if (bytes == NULL)
            abort();
        size_t unit = strlen(row->unit), tail = strlen(row->tail), used = strlen(row->head);
        memcpy(bytes, row->head, used);
        for (; used + unit + tail <= row->size; used += unit)
            memcpy(bytes + used, row->unit, unit);
        memcpy(bytes + used, row->tail, tail);
        enum kind kind = strcmp(row->head, MODEL_HEAD) == 0 ? MODEL : LAYOUT;
        refuses_cheaply(row->name, kind, bytes, used + tail, row->want);
        free(bytes);
    }
}

/* Entries of a large document: 2 ranks, 2 states and a box each, of one tensor in all. */
static char *many_holdings(size_t count, size_t *size_out)
{
    char *text;
    FILE *file = open_memstream(&text, size_out);
    if (file == NULL)
        abort();
    fputs(LAYOUT_HEAD "ranks: 64\nholdings:\n", file);
    for (size_t i = 0; i < count; i++)
        fprintf(file,
                "  - {ranks: \"%zu,%zu\", tensor: layer.%zu.weight, states: [param, master], shape: [25, 16], "
                "boxes: [\"%zu:%zu, 0:16 @ 0\"]}\n",
                i % 32, 32 + i % 32, i / 64, i * 25, i * 25 + 25);
    fclose(file);
    return text;
}

static double load_many_holdings(size_t count)
{
    size_t size;
    char *text = many_holdings(count, &size);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    struct loaded loaded = load_bytes(LAYOUT, text, size);
    getrusage(RUSAGE_SELF, &after);
    CHECK_STR(loaded.log, "");
    CHECK(loaded.layout != NULL && loaded.layout->holding_count == count);
    if (loaded.layout != NULL)
        CHECK(loaded.layout->holdings[count - 1].boxes->lo[0] == (int64_t)(count - 1) * 25);
    unload(&loaded);
    free(text);
    return cpu_seconds(&after) - cpu_seconds(&before);
}

/* Far more values than another document may have; and about as many as this one may. */
static void reads_many_holdings(void)
{
    double seconds = load_many_holdings(20000);
    CHECK_MSG(UNDER_ASAN || seconds < limit_seconds(), "%.2f s", seconds);
    if (!UNDER_ASAN)
        load_many_holdings(240000);
}

static void refuses_too_many_holdings(void)
{
    size_t size;
    if (UNDER_ASAN)
        return;
    char *text = many_holdings(260000, &size);
    struct loaded loaded = load_bytes(LAYOUT, text, size);
    CHECK_CONTAINS(loaded.log, ": found more than 4000000 values, expected a smaller document\n");
    unload(&loaded);
    free(text);
}

/* As many names as there may be, of which each is there twice. */
static void refuses_many_equal_names(void)
{
    static const char text[] = "kind: model\nname: m\nlayers: 1024\nexperts: 512\ntensors:\n"
                               "- {name: \"layer.{i}.moe.expert.{e}.gate_up.weight\", shape: [2]}\n"
                               "- {name: \"layer.{i}.moe.expert.{e}.gate_up.weight\", shape: [2]}\n";
    refuses_cheaply("equal names", MODEL, text, sizeof(text) - 1,
                    ":7:3: tensors[1].name: found the name \"layer.0.moe.expert.0.gate_up.weight\" a second time");
}

static void refuses_many_anchors(void)
{
    char text[8192] = "";
    for (int i = 0; i < 257; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "- &a%d x\n", i);
    refuses_cheaply("anchors", LAYOUT, text, strlen(text), "[256]: found more than 256 anchors, expected fewer");
}

static const struct test_case cases[] = {
    {"refuses-alias-bombs", refuses_alias_bombs},
    {"refuses-deep-aliases", refuses_deep_aliases},
    {"refuses-bulk", refuses_bulk},
    {"reads-many-holdings", reads_many_holdings},
    {"refuses-too-many-holdings", refuses_too_many_holdings},
    {"refuses-many-equal-names", refuses_many_equal_names},
    {"refuses-many-anchors", refuses_many_anchors},
};

TEST_MAIN(cases)
