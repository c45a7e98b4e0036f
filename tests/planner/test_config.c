/* SPDX-License-Identifier: Apache-2.0 */

/* The YAML loader: what it accepts. */
#include <math.h>

#include "config/mem.h"
#include "config/rig.h"
#include "harness.h"

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
        CHECK(loaded.cluster->transport_per_peer == 0 && loaded.cluster->group_count == 0);
        const struct cfg_machine machine = cfg_cluster_machine(loaded.cluster, 0);
        CHECK(machine.devices_per_node == 8 && machine.memory == 1000000000);
        CHECK(machine.intra_node == 2e9 && machine.inter_node == 1e9 && machine.node_inter_node == 8e9);
        CHECK(machine.copy == 1e9 && machine.pack == 1e9 && machine.unpack == 1e9);
        CHECK(isinf(machine.message) && isinf(machine.host_to_device) && isinf(machine.device_to_host));
        CHECK(cfg_cluster_group(loaded.cluster, 0) == 0);
    }
    unload(&loaded);
}

static const char mixed_cluster[] = "kind: cluster\n"
                                    "name: c\n"
                                    "devices_per_node: 8\n"
                                    "nodes: 6\n"
                                    "groups:\n"
                                    "- nodes: \"1-2,5\"\n"
                                    "  devices_per_node: 4\n"
                                    "  device: {memory: 40 GB}\n"
                                    "  links: {inter_node: 25 GB/s, channels: 4, device_to_host: 12 GB/s}\n"
                                    "  copy: 800 GB/s\n"
                                    "- {nodes: [3], unpack: 300 GB/s, links: {node_inter_node: 900 GB/s}}\n"
                                    "device: {memory: 80 GB, transport_per_peer: 12 MiB}\n"
                                    "links: {intra_node: 450 GB/s, inter_node: 50 GB/s, node_inter_node: 150 GB/s,\n"
                                    "        channel: 20 GB/s, channels: 2, host_to_device: 55 GB/s}\n"
                                    "copy: 1300 GB/s\n"
                                    "pack: 1200 GB/s\n";

/* Nodes of a group have what the group says, else what the cluster says. */
static void reads_groups_of_nodes(void)
{
    static const uint32_t groups[] = {0, 1, 1, 2, 0, 1, 0};
    struct loaded loaded = load_text(CLUSTER, mixed_cluster);
    CHECK_STR(loaded.log, "");
    if (loaded.cluster != NULL) {
        for (uint32_t node = 0; node < sizeof(groups) / sizeof(groups[0]); node++)
            CHECK_MSG(cfg_cluster_group(loaded.cluster, node) == groups[node], "node %u", node);
        CHECK_EQ_U64(loaded.cluster->transport_per_peer, UINT64_C(12) << 20);
        const struct cfg_machine rest = cfg_cluster_machine(loaded.cluster, 0);
        CHECK(rest.devices_per_node == 8 && rest.memory == 80000000000 && rest.inter_node == 50e9);
        CHECK(rest.node_inter_node == 150e9 && rest.message == 40e9 && rest.host_to_device == 55e9);
        CHECK(rest.copy == 1300e9 && rest.pack == 1200e9 && rest.unpack == 1300e9 && isinf(rest.device_to_host));
        const struct cfg_machine small = cfg_cluster_machine(loaded.cluster, 1);
        CHECK(small.devices_per_node == 4 && small.memory == 40000000000 && small.intra_node == 450e9);
        CHECK(small.inter_node == 25e9 && small.node_inter_node == 100e9 && small.message == 80e9);
        CHECK(small.copy == 800e9 && small.pack == 1200e9 && small.unpack == 800e9);
        CHECK(small.host_to_device == 55e9 && small.device_to_host == 12e9);
        const struct cfg_machine wide = cfg_cluster_machine(loaded.cluster, 2);
        CHECK(wide.node_inter_node == 400e9 && wide.unpack == 300e9 && wide.copy == 1300e9);
    }
    unload(&loaded);
}

static const char full_ladder[] = LADDER_HEAD "  - name: a.b-c_1\n"
                                              "    from: ../x.yaml\n"
                                              "    to: w\n"
                                              "    cluster: h100\n"
                                              "    cap: 60 GiB\n"
                                              "    staging: 512 MiB\n"
                                              "  - {name: b, from: x.yaml, to: ../y.yaml}\n";

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

static const char full_index[] =
    INDEX_HEAD INDEX_TEXTS("1", "1.plan", "a \\\"b\\\" / \\\\c\\u00e9") "\"cap\": 0, \"staging\": 3, " INDEX_COUNTS(
        "9223372036854775807") ",\n" INDEX_TEXTS("b", "b.plan", "m") "\"bytes\": 1, \"devices\": 8, \"rounds\": 9, "
                                                                     "\"moved\": 0, \"peak\": 11}\n]}\n";

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

static const struct test_case cases[] = {
    {"reads-a-model", reads_a_model},
    {"reads-a-ladder", reads_a_ladder},
    {"reads-an-index", reads_an_index},
    {"reads-a-cluster", reads_a_cluster},
    {"reads-a-short-cluster", reads_a_short_cluster},
    {"reads-groups-of-nodes", reads_groups_of_nodes},
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
    {"survives-failed-allocations", survives_failed_allocations},
};

TEST_MAIN(cases)
