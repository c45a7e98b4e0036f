/* SPDX-License-Identifier: Apache-2.0 */
/** The compiler from documents to a verified plan, in process, over the built-in layouts. */

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compile.h"
#include "harness.h"
#include "routing/pieces.h"
#include "shunt/verify.h"

/** A compiled move and what was said about it. */
struct compiled {
    enum shunt_status status;
    void *bytes;
    size_t size;
    struct shunt_plan *plan;
    struct shunt_err err;
};

static void layout_path(char *path, size_t room, const char *name)
{
    bool own = strncmp(name, "rows-", 5) == 0; /* documents of this test */
    snprintf(path, room, "%s/layouts/%s.yaml", own ? SHUNT_SOURCE_PLANS "/../tests/planner" : SHUNT_SOURCE_PLANS, name);
}

static struct compiled compile(const char *from, const char *to, struct compile_options options)
{
    struct compiled result = {0};
    struct compile_documents documents;
    char from_path[512], to_path[512];
    layout_path(from_path, sizeof(from_path), from);
    layout_path(to_path, sizeof(to_path), to);
    options.from_path = from_path;
    options.to_path = to_path;
    result.status = compile_load(&options, &documents, stderr);
    if (result.status != SHUNT_OK)
        return result;
    result.status = compile_plan(&options, &documents, &result.bytes, &result.size, &result.err);
    if (result.status == SHUNT_OK)
        result.status = shunt_plan_open_memory(result.bytes, result.size, &result.plan, &result.err);
    compile_unload(&documents);
    return result;
}

static void release(struct compiled *compiled)
{
    shunt_plan_close(compiled->plan);
    free(compiled->bytes);
}

static void check_verified(const struct compiled *compiled, const char *what)
{
    struct shunt_err err = {0};
    struct shunt_verify_report *report = malloc(sizeof(*report));
    CHECK_MSG(compiled->status == SHUNT_OK, "%s: %s", what, compiled->err.text);
    if (report != NULL && compiled->status == SHUNT_OK)
        CHECK_MSG(shunt_plan_verify(compiled->plan, report, &err) == SHUNT_OK, "%s: %s", what, err.text);
    free(report);
}

/* Moves whose figures are known by hand or by arithmetic alone. */
static const struct {
    const char *from, *to;
    uint64_t devices, needed; /* needed: bytes, UINT64_MAX where it is not worked out */
} moves[] = {
    {"gpt2-tp4-pp2", "gpt2-tp2-pp4", 8, UINT64_MAX},
    {"gpt2-tp2-pp4", "gpt2-tp2-pp2-dp2", 8, UINT64_MAX},
    {"gpt2-tp2-pp2-dp2", "gpt2-tp4-pp2", 8, UINT64_MAX},
    {"gpt2-tp2-pp2-dp2", "gpt2-tp2-pp2-dp2", 8, 0},
    {"gpt2-tp1-dp8", "gpt2-tp4-pp2", 8, 0},
    {"gpt3-6.7b-tp4-pp2", "gpt3-6.7b-tp4-pp4", 16, UINT64_MAX},
    {"llama-2-7b-tp4-dp4", "llama-2-7b-tp4-pp2-dp2", 16, UINT64_MAX},
    {"llama-3-8b-tp4-pp2", "llama-3-8b-tp2-pp4", 8, UINT64_MAX},
    {"llama-3-70b-tp8-pp4", "llama-3-70b-tp4-pp8", 32, UINT64_MAX},
    {"rows-fsdp8", "rows-fsdp4", 8, 0}, /* rank r keeps row r; the empty shards of ranks 4 to 7 are let go */
    {"rows-fsdp4", "rows-fsdp8", 8, 0},
    {"rows-old", "rows-unlike", 12, UINT64_MAX}, /* copies that are cut unlike */
    {"rows-unlike", "rows-old", 12, UINT64_MAX},
};

static void moves_verify(void)
{
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        char what[128];
        snprintf(what, sizeof(what), "%s -> %s", moves[i].from, moves[i].to);
        struct compiled compiled = compile(moves[i].from, moves[i].to, (struct compile_options){0});
        check_verified(&compiled, what);
        if (compiled.status == SHUNT_OK) {
            const struct shunt_plan_summary *summary = shunt_plan_get_summary(compiled.plan);
            CHECK_EQ_U64(shunt_plan_get_header(compiled.plan)->device_count, moves[i].devices);
            CHECK_EQ_U64(summary->moved, summary->needed_remote + summary->relayed);
            CHECK_EQ_U64(summary->intra_node + summary->inter_node, summary->moved);
            CHECK_MSG(moves[i].needed == UINT64_MAX || summary->moved == moves[i].needed, "%s", what);
            CHECK_MSG(summary->predicted_seconds >= summary->lower_bound_seconds, "%s", what);
            CHECK_MSG(summary->peak >= summary->peak_lower_bound && summary->peak <= summary->cap, "%s", what);
        }
        release(&compiled);
    }
}

/** Small seeded generator (splitmix64): the caps of the next test are the same everywhere. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/** The greedy method meets the same caps, and refuses the same. */
static void check_greedy(const char *from, const char *to, uint64_t cap, bool met)
{
    const struct compile_options options = {.cap_given = true, .cap = cap, .method = METHOD_GREEDY};
    struct compiled compiled = compile(from, to, options);
    if (met)
        check_verified(&compiled, "greedy");
    else
        CHECK(compiled.status == SHUNT_ERR_INFEASIBLE);
    if (compiled.status == SHUNT_OK)
        CHECK(shunt_plan_get_summary(compiled.plan)->peak <= cap);
    release(&compiled);
}

static void caps_of(const char *from, const char *to, int count)
{
    struct compiled free_run = compile(from, to, (struct compile_options){.cap_given = true, .cap = UINT64_C(1) << 50});
    CHECK_MSG(free_run.status == SHUNT_OK, "%s", free_run.err.text);
    if (free_run.status != SHUNT_OK)
        return;
    uint64_t least = shunt_plan_get_summary(free_run.plan)->least_cap, state = 7;
    release(&free_run);

    for (int i = 0; i < count; i++) {
        uint64_t cap = i == 0 ? least : least + next_random(&state) % least;
        struct compiled compiled = compile(from, to, (struct compile_options){.cap_given = true, .cap = cap});
        char what[160];
        snprintf(what, sizeof(what), "%s -> %s under %llu", from, to, (unsigned long long)cap);
        check_verified(&compiled, what);
        if (compiled.status == SHUNT_OK) {
            CHECK_EQ_U64(shunt_plan_get_summary(compiled.plan)->least_cap, least);
            CHECK_MSG(shunt_plan_get_summary(compiled.plan)->peak <= cap, "%s", what);
        }
        release(&compiled);
        check_greedy(from, to, cap, true);
    }
    check_greedy(from, to, least - 1, false);
    struct compiled below = compile(from, to, (struct compile_options){.cap_given = true, .cap = least - 1});
    char least_text[64];
    snprintf(least_text, sizeof(least_text), "least cap that would do is %llu B", (unsigned long long)least);
    CHECK(below.status == SHUNT_ERR_INFEASIBLE);
    CHECK_CONTAINS(below.err.text, least_text);
    CHECK_CONTAINS(below.err.text, "rank");
    CHECK_CONTAINS(below.err.text, "is 1 B short");
    release(&below);
}

static void caps_are_law(void)
{
    caps_of("gpt2-tp4-pp2", "gpt2-tp2-pp4", 20);
    caps_of("gpt2-tp2-pp4", "gpt2-tp2-pp2-dp2", 20);
    caps_of("gpt2-tp2-pp2-dp2", "gpt2-tp4-pp2", 20);
}

static void staging_is_respected(void)
{
    static const uint64_t sizes[] = {1 << 20, 3 << 20, 16 << 20, 100 << 20, 1 << 30};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct compiled compiled = compile("gpt2-tp4-pp2", "gpt2-tp2-pp4",
                                           (struct compile_options){.staging_given = true, .staging = sizes[i]});
        if (compiled.status == SHUNT_ERR_INFEASIBLE) {
            unsigned long long staging = 0, missing = 0, least = 0;
            unsigned device = UINT32_MAX, rank = UINT32_MAX;
            int found = sscanf(compiled.err.text,
                               "infeasible: staging %llu B is %llu B short on device %u (new rank %u): it cannot hold "
                               "one chunk; the least staging that would do is %llu B",
                               &staging, &missing, &device, &rank, &least);
            CHECK_MSG(found == 5 && staging == sizes[i] && staging + missing == least && device < 8 && rank < 8, "%s",
                      compiled.err.text);
            CHECK(i == 0);
            continue;
        }
        check_verified(&compiled, "staging");
        CHECK_MSG(shunt_plan_get_summary(compiled.plan)->staging <= sizes[i], "staging %llu",
                  (unsigned long long)sizes[i]);
        release(&compiled);
    }
}

static void same_input_same_bytes(void)
{
    struct compiled a = compile("gpt2-tp4-pp2", "gpt2-tp2-pp4", (struct compile_options){0});
    struct compiled b = compile("gpt2-tp4-pp2", "gpt2-tp2-pp4", (struct compile_options){0});
    CHECK_EQ_U64(a.size, b.size);
    CHECK(a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0);
    release(&a);
    release(&b);
}

/** Parts are made by several threads, in any order. */
static void threads_do_not_show(void)
{
    const uint32_t threads[] = {1, 2, 5, 64};
    struct compiled one = {0};
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        struct compiled compiled =
            compile("llama-3-70b-tp8-pp4", "llama-3-70b-tp4-pp8", (struct compile_options){.threads = threads[i]});
        CHECK_MSG(compiled.status == SHUNT_OK, "%s", compiled.err.text);
        CHECK_MSG(i == 0 || (compiled.size == one.size && memcmp(compiled.bytes, one.bytes, one.size) == 0),
                  "%u threads", threads[i]);
        release(i == 0 ? &(struct compiled){0} : &compiled);
        one = i == 0 ? compiled : one;
    }
    release(&one);
}

static void unlike_models_are_refused(void)
{
    struct compiled compiled = compile("gpt2-tp4-pp2", "llama-3-8b-tp2-pp4", (struct compile_options){0});
    CHECK(compiled.status == SHUNT_ERR_INPUT);
    release(&compiled);
}

/** What would not fit in memory is refused before it is made. */
static void too_many_pieces_are_refused(void)
{
    pieces_most = 1000;
    struct compiled compiled = compile("gpt2-tp1-dp8", "gpt2-tp4-pp2", (struct compile_options){0});
    CHECK(compiled.status == SHUNT_ERR_UNSUPPORTED);
    CHECK_CONTAINS(compiled.err.text, "from at least 1");
    CHECK_CONTAINS(compiled.err.text, "the memory of this machine is enough to plan with 1000");
    release(&compiled);
    pieces_most = 0;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/** What is said of a move of a layout to itself; the problem is in the diagnostics or in the error. */
static void check_said(const char *layout, const char *want)
{
    struct compile_options options = {.from_path = "l.yaml", .to_path = "l.yaml"};
    struct compile_documents documents;
    struct shunt_err err = {0};
    void *bytes = NULL;
    size_t size, length;
    char *log;
    FILE *diag = open_memstream(&log, &length);
    write_text("l.yaml", layout);
    enum shunt_status status = compile_load(&options, &documents, diag);
    if (status == SHUNT_OK) {
        status = compile_plan(&options, &documents, &bytes, &size, &err);
        compile_unload(&documents);
    }
    fclose(diag);
    CHECK(status == SHUNT_ERR_INPUT || status == SHUNT_ERR_IO);
    CHECK_STR(err.text[0] != '\0' ? err.text : log, want);
    free(bytes);
    free(log);
}

static void messages_say_where(void)
{
    static const struct {
        const char *layout, *want;
    } rows[] = {
        {"kind: layout\nname: l\nmodel: m.yaml\ncluster: c.yaml\nparallel: {dp: 3}\n",
         "l.yaml:5:11: parallel: found 3 ranks, expected at most 2, the devices of c.yaml"},
        {"kind: layout\nname: l\nmodel: m.yaml\ncluster: c.yaml\nmesh: {names: [dp], shape: [4]}\n"
         "placements:\n  - {placements: [Replicate]}\n",
         "l.yaml:5:7: mesh: found 4 ranks, expected at most 2, the devices of c.yaml"},
        {"kind: layout\nname: l\nmodel: m.yaml\ncluster: c.yaml\nranks: 3\nstate: {param: bf16}\nholdings:\n"
         "  - {ranks: 0-2, tensor: layer.0.w, states: [param], shape: [4], boxes: [\"0:4\"]}\n",
         "l.yaml:5:8: ranks: found 3 ranks, expected at most 2, the devices of c.yaml"},
        {"kind: layout\nname: l\nmodel: m.yaml\ncluster: c.yaml\nparallel: {dp: 2}\ndevices: [0, 2]\n",
         "l.yaml:6:10: devices: found device 2 for rank 1, expected less than 2, the devices of c.yaml"},
        {"kind: layout\nname: l\nmodel: gpt2-142m\nparallel: {}\n",
         "l.yaml:3:8: model: found no document for \"gpt2-142m\" (did you mean `gpt2-124m`?), expected \"gpt2-142m\" "
         "or "
         "\"plans/models/gpt2-142m.yaml\"\n"},
        {"kind: layout\nname: l\nmodel: m.yaml\ncluster: h1oo\nparallel: {}\n",
         "l.yaml:4:10: cluster: found no document for \"h1oo\", expected \"h1oo\" or \"plans/clusters/h1oo.yaml\"\n"},
        {"kind: layout\nname: l\nparallel: {}\n",
         "l.yaml:1:1: model: found nothing, expected the name of a model document (or --model)\n"},
    };
    char folder[] = "/tmp/shunt-compile-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    CHECK(mkdir("plans", 0700) == 0 && mkdir("plans/models", 0700) == 0);
    write_text("m.yaml", "kind: model\nname: m\nlayers: 1\ntensors:\n  - {name: \"layer.{i}.w\", shape: [4]}\n");
    write_text("c.yaml", "kind: cluster\nname: c\ndevices_per_node: 2\nnodes: 1\ndevice: {memory: 1 GB}\n"
                         "links: {intra_node: 1 GB/s, inter_node: 1 GB/s}\ncopy: 1 GB/s\n");
    write_text("plans/models/gpt2-124m.yaml", "x\n");
    setenv("SHUNT_PLANS", "plans", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_said(rows[i].layout, rows[i].want);
    unsetenv("SHUNT_PLANS");
    CHECK(unlink("l.yaml") == 0 && unlink("m.yaml") == 0 && unlink("c.yaml") == 0);
    CHECK(unlink("plans/models/gpt2-124m.yaml") == 0 && rmdir("plans/models") == 0 && rmdir("plans") == 0);
    CHECK(chdir("/") == 0 && rmdir(folder) == 0);
}

static const struct test_case cases[] = {
    {"built-in moves verify", moves_verify},
    {"caps are law", caps_are_law},
    {"staging is respected", staging_is_respected},
    {"same input, same bytes", same_input_same_bytes},
    {"threads do not show", threads_do_not_show},
    {"unlike models are refused", unlike_models_are_refused},
    {"too many pieces are refused", too_many_pieces_are_refused},
    {"messages say where", messages_say_where},
};
TEST_MAIN(cases)
