/* SPDX-License-Identifier: Apache-2.0 */

/* The YAML loader: what it refuses and with which words, what it accepts, and what it may cost. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/beside_rows.h"
#include "config/engine.h"
#include "config/error_rows.h"
#include "config/form_rows.h"
#include "config/ladder.h"
#include "config/ladder_rows.h"
#include "config/load.h"
#include "config/mem.h"
#include "config/rule_rows.h"
#include "config/scalar.h"
#include "config/suggest.h"
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

/* ---- loading a text -------------------------------------------------------------- */

struct loaded {
    enum shunt_status status;
    struct cfg_model *model;
    struct cfg_cluster *cluster;
    struct cfg_layout *layout;
    struct cfg_ladder *ladder;
    struct cfg_index *index;
    char *log;
};

static struct loaded load_bytes(enum kind kind, const char *bytes, size_t size)
{
    struct loaded loaded = {0};
    size_t length;
    FILE *diag = open_memstream(&loaded.log, &length);
    if (diag == NULL)
        abort();
    if (kind == MODEL)
        loaded.status = cfg_model_load_memory("t", bytes, size, &loaded.model, diag);
    else if (kind == CLUSTER)
        loaded.status = cfg_cluster_load_memory("t", bytes, size, &loaded.cluster, diag);
    else if (kind == LAYOUT)
        loaded.status = cfg_layout_load_memory("t", bytes, size, &loaded.layout, diag);
    else if (kind == LADDER)
        loaded.status = cfg_ladder_load_memory("t", bytes, size, &loaded.ladder, diag);
    else
        loaded.status = cfg_index_load_memory("t", bytes, size, &loaded.index, diag);
    fclose(diag);
    return loaded;
}

static struct loaded load_text(enum kind kind, const char *text)
{
    return load_bytes(kind, text, strlen(text));
}

static void unload(struct loaded *loaded)
{
    cfg_model_free(loaded->model);
    cfg_cluster_free(loaded->cluster);
    cfg_layout_free(loaded->layout);
    cfg_ladder_free(loaded->ladder);
    cfg_index_free(loaded->index);
    free(loaded->log);
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* ---- refusals --------------------------------------------------------------------- */

static void check_rows(const struct error_row *rows, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        const struct error_row *row = &rows[r];
        struct loaded loaded = load_text(row->kind, row->text);
        CHECK_MSG(loaded.status == SHUNT_ERR_INPUT, "row %zu: %s", r, row->text);
        CHECK_MSG(loaded.model == NULL && loaded.cluster == NULL && loaded.layout == NULL, "row %zu", r);
        CHECK_MSG(loaded.ladder == NULL && loaded.index == NULL, "row %zu", r);
        CHECK_MSG(strstr(loaded.log, row->want) != NULL, "row %zu: \"%s\" lacks \"%s\"", r, loaded.log, row->want);
        CHECK_MSG(strncmp(loaded.log, "t:", 2) == 0, "row %zu: %s", r, loaded.log);
        unload(&loaded);
    }
}

static void refuses(void)
{
    check_rows(error_rows, sizeof(error_rows) / sizeof(error_rows[0]));
}

static void refuses_forms(void)
{
    check_rows(form_rows, sizeof(form_rows) / sizeof(form_rows[0]));
}

static void refuses_ladders(void)
{
    check_rows(ladder_rows, sizeof(ladder_rows) / sizeof(ladder_rows[0]));
}

static void refuses_rules(void)
{
    check_rows(rule_rows, sizeof(rule_rows) / sizeof(rule_rows[0]));
}

static void refuses_beside(void)
{
    check_rows(beside_rows, sizeof(beside_rows) / sizeof(beside_rows[0]));
}

static void refuses_nul_bytes(void)
{
    static const char text[] = "kind: layout\nname: a\0b\nparallel: {}\n";
    struct loaded loaded = load_bytes(LAYOUT, text, sizeof(text) - 1);
    CHECK_EQ_U64(loaded.status, SHUNT_ERR_INPUT);
    CHECK_STR(loaded.log, "t:2:8: document: found a NUL byte, expected text\n");
    unload(&loaded);
}

static void reports_all_problems(void)
{
    struct loaded loaded = load_text(LAYOUT, "kind: layout\n"
                                             "name: no\n"
                                             "parallel: {tp: 010, pq: 2}\n"
                                             "order: tp-tp\n"
                                             "vocab: {padded: 1.5}\n");
    CHECK_EQ_U64(loaded.status, SHUNT_ERR_INPUT);
    CHECK_EQ_U64(count_lines(loaded.log), 5);
    CHECK_CONTAINS(loaded.log, "t:2:7: name:");
    CHECK_CONTAINS(loaded.log, "\nt:3:16: parallel.tp:");
    CHECK_CONTAINS(loaded.log, "\nt:3:21: parallel.pq:");
    CHECK_CONTAINS(loaded.log, "\nt:4:8: order:");
    CHECK_CONTAINS(loaded.log, "\nt:5:17: vocab.padded:");
    unload(&loaded);
}

/* A faulty tensor does not hide faults of others, nor those that only show in the whole model. */
static void reports_problems_of_all_tensors(void)
{
    struct loaded loaded = load_text(MODEL, "kind: model\nname: m\nlayers: 2\nheads: 3\nkv_heads: 2\ntensors:\n"
                                            "- {name: a, shape: [0], stage: all}\n"
                                            "- {name: \"b.{i}\", shape: [4], cut: {dim: 0, segments: [1, 2]}}\n"
                                            "- {name: b.1, shape: [4], stage: all}\n"
                                            "- {name: \"c.{i}\", shape: [4], layers: {to: 3}}\n");
    CHECK_EQ_U64(count_lines(loaded.log), 5);
    CHECK_CONTAINS(loaded.log, "tensors[0].shape[0]:");
    CHECK_CONTAINS(loaded.log, "tensors[1].cut.segments:");
    CHECK_CONTAINS(loaded.log, "tensors[2].name: found the name \"b.1\" a second time");
    CHECK_CONTAINS(loaded.log, "tensors[3].layers:");
    CHECK_CONTAINS(loaded.log, "kv_heads:");
    unload(&loaded);
}

static void bounds_the_report(void)
{
    char text[4096] = "kind: layout\nname: x\nparallel: {}\n";
    for (int i = 0; i < 60; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "key%d: 1\n", i);
    struct loaded loaded = load_text(LAYOUT, text);
    CHECK_EQ_U64(count_lines(loaded.log), 51);
    CHECK_CONTAINS(loaded.log, "\nt: 10 more problems\n");
    unload(&loaded);
}

static void cuts_long_texts(void)
{
    char text[2048] = "kind: layout\nname: x\nparallel: {tp: ";
    memset(text + strlen(text), 'w', 1000);
    strcat(text, "}\n");
    struct loaded loaded = load_text(LAYOUT, text);
    CHECK_CONTAINS(loaded.log, "wwww...\" (not a number), expected");
    CHECK(strlen(loaded.log) < 300);
    unload(&loaded);
}

/* ---- what is accepted ---------------------------------------------------------------- */

static const char full_model[] =
    "kind: model\n"
    "name: \"010\"\n"
    "layers: 6\n"
    "heads: 8\n"
    "kv_heads: 2\n"
    "experts: 3\n"
    "tensors:\n"
    "  - {name: embed, shape: [10, 4], stage: first, cut: {dim: 0, pad: vocab}, tied: last}\n"
    "  - {name: \"l.{i}.gu\", shape: [12, 4], cut: {dim: 0, segments: [8, 4]}}\n"
    "  - {name: \"l.{i}.o\", shape: [3, 5, 7], cut: {dim: 2}, layers: {from: 3, to: 5}}\n"
    "  - {name: \"l.{i}.o\", shape: [3], layers: {from: 5}}\n"
    "  - {name: bias, shape: [3], stage: last, kind: buffer, dtype: fp32}\n"
    "  - {name: rope, shape: [1], stage: all, kind: weight}\n"
    "  - {name: \"l.{i}.e.{e}.up\", shape: [4, 2], cut: {dim: 0, segments: [2, 2]}, layers: \"0,2-3, 5\"}\n"
    "  - {name: \"mtp.e.{e}.up\", shape: [4, 2], stage: mtp}\n"
    "  - {name: norm, shape: [4], stage: final}\n"
    "  - {name: both, shape: [4], stage: first, tied: [mtp, last]}\n"
    "  - {name: other, shape: [4], stage: first, tied: mtp}\n"
    "  - {name: \"l.{i}.q\", shape: [4], layers: [1, 4]}\n"
    "  - {name: \"l.{i}.r\", shape: [4], layers: 5}\n"
    "scalars:\n"
    "  - {name: step, dtype: i64}\n"
    "  - {name: rng, dtype: u8, count: 5056}\n";

static void check_full_tensors(const struct cfg_tensor *tensors)
{
    CHECK(tensors[0].stage == CFG_STAGE_FIRST && tensors[0].tied_last && tensors[0].pad_vocab);
    CHECK(!tensors[0].tied_mtp && !tensors[0].expert && cfg_tensor_layers(&tensors[0]) == 1);
    CHECK(cfg_tensor_layers(&tensors[2]) == 2 && cfg_tensor_layer(&tensors[2], 1) == 4);
    CHECK(tensors[0].ndim == 2 && tensors[0].shape[0] == 10 && tensors[0].shape[1] == 4);
    CHECK(tensors[0].cut_dim == 0 && tensors[0].segment_count == 1 && tensors[0].segments[0] == 10);
    CHECK(tensors[0].layer_begin == 0 && tensors[0].layer_end == 6 && tensors[0].dtype == -1);
    CHECK(tensors[0].pos.line == 8 && tensors[0].pos.column == 5 && tensors[0].kind == CFG_KIND_WEIGHT);
    CHECK(tensors[1].stage == CFG_STAGE_LAYER && !tensors[1].tied_last && !tensors[1].pad_vocab);
    CHECK(tensors[1].segment_count == 2 && tensors[1].segments[0] == 8 && tensors[1].segments[1] == 4);
    CHECK(tensors[2].cut_dim == 2 && tensors[2].segments[0] == 7);
    CHECK(tensors[2].layer_begin == 3 && tensors[2].layer_end == 5);
    CHECK(tensors[3].layer_begin == 5 && tensors[3].layer_end == 6);
    CHECK(tensors[3].cut_dim == -1 && tensors[3].segments == NULL && tensors[3].segment_count == 0);
    CHECK(tensors[4].stage == CFG_STAGE_LAST && tensors[4].kind == CFG_KIND_BUFFER);
    CHECK(tensors[4].dtype == SHUNT_DTYPE_FP32 && tensors[5].stage == CFG_STAGE_ALL);
}

/* Layers as a list: the bounds hold all of them. */
static void check_layer_list(const struct cfg_tensor *tensor, int64_t count, const int64_t *want)
{
    CHECK(tensor->layer_list != NULL && tensor->layer_count == count && cfg_tensor_layers(tensor) == count);
    CHECK(tensor->layer_begin == want[0] && tensor->layer_end == want[count - 1] + 1);
    for (int64_t k = 0; k < count; k++)
        CHECK_MSG(cfg_tensor_layer(tensor, k) == want[k], "%s: %" PRId64, tensor->name, k);
}

static void check_full_experts(const struct cfg_tensor *tensors)
{
    static const int64_t some[] = {0, 2, 3, 5}, two[] = {1, 4}, one[] = {5};
    CHECK(tensors[6].expert && tensors[6].stage == CFG_STAGE_LAYER && tensors[6].segment_count == 2);
    CHECK(tensors[7].expert && tensors[7].stage == CFG_STAGE_MTP && cfg_tensor_layers(&tensors[7]) == 1);
    CHECK(!tensors[8].expert && tensors[8].stage == CFG_STAGE_FINAL);
    CHECK(tensors[9].tied_last && tensors[9].tied_mtp && !tensors[10].tied_last && tensors[10].tied_mtp);
    CHECK(tensors[1].layer_list == NULL && tensors[1].layer_count == 0);
    check_layer_list(&tensors[6], 4, some);
    check_layer_list(&tensors[11], 2, two);
    check_layer_list(&tensors[12], 1, one);
}

static void reads_a_model(void)
{
    struct loaded loaded = load_text(MODEL, full_model);
    CHECK_STR(loaded.log, "");
    CHECK_EQ_U64(loaded.status, SHUNT_OK);
    if (loaded.model != NULL) {
        const struct cfg_model *model = loaded.model;
        CHECK_STR(model->path, "t");
        CHECK_STR(model->name, "010");
        CHECK(model->layers == 6 && model->heads == 8 && model->kv_heads == 2);
        CHECK(model->experts == 3 && model->mtp);
        CHECK(model->tensor_count == 13 && model->scalar_count == 2);
        check_full_tensors(model->tensors);
        check_full_experts(model->tensors);
        CHECK_STR(model->scalars[0].name, "step");
        CHECK(model->scalars[0].dtype == SHUNT_DTYPE_I64 && model->scalars[0].count == 1);
        CHECK(model->scalars[1].dtype == SHUNT_DTYPE_U8 && model->scalars[1].count == 5056);
    }
    unload(&loaded);
}

static const char full_cluster[] = "kind: cluster\n"
                                   "name: c\n"
                                   "devices_per_node: 8\n"
                                   "nodes: 16\n"
                                   "device: {memory: 80 GB, reserve: 1.5 GiB, transport_buffers: 512MiB}\n"
                                   "links: {intra_node: 450 GB/s, inter_node: 0.5 TB/s}\n"
                                   "copy: 1 GiB/s\n"
                                   "costs: {round: 50 us, message: 1.5 ms}\n";

static void reads_a_cluster(void)
{
    struct loaded loaded = load_text(CLUSTER, full_cluster);
    CHECK_STR(loaded.log, "");
    if (loaded.cluster != NULL) {
        const struct cfg_cluster *cluster = loaded.cluster;
        CHECK(cluster->devices_per_node == 8 && cluster->nodes == 16);
        CHECK_EQ_U64(cluster->device_memory, UINT64_C(80000000000));
        CHECK_EQ_U64(cluster->device_reserve, UINT64_C(3) << 29);
        CHECK_EQ_U64(cluster->transport_buffers, UINT64_C(512) << 20);
        CHECK(cluster->intra_node_bytes_per_second == 450e9 && cluster->inter_node_bytes_per_second == 5e11);
        CHECK(cluster->copy_bytes_per_second == 1073741824.0);
        CHECK(cluster->round_seconds == 50e-6 && cluster->message_seconds == 1.5e-3);
    }
    unload(&loaded);
}

static void reads_a_short_cluster(void)
{
    struct loaded loaded = load_text(CLUSTER, CLUSTER_BASE "device: {memory: 1 GB}\n");
    CHECK_STR(loaded.log, "");
    if (loaded.cluster != NULL) {
        CHECK(loaded.cluster->nodes == 0 && loaded.cluster->device_reserve == 0);
        CHECK(loaded.cluster->transport_buffers == 0);
        CHECK(loaded.cluster->round_seconds == 50e-6 && loaded.cluster->message_seconds == 5e-6);
    }
    unload(&loaded);
}

static void reads_a_ladder(void)
{
    struct loaded loaded = load_text(LADDER, full_ladder);
    CHECK_STR(loaded.log, "");
    CHECK_EQ_U64(loaded.status, SHUNT_OK);
    if (loaded.ladder != NULL) {
        const struct cfg_ladder *ladder = loaded.ladder;
        CHECK_STR(ladder->name, "l");
        CHECK_EQ_U64(ladder->step_count, 2);
        const struct cfg_ladder_step *step = ladder->steps;
        CHECK_STR(step[0].name, "a.b-c_1");
        CHECK_STR(step[0].from, "../x.yaml");
        CHECK_STR(step[0].to, "w");
        CHECK_STR(step[0].cluster, "h100");
        CHECK_EQ_U64(step[0].cap, UINT64_C(60) << 30);
        CHECK_EQ_U64(step[0].staging, 512 << 20);
        CHECK(step[0].from_pos.line == 5 && step[0].from_pos.column == 11 && step[0].cluster_pos.line == 7);
        CHECK(step[1].cluster == NULL && step[1].cap == 0 && step[1].staging == 0);
        CHECK(step[1].pos.line == 10 && step[1].to_pos.line == 10 && step[1].to_pos.column == 33);
    }
    unload(&loaded);
}

static void reads_an_index(void)
{
    struct loaded loaded = load_text(INDEX, full_index);
    CHECK_STR(loaded.log, "");
    CHECK_EQ_U64(loaded.status, SHUNT_OK);
    if (loaded.index != NULL) {
        CHECK_STR(loaded.index->ladder, "no");
        CHECK_EQ_U64(loaded.index->entry_count, 2);
        const struct cfg_index_entry *entry = loaded.index->entries;
        CHECK_STR(entry[0].name, "1");
        CHECK_STR(entry[0].file, "1.plan");
        CHECK_STR(entry[0].model, "a \"b\" / \\c\xc3\xa9");
        CHECK(strspn(entry[0].cluster_digest, "d") == 64 && strspn(entry[0].compiler, "c") == 64);
        CHECK(entry[0].cap == 0 && entry[0].staging == 3 && entry[0].bytes == INT64_MAX);
        CHECK(entry[0].devices == 8 && entry[0].rounds == 9 && entry[0].moved == 10 && entry[0].peak == 11);
        CHECK(entry[1].cap == -1 && entry[1].staging == -1 && entry[1].moved == 0);
    }
    unload(&loaded);
    loaded = load_text(INDEX, "{\"kind\": \"index\", \"ladder\": \"l\", \"plans\": []}\n");
    CHECK_STR(loaded.log, "");
    CHECK(loaded.index != NULL && loaded.index->entry_count == 0);
    unload(&loaded);
}

static const char full_layout[] = "kind: layout\n"
                                  "name: x\n"
                                  "model: ../m.yaml\n"
                                  "cluster: c\n"
                                  "parallel: {tp: 2, pp: 3, dp: 2, ep: 4, etp: 1, vpp: 5}\n"
                                  "order: dp-pp-tp-ep\n"
                                  "pipeline: {first: 0, last: 11, count_loss: false}\n"
                                  "vocab: {divisible_by: 64, padded: 50688}\n"
                                  "state: {param: fp16, momentum: fp32, grad: bf16}\n"
                                  "devices: \"8-15, 3,1,20-21\"\n"
                                  "shard:\n"
                                  "  rule: megatron\n"
                                  "  instances: 2\n"
                                  "  bucket: 40000000\n"
                                  "  pad_high_bandwidth: true\n"
                                  "  order: [embed, \"layer.{i}.o\", \"layer.{i}.e.{e}\"]\n";

static void check_full_shard(const struct cfg_shard *shard)
{
    CHECK(shard->rule == CFG_SHARD_MEGATRON && shard->instances == 2 && shard->bucket_elements == 40000000);
    CHECK(shard->pad_high_bandwidth && shard->use_orig_params && shard->pos.line == 12);
    CHECK(shard->order_count == 3 && shard->order_pos.line == 16 && shard->order_pos.column == 10);
    CHECK_STR(shard->order[0], "embed");
    CHECK_STR(shard->order[2], "layer.{i}.e.{e}");
}

static void check_full_layout(const struct cfg_layout *layout)
{
    static const enum cfg_axis order[] = {CFG_AXIS_DP, CFG_AXIS_PP, CFG_AXIS_TP, CFG_AXIS_EP, CFG_AXIS_CP};
    static const uint32_t devices[] = {8, 9, 10, 11, 12, 13, 14, 15, 3, 1, 20, 21};
    CHECK_STR(layout->model, "../m.yaml");
    CHECK_STR(layout->cluster, "c");
    CHECK(layout->model_pos.line == 3 && layout->model_pos.column == 8 && layout->cluster_pos.line == 4);
    CHECK_EQ_U64(cfg_layout_world(layout), 12);
    CHECK(layout->size[CFG_AXIS_TP] == 2 && layout->size[CFG_AXIS_PP] == 3 && layout->size[CFG_AXIS_CP] == 1);
    CHECK(layout->size_pos[CFG_AXIS_PP].line == 5 && layout->size_pos[CFG_AXIS_CP].line == 0);
    CHECK(memcmp(layout->order, order, sizeof(order)) == 0 && layout->order_pos.line == 6);
    CHECK(layout->size[CFG_AXIS_EP] == 4 && layout->etp == 1 && layout->vpp == 5);
    CHECK(layout->etp_pos.line == 5 && layout->vpp_pos.line == 5);
    CHECK(!layout->count_embedding && !layout->count_loss && layout->pipeline_layout == NULL);
    check_full_shard(&layout->shard);
    CHECK(layout->first_stage_layers == 0 && layout->last_stage_layers == 11 && layout->last_stage_pos.line == 7);
    CHECK(layout->vocab_divisible_by == 64 && layout->vocab_padded == 50688 && layout->vocab_pos.line == 8);
    for (int state = 0; state < SHUNT_STATE_COUNT; state++) {
        int32_t want = state == SHUNT_STATE_PARAM      ? SHUNT_DTYPE_FP16
                       : state == SHUNT_STATE_MOMENTUM ? SHUNT_DTYPE_FP32
                       : state == SHUNT_STATE_GRAD     ? SHUNT_DTYPE_BF16
                                                       : -1;
        CHECK_MSG(layout->state_dtype[state] == want, "state %d", state);
    }
    CHECK(layout->device_count == 12 && memcmp(layout->devices, devices, sizeof(devices)) == 0);
}

static void reads_a_layout(void)
{
    struct loaded loaded = load_text(LAYOUT, full_layout);
    CHECK_STR(loaded.log, "");
    if (loaded.layout != NULL)
        check_full_layout(loaded.layout);
    unload(&loaded);
}

static void reads_a_short_layout(void)
{
    struct loaded loaded = load_text(LAYOUT, "\xEF\xBB\xBFkind: layout\r\nname: \"no\"\r\nparallel: {}\r\n");
    CHECK_STR(loaded.log, "");
    if (loaded.layout != NULL) {
        const struct cfg_layout *layout = loaded.layout;
        CHECK_STR(layout->name, "no");
        CHECK(layout->model == NULL && layout->cluster == NULL && layout->model_pos.line == 0);
        CHECK_EQ_U64(cfg_layout_world(layout), 1);
        for (int k = 0; k < CFG_AXIS_COUNT; k++)
            CHECK((int)layout->order[k] == k);
        CHECK(layout->first_stage_layers == -1 && layout->last_stage_layers == -1);
        CHECK(layout->etp == 0 && layout->vpp == 1 && layout->pipeline_layout == NULL);
        CHECK(!layout->count_embedding && !layout->count_loss);
        CHECK(layout->shard.rule == CFG_SHARD_NONE && layout->shard.instances == 1 && layout->shard.pos.line == 0);
        CHECK(layout->shard.bucket_elements == 0 && layout->shard.use_orig_params && layout->shard.order == NULL);
        CHECK(layout->vocab_divisible_by == 128 && layout->vocab_padded == 0);
        CHECK(layout->state_dtype[SHUNT_STATE_PARAM] == SHUNT_DTYPE_BF16);
        CHECK(layout->state_dtype[SHUNT_STATE_EXP_AVG_SQ] == SHUNT_DTYPE_FP32);
        CHECK(layout->state_dtype[SHUNT_STATE_GRAD] == -1 && layout->state_dtype[SHUNT_STATE_BUFFER] == -1);
        CHECK(layout->device_count == 0 && layout->devices == NULL);
    }
    unload(&loaded);
}

static void reads_states_in_full(void)
{
    struct loaded loaded = load_text(LAYOUT, "kind: layout\nname: x\nparallel: {}\ngradients: reduced\n"
                                             "state:\n"
                                             "  param: {dtype: bf16}\n"
                                             "  grad: fp32\n"
                                             "  master: {dtype: i16, tier: device}\n"
                                             "  exp_avg: {scale: per-shard, tier: host, dtype: fp16}\n"
                                             "  exp_avg_sq: {dtype: u8, scale: none}\n");
    static const struct {
        int32_t dtype, tier, scale;
    } want[] = {
        [SHUNT_STATE_PARAM] = {SHUNT_DTYPE_BF16, CFG_TIER_DEVICE, CFG_SCALE_UNSAID},
        [SHUNT_STATE_GRAD] = {SHUNT_DTYPE_FP32, CFG_TIER_DEVICE, CFG_SCALE_UNSAID},
        [SHUNT_STATE_MASTER] = {SHUNT_DTYPE_I16, CFG_TIER_DEVICE, CFG_SCALE_UNSAID},
        [SHUNT_STATE_EXP_AVG] = {SHUNT_DTYPE_FP16, CFG_TIER_HOST, CFG_SCALE_SHARD},
        [SHUNT_STATE_EXP_AVG_SQ] = {SHUNT_DTYPE_U8, CFG_TIER_DEVICE, CFG_SCALE_NONE},
        [SHUNT_STATE_MOMENTUM] = {-1, CFG_TIER_DEVICE, CFG_SCALE_UNSAID},
    };
    CHECK_STR(loaded.log, "");
    for (int s = 0; loaded.layout != NULL && s <= SHUNT_STATE_MOMENTUM; s++) {
        const struct cfg_layout *layout = loaded.layout;
        CHECK_MSG(layout->state_dtype[s] == want[s].dtype && layout->state_tier[s] == want[s].tier &&
                      layout->state_scale[s] == want[s].scale,
                  "state %d: %d %d %d", s, layout->state_dtype[s], layout->state_tier[s], layout->state_scale[s]);
    }
    unload(&loaded);
}

static void reads_device_forms(void)
{
    static const char *const forms[] = {"0-3", "\"0,1,2-3\"", "[0, 1, 2, 3]", "0-0,1-1,2,3"};
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        char text[256];
        snprintf(text, sizeof(text), LAYOUT_BASE "devices: %s\n", forms[f]);
        struct loaded loaded = load_text(LAYOUT, text);
        CHECK_STR(loaded.log, "");
        for (uint32_t d = 0; loaded.layout != NULL && d < 4; d++)
            CHECK_MSG(loaded.layout->devices[d] == d, "%s", forms[f]);
        unload(&loaded);
    }
    struct loaded one = load_text(LAYOUT, LAYOUT_HEAD "parallel: {}\ndevices: 7\n");
    CHECK(one.layout != NULL && one.layout->device_count == 1 && one.layout->devices[0] == 7);
    unload(&one);
}

static const char listed_pipeline[] =
    LAYOUT_BASE "pipeline:\n"
                "  layout: [[embedding, decoder, t], Ett, decoder, [], \"\", [mtp, loss]]\n";

static void reads_pipeline_layouts(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {LAYOUT_BASE "pipeline: {layout: \"Et*3|(tt|)*29,m|L\"}\n", "Et*3|(tt|)*29,m|L"},
        {LAYOUT_BASE "pipeline: {layout: Ett|ttL, count_embedding: false}\n", "Ett|ttL"},
        {LAYOUT_BASE "pipeline: {layout: [Ett, ttL]}\n", "Ett|ttL"},
        {listed_pipeline, "Ett|Ett|t|||mL"},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct loaded loaded = load_text(LAYOUT, rows[r].text);
        CHECK_STR(loaded.log, "");
        if (loaded.layout != NULL) {
            CHECK_STR(loaded.layout->pipeline_layout, rows[r].want);
            CHECK(loaded.layout->pipeline_layout_pos.line != 0);
        }
        unload(&loaded);
    }
}

/* A list that says more letters than a text may have: 9 lists of 9000. */
static void bounds_pipeline_layouts(void)
{
    size_t size = 300000;
    char *text = calloc(1, size), *at = text;
    if (text == NULL)
        abort();
    at += sprintf(at, LAYOUT_BASE "pipeline: {layout: [");
    for (int k = 0; k < 9; k++) {
        at = stpcpy(at, k == 0 ? "[" : ", [");
        for (int i = 0; i < 9000; i++)
            at = stpcpy(at, i == 0 ? "t" : ", t");
        at = stpcpy(at, "]");
    }
    stpcpy(at, "]}\n");
    struct loaded loaded = load_text(LAYOUT, text);
    CHECK_STR(loaded.log, "t:4:20: pipeline.layout: found a list (of more than 65536 letters), expected a text such as "
                          "\"Et*3|(tt|)*29,m|L\", or a list such as [[embedding, decoder], [decoder, loss]]\n");
    unload(&loaded);
    free(text);
}

static void reads_shard_rules(void)
{
    static const struct {
        const char *text;
        enum cfg_shard_rule want;
    } rows[] = {
        {LAYOUT_BASE "shard: {}\n", CFG_SHARD_NONE},
        {LAYOUT_BASE "shard: {rule: none}\n", CFG_SHARD_NONE},
        {LAYOUT_BASE "shard: {rule: zero1, order: [a]}\n", CFG_SHARD_ZERO1},
        {LAYOUT_BASE "shard: {rule: zero2, order: [a]}\n", CFG_SHARD_ZERO1},
        {LAYOUT_BASE "shard: {rule: zero3}\n", CFG_SHARD_ZERO3},
        {LAYOUT_BASE "shard: {rule: fsdp2, instances: 1}\n", CFG_SHARD_FSDP2},
        {LAYOUT_BASE "shard: {rule: fsdp1, instances: 1, use_orig_params: false, order: [a]}\n", CFG_SHARD_FSDP1},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct loaded loaded = load_text(LAYOUT, rows[r].text);
        CHECK_STR(loaded.log, "");
        CHECK_MSG(loaded.layout != NULL && loaded.layout->shard.rule == rows[r].want, "%s", rows[r].text);
        if (loaded.layout != NULL)
            CHECK(loaded.layout->shard.use_orig_params == (rows[r].want != CFG_SHARD_FSDP1));
        unload(&loaded);
    }
}

static const char full_mesh[] =
    "kind: layout\n"
    "name: x\n"
    "placements:\n"
    "- {placements: [\"Shard(0)\", Replicate]}\n"
    "- {tensor: \"l.{i}.qkv\", placements: [\"_StridedShard(0, 2)\", Shard(0)]}\n"
    "- {tensor: \"l.{i}.o\", states: [param, grad], placements: [Shard(dim=5), \"Shard( 1 )\"]}\n"
    "- {tensor: \"l.{i}.o\", states: [master], placements: [\" Replicate ( ) \", \"_StridedShard(dim=3, sf=4)\"]}\n"
    "- {tensor: a, placements: [Replicate(), \"  _StridedShard ( 1,split_factor = 1048576 )\"]}\n"
    "mesh: {names: [dp, tp], shape: [4, 2]}\n"
    "state: {param: bf16, grad: bf16, master: fp32}\n"
    "devices: 8-15\n";

static bool same_placement(const struct cfg_placement *a, const struct cfg_placement *b)
{
    return a->kind == b->kind && a->dim == b->dim && a->split_factor == b->split_factor;
}

static void check_full_rules(const struct cfg_mesh_rule *rules)
{
    static const struct cfg_placement want[][2] = {
        {{CFG_PLACE_SHARD, 0, 0}, {CFG_PLACE_REPLICATE, 0, 0}},
        {{CFG_PLACE_STRIDED, 0, 2}, {CFG_PLACE_SHARD, 0, 0}},
        {{CFG_PLACE_SHARD, 5, 0}, {CFG_PLACE_SHARD, 1, 0}},
        {{CFG_PLACE_REPLICATE, 0, 0}, {CFG_PLACE_STRIDED, 3, 4}},
        {{CFG_PLACE_REPLICATE, 0, 0}, {CFG_PLACE_STRIDED, 1, 1048576}},
    };
    for (uint32_t r = 0; r < sizeof(want) / sizeof(want[0]); r++) {
        CHECK_MSG(rules[r].count == 2 && rules[r].pos.line == 4 + r && rules[r].pos.column == 3, "rule %" PRIu32, r);
        for (int a = 0; a < 2; a++)
            CHECK_MSG(same_placement(&rules[r].placement[a], &want[r][a]), "rule %" PRIu32 ", axis %d", r, a);
    }
    CHECK(rules[0].tensor == NULL);
    CHECK_STR(rules[1].tensor, "l.{i}.qkv");
    for (int state = 0; state < SHUNT_STATE_COUNT; state++) {
        CHECK_MSG(rules[0].state[state] && rules[1].state[state], "state %d", state);
        CHECK_MSG(rules[2].state[state] == (state <= SHUNT_STATE_GRAD), "state %d", state);
        CHECK_MSG(rules[3].state[state] == (state == SHUNT_STATE_MASTER), "state %d", state);
    }
}

/* What belongs to the form `parallel` is as if that had been written with nothing in it. */
static void check_no_parallel(const struct cfg_layout *layout)
{
    for (int k = 0; k < CFG_AXIS_COUNT; k++)
        CHECK(layout->size[k] == 1 && (int)layout->order[k] == k && layout->size_pos[k].line == 0);
    CHECK(layout->etp == 0 && layout->vpp == 1 && layout->pipeline_layout == NULL);
    CHECK(layout->first_stage_layers == -1 && layout->last_stage_layers == -1);
    CHECK(!layout->count_embedding && !layout->count_loss);
    CHECK(layout->shard.rule == CFG_SHARD_NONE && layout->shard.instances == 1 && layout->shard.order == NULL);
    CHECK(layout->vocab_divisible_by == 128 && layout->vocab_padded == 0);
}

static void reads_a_mesh(void)
{
    struct loaded loaded = load_text(LAYOUT, full_mesh);
    CHECK_STR(loaded.log, "");
    if (loaded.layout != NULL) {
        const struct cfg_layout *layout = loaded.layout;
        CHECK(layout->form == CFG_FORM_MESH && cfg_layout_world(layout) == 8);
        CHECK(layout->mesh.axis_count == 2 && layout->mesh.shape[0] == 4 && layout->mesh.shape[1] == 2);
        CHECK_STR(layout->mesh.names[0], "dp");
        CHECK_STR(layout->mesh.names[1], "tp");
        CHECK(layout->mesh.names[2] == NULL && layout->mesh.pos.line == 9 && layout->mesh.pos.column == 7);
        CHECK(layout->device_count == 8 && layout->devices[7] == 15);
        CHECK(layout->ranks == 0 && layout->holding_count == 0 && layout->holdings == NULL);
        CHECK(layout->mesh.rule_count == 5);
        check_full_rules(layout->mesh.rules);
        check_no_parallel(layout);
    }
    unload(&loaded);
}

static void reads_large_meshes(void)
{
    struct loaded six = load_text(
        LAYOUT, LAYOUT_HEAD "mesh: {names: [a, b, c, d, e, f], shape: [16, 16, 16, 16, 16, 1]}\nplacements:\n"
                            "- {placements: [Replicate, Replicate, Replicate, Replicate, Replicate, Shard(0)]}\n");
    CHECK_STR(six.log, "");
    CHECK(six.layout != NULL && cfg_layout_world(six.layout) == 1 << 20);
    unload(&six);
    struct loaded one =
        load_text(LAYOUT, LAYOUT_HEAD "mesh: {names: [world], shape: [1]}\nplacements:\n- {placements: [Shard(0)]}\n");
    CHECK(one.layout != NULL && cfg_layout_world(one.layout) == 1);
    unload(&one);
}

static const char full_holdings[] =
    "kind: layout\n"
    "name: x\n"
    "holdings:\n"
    "- {ranks: \"7,0-2, 4\", tensor: embed.weight, states: [param, master], shape: [25, 16], boxes: [\"0:25, 0:16\"]}\n"
    "- {ranks: 3, tensor: l.0.w, states: [param], shape: [99], copy: true,\n"
    "   boxes: [\" 0 : 2,3:4 @ 7 / 16 , 1\", \"0:1, 0:1/0,0\", \"1:2, 0:1099511627776@72057594037927936\"]}\n"
    "- {ranks: [6, 5], tensor: rope, states: [buffer], shape: [0, 4]}\n"
    "- {ranks: 6, tensor: \"s.{i}\", states: [scalar, blob], shape: [0], boxes: []}\n"
    "- {ranks: 5, tensor: pad, states: [exp_avg], shape: [1, 2, 3, 4, 5, 6], boxes: [], copy: false}\n"
    "ranks: 8\n";

static void check_boxes(const struct cfg_holding *holdings)
{
    const struct cfg_box *box = holdings[0].boxes, *more = holdings[1].boxes;
    CHECK(holdings[0].box_count == 1 && box->ndim == 2 && box->offset == 0 && box->stride_count == 0);
    CHECK(box->lo[0] == 0 && box->hi[0] == 25 && box->lo[1] == 0 && box->hi[1] == 16);
    CHECK(holdings[1].box_count == 3 && more[0].ndim == 2 && more[0].offset == 7 && more[0].stride_count == 2);
    CHECK(more[0].lo[0] == 0 && more[0].hi[0] == 2 && more[0].lo[1] == 3 && more[0].hi[1] == 4);
    CHECK(more[0].stride[0] == 16 && more[0].stride[1] == 1);
    CHECK(more[1].offset == 0 && more[1].stride_count == 2 && more[1].stride[0] == 0 && more[1].stride[1] == 0);
    CHECK(more[2].hi[1] == INT64_C(1) << 40 && more[2].offset == INT64_C(1) << 56 && more[2].stride_count == 0);
}

static void check_full_holdings(const struct cfg_holding *holdings)
{
    static const uint32_t ranks[] = {0, 1, 2, 4, 7};
    CHECK(holdings[0].rank_count == 5 && memcmp(holdings[0].ranks, ranks, sizeof(ranks)) == 0);
    CHECK(holdings[1].rank_count == 1 && holdings[1].ranks[0] == 3);
    CHECK(holdings[2].rank_count == 2 && holdings[2].ranks[0] == 5 && holdings[2].ranks[1] == 6);
    CHECK_STR(holdings[0].tensor, "embed.weight");
    CHECK(holdings[0].pos.line == 4 && holdings[0].pos.column == 3 && holdings[2].pos.line == 7);
    CHECK(!holdings[0].copy && holdings[1].copy && !holdings[2].copy && !holdings[4].copy);
    for (int state = 0; state < SHUNT_STATE_COUNT; state++) {
        CHECK(holdings[0].state[state] == (state == SHUNT_STATE_PARAM || state == SHUNT_STATE_MASTER));
        CHECK(holdings[2].state[state] == (state == SHUNT_STATE_BUFFER));
        CHECK(holdings[3].state[state] == (state == SHUNT_STATE_SCALAR || state == SHUNT_STATE_BLOB));
    }
    CHECK(holdings[0].ndim == 2 && holdings[0].shape[0] == 25 && holdings[0].shape[1] == 16);
    CHECK(holdings[2].ndim == 2 && holdings[2].shape[0] == 0 && holdings[2].box_count == 0);
    CHECK(holdings[4].ndim == 6 && holdings[4].shape[5] == 6 && holdings[4].box_count == 0);
    check_boxes(holdings);
}

static void reads_holdings(void)
{
    struct loaded loaded = load_text(LAYOUT, full_holdings);
    CHECK_STR(loaded.log, "");
    if (loaded.layout != NULL) {
        const struct cfg_layout *layout = loaded.layout;
        CHECK(layout->form == CFG_FORM_HOLDINGS && cfg_layout_world(layout) == 8 && layout->ranks == 8);
        CHECK(layout->mesh.axis_count == 0 && layout->mesh.rule_count == 0 && layout->device_count == 0);
        CHECK(layout->holding_count == 5);
        check_full_holdings(layout->holdings);
        check_no_parallel(layout);
    }
    unload(&loaded);
}

/* Problems of one entry do not hide those of another, nor those between entries, and cause no others. */
static void reports_problems_of_all_entries(void)
{
    struct loaded holdings =
        load_text(LAYOUT, HOLD_HEAD "- {ranks: 9, tensor: a, states: [param], shape: [4], boxes: [\"4:0\"]}\n"
                                    "- {ranks: 0, states: [master], shape: [4], boxes: [\"0:4\"]}\n"
                                    "- {ranks: x, tensor: a, states: [grad], shape: [4], boxes: [\"0:4\"]}\n");
    CHECK_EQ_U64(count_lines(holdings.log), 5);
    CHECK_CONTAINS(holdings.log, "holdings[0].ranks: found rank 9");
    CHECK_CONTAINS(holdings.log, "holdings[0].boxes[0]: found \"4:0\"");
    CHECK_CONTAINS(holdings.log, "holdings[1].tensor: found no such key");
    CHECK_CONTAINS(holdings.log, "holdings[2].ranks: found \"x\"");
    CHECK_CONTAINS(holdings.log, "holdings[2].states: found `grad`");
    unload(&holdings);
    struct loaded mesh = load_text(LAYOUT, MESH_BASE "- {tensor: [a], placements: [Replicate, Replicate]}\n"
                                                     "- {tensor: {a: b}, placements: [Shard(9)]}\n"
                                                     "- {tensor: a, states: [a], placements: [Replicate, Replicate]}\n"
                                                     "- {tensor: a, placements: [Replicate]}\n"
                                                     "state: {param: bfloat}\n");
    CHECK_EQ_U64(count_lines(mesh.log), 6);
    CHECK_CONTAINS(mesh.log, "placements[1].tensor: found a list");
    CHECK_CONTAINS(mesh.log, "placements[2].tensor: found a mapping");
    CHECK_CONTAINS(mesh.log, "placements[2].placements[0]: found \"Shard(9)\"");
    CHECK_CONTAINS(mesh.log, "placements[3].states[0]: found \"a\"");
    CHECK_CONTAINS(mesh.log, "placements[4].placements: found 1 placements");
    CHECK_CONTAINS(mesh.log, "state.param: found \"bfloat\"");
    unload(&mesh);
}

/* Experts lie over the same ranks: 16 of them, whatever ep and etp are. */
static void counts_ranks(void)
{
    struct loaded loaded =
        load_text(LAYOUT, LAYOUT_HEAD "parallel: {tp: 2, cp: 2, dp: 2, pp: 2, ep: 4, etp: 1}\norder: ep-tp-cp-dp-pp\n");
    CHECK_STR(loaded.log, "");
    if (loaded.layout != NULL) {
        CHECK_EQ_U64(cfg_layout_world(loaded.layout), 16);
        CHECK(loaded.layout->order[0] == CFG_AXIS_EP);
    }
    unload(&loaded);
}

/* H23 (d): three anchors in honest use, one inside another. */
static void follows_aliases(void)
{
    struct loaded loaded = load_text(MODEL, "kind: model\nname: m\nlayers: 2\ntensors:\n"
                                            "- {name: \"a.{i}\", shape: &shape [4, &width 8], cut: &rows {dim: 0}}\n"
                                            "- {name: \"b.{i}\", shape: *shape, cut: *rows}\n"
                                            "- {name: \"c.{i}\", shape: [2, *width], cut: *rows}\n");
    CHECK_STR(loaded.log, "");
    if (loaded.model != NULL) {
        const struct cfg_tensor *tensors = loaded.model->tensors;
        CHECK(tensors[1].ndim == 2 && tensors[1].shape[0] == 4 && tensors[1].shape[1] == 8);
        CHECK(tensors[1].segments[0] == 4 && tensors[2].segments[0] == 2 && tensors[2].shape[1] == 8);
    }
    unload(&loaded);
}

/* ---- what a document may cost --------------------------------------------------------- */

static double cpu_seconds(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6;
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
    CHECK_MSG(UNDER_ASAN || seconds < 1.0, "%s took %.2f s", name, seconds);
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
    CHECK_MSG(UNDER_ASAN || seconds < 1.0, "%.2f s", seconds);
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

/* ---- running out of memory --------------------------------------------------------------- */

static void survives_failed_allocations(void)
{
    static const struct {
        enum kind kind;
        const char *text;
    } documents[] = {{MODEL, full_model}, {CLUSTER, full_cluster}, {LAYOUT, full_layout}, {LAYOUT, listed_pipeline},
                     {LAYOUT, full_mesh}, {LAYOUT, full_holdings}, {LADDER, full_ladder}, {INDEX, full_index}};
    for (size_t d = 0; d < sizeof(documents) / sizeof(documents[0]); d++) {
        long failures = 0;
        for (bool done = false; !done; failures++) {
            cfg_mem_fail_after(failures);
            struct loaded loaded = load_text(documents[d].kind, documents[d].text);
            cfg_mem_fail_after(-1);
            done = loaded.status == SHUNT_OK;
            CHECK_MSG(done || loaded.status == SHUNT_ERR_NOMEM, "document %zu, allocation %ld", d, failures);
            CHECK_STR(loaded.log, done ? "" : "t: out of memory\n");
            unload(&loaded);
            if (failures > 1000)
                break;
        }
        CHECK_MSG(failures > 3 && failures < 1000, "document %zu: %ld", d, failures);
    }
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

/* ---- scalars -------------------------------------------------------------------------------- */

static void scans_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t want; /* UINT64_MAX: refused */
    } rows[] = {
        {"0 B", 0},
        {"1B", 1},
        {"1 KiB", 1024},
        {"1 MiB", 1048576},
        {"1 GiB", 1073741824},
        {"1 TiB", UINT64_C(1099511627776)},
        {"1 kB", 1000},
        {"1 MB", 1000000},
        {"1 GB", 1000000000},
        {"1 TB", UINT64_C(1000000000000)},
        {"1.5 GiB", 1610612736},
        {"0.5 KiB", 512},
        {"1.0 B", 1},
        {"1.000000000000000000000 B", 1},
        {"0.1 KiB", UINT64_MAX},
        {"0.5 B", UINT64_MAX},
        {"1", UINT64_MAX},
        {"", UINT64_MAX},
        {"B", UINT64_MAX},
        {"1 KB", UINT64_MAX},
        {"1 K", UINT64_MAX},
        {"1 GB ", UINT64_MAX},
        {" 1 GB", UINT64_MAX},
        {"+1 GB", UINT64_MAX},
        {"1,5 GB", UINT64_MAX},
        {"1e3 B", UINT64_MAX},
        {"0x10 B", UINT64_MAX},
        {"1_000 B", UINT64_MAX},
        {"18446744073709551615 B", UINT64_MAX},
        {"16777216 TiB", UINT64_MAX},
        {"16777215 TiB", UINT64_C(18446742974197923840)},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        uint64_t bytes = UINT64_MAX;
        struct shunt_err err = {""};
        enum shunt_status status = cfg_parse_size(rows[r].text, &bytes, &err);
        CHECK_MSG(status == (rows[r].want == UINT64_MAX ? SHUNT_ERR_INPUT : SHUNT_OK), "%s", rows[r].text);
        CHECK_MSG(bytes == rows[r].want, "%s: %" PRIu64, rows[r].text, bytes);
        CHECK_MSG((err.text[0] != '\0') == (status != SHUNT_OK), "%s", rows[r].text);
    }
}

static void scans_durations_and_rates(void)
{
    static const struct {
        const char *text;
        double want;
    } durations[] = {{"5 us", 5e-6}, {"1 ms", 1e-3}, {"2 s", 2}, {"100 ns", 1e-7}, {"0.25us", 0.25e-6}, {"0 s", 0}};
    double value;
    for (size_t r = 0; r < sizeof(durations) / sizeof(durations[0]); r++) {
        value = NAN;
        CHECK(cfg_scan_duration(durations[r].text, strlen(durations[r].text), &value) == NULL);
        CHECK_MSG(value == durations[r].want, "%s: %.17g", durations[r].text, value);
    }
    CHECK_STR(cfg_scan_duration("5 m", 3, &value), "not a known unit");
    CHECK(cfg_scan_rate("12.5 GB/s", 9, &value) == NULL && value == 12.5e9);
    CHECK(cfg_scan_rate("1 KiB/s", 7, &value) == NULL && value == 1024);
    CHECK_STR(cfg_scan_rate("1 GB/h", 6, &value), "not a known unit");
    CHECK_STR(cfg_scan_rate("1 /s", 4, &value), "not a known unit");
}

static void knows_implicit_types(void)
{
    static const struct {
        const char *text, *want; /* want NULL: a text */
    } rows[] = {
        {"", "null"},
        {"~", "null"},
        {"NULL", "null"},
        {"nUll", NULL},
        {"y", "a boolean"},
        {"N", "a boolean"},
        {"OFF", "a boolean"},
        {"oFF", NULL},
        {"0", "a number"},
        {"-12", "a number"},
        {"+1_0", "a number"},
        {"1.", "a number"},
        {".5", "a number"},
        {".", NULL},
        {"-", NULL},
        {"1e3", "a number"},
        {"1e", NULL},
        {"1.5E+3", "a number"},
        {"e3", NULL},
        {"0x1F", "a number"},
        {"0xG", NULL},
        {"0b10", "a number"},
        {"0o17", "a number"},
        {"1:30", "a number"},
        {":30", NULL},
        {"-.inf", "a number"},
        {".NaN", "a number"},
        {"inf", NULL},
        {"_1", NULL},
        {"1-2", NULL},
        {"2024-1-5", "a date"},
        {"2024-01-05T10:00:00Z", "a date"},
        {"2024-01", NULL},
        {"gpt2", NULL},
        {"0-7", NULL},
        {"1.2.3", NULL},
        {"tp4", NULL},
        {"7b", NULL},
        {"1 2", NULL},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const char *got = cfg_yaml_implicit_type(rows[r].text, strlen(rows[r].text));
        CHECK_MSG((got == NULL) == (rows[r].want == NULL), "%s", rows[r].text);
        if (got != NULL && rows[r].want != NULL)
            CHECK_STR(got, rows[r].want);
    }
}

static void suggests(void)
{
    CHECK_EQ_U64(cfg_edit_distance("", 0, "", 0), 0);
    CHECK_EQ_U64(cfg_edit_distance("abc", 3, "", 0), 3);
    CHECK_EQ_U64(cfg_edit_distance("kitten", 6, "sitting", 7), 3);
    CHECK_EQ_U64(cfg_edit_distance("tp", 2, "pt", 2), 1);
    CHECK_EQ_U64(cfg_edit_distance("segments", 8, "segemnts", 8), 1);
    struct cfg_suggestion suggestion = {.text = "segmens", .length = 7};
    cfg_suggest(&suggestion, "dim");
    CHECK(suggestion.best == NULL);
    cfg_suggest(&suggestion, "segments");
    cfg_suggest(&suggestion, "segment");
    CHECK_STR(suggestion.best, "segments");
}

/* ---- the engine, with a table of its own ------------------------------------------------------- */

struct sample {
    bool flag;
    char *text;
    uint32_t count;
    int64_t *values;
};

static const struct cfg_field sample_fields[] = {
    {.key = "flag", .type = CFG_BOOL, CFG_MEMBER(struct sample, flag), .fallback = "true"},
    {.key = "text", .type = CFG_TEXT, CFG_MEMBER(struct sample, text), .fallback = "no"},
    {.key = "values",
     .type = CFG_LIST,
     CFG_MEMBER(struct sample, values),
     CFG_NUMBER(struct sample, count),
     .max = INT64_MAX,
     .min = 1,
     .element_max = 9},
};

static const struct cfg_table sample_table = {.fields = sample_fields, .field_count = 3, .size = sizeof(struct sample)};

static bool fill_sample(const char *text, struct sample *sample, char **log)
{
    size_t length;
    FILE *diag_file = open_memstream(log, &length);
    struct cfg_diag diag = {.out = diag_file, .file = "t"};
    struct cfg_tree tree;
    struct cfg_loader loader = {.diag = &diag};
    *sample = (struct sample){0};
    bool good = cfg_tree_parse(&tree, text, strlen(text), NULL, &diag) == SHUNT_OK;
    if (good)
        good = cfg_table_fill(&sample_table, &(struct cfg_site){&loader, tree.root, NULL}, sample);
    cfg_tree_finish(&tree);
    fclose(diag_file);
    return good;
}

static void fills_any_table(void)
{
    struct sample sample;
    char *log;
    CHECK(fill_sample("{flag: false, text: \"yes\", values: [1, 9]}", &sample, &log));
    CHECK(!sample.flag && sample.count == 2 && sample.values[0] == 1 && sample.values[1] == 9);
    CHECK_STR(sample.text, "yes");
    cfg_table_release(&sample_table, &sample);
    free(log);
    CHECK(fill_sample("{}", &sample, &log));
    CHECK(sample.flag && sample.count == 0 && sample.values == NULL);
    CHECK_STR(sample.text, "no");
    cfg_table_release(&sample_table, &sample);
    free(log);
    CHECK(!fill_sample("{flag: yes, text: on, values: []}", &sample, &log));
    CHECK_CONTAINS(log, "t:1:8: flag: found \"yes\", expected `true` or `false`\n");
    CHECK_CONTAINS(log, "t:1:19: text: found \"on\", which YAML reads as a boolean");
    CHECK_CONTAINS(log, "t:1:31: values: found a list (of 0), expected a list of at least 1 counts\n");
    cfg_table_release(&sample_table, &sample);
    free(log);
    CHECK(!fill_sample("{flag: \"true\", values: [1, 10]}", &sample, &log));
    CHECK_CONTAINS(log, "flag: found \"true\" (a text in quotes), expected `true` or `false`\n");
    CHECK_CONTAINS(log, "values[1]: found \"10\" (out of range), expected a count from 1 to 9\n");
    cfg_table_release(&sample_table, &sample);
    free(log);
}

/* ---- files ----------------------------------------------------------------------------------------- */

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

static const struct test_case cases[] = {
    {"refuses", refuses},
    {"refuses-forms", refuses_forms},
    {"refuses-ladders", refuses_ladders},
    {"refuses-rules", refuses_rules},
    {"refuses-beside", refuses_beside},
    {"refuses-nul-bytes", refuses_nul_bytes},
    {"reports-all-problems", reports_all_problems},
    {"reports-problems-of-all-tensors", reports_problems_of_all_tensors},
    {"bounds-the-report", bounds_the_report},
    {"cuts-long-texts", cuts_long_texts},
    {"reads-a-model", reads_a_model},
    {"reads-a-ladder", reads_a_ladder},
    {"reads-an-index", reads_an_index},
    {"reads-a-cluster", reads_a_cluster},
    {"reads-a-short-cluster", reads_a_short_cluster},
    {"reads-a-layout", reads_a_layout},
    {"reads-a-short-layout", reads_a_short_layout},
    {"reads-states-in-full", reads_states_in_full},
    {"reads-device-forms", reads_device_forms},
    {"reads-pipeline-layouts", reads_pipeline_layouts},
    {"bounds-pipeline-layouts", bounds_pipeline_layouts},
    {"reads-shard-rules", reads_shard_rules},
    {"reads-a-mesh", reads_a_mesh},
    {"reads-large-meshes", reads_large_meshes},
    {"reads-holdings", reads_holdings},
    {"reports-problems-of-all-entries", reports_problems_of_all_entries},
    {"counts-ranks", counts_ranks},
    {"follows-aliases", follows_aliases},
    {"refuses-alias-bombs", refuses_alias_bombs},
    {"refuses-deep-aliases", refuses_deep_aliases},
    {"refuses-bulk", refuses_bulk},
    {"reads-many-holdings", reads_many_holdings},
    {"refuses-too-many-holdings", refuses_too_many_holdings},
    {"refuses-many-equal-names", refuses_many_equal_names},
    {"refuses-many-anchors", refuses_many_anchors},
    {"survives-failed-allocations", survives_failed_allocations},
    {"survives-failed-allocations-of-files", survives_failed_allocations_of_files},
    {"scans-sizes", scans_sizes},
    {"scans-durations-and-rates", scans_durations_and_rates},
    {"knows-implicit-types", knows_implicit_types},
    {"suggests", suggests},
    {"fills-any-table", fills_any_table},
    {"loads-built-ins", loads_built_ins},
    {"knows-legal-tp", knows_legal_tp},
    {"tells-missing-files", tells_missing_files},
    {"resolves", resolves},
};

TEST_MAIN(cases)
