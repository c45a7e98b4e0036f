/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL_UNLESS(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static void *allocate(size_t count, size_t size)
{
    void *at = calloc(count > 0 ? count : 1, size);
    FAIL_UNLESS(at != NULL);
    return at;
}

static uint32_t table_add(struct build_table *table, const void *record, size_t size)
{
    if (table->count == table->room) {
        table->room = table->room > 0 ? table->room * 2 : 16;
        table->at = realloc(table->at, table->room * size);
        FAIL_UNLESS(table->at != NULL);
    }
    memcpy((char *)table->at + table->count * size, record, size);
    return table->count++;
}

static void *table_at(const struct build_table *table, uint32_t index, size_t size)
{
    FAIL_UNLESS(index < table->count);
    return (char *)table->at + index * size;
}

static void table_remove(struct build_table *table, uint32_t index, size_t size)
{
    char *at = table_at(table, index, size);
    memmove(at, at + size, (table->count - index - 1) * size);
    table->count--;
}

/* ---- putting together ----------------------------------------------------------- */

struct build *build_create(uint32_t devices, uint32_t rounds, uint32_t depth)
{
    struct build *build = allocate(1, sizeof(*build));
    build->header.device_count = devices;
    build->header.round_count = rounds;
    build->header.overlap_depth = depth;
    build->header.version_minor = SHUNT_PLAN_VERSION_MINOR;
    build->devices = allocate(devices, sizeof(*build->devices));
    build->parts = allocate(devices, sizeof(*build->parts));
    for (uint32_t d = 0; d < devices; d++) {
        build->devices[d].id = d;
        build->devices[d].from_rank = build->devices[d].to_rank = SHUNT_PLAN_NONE;
        build->parts[d].live_bytes = allocate(rounds + 1, sizeof(uint64_t));
    }
    build_string(build, "");
    return build;
}

void build_destroy(struct build *build)
{
    for (uint32_t d = 0; d < build->header.device_count; d++) {
        struct build_part *part = &build->parts[d];
        free(part->live_bytes);
        free(part->buffers.at);
        free(part->holdings.at);
        free(part->views.at);
        free(part->corners.at);
        free(part->ops.at);
        free(part->messages.at);
    }
    free(build->strings.at);
    free(build->tensors.at);
    free(build->dims.at);
    free(build->devices);
    free(build->parts);
    free(build);
}

uint32_t build_string(struct build *build, const char *text)
{
    uint32_t offset = build->strings.count;
    for (size_t i = 0; i <= strlen(text); i++)
        table_add(&build->strings, &text[i], 1);
    return offset;
}

uint32_t build_tensor(struct build *build, const char *name, uint32_t ndim, const int64_t *dims)
{
    struct shunt_plan_tensor tensor = {
        .name = build_string(build, name), .ndim = ndim, .dims = build->dims.count, .elements = 1};
    for (uint32_t d = 0; d < ndim; d++) {
        table_add(&build->dims, &dims[d], sizeof(dims[d]));
        tensor.elements *= (uint64_t)dims[d];
    }
    return table_add(&build->tensors, &tensor, sizeof(tensor));
}

uint32_t build_view(struct build_part *part, uint32_t elem_bytes, uint32_t ndim, const int64_t *shape,
                    const int64_t *strides)
{
    struct shunt_plan_view view = {.ndim = ndim, .elem_bytes = elem_bytes, .shape = {1, 1, 1, 1, 1, 1}};
    int64_t stride = elem_bytes;
    for (uint32_t d = ndim; d-- > 0;) {
        view.shape[d] = shape[d];
        view.stride[d] = strides != NULL ? strides[d] : stride;
        stride *= shape[d];
    }
    for (uint32_t i = 0; i < part->views.count; i++) {
        if (memcmp(table_at(&part->views, i, sizeof(view)), &view, sizeof(view)) == 0)
            return i;
    }
    return table_add(&part->views, &view, sizeof(view));
}

uint32_t build_corner(struct build_part *part, uint32_t ndim, const int64_t *lo)
{
    struct shunt_plan_corner corner = {{0}};
    memcpy(corner.lo, lo, ndim * sizeof(*lo));
    for (uint32_t i = 0; i < part->corners.count; i++) {
        if (memcmp(table_at(&part->corners, i, sizeof(corner)), &corner, sizeof(corner)) == 0)
            return i;
    }
    return table_add(&part->corners, &corner, sizeof(corner));
}

uint32_t build_buffer(struct build *build, uint32_t device, uint32_t tensor, enum shunt_state state,
                      enum shunt_dtype dtype, enum shunt_plan_side side, uint32_t ndim, const int64_t *shape,
                      uint32_t round)
{
    struct build_part *part = &build->parts[device];
    struct shunt_plan_buffer buffer = {.tensor = tensor,
                                       .state = (uint8_t)state,
                                       .dtype = (uint8_t)dtype,
                                       .side = (uint8_t)side,
                                       .bytes = shunt_dtype_bytes(dtype),
                                       .view = build_view(part, shunt_dtype_bytes(dtype), ndim, shape, NULL),
                                       .holding_begin = part->holdings.count,
                                       .alloc_round = SHUNT_PLAN_NONE,
                                       .free_round = SHUNT_PLAN_NONE};
    if (side == SHUNT_SIDE_TO || side == SHUNT_SIDE_SCRATCH)
        buffer.alloc_round = round;
    if (side == SHUNT_SIDE_FROM || side == SHUNT_SIDE_SCRATCH)
        buffer.free_round = round;
    for (uint32_t d = 0; d < ndim; d++)
        buffer.bytes *= (uint64_t)shape[d];
    return table_add(&part->buffers, &buffer, sizeof(buffer));
}

void build_holding(struct build_part *part, uint32_t ndim, const int64_t *lo, const int64_t *shape,
                   const int64_t *strides, uint64_t offset)
{
    struct shunt_plan_buffer *buffer = table_at(&part->buffers, part->buffers.count - 1, sizeof(*buffer));
    struct shunt_plan_holding holding = {.view =
                                             build_view(part, shunt_dtype_bytes(buffer->dtype), ndim, shape, strides),
                                         .corner = build_corner(part, ndim, lo),
                                         .offset = offset};
    table_add(&part->holdings, &holding, sizeof(holding));
    buffer->holding_count++;
}

uint32_t build_op(struct build_part *part, uint32_t round, enum shunt_plan_op_kind kind, uint32_t src_buffer,
                  uint32_t src_view, uint64_t src_offset, uint32_t dst_buffer, uint32_t dst_view, uint64_t dst_offset)
{
    struct build_op op = {round,
                          {.kind = (uint8_t)kind,
                           .src_buffer = src_buffer,
                           .dst_buffer = dst_buffer,
                           .src_view = src_view,
                           .dst_view = dst_view,
                           .src_offset = src_offset,
                           .dst_offset = dst_offset}};
    return table_add(&part->ops, &op, sizeof(op));
}

void build_message(struct build *build, uint32_t device, uint32_t round, enum shunt_plan_direction direction,
                   uint32_t peer, uint64_t offset, uint64_t bytes)
{
    struct build_message message = {round,
                                    {.peer = peer,
                                     .direction = direction,
                                     .buffer = SHUNT_PLAN_STAGING + round % build->header.overlap_depth,
                                     .offset = offset,
                                     .bytes = bytes}};
    table_add(&build->parts[device].messages, &message, sizeof(message));
}

struct shunt_plan_buffer *build_buffer_at(struct build *build, uint32_t device, uint32_t index)
{
    return table_at(&build->parts[device].buffers, index, sizeof(struct shunt_plan_buffer));
}

struct shunt_plan_holding *build_holding_at(struct build *build, uint32_t device, uint32_t index)
{
    return table_at(&build->parts[device].holdings, index, sizeof(struct shunt_plan_holding));
}

struct shunt_plan_view *build_view_at(struct build *build, uint32_t device, uint32_t index)
{
    return table_at(&build->parts[device].views, index, sizeof(struct shunt_plan_view));
}

struct shunt_plan_corner *build_corner_at(struct build *build, uint32_t device, uint32_t index)
{
    return table_at(&build->parts[device].corners, index, sizeof(struct shunt_plan_corner));
}

struct shunt_plan_op *build_op_at(struct build *build, uint32_t device, uint32_t index)
{
    return &((struct build_op *)table_at(&build->parts[device].ops, index, sizeof(struct build_op)))->op;
}

struct shunt_plan_message *build_message_at(struct build *build, uint32_t device, uint32_t index)
{
    return &((struct build_message *)table_at(&build->parts[device].messages, index, sizeof(struct build_message)))
                ->message;
}

void build_remove_op(struct build *build, uint32_t device, uint32_t index)
{
    table_remove(&build->parts[device].ops, index, sizeof(struct build_op));
}

void build_remove_message(struct build *build, uint32_t device, uint32_t index)
{
    table_remove(&build->parts[device].messages, index, sizeof(struct build_message));
}

/* ---- accounting ----------------------------------------------------------------- */

static uint64_t op_bytes(struct build *build, uint32_t device, const struct shunt_plan_op *op)
{
    uint32_t index = op->kind == SHUNT_OP_UNPACK ? op->src_view : op->dst_view;
    const struct shunt_plan_view *view = build_view_at(build, device, index);
    return shunt_plan_view_elements(view) * view->elem_bytes;
}

static void raise_to(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}

/* The cap is that of device memory. */
static uint64_t counted(const struct shunt_plan_buffer *buffer)
{
    return buffer->tier == SHUNT_TIER_DEVICE ? buffer->bytes : 0;
}

static bool is_live(const struct build *build, const struct shunt_plan_buffer *buffer, uint32_t round)
{
    bool end = round == build->header.round_count, live = true;
    if (buffer->side == SHUNT_SIDE_TO || buffer->side == SHUNT_SIDE_SCRATCH)
        live = end || buffer->alloc_round <= round;
    if (buffer->side == SHUNT_SIDE_FROM || buffer->side == SHUNT_SIDE_SCRATCH)
        live = live && !end && buffer->free_round + build->header.overlap_depth > round;
    return live;
}

static uint64_t live_in(struct build *build, uint32_t device, uint32_t round)
{
    const struct build_part *part = &build->parts[device];
    uint64_t live = part->staging_bytes[0] + part->staging_bytes[1] + build->summary.transport + build->summary.reserve;
    for (uint32_t i = 0; i < part->buffers.count; i++) {
        const struct shunt_plan_buffer *buffer = build_buffer_at(build, device, i);
        live += is_live(build, buffer, round) ? counted(buffer) : 0;
    }
    return live;
}

/* Scratch in host memory. */
static uint64_t parked_in(struct build *build, uint32_t device, uint32_t round)
{
    uint64_t parked = 0;
    for (uint32_t i = 0; i < build->parts[device].buffers.count; i++) {
        const struct shunt_plan_buffer *buffer = build_buffer_at(build, device, i);
        bool there = buffer->side == SHUNT_SIDE_SCRATCH && is_live(build, buffer, round);
        parked += there ? buffer->bytes - counted(buffer) : 0;
    }
    return parked;
}

static void account_memory(struct build *build, uint32_t device)
{
    struct shunt_plan_summary *sum = &build->summary;
    struct shunt_plan_device *record = &build->devices[device];
    record->from_bytes = record->to_bytes = record->peak_bytes = 0;
    for (uint32_t i = 0; i < build->parts[device].buffers.count; i++) {
        const struct shunt_plan_buffer *buffer = build_buffer_at(build, device, i);
        const bool scratch = buffer->side == SHUNT_SIDE_SCRATCH;
        record->from_bytes += buffer->side != SHUNT_SIDE_TO && !scratch ? counted(buffer) : 0;
        record->to_bytes += buffer->side != SHUNT_SIDE_FROM && !scratch ? counted(buffer) : 0;
        sum->ops += scratch ? 2 : buffer->side != SHUNT_SIDE_BOTH;
        if (buffer->side == SHUNT_SIDE_FROM && buffer->free_round < sum->rollback_until_round)
            sum->rollback_until_round = buffer->free_round;
        for (uint32_t h = 0; buffer->side == SHUNT_SIDE_BOTH && h < buffer->holding_count; h++) {
            const struct shunt_plan_view *view =
                build_view_at(build, device, build_holding_at(build, device, buffer->holding_begin + h)->view);
            sum->kept += shunt_plan_view_elements(view) * view->elem_bytes;
        }
    }
    for (uint32_t k = 0; k <= build->header.round_count; k++) {
        build->parts[device].live_bytes[k] = live_in(build, device, k);
        raise_to(&record->peak_bytes, build->parts[device].live_bytes[k]);
        raise_to(&sum->host_peak, parked_in(build, device, k));
    }
    if (record->peak_bytes > sum->peak)
        sum->peak_device = device;
    raise_to(&sum->peak, record->peak_bytes);
    raise_to(&sum->from_max, record->from_bytes);
    raise_to(&sum->to_max, record->to_bytes);
    raise_to(&sum->staging, build->parts[device].staging_bytes[0] + build->parts[device].staging_bytes[1]);
}

/* The device that a packed byte goes to. */
static uint32_t peer_of(struct build *build, uint32_t device, uint32_t round, uint64_t offset)
{
    const struct build_table *messages = &build->parts[device].messages;
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct build_message *message = table_at(messages, i, sizeof(*message));
        if (message->round == round && message->message.direction == SHUNT_SEND && offset >= message->message.offset &&
            offset < message->message.offset + message->message.bytes)
            return message->message.peer;
    }
    return device;
}

static bool writes_scratch(struct build *build, uint32_t device, const struct shunt_plan_op *op)
{
    return op->dst_buffer < build->parts[device].buffers.count &&
           build_buffer_at(build, device, op->dst_buffer)->side == SHUNT_SIDE_SCRATCH;
}

static void account_ops(struct build *build, uint32_t device)
{
    struct shunt_plan_summary *sum = &build->summary;
    uint64_t sent = 0, received = 0;
    for (uint32_t i = 0; i < build->parts[device].ops.count; i++) {
        const struct build_op *op = table_at(&build->parts[device].ops, i, sizeof(*op));
        uint64_t bytes = op_bytes(build, device, &op->op);
        bool scratch = writes_scratch(build, device, &op->op);
        sum->local += op->op.kind == SHUNT_OP_COPY ? bytes : 0;
        sum->parked += op->op.kind == SHUNT_OP_COPY && scratch ? bytes : 0;
        sum->relayed += op->op.kind == SHUNT_OP_UNPACK && scratch ? bytes : 0;
        sum->filled += op->op.kind == SHUNT_OP_FILL ? bytes : 0;
        received += op->op.kind == SHUNT_OP_UNPACK ? bytes : 0;
        if (op->op.kind != SHUNT_OP_PACK)
            continue;
        if (build_buffer_at(build, device, op->op.src_buffer)->side == SHUNT_SIDE_TO)
            sum->forwarded += bytes;
        uint32_t peer = peer_of(build, device, op->round, op->op.dst_offset);
        bool inside = build->devices[peer].node == build->devices[device].node;
        *(inside ? &sum->intra_node : &sum->inter_node) += bytes;
        sent += bytes;
    }
    sum->ops += build->parts[device].ops.count;
    sum->moved += sent;
    raise_to(&sum->max_send, sent);
    raise_to(&sum->max_recv, received);
}

static void account_messages(struct build *build, uint32_t device)
{
    struct shunt_plan_summary *sum = &build->summary;
    const struct build_table *messages = &build->parts[device].messages;
    uint32_t peers = 0;
    uint32_t *in_round = allocate(build->header.round_count, sizeof(*in_round));
    bool *met = allocate(build->header.device_count, sizeof(*met));
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct build_message *message = table_at(messages, i, sizeof(*message));
        peers += !met[message->message.peer];
        met[message->message.peer] = true;
        if (++in_round[message->round] > sum->max_group_messages)
            sum->max_group_messages = in_round[message->round];
    }
    if (peers > sum->max_peers)
        sum->max_peers = peers;
    free(in_round);
    free(met);
}

void build_account(struct build *build)
{
    struct shunt_plan_summary *sum = &build->summary;
    struct shunt_plan_summary names = *sum;
    *sum = (struct shunt_plan_summary){.model = names.model,
                                       .from = names.from,
                                       .to = names.to,
                                       .cluster = names.cluster,
                                       .method = names.method,
                                       .solver = names.solver,
                                       .solver_status = names.solver_status,
                                       .placement = names.placement,
                                       .state_notes = names.state_notes,
                                       .reserve = names.reserve,
                                       .transport = names.transport,
                                       .rollback_until_round = build->header.round_count};
    for (uint32_t d = 0; d < build->header.device_count; d++) {
        account_memory(build, d);
        account_ops(build, d);
        account_messages(build, d);
    }
    sum->local += sum->kept;
    sum->needed_remote = sum->moved - sum->relayed; /* these plans receive only what they lack */
    sum->cap = sum->least_cap = sum->peak_lower_bound = sum->peak;
    sum->inter_node_lower_bound = sum->inter_node;
    sum->predicted_seconds = 2e-3;
    sum->lower_bound_seconds = sum->lower_bound_rounds_seconds = 1e-3;
}

/* ---- encoding ------------------------------------------------------------------- */

struct writer {
    unsigned char *bytes; /* NULL: measure only */
    size_t at;
};

static void put(struct writer *writer, const void *bytes, size_t size)
{
    if (writer->bytes != NULL && size > 0)
        memcpy(writer->bytes + writer->at, bytes, size);
    writer->at += size;
}

static void align(struct writer *writer, size_t unit)
{
    static const unsigned char zeros[SHUNT_PLAN_ALIGN];
    put(writer, zeros, (unit - writer->at % unit) % unit);
}

static void put_table(struct writer *writer, const struct build_table *table, size_t size)
{
    put(writer, table->at, table->count * size);
    align(writer, 8);
}

/* Ops of one half of a round, in order. Returns how many. */
static uint32_t put_ops(struct writer *writer, const struct build_part *part, uint32_t round, bool unpacks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < part->ops.count; i++) {
        const struct build_op *op = table_at(&part->ops, i, sizeof(*op));
        if (op->round != round || (op->op.kind == SHUNT_OP_UNPACK) != unpacks)
            continue;
        put(writer, &op->op, sizeof(op->op));
        count++;
    }
    return count;
}

static uint32_t put_messages(struct writer *writer, const struct build_part *part, uint32_t round)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < part->messages.count; i++) {
        const struct build_message *message = table_at(&part->messages, i, sizeof(*message));
        if (message->round != round)
            continue;
        put(writer, &message->message, sizeof(message->message));
        count++;
    }
    return count;
}

static void put_rounds(struct writer *writer, const struct build_part *part, uint32_t rounds)
{
    struct writer none = {0};
    struct shunt_plan_round round = {0};
    for (uint32_t k = 0; k <= rounds; k++) {
        round.unpack_begin = round.op_begin + (k < rounds ? put_ops(&none, part, k, false) : 0);
        round.live_bytes = part->live_bytes[k];
        put(writer, &round, sizeof(round));
        round.op_begin = round.unpack_begin + (k < rounds ? put_ops(&none, part, k, true) : 0);
        round.message_begin += k < rounds ? put_messages(&none, part, k) : 0;
    }
    align(writer, 8);
}

static void put_part(struct writer *writer, const struct build *build, uint32_t device)
{
    const struct build_part *part = &build->parts[device];
    uint32_t rounds = build->header.round_count;
    struct shunt_plan_part_header header = {.device = device,
                                            .buffer_count = part->buffers.count,
                                            .holding_count = part->holdings.count,
                                            .view_count = part->views.count,
                                            .corner_count = part->corners.count,
                                            .op_count = part->ops.count,
                                            .message_count = part->messages.count};
    memcpy(header.staging_bytes, part->staging_bytes, sizeof(header.staging_bytes));
    put(writer, &header, sizeof(header));
    put_table(writer, &part->buffers, sizeof(struct shunt_plan_buffer));
    put_table(writer, &part->holdings, sizeof(struct shunt_plan_holding));
    put_table(writer, &part->views, sizeof(struct shunt_plan_view));
    put_table(writer, &part->corners, sizeof(struct shunt_plan_corner));
    put_rounds(writer, part, rounds);
    for (uint32_t k = 0; k < rounds; k++) {
        put_ops(writer, part, k, false);
        put_ops(writer, part, k, true);
    }
    for (uint32_t k = 0; k < rounds; k++)
        put_messages(writer, part, k);
    align(writer, SHUNT_PLAN_ALIGN);
}

/* `table` and `devices` are filled on the measuring pass and written on the second. */
static void put_plan(struct writer *writer, const struct build *build, const struct shunt_plan_header *header,
                     struct shunt_plan_section *table, struct shunt_plan_device *devices)
{
    const uint32_t summary_bytes = header->version_minor < 2 ? 248 : header->version_minor == 2 ? 256 : 288;
    const uint32_t record_bytes[SHUNT_PLAN_SECTION_COUNT] = {1, summary_bytes, 24, 8, 64, 1};
    put(writer, header, sizeof(*header));
    put(writer, table, SHUNT_PLAN_SECTION_COUNT * sizeof(*table));
    for (uint32_t i = 0; i < SHUNT_PLAN_SECTION_COUNT; i++) {
        table[i] = (struct shunt_plan_section){.kind = i + 1, .offset = writer->at, .record_bytes = record_bytes[i]};
        if (i == 0)
            put(writer, build->strings.at, build->strings.count);
        else if (i == 1)
            put(writer, &build->summary, summary_bytes);
        else if (i == 2)
            put(writer, build->tensors.at, build->tensors.count * sizeof(struct shunt_plan_tensor));
        else if (i == 3)
            put(writer, build->dims.at, build->dims.count * sizeof(int64_t));
        else if (i == 4)
            put(writer, devices, build->header.device_count * sizeof(*devices));
        for (uint32_t d = 0; i == 5 && d < build->header.device_count; d++) {
            devices[d].part_offset = writer->at;
            put_part(writer, build, d);
            devices[d].part_bytes = writer->at - devices[d].part_offset;
        }
        table[i].bytes = writer->at - table[i].offset;
        align(writer, SHUNT_PLAN_ALIGN);
    }
}

struct image build_encode(const struct build *build)
{
    struct shunt_plan_header header = build->header;
    struct shunt_plan_section table[SHUNT_PLAN_SECTION_COUNT] = {{0}};
    struct shunt_plan_device *devices = allocate(header.device_count, sizeof(*devices));
    memcpy(devices, build->devices, header.device_count * sizeof(*devices));
    memcpy(header.magic, SHUNT_PLAN_MAGIC, sizeof(header.magic));
    header.version_major = SHUNT_PLAN_VERSION_MAJOR;
    header.header_bytes = sizeof(header);
    header.section_count = SHUNT_PLAN_SECTION_COUNT;
    struct writer writer = {0};
    put_plan(&writer, build, &header, table, devices);
    header.file_bytes = writer.at;
    struct image image = {allocate(writer.at, 1), writer.at};
    writer = (struct writer){.bytes = image.bytes};
    put_plan(&writer, build, &header, table, devices);
    FAIL_UNLESS(writer.at == image.size);
    free(devices);
    image_seal(&image);
    return image;
}

/* ---- images --------------------------------------------------------------------- */

struct image image_copy(const struct image *image)
{
    struct image copy = {allocate(image->size, 1), image->size};
    memcpy(copy.bytes, image->bytes, image->size);
    return copy;
}

void image_finish(struct image *image)
{
    free(image->bytes);
    *image = (struct image){0};
}

struct shunt_plan_header *image_header(struct image *image)
{
    return (void *)image->bytes;
}

struct shunt_plan_section *image_section(struct image *image, uint32_t kind)
{
    return (void *)(image->bytes + sizeof(struct shunt_plan_header) + (kind - 1) * sizeof(struct shunt_plan_section));
}

void *image_in_section(struct image *image, uint32_t kind, uint64_t offset)
{
    return image->bytes + image_section(image, kind)->offset + offset;
}

struct shunt_plan_device *image_device(struct image *image, uint32_t device)
{
    return image_in_section(image, SHUNT_SECTION_DEVICES, device * sizeof(struct shunt_plan_device));
}

struct shunt_plan_part_header *image_part(struct image *image, uint32_t device)
{
    return (void *)(image->bytes + image_device(image, device)->part_offset);
}

void *image_record(struct image *image, uint32_t device, enum build_part_table table, uint32_t index)
{
    struct shunt_plan_part_header *header = image_part(image, device);
    const uint64_t sizes[] = {40, 16, 104, 48, 24, 40, 32, 0};
    const uint64_t counts[] = {header->buffer_count,
                               header->holding_count,
                               header->view_count,
                               header->corner_count,
                               image_header(image)->round_count + 1,
                               header->op_count,
                               header->message_count,
                               0};
    unsigned char *at = (unsigned char *)(header + 1);
    for (unsigned i = 0; i < table; i++)
        at += sizes[i] * counts[i];
    return at + sizes[table] * index;
}

static bool lies_inside(const struct image *image, uint64_t offset, uint64_t bytes)
{
    return offset <= image->size && bytes <= image->size - offset;
}

/* Works on copies: in a spoiled image the device records may lie over the section table. */
static void seal_parts(struct image *image)
{
    const struct shunt_plan_section section = *image_section(image, SHUNT_SECTION_DEVICES);
    const size_t step = sizeof(struct shunt_plan_device);
    if (!lies_inside(image, section.offset, section.bytes))
        return;
    for (uint64_t at = 0; section.bytes >= step && at <= section.bytes - step; at += step) {
        struct shunt_plan_device device;
        memcpy(&device, image->bytes + section.offset + at, sizeof(device));
        if (lies_inside(image, device.part_offset, device.part_bytes))
            device.part_crc32c = shunt_crc32c(0, image->bytes + device.part_offset, device.part_bytes);
        memcpy(image->bytes + section.offset + at, &device, sizeof(device));
    }
}

void image_seal(struct image *image)
{
    const size_t table_bytes = SHUNT_PLAN_SECTION_COUNT * sizeof(struct shunt_plan_section);
    if (image->size < sizeof(struct shunt_plan_header) + table_bytes)
        return;
    seal_parts(image);
    for (uint32_t kind = SHUNT_SECTION_STRINGS; kind < SHUNT_SECTION_PARTS; kind++) {
        struct shunt_plan_section *section = image_section(image, kind);
        if (!lies_inside(image, section->offset, section->bytes))
            continue;
        uint64_t end = section->offset + section->bytes;
        end += (SHUNT_PLAN_ALIGN - end % SHUNT_PLAN_ALIGN) % SHUNT_PLAN_ALIGN;
        if (end <= image->size)
            section->crc32c = shunt_crc32c(0, image->bytes + section->offset, end - section->offset);
    }
    struct shunt_plan_header *header = image_header(image);
    header->section_table_crc32c = shunt_crc32c(0, header + 1, table_bytes);
    header->header_crc32c = 0;
    header->header_crc32c = shunt_crc32c(0, header, sizeof(*header));
}
