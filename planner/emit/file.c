/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emit/digest.h"
#include "emit/explain.h"
#include "emit/parts.h"
#include "shunt/plan.h"

typedef VEC(unsigned char) byte_vec;

static void append(struct arena *arena, byte_vec *bytes, const void *data, size_t size)
{
    if (bytes->count + size > bytes->capacity) {
        size_t larger = bytes->capacity * 2 > bytes->count + size ? bytes->capacity * 2 : bytes->count + size + 4096;
        unsigned char *grown = ARENA_NEW(arena, unsigned char, larger);
        if (bytes->count > 0)
            memcpy(grown, bytes->items, bytes->count);
        bytes->items = grown;
        bytes->capacity = larger;
    }
    if (size > 0)
        memcpy(bytes->items + bytes->count, data, size);
    bytes->count += size;
}

/** Content of a section, not yet in the file. */
struct content {
    enum shunt_plan_section_kind kind;
    const void *bytes; /* NULL: the parts */
    size_t size, record_bytes;
};

/** A file under construction. */
struct file {
    struct arena *arena;
    const struct file_input *input;
    struct shunt_plan_section sections[SHUNT_PLAN_SECTION_COUNT];
    byte_vec strings, dims;
    uint64_t parts_size;
    struct shunt_plan_tensor *tensors;
    struct shunt_plan_device *devices;
    struct shunt_plan_summary summary;
};

static uint32_t add_string(struct file *file, const char *text)
{
    uint32_t offset = (uint32_t)file->strings.count;
    append(file->arena, &file->strings, text, strlen(text) + 1);
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
        append(file->arena, &file->dims, family->shape, family->ndim * sizeof(int64_t));
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
    if (figures->host_peak_bytes > summary->host_peak)
        summary->host_peak = figures->host_peak_bytes;
    summary->parked += figures->parked_bytes;
    summary->local += figures->parked_bytes;
    summary->ops += figures->ops;
}

/** How far the cap of a device is below that of all. */
static uint32_t count_short(const struct problem *problem, uint32_t device)
{
    uint64_t memory = world_machine(problem->route->world, device)->memory;
    if (problem_cap(problem, problem->cap, device) == problem->cap || memory >= problem->cap)
        return 0;
    return (uint32_t)((problem->cap - memory + SHUNT_PLAN_SHORT_BYTES - 1) / SHUNT_PLAN_SHORT_BYTES);
}

/** What the device table says before the parts are made. */
static void list_devices(struct file *file)
{
    const struct world *world = file->input->route->world;
    file->devices = ARENA_NEW(file->arena, struct shunt_plan_device, world->device_count);
    for (uint32_t d = 0; d < world->device_count; d++) {
        file->devices[d] = (struct shunt_plan_device){.id = world->devices[d].id,
                                                      .node = world->devices[d].node,
                                                      .from_rank = world->devices[d].from_rank,
                                                      .to_rank = world->devices[d].to_rank,
                                                      .cap_short = count_short(file->input->problem, d)};
    }
}

/** Make the parts, from `offset` on. */
static enum shunt_status emit_parts(struct file *file, const struct lowered *lowered, struct output *output,
                                    uint64_t offset, struct shunt_err *err)
{
    const struct world *world = file->input->route->world;
    const struct part_input input = {
        .problem = file->input->problem, .rounds = &file->input->schedule->rounds, .lowered = lowered};
    struct part_made *made;
    enum shunt_status status = parts_emit(file->arena, &input, file->input->threads, output, offset, &made, err);
    if (status != SHUNT_OK)
        return status;
    file->summary.rollback_until_round = input.rounds->round_count;
    for (uint32_t d = 0; d < world->device_count; d++) {
        struct shunt_plan_device *device = &file->devices[d];
        device->part_offset = made[d].offset;
        device->part_bytes = made[d].size;
        device->part_crc32c = made[d].crc32c;
        device->from_bytes = made[d].figures.from_bytes;
        device->to_bytes = made[d].figures.to_bytes;
        device->peak_bytes = made[d].figures.peak_bytes;
        add_part_figures(file, d, &made[d].figures);
        file->parts_size += made[d].size;
    }
    return SHUNT_OK;
}

/** The statement about chosen devices; 0: the new ranks are where the layout says. */
static uint32_t add_placement(struct file *file)
{
    const struct place *place = file->input->place;
    char text[128];
    if (place == NULL)
        return 0;
    snprintf(text, sizeof(text), "%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, place->method, place->moved_fixed,
             place->cost_picoseconds, place->bound_picoseconds);
    return add_string(file, text);
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
    bool solved = input->schedule->solver != NULL;
    summary->solver = add_string(file, solved ? input->schedule->solver : "none");
    summary->solver_status = add_string(file, solved ? input->schedule->solver_status : "not used");
    const char *notes = beside_text(file->arena, &input->route->space->beside);
    summary->state_notes = notes[0] == '\0' ? 0 : add_string(file, notes);
    summary->placement = add_placement(file);
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
    summary->saved = figures->saved;
    summary->forwarded = figures->forwarded;
    summary->relayed = figures->relayed;
    summary->predicted_seconds = timing->predicted_seconds;
    summary->lower_bound_seconds = figures->lower_bound_seconds;
    summary->lower_bound_rounds_seconds = timing->lower_bound_rounds_seconds;
    summary->cap = input->problem->cap;
    summary->peak_lower_bound = input->problem->peak_lower_bound;
    summary->least_cap = input->schedule->least_cap;
    summary->reserve = input->cluster->device_reserve;
    summary->transport = input->cluster->transport_buffers;
    summary->transport_per_peer = input->cluster->transport_per_peer;
}

/** The last string. */
static void add_explanation(struct file *file, const struct timing *timing)
{
    char text[EXPLAIN_TEXT_BYTES];
    struct explanation explanation =
        explain_build(timing, file->summary.lower_bound_seconds, file->input->schedule->rounds.hold_old);
    explain_limits(file->input->route, &explanation);
    explain_write(&explanation, text);
    add_string(file, text);
}

static size_t align(size_t size)
{
    return (size + SHUNT_PLAN_ALIGN - 1) / SHUNT_PLAN_ALIGN * SHUNT_PLAN_ALIGN;
}

/** Give every section its place; the size of the parts, which are the last, may be unknown. @return the parts' */
static uint64_t place_sections(struct file *file, const struct content contents[SHUNT_PLAN_SECTION_COUNT])
{
    uint64_t at = align(sizeof(struct shunt_plan_header) + sizeof(file->sections));
    for (uint32_t i = 0; i < SHUNT_PLAN_SECTION_COUNT; i++) {
        file->sections[i] = (struct shunt_plan_section){.kind = contents[i].kind,
                                                        .offset = at,
                                                        .bytes = contents[i].size,
                                                        .record_bytes = (uint32_t)contents[i].record_bytes};
        at = align(at + contents[i].size);
    }
    return file->sections[SHUNT_PLAN_SECTION_COUNT - 1].offset;
}

/** Copy the contents to their places in `front`, which is zero, and compute the checksums. */
static void copy_sections(struct file *file, const struct content contents[SHUNT_PLAN_SECTION_COUNT],
                          unsigned char *front)
{
    for (uint32_t i = 0; i < SHUNT_PLAN_SECTION_COUNT; i++) {
        struct shunt_plan_section *section = &file->sections[i];
        if (contents[i].kind == SHUNT_SECTION_PARTS)
            continue;
        if (section->bytes > 0)
            memcpy(front + section->offset, contents[i].bytes, section->bytes);
        section->crc32c = shunt_crc32c(0, front + section->offset, align(section->bytes));
    }
}

/** The least version that has what the plan uses: older executors replay what they can. */
static uint32_t version_minor(const struct file *file)
{
    const struct route_figures *figures = &file->input->route->figures;
    bool newer = file->input->place != NULL || figures->forwarded > 0 || figures->relayed > 0 ||
                 file->summary.transport_per_peer > 0 || parks_any(file->input->problem);
    for (uint32_t d = 0; d < file->input->route->world->device_count; d++)
        newer = newer || file->devices[d].cap_short > 0;
    return newer ? 3 : file->input->route->space->changes ? 2 : 1;
}

static size_t summary_bytes(const struct file *file)
{
    static const uint32_t bytes[] = {SHUNT_PLAN_SUMMARY_BYTES_1_1, SHUNT_PLAN_SUMMARY_BYTES_1_1,
                                     SHUNT_PLAN_SUMMARY_BYTES_1_2, sizeof(file->summary)};
    return bytes[version_minor(file)];
}

static void list_contents(const struct file *file, struct content contents_out[SHUNT_PLAN_SECTION_COUNT])
{
    const struct route *route = file->input->route;
    const struct content contents[SHUNT_PLAN_SECTION_COUNT] = {
        {SHUNT_SECTION_STRINGS, file->strings.items, file->strings.count, 1},
        {SHUNT_SECTION_SUMMARY, &file->summary, summary_bytes(file), summary_bytes(file)},
        {SHUNT_SECTION_TENSORS, file->tensors, route->space->tensor_count * sizeof(*file->tensors),
         sizeof(*file->tensors)},
        {SHUNT_SECTION_DIMS, file->dims.items, file->dims.count, sizeof(int64_t)},
        {SHUNT_SECTION_DEVICES, file->devices, route->world->device_count * sizeof(*file->devices),
         sizeof(*file->devices)},
        {SHUNT_SECTION_PARTS, NULL, file->parts_size, 1},
    };
    memcpy(contents_out, contents, sizeof(contents));
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

/** Header and section table, and with them the id: all else is there. */
static enum shunt_status seal(const struct file *file, unsigned char *front, uint64_t front_bytes,
                              struct output *output, struct shunt_err *err)
{
    const struct route *route = file->input->route;
    struct shunt_plan_header header = {.version_major = SHUNT_PLAN_VERSION_MAJOR,
                                       .version_minor = version_minor(file),
                                       .header_bytes = sizeof(header),
                                       .file_bytes = front_bytes + file->parts_size,
                                       .device_count = route->world->device_count,
                                       .from_rank_count = route->from->grid.rank_count,
                                       .to_rank_count = route->to->grid.rank_count,
                                       .round_count = file->input->schedule->rounds.round_count,
                                       .overlap_depth = file->input->schedule->rounds.depth,
                                       .section_count = SHUNT_PLAN_SECTION_COUNT};
    memcpy(header.magic, SHUNT_PLAN_MAGIC, sizeof(header.magic));
    header.section_table_crc32c = shunt_crc32c(0, file->sections, sizeof(file->sections));
    memcpy(front + sizeof(header), file->sections, sizeof(file->sections));
    if (fill_digests(file->input, &header) != SHUNT_OK)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "cannot compute a digest");
    memcpy(front, &header, sizeof(header));
    enum shunt_status status = digest_plan_id(front, front_bytes, output, header.file_bytes, header.plan_id, err);
    header.header_crc32c = shunt_crc32c(0, &header, sizeof(header));
    memcpy(front, &header, sizeof(header));
    return status;
}

/** What stands in front of the parts, when they are there. */
static enum shunt_status write_front(struct file *file, struct output *output, struct shunt_err *err)
{
    struct content contents[SHUNT_PLAN_SECTION_COUNT];
    list_contents(file, contents);
    uint64_t front_bytes = place_sections(file, contents);
    unsigned char *front = ARENA_NEW(file->arena, unsigned char, front_bytes);
    copy_sections(file, contents, front);
    enum shunt_status status = seal(file, front, front_bytes, output, err);
    if (status != SHUNT_OK)
        return status;
    return output_write(output, 0, front, front_bytes) ? SHUNT_OK : output_fail(output, err);
}

enum shunt_status file_assemble(struct arena *arena, const struct file_input *input, struct output *output,
                                struct shunt_err *err)
{
    struct file file = {.arena = arena, .input = input};
    struct content contents[SHUNT_PLAN_SECTION_COUNT];
    add_string(&file, "");
    list_tensors(&file);
    const struct lowered *lowered = lower_build(arena, input->problem, &input->schedule->rounds);
    const struct timing timing = timing_compute(arena, input->problem, &input->schedule->rounds, lowered);
    fill_summary(&file, &timing);
    add_explanation(&file, &timing);
    list_devices(&file);
    list_contents(&file, contents);
    enum shunt_status status = emit_parts(&file, lowered, output, place_sections(&file, contents), err);
    return status == SHUNT_OK ? write_front(&file, output, err) : status;
}
