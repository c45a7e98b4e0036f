/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/digest.h"

#include <math.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/** A canonical text that is hashed when it is closed. */
struct text {
    FILE *file;
    char *bytes;
    size_t size;
};

static bool text_open(struct text *text)
{
    *text = (struct text){0};
    text->file = open_memstream(&text->bytes, &text->size);
    return text->file != NULL;
}

static enum shunt_status text_close(struct text *text, uint8_t out[SHUNT_PLAN_DIGEST_BYTES])
{
    bool written = !ferror(text->file);
    written = fclose(text->file) == 0 && written;
    bool hashed = written && EVP_Digest(text->bytes, text->size, out, NULL, EVP_sha256(), NULL) == 1;
    free(text->bytes);
    return hashed ? SHUNT_OK : SHUNT_ERR_NOMEM;
}

/* The front of a plan, header included, as it counts for the plan id. */
static bool add_front(EVP_MD_CTX *context, const void *bytes, size_t size)
{
    struct shunt_plan_header header;
    memcpy(&header, bytes, sizeof(header));
    memset(header.plan_id, 0, sizeof(header.plan_id));
    header.header_crc32c = 0;
    return EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
           EVP_DigestUpdate(context, &header, sizeof(header)) == 1 &&
           EVP_DigestUpdate(context, (const char *)bytes + sizeof(header), size - sizeof(header)) == 1;
}

#define READ_BYTES ((size_t)1 << 18)

/* What stands in the output from an offset on. */
static enum shunt_status add_output(EVP_MD_CTX *context, struct output *output, uint64_t at, uint64_t end,
                                    struct shunt_err *err)
{
    unsigned char *bytes = malloc(READ_BYTES);
    bool read = true, added = bytes != NULL;
    for (; read && added && at < end; at += READ_BYTES) {
        size_t size = end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES;
        read = output_read(output, at, bytes, size);
        added = !read || EVP_DigestUpdate(context, bytes, size) == 1;
    }
    free(bytes);
    if (!read)
        return output_fail(output, err);
    return added ? SHUNT_OK : shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a digest");
}

enum shunt_status digest_plan_id(const void *front, size_t front_bytes, struct output *output, uint64_t file_bytes,
                                 uint8_t out[SHUNT_PLAN_DIGEST_BYTES], struct shunt_err *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    enum shunt_status status = SHUNT_OK;
    if (context == NULL || !add_front(context, front, front_bytes))
        status = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a digest");
    if (status == SHUNT_OK)
        status = add_output(context, output, front_bytes, file_bytes, err);
    if (status == SHUNT_OK && EVP_DigestFinal_ex(context, out, NULL) != 1)
        status = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a digest");
    EVP_MD_CTX_free(context);
    return status;
}

static enum shunt_status add_part(EVP_MD_CTX *context, const struct shunt_plan *plan, uint32_t device,
                                  struct shunt_err *err)
{
    struct shunt_plan_part part;
    enum shunt_status status = shunt_plan_get_part(plan, device, &part, err);
    if (status != SHUNT_OK)
        return status;
    bool added = EVP_DigestUpdate(context, part.header, shunt_plan_get_device(plan, device)->part_bytes) == 1;
    shunt_plan_drop_part(plan, device);
    return added ? SHUNT_OK : shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a digest");
}

enum shunt_status digest_open_plan(const struct shunt_plan *plan, uint8_t out[SHUNT_PLAN_DIGEST_BYTES],
                                   struct shunt_err *err)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(plan);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    enum shunt_status status = SHUNT_OK;
    if (context == NULL || !add_front(context, header, shunt_plan_get_device(plan, 0)->part_offset))
        status = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a digest");
    for (uint32_t d = 0; d < header->device_count && status == SHUNT_OK; d++)
        status = add_part(context, plan, d, err);
    if (status == SHUNT_OK && EVP_DigestFinal_ex(context, out, NULL) != 1)
        status = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a digest");
    EVP_MD_CTX_free(context);
    return status;
}

enum shunt_status digest_program(uint8_t out[SHUNT_PLAN_DIGEST_BYTES])
{
    unsigned char bytes[1 << 16];
    size_t count;
    FILE *file = fopen("/proc/self/exe", "rb");
    if (file == NULL)
        return SHUNT_ERR_IO;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool hashed = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    while (hashed && (count = fread(bytes, 1, sizeof(bytes), file)) > 0)
        hashed = EVP_DigestUpdate(context, bytes, count) == 1;
    hashed = hashed && EVP_DigestFinal_ex(context, out, NULL) == 1;
    bool failed = ferror(file) != 0;
    EVP_MD_CTX_free(context);
    fclose(file);
    return failed ? SHUNT_ERR_IO : hashed ? SHUNT_OK : SHUNT_ERR_NOMEM;
}

static void print_name(FILE *file, const char *key, const char *text)
{
    if (text != NULL)
        fprintf(file, " %s %zu:%s", key, strlen(text), text);
}

static void print_other(FILE *file, const struct cfg_other *other)
{
    fputs("other", file);
    print_name(file, "name", other->name);
    print_name(file, "identity", other->identity);
    print_name(file, "why", other->why);
    fprintf(file, " policy %d otherwise %d dtype %d count %lld per", (int)other->policy, (int)other->otherwise,
            (int)other->dtype, (long long)other->count);
    for (int k = 0; k < CFG_KEY_COUNT; k++)
        fprintf(file, " %d", (int)other->per[k]);
    fputc('\n', file);
}

static void print_tensor(FILE *file, const struct cfg_tensor *tensor)
{
    fprintf(file, "tensor %zu:%s stage %d expert %d tied %d %d kind %d dtype %d layers", strlen(tensor->name),
            tensor->name, (int)tensor->stage, (int)tensor->expert, (int)tensor->tied_last, (int)tensor->tied_mtp,
            (int)tensor->kind, (int)tensor->dtype);
    for (uint32_t l = 0; tensor->layer_list != NULL && l < tensor->layer_count; l++)
        fprintf(file, " %lld", (long long)tensor->layer_list[l]);
    if (tensor->layer_list == NULL)
        fprintf(file, " %lld..%lld", (long long)tensor->layer_begin, (long long)tensor->layer_end);
    fputs(" shape", file);
    for (uint32_t d = 0; d < tensor->ndim; d++)
        fprintf(file, " %lld", (long long)tensor->shape[d]);
    fprintf(file, " cut %d pad %d segments", (int)tensor->cut_dim, (int)tensor->pad_vocab);
    for (uint32_t s = 0; tensor->segments != NULL && s < tensor->segment_count; s++)
        fprintf(file, " %lld", (long long)tensor->segments[s]);
    if (tensor->heads != CFG_HEADS_NONE)
        fprintf(file, " heads %d of %lld", (int)tensor->heads, (long long)tensor->head_dim);
    print_name(file, "group", tensor->group);
    fputc('\n', file);
}

enum shunt_status digest_model(const struct cfg_model *model, uint8_t out[SHUNT_PLAN_DIGEST_BYTES])
{
    struct text text;
    if (!text_open(&text))
        return SHUNT_ERR_NOMEM;
    fprintf(text.file, "model 1 %zu:%s layers %lld heads %lld %lld experts %lld\n", strlen(model->name), model->name,
            (long long)model->layers, (long long)model->heads, (long long)model->kv_heads, (long long)model->experts);
    for (uint32_t t = 0; t < model->tensor_count; t++)
        print_tensor(text.file, &model->tensors[t]);
    for (uint32_t s = 0; s < model->scalar_count; s++)
        fprintf(text.file, "scalar %zu:%s dtype %d count %lld\n", strlen(model->scalars[s].name),
                model->scalars[s].name, (int)model->scalars[s].dtype, (long long)model->scalars[s].count);
    for (uint32_t o = 0; o < cfg_other_count(model); o++)
        print_other(text.file, cfg_other_at(model, o));
    return text_close(&text, out);
}

/** What the rates of the first lines do not say, so that a cluster without such things keeps its digest. */
static void print_machine(FILE *file, const struct cfg_cluster *cluster, uint32_t group)
{
    const struct cfg_machine machine = cfg_cluster_machine(cluster, group);
    bool plain = machine.node_inter_node == machine.inter_node * (double)machine.devices_per_node &&
                 isinf(machine.message) && isinf(machine.host_to_device) && isinf(machine.device_to_host) &&
                 machine.pack == machine.copy && machine.unpack == machine.copy;
    if (group > 0)
        fprintf(file, "group %u node %lld memory %llu rates %a %a %a\n", group, (long long)machine.devices_per_node,
                (unsigned long long)machine.memory, machine.intra_node, machine.inter_node, machine.copy);
    if (!plain)
        fprintf(file, "node rate %a message %a host %a %a pack %a %a\n", machine.node_inter_node, machine.message,
                machine.host_to_device, machine.device_to_host, machine.pack, machine.unpack);
}

enum shunt_status digest_cluster(const struct cfg_cluster *cluster, uint8_t out[SHUNT_PLAN_DIGEST_BYTES])
{
    struct text text;
    if (!text_open(&text))
        return SHUNT_ERR_NOMEM;
    fprintf(text.file, "cluster 1 %zu:%s node %lld nodes %lld memory %llu reserve %llu transport %llu\n",
            strlen(cluster->name), cluster->name, (long long)cluster->devices_per_node, (long long)cluster->nodes,
            (unsigned long long)cluster->device_memory, (unsigned long long)cluster->device_reserve,
            (unsigned long long)cluster->transport_buffers);
    fprintf(text.file, "rates %a %a %a costs %a %a\n", cluster->intra_node_bytes_per_second,
            cluster->inter_node_bytes_per_second, cluster->copy_bytes_per_second, cluster->round_seconds,
            cluster->message_seconds);
    if (cluster->transport_per_peer > 0)
        fprintf(text.file, "per peer %llu\n", (unsigned long long)cluster->transport_per_peer);
    print_machine(text.file, cluster, 0);
    for (uint32_t n = 0; n < cluster->grouped_nodes; n++)
        fprintf(text.file, "node %u group %u\n", n, cluster->group_of[n]);
    for (uint32_t g = 1; g <= cluster->group_count; g++)
        print_machine(text.file, cluster, g);
    return text_close(&text, out);
}

static void print_shard(FILE *file, const struct cfg_shard *shard)
{
    fprintf(file, "\nshard %d instances %lld bucket %lld pad %d orig %d order", (int)shard->rule,
            (long long)shard->instances, (long long)shard->bucket_elements, (int)shard->pad_high_bandwidth,
            (int)shard->use_orig_params);
    for (uint32_t i = 0; i < shard->order_count; i++)
        fprintf(file, " %zu:%s", strlen(shard->order[i]), shard->order[i]);
    if (shard->experts != CFG_EXPERTS_GROUPED)
        fprintf(file, "\nexperts %d", (int)shard->experts);
    if (shard->expert_buffer != CFG_EXPERTS_EP_OR_ETP)
        fprintf(file, "\nexpert buffer %d", (int)shard->expert_buffer);
}

static void print_mesh(FILE *file, const struct cfg_mesh *mesh)
{
    fputs("\nmesh", file);
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        fprintf(file, " %zu:%s %lld", strlen(mesh->names[a]), mesh->names[a], (long long)mesh->shape[a]);
    for (uint32_t r = 0; r < mesh->rule_count; r++) {
        const struct cfg_mesh_rule *rule = &mesh->rules[r];
        fprintf(file, "\nrule %s states", rule->tensor == NULL ? "-" : rule->tensor);
        for (int s = 0; s < SHUNT_STATE_COUNT; s++)
            fprintf(file, " %d", (int)rule->state[s]);
        for (uint32_t a = 0; a < mesh->axis_count; a++)
            fprintf(file, " %d:%d:%lld", (int)rule->placement[a].kind, (int)rule->placement[a].dim,
                    (long long)rule->placement[a].split_factor);
    }
}

static void print_box(FILE *file, const struct cfg_box *box)
{
    fputs(" box", file);
    for (uint32_t d = 0; d < box->ndim; d++)
        fprintf(file, " %lld:%lld", (long long)box->lo[d], (long long)box->hi[d]);
    fprintf(file, " @%lld /", (long long)box->offset);
    for (uint32_t d = 0; d < box->stride_count; d++)
        fprintf(file, " %lld", (long long)box->stride[d]);
}

static void print_holding(FILE *file, const struct cfg_holding *holding)
{
    fprintf(file, "\nholding %zu:%s copy %d ranks", strlen(holding->tensor), holding->tensor, (int)holding->copy);
    for (uint32_t r = 0; r < holding->rank_count; r++)
        fprintf(file, " %u", holding->ranks[r]);
    fputs(" states", file);
    for (int s = 0; s < SHUNT_STATE_COUNT; s++)
        fprintf(file, " %d", (int)holding->state[s]);
    fputs(" shape", file);
    for (uint32_t d = 0; d < holding->ndim; d++)
        fprintf(file, " %lld", (long long)holding->shape[d]);
    for (uint32_t b = 0; b < holding->box_count; b++)
        print_box(file, &holding->boxes[b]);
}

static void print_axes(FILE *file, const struct cfg_layout *layout)
{
    for (int i = 0; i < CFG_AXIS_COUNT; i++) {
        if (layout->axes[i] > 0)
            fprintf(file, "\naxis %s %lld", cfg_axis_names[i], (long long)layout->axes[i]);
    }
    if (layout->axes_etp > 0)
        fprintf(file, "\naxis etp %lld", (long long)layout->axes_etp);
}

/** Dtypes of all states; tier and scale where they are not the usual ones. */
static void print_states(FILE *file, const struct cfg_layout *layout)
{
    for (int s = 0; s < SHUNT_STATE_COUNT; s++) {
        fprintf(file, " %d", (int)layout->state_dtype[s]);
        if (layout->state_tier[s] != CFG_TIER_DEVICE || layout->state_scale[s] == CFG_SCALE_SHARD)
            fprintf(file, ":%d:%d", (int)layout->state_tier[s], (int)(layout->state_scale[s] == CFG_SCALE_SHARD));
    }
}

static void print_storage(FILE *file, const struct cfg_storage *storage)
{
    fprintf(file, "\nstorage %zu:%s", strlen(storage->tensor), storage->tensor);
    for (uint32_t d = 0; d < storage->ndim; d++)
        fprintf(file, " %lld", (long long)storage->dims[d]);
}

enum shunt_status digest_layout(const struct cfg_layout *layout, const uint8_t model[SHUNT_PLAN_DIGEST_BYTES],
                                uint8_t out[SHUNT_PLAN_DIGEST_BYTES])
{
    struct text text;
    if (!text_open(&text))
        return SHUNT_ERR_NOMEM;
    fputs("layout 1 model ", text.file);
    for (size_t i = 0; i < SHUNT_PLAN_DIGEST_BYTES; i++)
        fprintf(text.file, "%02x", model[i]);
    for (int i = 0; i < CFG_AXIS_COUNT; i++)
        fprintf(text.file, " %s %lld", cfg_axis_names[layout->order[i]], (long long)layout->size[layout->order[i]]);
    fprintf(text.file, "\netp %lld vpp %lld pipeline %lld %lld %d %d %s", (long long)layout->etp,
            (long long)layout->vpp, (long long)layout->first_stage_layers, (long long)layout->last_stage_layers,
            (int)layout->count_embedding, (int)layout->count_loss,
            layout->pipeline_layout == NULL ? "-" : layout->pipeline_layout);
    print_shard(text.file, &layout->shard);
    print_mesh(text.file, &layout->mesh);
    for (uint32_t h = 0; h < layout->holding_count; h++)
        print_holding(text.file, &layout->holdings[h]);
    print_axes(text.file, layout);
    fprintf(text.file, "\nform %d ranks %lld vocab", (int)layout->form, (long long)layout->ranks);
    fprintf(text.file, " %lld %lld states", (long long)layout->vocab_divisible_by, (long long)layout->vocab_padded);
    print_states(text.file, layout);
    if (layout->kv_replicate)
        fputs("\nkv replicate", text.file);
    for (uint32_t s = 0; s < layout->storage_count; s++)
        print_storage(text.file, &layout->storage[s]);
    fputs("\ndevices", text.file);
    int64_t world = cfg_layout_world(layout);
    for (int64_t r = 0; r < world; r++)
        fprintf(text.file, " %u", layout->device_count > 0 ? layout->devices[r] : (uint32_t)r);
    fputc('\n', text.file);
    return text_close(&text, out);
}

enum shunt_status digest_move(const struct cfg_layout *from, const struct cfg_layout *to,
                              uint8_t out[SHUNT_PLAN_DIGEST_BYTES])
{
    struct text text;
    if (!text_open(&text))
        return SHUNT_ERR_NOMEM;
    fprintf(text.file, "move 1 current %d made", (int)from->current_owner);
    for (int s = 0; s < SHUNT_STATE_COUNT; s++)
        fprintf(text.file, " %d", (int)to->state_derived[s]);
    fputc('\n', text.file);
    return text_close(&text, out);
}
