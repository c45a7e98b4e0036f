/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/file.h"

#include <string.h>

#include "emit/digest.h"
#include "shunt/plan.h"

/** A file under construction. */
struct file {
    struct arena *arena;
    const struct file_input *input;
    byte_vec bytes;
    struct shunt_plan_section sections[SHUNT_PLAN_SECTION_COUNT];
    uint32_t section_count;
    byte_vec strings, dims, parts;
    struct shunt_plan_tensor *tensors;
    struct shunt_plan_device *devices;
    struct shunt_plan_summary summary;
};

static uint32_t add_string(struct file *file, const char *text)
{
    uint32_t offset = (uint32_t)file->strings.count;
    bytes_append(file->arena, &file->strings, text, strlen(text) + 1);
    return offset;
}

static void list_tensors(struct file *file)
{
    const struct space *space = file->input->route->space;
    uint64_t dims = 0;
    file->tensors = ARENA_NEW(file->arena, struct shunt_plan_tensor, space->tensor_count);
    for (uint32_t f = 0; f < space->family_count; f++) {
        const struct space_family *family = &space->families[f];
        for (uint32_t t = 0; t < family->layer_count * family->expert_count; t++) {
            struct shunt_plan_tensor *tensor = &file->tensors[family->tensor_begin + t];
            tensor->name =
                add_string(file, space_tensor_name(file->arena, family, family->layers[t / family->expert_count],
                                                   t % family->expert_count));
            tensor->ndim = family->ndim;
            tensor->dims = dims; /* tensors of a family share their extents */
            tensor->elements = (uint64_t)space_family_elements(family);
        }
        bytes_append(file->arena, &file->dims, family->shape, family->ndim * sizeof(int64_t));
        dims += family->ndim;
    }
}

/** Summary figures that come from the parts. */
static void add_part_figures(struct file *file, uint32_t device, const struct part_figures *figures)
{
    struct shunt_plan_summary *summary = &file->summary;
    if (figures->peak_bytes > summary->peak) {
        summary->peak = figures->peak_bytes;
        summary->peak_device = device;
    }
    if (figures->from_bytes > summary->from_max)
        summary->from_max = figures->from_bytes;
    if (figures->to_bytes > summary->to_max)
        summary->to_max = figures->to_bytes;
    if (figures->staging_bytes > summary->staging)
        summary->staging = figures->staging_bytes;
    if (figures->max_group_messages > summary->max_group_messages)
        summary->max_group_messages = figures->max_group_messages;
    if (figures->peers > summary->max_peers)
        summary->max_peers = figures->peers;
    if (figures->first_destructive_round < summary->rollback_until_round)
        summary->rollback_until_round = figures->first_destructive_round;
    summary->ops += figures->ops;
}

/** Emit one part with a scratch arena of its own; an allocation that fails gives the scratch back and goes on up. */
static void emit_part(struct file *file, const struct part_input *input, uint32_t device,
                      struct part_figures *figures_out)
{
    struct arena *scratch = ARENA_NEW(file->arena, struct arena, 1);
    arena_init(scratch);
    if (setjmp(scratch->on_failure) != 0) {
        arena_finish(scratch);
        longjmp(file->arena->on_failure, 1);
    }
    part_emit(scratch, file->arena, input, device, &file->parts, figures_out);
    arena_finish(scratch);
}

static void emit_parts(struct file *file, const struct lowered *lowered)
{
    const struct world *world = file->input->route->world;
    const struct part_input input = {.problem = file->input->problem,
                                     .rounds = &file->input->schedule->rounds,
                                     .lowered = lowered,
                                     .message_bytes = ARENA_NEW(file->arena, uint64_t, world->device_count)};
    file->devices = ARENA_NEW(file->arena, struct shunt_plan_device, world->device_count);
    file->summary.rollback_until_round = input.rounds->round_count;
    for (uint32_t d = 0; d < world->device_count; d++) {
        struct shunt_plan_device *device = &file->devices[d];
        struct part_figures figures;
        device->part_offset = file->parts.count;
        emit_part(file, &input, d, &figures);
        device->id = world->devices[d].id;
        device->node = world->devices[d].node;
        device->from_rank = world->devices[d].from_rank;
        device->to_rank = world->devices[d].to_rank;
        device->part_bytes = file->parts.count - device->part_offset;
        device->part_crc32c = shunt_crc32c(0, file->parts.items + device->part_offset, device->part_bytes);
        device->from_bytes = figures.from_bytes;
        device->to_bytes = figures.to_bytes;
        device->peak_bytes = figures.peak_bytes;
        add_part_figures(file, d, &figures);
    }
}

static void fill_summary(struct file *file, const struct timing *timing)
{
    const struct file_input *input = file->input;
    const struct route_figures *figures = &input->route->figures;
    struct shunt_plan_summary *summary = &file->summary;
    summary->model = add_string(file, input->model->name);
    summary->from = add_string(file, input->route->from->layout->name);
    summary->to = add_string(file, input->route->to->layout->name);
    summary->cluster = add_string(file, input->cluster->name);
    summary->method = add_string(file, input->schedule->method);
    summary->solver = add_string(file, "none");
    summary->solver_status = add_string(file, "not used");
    summary->needed_remote = figures->needed_remote;
    summary->moved = figures->moved;
    summary->local = figures->local;
    summary->kept = figures->kept;
    summary->inter_node = figures->inter_node;
    summary->intra_node = figures->intra_node;
    summary->filled = figures->filled;
    summary->inter_node_lower_bound = figures->inter_node_lower_bound;
    summary->max_send = figures->max_send;
    summary->max_recv = figures->max_recv;
    summary->predicted_seconds = timing->predicted_seconds;
    summary->lower_bound_seconds = figures->lower_bound_seconds;
    summary->lower_bound_rounds_seconds = timing->lower_bound_rounds_seconds;
    summary->cap = input->problem->cap;
    summary->peak_lower_bound = input->problem->peak_lower_bound;
    summary->least_cap = input->schedule->least_cap;
    summary->reserve = input->cluster->device_reserve;
    summary->transport = input->cluster->transport_buffers;
}

static void add_section(struct file *file, enum shunt_plan_section_kind kind, const void *bytes, size_t size,
                        size_t record_bytes)
{
    struct shunt_plan_section *section = &file->sections[file->section_count++];
    section->kind = kind;
    section->offset = file->bytes.count;
    section->bytes = size;
    section->record_bytes = (uint32_t)record_bytes;
    bytes_append(file->arena, &file->bytes, bytes, size);
    bytes_align(file->arena, &file->bytes, SHUNT_PLAN_ALIGN);
    if (kind != SHUNT_SECTION_PARTS)
        section->crc32c = shunt_crc32c(0, file->bytes.items + section->offset, file->bytes.count - section->offset);
}

static void add_sections(struct file *file)
{
    const struct route *route = file->input->route;
    uint32_t devices = route->world->device_count;
    size_t start = sizeof(struct shunt_plan_header) + sizeof(file->sections);
    unsigned char zeros[sizeof(struct shunt_plan_header) + sizeof(file->sections)] = {0};
    bytes_append(file->arena, &file->bytes, zeros, start);
    bytes_align(file->arena, &file->bytes, SHUNT_PLAN_ALIGN);
    add_section(file, SHUNT_SECTION_STRINGS, file->strings.items, file->strings.count, 1);
    add_section(file, SHUNT_SECTION_SUMMARY, &file->summary, sizeof(file->summary), sizeof(file->summary));
    add_section(file, SHUNT_SECTION_TENSORS, file->tensors, route->space->tensor_count * sizeof(*file->tensors),
                sizeof(*file->tensors));
    add_section(file, SHUNT_SECTION_DIMS, file->dims.items, file->dims.count, sizeof(int64_t));
    size_t device_bytes = devices * sizeof(*file->devices);
    size_t parts_at = file->bytes.count + device_bytes; /* device records are as long as the alignment */
    parts_at += (SHUNT_PLAN_ALIGN - parts_at % SHUNT_PLAN_ALIGN) % SHUNT_PLAN_ALIGN;
    for (uint32_t d = 0; d < devices; d++)
        file->devices[d].part_offset += parts_at;
    add_section(file, SHUNT_SECTION_DEVICES, file->devices, device_bytes, sizeof(*file->devices));
    add_section(file, SHUNT_SECTION_PARTS, file->parts.items, file->parts.count, 1);
}

static enum shunt_status fill_digests(const struct file_input *input, struct shunt_plan_header *header)
{
    enum shunt_status status = digest_model(input->model, header->model_digest);
    if (status == SHUNT_OK)
        status = digest_cluster(input->cluster, header->cluster_digest);
    if (status == SHUNT_OK)
        status = digest_layout(input->route->from->layout, header->model_digest, header->from_digest);
    if (status == SHUNT_OK)
        status = digest_layout(input->route->to->layout, header->model_digest, header->to_digest);
    return status;
}

static enum shunt_status seal(struct file *file, struct shunt_err *err)
{
    const struct route *route = file->input->route;
    struct shunt_plan_header header = {.version_major = SHUNT_PLAN_VERSION_MAJOR,
                                       .version_minor = SHUNT_PLAN_VERSION_MINOR,
                                       .header_bytes = sizeof(header),
                                       .file_bytes = file->bytes.count,
                                       .device_count = route->world->device_count,
                                       .from_rank_count = route->from->grid.rank_count,
                                       .to_rank_count = route->to->grid.rank_count,
                                       .round_count = file->input->schedule->rounds.round_count,
                                       .overlap_depth = file->input->schedule->rounds.depth,
                                       .section_count = SHUNT_PLAN_SECTION_COUNT};
    memcpy(header.magic, SHUNT_PLAN_MAGIC, sizeof(header.magic));
    header.section_table_crc32c = shunt_crc32c(0, file->sections, sizeof(file->sections));
    memcpy(file->bytes.items + sizeof(header), file->sections, sizeof(file->sections));
    enum shunt_status status = fill_digests(file->input, &header);
    memcpy(file->bytes.items, &header, sizeof(header));
    if (status == SHUNT_OK)
        status = digest_plan_id(file->bytes.items, file->bytes.count, header.plan_id);
    if (status != SHUNT_OK)
        return shunt_fail(err, status, "cannot compute a digest");
    header.header_crc32c = shunt_crc32c(0, &header, sizeof(header));
    memcpy(file->bytes.items, &header, sizeof(header));
    return SHUNT_OK;
}

enum shunt_status file_assemble(struct arena *arena, const struct file_input *input, unsigned char **bytes_out,
                                size_t *size_out, struct shunt_err *err)
{
    struct file file = {.arena = arena, .input = input};
    add_string(&file, "");
    list_tensors(&file);
    const struct lowered *lowered = lower_build(arena, input->problem, &input->schedule->rounds);
    const struct timing timing = timing_compute(arena, input->problem, &input->schedule->rounds, lowered);
    emit_parts(&file, lowered);
    fill_summary(&file, &timing);
    add_sections(&file);
    enum shunt_status status = seal(&file, err);
    if (status != SHUNT_OK)
        return status;
    *bytes_out = file.bytes.items;
    *size_out = file.bytes.count;
    return SHUNT_OK;
}
