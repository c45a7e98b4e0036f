/* SPDX-License-Identifier: Apache-2.0 */

/* The YAML loader: files and what they name. */
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/mem.h"
#include "config/rig.h"
#include "harness.h"

#define PLANS SHUNT_SOURCE_PLANS

/* Call `use` for each YAML file of a folder; at least `least` of them. */
static void for_each_file(const char *folder, int least, void (*use)(const char *path))
{
    DIR *dir = opendir(folder);
    int count = 0;
    CHECK_MSG(dir != NULL, "%s", folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0)
            continue;
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        use(path);
        count++;
    }
    if (dir != NULL)
        closedir(dir);
    CHECK_MSG(count >= least, "%s has %d", folder, count);
}

static bool named_after_file(const char *name, const char *path)
{
    const char *base = strrchr(path, '/') + 1;
    return strlen(base) == strlen(name) + 5 && strncmp(base, name, strlen(name)) == 0;
}

/* Tensors with layers and experts expanded, and elements by kind. A tied copy counts once. */
struct model_size {
    int64_t tensors, weights, buffers;
};

static struct model_size size_of_model(const struct cfg_model *model)
{
    struct model_size size = {0};
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct cfg_tensor *tensor = &model->tensors[t];
        int64_t copies = cfg_tensor_layers(tensor) * (tensor->expert ? model->experts : 1), elements = copies;
        for (uint32_t d = 0; d < tensor->ndim; d++)
            elements *= tensor->shape[d];
        size.tensors += copies;
        *(tensor->kind == CFG_KIND_WEIGHT ? &size.weights : &size.buffers) += elements;
    }
    return size;
}

/*
 * Published totals count router selection biases, which are buffers here: 256 a layer on 58 layers of
 * DeepSeek-V3 and one more in its MTP block (11,610,068,224 in all), 128 on 23 layers of Nemotron-3-Nano.
 */
static const struct {
    const char *name;
    int64_t tensors, total, buffers;
} known_models[] = {
    {"gpt2-124m", 148, INT64_C(124439808), 0},
    {"gpt3-6.7b", 388, INT64_C(6658404352), 0},
    {"gpt3-175b", 1156, INT64_C(174604259328), 0},
    {"llama-2-7b", 195, INT64_C(6738415616), 0},
    {"llama-2-13b", 243, INT64_C(13015864320), 0},
    {"llama-2-70b", 483, INT64_C(68976648192), 0},
    {"llama-3-8b", 195, INT64_C(8030261248), 0},
    {"llama-3-70b", 483, INT64_C(70553706496), 0},
    {"llama-3.1-405b", 759, INT64_C(405853388800), 0},
    {"qwen2.5-7b", 199, INT64_C(7615616512), 0},
    {"qwen3-8b", 291, INT64_C(8190735360), 0},
    {"qwen3-30b-a3b", 12627, INT64_C(30532122624), 0},
    {"qwen3-235b-a22b", 24725, INT64_C(235093634560), 0},
    {"mixtral-8x7b", 675, INT64_C(46702792704), 0},
    {"deepseek-v3", 30486, INT64_C(671026419200), 58 * 256},
    {"deepseek-v3-mtp", 30486 + 529, INT64_C(671026419200) + INT64_C(11610068224), 59 * 256},
    {"gpt-oss-120b", 18759, INT64_C(116829156672), 0},
    {"nemotron-h-8b", 303, INT64_C(8100852736), 0},
    {"nemotron-h-56b", 681, INT64_C(56324350464), 0},
    {"nemotron-3-nano-30b-a3b", 6231, INT64_C(31577940288), 23 * 128},
};

#define KNOWN_MODELS (sizeof(known_models) / sizeof(known_models[0]))

static void use_model(const char *path)
{
    struct cfg_model *model = NULL;
    size_t k = 0;
    CHECK_MSG(cfg_model_load(path, &model, stdout) == SHUNT_OK, "%s", path);
    CHECK_MSG(model != NULL && named_after_file(model->name, path), "%s", path);
    if (model == NULL)
        return;
    while (k < KNOWN_MODELS && strcmp(model->name, known_models[k].name) != 0)
        k++;
    CHECK_MSG(k < KNOWN_MODELS, "%s", path);
    if (k < KNOWN_MODELS) {
        struct model_size size = size_of_model(model);
        CHECK_EQ_U64(size.tensors, known_models[k].tensors);
        CHECK_EQ_U64(size.buffers, known_models[k].buffers);
        CHECK_EQ_U64(size.weights, known_models[k].total - known_models[k].buffers);
    }
    cfg_model_free(model);
}

/* tp divides heads, kv_heads or the other way round, and every part that is cut; what is padded is left out. */
static bool is_legal_tp(const struct cfg_model *model, int64_t tp)
{
    bool legal = model->heads % tp == 0;
    if (model->kv_heads != 0)
        legal = legal && (model->kv_heads % tp == 0 || tp % model->kv_heads == 0);
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const struct cfg_tensor *tensor = &model->tensors[t];
        for (uint32_t s = 0; s < tensor->segment_count && !tensor->pad_vocab && !tensor->expert; s++)
            legal = legal && tensor->segments[s] % tp == 0;
    }
    return legal;
}

/* All tp up to 256 under which the dense tensors can be cut. */
static void knows_legal_tp(void)
{
    static const struct {
        const char *models, *want;
    } rows[] = {
        {"gpt2-124m", "1 2 3 4 6 12 "},
        {"gpt3-175b", "1 2 3 4 6 8 12 16 24 32 48 96 "},
        {"llama-2-13b", "1 2 4 8 "},
        {"qwen2.5-7b", "1 2 4 "},
        {"llama-2-7b llama-3-8b qwen3-8b qwen3-30b-a3b mixtral-8x7b", "1 2 4 8 16 32 "},
        {"llama-2-70b llama-3-70b qwen3-235b-a22b gpt-oss-120b", "1 2 4 8 16 32 64 "},
        {"llama-3.1-405b deepseek-v3 deepseek-v3-mtp", "1 2 4 8 16 32 64 128 "},
        {"nemotron-h-8b nemotron-h-56b nemotron-3-nano-30b-a3b", "1 2 4 8 "},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        char models[128], *rest = models;
        snprintf(models, sizeof(models), "%s", rows[r].models);
        for (const char *name; (name = strsep(&rest, " ")) != NULL;) {
            char path[4096], found[128] = "";
            struct cfg_model *model = NULL;
            snprintf(path, sizeof(path), PLANS "/models/%s.yaml", name);
            CHECK_MSG(cfg_model_load(path, &model, stdout) == SHUNT_OK, "%s", name);
            for (int tp = 1; model != NULL && tp <= 256; tp++) {
                if (is_legal_tp(model, tp))
                    snprintf(found + strlen(found), sizeof(found) - strlen(found), "%d ", tp);
            }
            CHECK_MSG(strcmp(found, rows[r].want) == 0, "%s: %s, expected %s", name, found, rows[r].want);
            cfg_model_free(model);
        }
    }
}

static void use_cluster(const char *path)
{
    struct cfg_cluster *cluster = NULL;
    CHECK_MSG(cfg_cluster_load(path, &cluster, stdout) == SHUNT_OK, "%s", path);
    CHECK_MSG(cluster != NULL && named_after_file(cluster->name, path), "%s", path);
    cfg_cluster_free(cluster);
}

/* "MODEL-RANKS-..." */
static bool is_named_after_ranks(const struct cfg_layout *layout)
{
    size_t length = strlen(layout->model);
    if (strncmp(layout->name, layout->model, length) != 0 || layout->name[length] != '-')
        return true;
    char *end;
    long ranks = strtol(layout->name + length + 1, &end, 10);
    return end == layout->name + length + 1 || (*end == '-' && ranks == cfg_layout_world(layout));
}

/* Resolve what the layout names. */
static void use_layout(const char *path)
{
    struct cfg_layout *layout = NULL;
    CHECK_MSG(cfg_layout_load(path, &layout, stdout) == SHUNT_OK, "%s", path);
    CHECK_MSG(layout != NULL && named_after_file(layout->name, path), "%s", path);
    if (layout != NULL) {
        CHECK_MSG(is_named_after_ranks(layout), "%s", path);
        char *model = cfg_resolve(path, layout->model, "models", stdout);
        char *cluster = cfg_resolve(path, layout->cluster, "clusters", stdout);
        CHECK_MSG(model != NULL && cluster != NULL, "%s", path);
        free(model);
        free(cluster);
    }
    cfg_layout_free(layout);
}

static void use_seed(const char *path)
{
    struct cfg_model *model = NULL;
    struct cfg_cluster *cluster = NULL;
    struct cfg_layout *layout = NULL;
    struct cfg_ladder *ladder = NULL;
    struct cfg_index *index = NULL;
    int refused = cfg_model_load(path, &model, NULL) != SHUNT_OK;
    refused += cfg_cluster_load(path, &cluster, NULL) != SHUNT_OK;
    refused += cfg_layout_load(path, &layout, NULL) != SHUNT_OK;
    refused += cfg_ladder_load(path, &ladder, NULL) != SHUNT_OK;
    refused += cfg_index_load(path, &index, NULL) != SHUNT_OK;
    CHECK_MSG(refused >= 4, "%s", path);
    cfg_ladder_free(ladder);
    cfg_index_free(index);
    cfg_model_free(model);
    cfg_cluster_free(cluster);
    cfg_layout_free(layout);
}

/* The message is in a file beside it. */
static void use_refused(const char *path)
{
    char want_path[4096], want[512] = "", *log;
    size_t length;
    struct cfg_layout *layout = NULL;
    snprintf(want_path, sizeof(want_path), "%.*s.txt", (int)strlen(path) - 5, path);
    FILE *want_file = fopen(want_path, "r");
    CHECK_MSG(want_file != NULL && fgets(want, sizeof(want), want_file) != NULL, "%s", want_path);
    if (want_file != NULL)
        fclose(want_file);
    FILE *diag = open_memstream(&log, &length);
    CHECK_MSG(cfg_layout_load(path, &layout, diag) == SHUNT_ERR_INPUT, "%s", path);
    fclose(diag);
    CHECK(strncmp(log, path, strlen(path)) == 0);
    CHECK_STR(log + strlen(path), want);
    free(log);
    cfg_layout_free(layout);
}

static struct cfg_layout *load_step_layout(const struct cfg_ladder *ladder, const char *reference)
{
    struct cfg_layout *layout = NULL;
    char *path = cfg_resolve(ladder->path, reference, "layouts", stdout);
    CHECK_MSG(path != NULL && cfg_layout_load(path, &layout, stdout) == SHUNT_OK, "%s", reference);
    free(path);
    return layout;
}

/* Both layouts are there, on the cluster of the step, and of one model. */
static void check_step(const struct cfg_ladder *ladder, const struct cfg_ladder_step *step)
{
    struct cfg_layout *from = load_step_layout(ladder, step->from), *to = load_step_layout(ladder, step->to);
    if (from != NULL && to != NULL) {
        CHECK_MSG(strcmp(from->model, to->model) == 0, "%s", step->name);
        CHECK_MSG(strcmp(from->cluster, step->cluster) == 0 && strcmp(to->cluster, step->cluster) == 0, "%s",
                  step->name);
        CHECK_MSG(memcmp(from->state_dtype, to->state_dtype, sizeof(from->state_dtype)) == 0, "%s", step->name);
    }
    cfg_layout_free(from);
    cfg_layout_free(to);
}

/* Each of the eight steps, and the extra one, comes at least once and in order. */
static void use_ladder(const char *path)
{
    struct cfg_ladder *ladder = NULL;
    char number = '1';
    CHECK_MSG(cfg_ladder_load(path, &ladder, stdout) == SHUNT_OK, "%s", path);
    CHECK_MSG(ladder != NULL && named_after_file(ladder->name, path), "%s", path);
    for (uint32_t s = 0; ladder != NULL && s < ladder->step_count; s++) {
        const char *name = ladder->steps[s].name;
        CHECK_MSG(name[0] == number || name[0] == number + 1, "%s", name);
        number = name[0];
        check_step(ladder, &ladder->steps[s]);
    }
    CHECK(number == '9');
    cfg_ladder_free(ladder);
}

static void loads_built_ins(void)
{
    setenv("SHUNT_PLANS", PLANS, 1);
    for_each_file(PLANS "/models", KNOWN_MODELS, use_model);
    for_each_file(PLANS "/clusters", 9, use_cluster);
    for_each_file(PLANS "/layouts", 153, use_layout);
    for_each_file(PLANS "/ladders", 1, use_ladder);
    for_each_file(PLANS "/../tests/planner/config/refused", 3, use_refused);
    for_each_file(PLANS "/../tests/planner/config/corpus", 12, use_seed);
    unsetenv("SHUNT_PLANS");
}

static void tells_missing_files(void)
{
    char *log;
    size_t length;
    FILE *diag = open_memstream(&log, &length);
    struct cfg_model *model = NULL;
    struct cfg_layout *layout = NULL;
    CHECK_EQ_U64(cfg_model_load("/nonexistent/m.yaml", &model, diag), SHUNT_ERR_IO);
    CHECK_EQ_U64(cfg_layout_load("/", &layout, diag), SHUNT_ERR_IO);
    fclose(diag);
    CHECK_STR(log, "/nonexistent/m.yaml: cannot read: No such file or directory\n/: cannot read: Is a directory\n");
    CHECK(model == NULL && layout == NULL);
    free(log);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void check_resolve(const char *from, const char *reference, const char *want, const char *want_log)
{
    char *log;
    size_t length;
    FILE *diag = open_memstream(&log, &length);
    char *got = cfg_resolve(from, reference, "models", diag);
    fclose(diag);
    if (want != NULL)
        CHECK_STR(got, want);
    else
        CHECK_MSG(got == NULL, "%s", got);
    CHECK_STR(log, want_log);
    free(got);
    free(log);
}

static void resolves(void)
{
    char folder[] = "/tmp/shunt-config-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    CHECK(mkdir("docs", 0700) == 0 && mkdir("plans", 0700) == 0 && mkdir("plans/models", 0700) == 0);
    CHECK(mkdir("docs/both", 0700) == 0);
    write_text("docs/mine.yaml", "x\n");
    write_text("plans/models/both.yaml", "x\n");
    setenv("SHUNT_PLANS", "plans", 1);
    check_resolve("docs/l.yaml", "mine.yaml", "docs/mine.yaml", "");
    check_resolve("docs/l.yaml", "./mine.yaml", "docs/./mine.yaml", "");
    check_resolve("docs/l.yaml", "both", "plans/models/both.yaml", ""); /* docs/both is a folder */
    check_resolve(NULL, "both", "plans/models/both.yaml", "");
    check_resolve("l.yaml", "docs/mine.yaml", "docs/mine.yaml", "");
    check_resolve(
        "docs/l.yaml", "gone", NULL,
        "docs/l.yaml: found no document for \"gone\", expected \"docs/gone\" or \"plans/models/gone.yaml\"\n");
    check_resolve("docs/l.yaml", "boht", NULL,
                  "docs/l.yaml: found no document for \"boht\" (did you mean `both`?), expected \"docs/boht\" or "
                  "\"plans/models/boht.yaml\"\n");
    check_resolve("docs/l.yaml", "../models/both", NULL,
                  "docs/l.yaml: found no document for \"../models/both\", expected \"docs/../models/both\"\n");
    check_resolve("docs/l.yaml", "/gone", NULL, "docs/l.yaml: found no document for \"/gone\", expected \"/gone\"\n");
    unsetenv("SHUNT_PLANS");
    char *built_in = cfg_resolve("docs/l.yaml", "gpt2-124m", "models", stdout);
    CHECK(built_in != NULL);
    free(built_in);
    CHECK(unlink("docs/mine.yaml") == 0 && unlink("plans/models/both.yaml") == 0 && rmdir("plans/models") == 0);
    CHECK(rmdir("plans") == 0 && rmdir("docs/both") == 0 && rmdir("docs") == 0 && chdir("/") == 0);
    CHECK(rmdir(folder) == 0);
}

static void survives_failed_allocations_of_files(void)
{
    struct cfg_model *model = NULL;
    char *log;
    size_t length;
    FILE *diag = open_memstream(&log, &length);
    cfg_mem_fail_after(0);
    CHECK_EQ_U64(cfg_model_load(SHUNT_SOURCE_PLANS "/models/gpt2-124m.yaml", &model, diag), SHUNT_ERR_NOMEM);
    for (long failures = 0; failures < 2; failures++) {
        cfg_mem_fail_after(failures);
        CHECK(cfg_resolve("a/b.yaml", "gpt2-124m", "models", diag) == NULL);
    }
    cfg_mem_fail_after(-1);
    fclose(diag);
    CHECK(model == NULL && count_lines(log) == 3);
    CHECK_CONTAINS(log, "/models/gpt2-124m.yaml: out of memory\n");
    CHECK_CONTAINS(log, "\na/b.yaml: out of memory\n");
    free(log);
}

static const struct test_case cases[] = {
    {"survives-failed-allocations-of-files", survives_failed_allocations_of_files},
    {"loads-built-ins", loads_built_ins},
    {"knows-legal-tp", knows_legal_tp},
    {"tells-missing-files", tells_missing_files},
    {"resolves", resolves},
};

TEST_MAIN(cases)
