/* SPDX-License-Identifier: Apache-2.0 */
/** `shunt inspect PLAN --device D`: what one device holds and does, round by round. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "format.h"
#include "inspect.h"
#include "json.h"

struct round_row {
    uint64_t allocs, copies, packs, fills, sends, recvs, unpacks, frees;
    uint64_t bytes_sent, bytes_received, live_bytes;
};

static const struct column {
    const char *key;
    const char *head;
    int width;
    bool is_bytes;
    size_t offset;
} columns[] = {
    {"allocs", "alloc", 6, false, offsetof(struct round_row, allocs)},
    {"copies", "copy", 6, false, offsetof(struct round_row, copies)},
    {"packs", "pack", 6, false, offsetof(struct round_row, packs)},
    {"fills", "fill", 6, false, offsetof(struct round_row, fills)},
    {"sends", "send", 5, false, offsetof(struct round_row, sends)},
    {"recvs", "recv", 5, false, offsetof(struct round_row, recvs)},
    {"unpacks", "unpack", 7, false, offsetof(struct round_row, unpacks)},
    {"frees", "free", 6, false, offsetof(struct round_row, frees)},
    {"bytes_sent", "sent", 11, true, offsetof(struct round_row, bytes_sent)},
    {"bytes_received", "received", 11, true, offsetof(struct round_row, bytes_received)},
    {"live_bytes", "live", 11, true, offsetof(struct round_row, live_bytes)},
};
#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

/* buffers of one side: how many, and how many bytes */
struct side_sum {
    uint64_t buffers, bytes;
    uint64_t host_bytes; /* of the bytes, those in host memory */
};

static const char *const side_keys[] = {"from_only", "to_only", "kept", "scratch"}; /* by enum shunt_plan_side */
#define SIDE_COUNT 4

struct device_view {
    const struct shunt_plan_device *device;
    uint64_t cap, peer_bytes; /* what it may have live; what its transport has for its peers */
    struct shunt_plan_part part;
    struct side_sum sides[SIDE_COUNT];
    uint32_t peer_count; /* distinct devices that it sends to or receives from */
    uint32_t round_count;
    struct round_row *rows; /* a row per round, and their total */
};

static uint64_t cell(const struct round_row *row, const struct column *column)
{
    return *(const uint64_t *)((const char *)row + column->offset);
}

/* ---- counting --------------------------------------------------------------------- */

static void count_buffers(struct device_view *view)
{
    for (uint32_t i = 0; i < view->part.header->buffer_count; i++) {
        const struct shunt_plan_buffer *buffer = &view->part.buffers[i];
        view->sides[buffer->side].buffers++;
        view->sides[buffer->side].bytes += buffer->bytes;
        view->sides[buffer->side].host_bytes += buffer->tier == SHUNT_TIER_HOST ? buffer->bytes : 0;
        if (buffer->alloc_round < view->round_count)
            view->rows[buffer->alloc_round].allocs++;
        if (buffer->free_round < view->round_count)
            view->rows[buffer->free_round].frees++;
    }
}

static void count_ops(const struct shunt_plan_part *part, const struct shunt_plan_round *round, struct round_row *row)
{
    uint64_t *const counters[] = {
        [SHUNT_OP_COPY] = &row->copies,
        [SHUNT_OP_PACK] = &row->packs,
        [SHUNT_OP_FILL] = &row->fills,
        [SHUNT_OP_UNPACK] = &row->unpacks,
    };

    for (uint32_t i = round[0].op_begin; i < round[1].op_begin; i++)
        ++*counters[part->ops[i].kind];
}

static void count_messages(const struct shunt_plan_part *part, const struct shunt_plan_round *round,
                           struct round_row *row)
{
    for (uint32_t i = round[0].message_begin; i < round[1].message_begin; i++) {
        const struct shunt_plan_message *message = &part->messages[i];
        bool send = message->direction == SHUNT_SEND;
        *(send ? &row->sends : &row->recvs) += 1;
        *(send ? &row->bytes_sent : &row->bytes_received) += message->bytes;
    }
}

/* Transports keep buffers for each peer: how many there are says what those may take. */
static bool count_peers(struct device_view *view, uint32_t device_count)
{
    bool *met = calloc(device_count, sizeof(*met));

    if (met == NULL)
        return false;
    for (uint32_t i = 0; i < view->part.header->message_count; i++) {
        bool *peer = &met[view->part.messages[i].peer];
        view->peer_count += !*peer;
        *peer = true;
    }
    free(met);
    return true;
}

/* Sums; for live bytes the most. */
static void add_to_total(struct round_row *total, const struct round_row *row)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        *(uint64_t *)((char *)total + columns[i].offset) += cell(row, &columns[i]);
    total->live_bytes -= row->live_bytes;
    if (total->live_bytes < row->live_bytes)
        total->live_bytes = row->live_bytes;
}

static void set_cap(struct device_view *view, const struct shunt_plan_summary *summary)
{
    view->cap = summary->cap - (uint64_t)view->device->cap_short * SHUNT_PLAN_SHORT_BYTES;
    view->peer_bytes = (uint64_t)view->peer_count * summary->transport_per_peer;
}

static enum shunt_status open_view(const struct shunt_plan *plan, uint32_t device, struct device_view *view,
                                   struct shunt_err *err)
{
    enum shunt_status status;

    *view = (struct device_view){.device = shunt_plan_get_device(plan, device)};
    status = shunt_plan_get_part(plan, device, &view->part, err);
    if (status != SHUNT_OK)
        return status;
    view->round_count = shunt_plan_get_header(plan)->round_count;
    view->rows = calloc(view->round_count + (size_t)1, sizeof(*view->rows));
    if (view->rows == NULL || !count_peers(view, shunt_plan_get_header(plan)->device_count)) {
        free(view->rows);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "inspect: out of memory for %" PRIu32 " rounds", view->round_count);
    }
    count_buffers(view);
    set_cap(view, shunt_plan_get_summary(plan));
    for (uint32_t r = 0; r < view->round_count; r++) {
        const struct shunt_plan_round *round = &view->part.rounds[r];
        view->rows[r].live_bytes = round->live_bytes;
        count_ops(&view->part, round, &view->rows[r]);
        count_messages(&view->part, round, &view->rows[r]);
        add_to_total(&view->rows[view->round_count], &view->rows[r]);
    }
    return SHUNT_OK;
}

/* ---- page ------------------------------------------------------------------------- */

static void print_sum(const char *label, struct side_sum sum)
{
    printf("  %-10s %6s buffers %11s %20s\n", label, fmt_count(sum.buffers).s, fmt_bytes(sum.bytes).s,
           fmt_count(sum.bytes).s);
    if (sum.host_bytes > 0)
        printf("    of it on the host      %11s %20s\n", fmt_bytes(sum.host_bytes).s, fmt_count(sum.host_bytes).s);
}

static struct side_sum add_sums(struct side_sum a, struct side_sum b)
{
    return (struct side_sum){a.buffers + b.buffers, a.bytes + b.bytes, a.host_bytes + b.host_bytes};
}

static void print_device_head(const struct device_view *view)
{
    const struct shunt_plan_device *device = view->device;
    const struct side_sum *sides = view->sides;
    const uint64_t *staging = view->part.header->staging_bytes;

    printf("device %" PRIu32 "  node %" PRIu32 "  rank %s -> %s\n\n", device->id, device->node,
           fmt_rank(device->from_rank, "none").s, fmt_rank(device->to_rank, "none").s);
    print_sum("old side", add_sums(sides[SHUNT_SIDE_FROM], sides[SHUNT_SIDE_BOTH]));
    print_sum("new side", add_sums(sides[SHUNT_SIDE_TO], sides[SHUNT_SIDE_BOTH]));
    print_sum("both", sides[SHUNT_SIDE_BOTH]);
    if (sides[SHUNT_SIDE_SCRATCH].buffers > 0)
        print_sum("scratch", sides[SHUNT_SIDE_SCRATCH]);
    printf("  peers      %6s", fmt_count(view->peer_count).s);
    if (view->peer_bytes > 0)
        printf(" peers   %11s %20s", fmt_bytes(view->peer_bytes).s, fmt_count(view->peer_bytes).s);
    printf("\n  cap        %26s %20s\n", fmt_bytes(view->cap).s, fmt_count(view->cap).s);
    printf("  peak       %26s %20s\n", fmt_bytes(device->peak_bytes).s, fmt_count(device->peak_bytes).s);
    for (uint32_t i = 0; i < SHUNT_PLAN_MAX_DEPTH; i++)
        printf("  staging %" PRIu32 "  %26s %20s\n", i, fmt_bytes(staging[i]).s, fmt_count(staging[i]).s);
}

static void print_row(const char *name, const struct round_row *row)
{
    printf("%7s", name);
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        uint64_t value = cell(row, &columns[i]);
        printf(" %*s", columns[i].width, columns[i].is_bytes ? fmt_bytes(value).s : fmt_count(value).s);
    }
    putchar('\n');
}

static void print_rows(const struct device_view *view)
{
    printf("\n%7s", "round");
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        printf(" %*s", columns[i].width, columns[i].head);
    putchar('\n');
    for (uint32_t r = 0; r < view->round_count; r++)
        print_row(fmt_rank(r, "").s, &view->rows[r]);
    print_row("all", &view->rows[view->round_count]);
}

enum shunt_status inspect_device_page(const struct shunt_plan *plan, uint32_t device, struct shunt_err *err)
{
    struct device_view view;
    enum shunt_status status = open_view(plan, device, &view, err);

    if (status != SHUNT_OK)
        return status;
    print_device_head(&view);
    print_rows(&view);
    free(view.rows);
    return SHUNT_OK;
}

/* ---- JSON ------------------------------------------------------------------------- */

void inspect_key_rank(struct json *json, const char *key, uint32_t rank)
{
    json_key(json, key);
    if (rank == SHUNT_PLAN_NONE)
        json_null(json);
    else
        json_u64(json, rank);
}

static void json_device(struct json *json, const struct device_view *view)
{
    const struct shunt_plan_device *device = view->device;

    json_key_u64(json, "device", device->id);
    json_key_u64(json, "node", device->node);
    inspect_key_rank(json, "from_rank", device->from_rank);
    inspect_key_rank(json, "to_rank", device->to_rank);
    json_key_u64(json, "from_bytes", device->from_bytes);
    json_key_u64(json, "to_bytes", device->to_bytes);
    json_key_u64(json, "peak_bytes", device->peak_bytes);
    json_key_u64(json, "cap", view->cap);
    json_key_u64(json, "peers", view->peer_count);
    json_key_u64(json, "peer_bytes", view->peer_bytes);
    json_key(json, "staging");
    json_array_begin(json);
    for (uint32_t i = 0; i < SHUNT_PLAN_MAX_DEPTH; i++)
        json_u64(json, view->part.header->staging_bytes[i]);
    json_array_end(json);
}

static void json_sides(struct json *json, const struct device_view *view)
{
    json_key(json, "buffers");
    json_object_begin(json);
    for (int i = 0; i < SIDE_COUNT; i++) {
        json_key(json, side_keys[i]);
        json_object_begin(json);
        json_key_u64(json, "count", view->sides[i].buffers);
        json_key_u64(json, "bytes", view->sides[i].bytes);
        json_key_u64(json, "host_bytes", view->sides[i].host_bytes);
        json_object_end(json);
    }
    json_object_end(json);
}

static void json_rounds(struct json *json, const struct device_view *view)
{
    json_key(json, "rounds");
    json_array_begin(json);
    for (uint32_t r = 0; r < view->round_count; r++) {
        json_object_begin(json);
        json_key_u64(json, "round", r);
        for (size_t i = 0; i < COLUMN_COUNT; i++)
            json_key_u64(json, columns[i].key, cell(&view->rows[r], &columns[i]));
        json_object_end(json);
    }
    json_array_end(json);
}

enum shunt_status inspect_device_json(const struct shunt_plan *plan, uint32_t device, struct shunt_err *err)
{
    struct device_view view;
    struct json json;
    enum shunt_status status = open_view(plan, device, &view, err);

    if (status != SHUNT_OK)
        return status;
    json_init(&json, stdout, true);
    json_object_begin(&json);
    json_device(&json, &view);
    json_sides(&json, &view);
    json_rounds(&json, &view);
    json_object_end(&json);
    json_finish(&json);
    free(view.rows);
    return SHUNT_OK;
}
