/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/exact_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    struct arena *arena;
    const struct problem *problem;
    const struct exact_kinds *kinds;
    struct exact_rows *rows;
    struct clock_rates *rates;                  /* by device */
    VEC(struct exact_term) * terms;             /* by port: bytes by part */
    struct pair_part *pair_parts;               /* of all messages, sorted by pair, then part */
    uint32_t pair_part_count, *family_of_entry; /* by entry: the family of its pair */
};

/** Bytes that a part brings to a pair. */
struct pair_part {
    struct exact_message message;
    uint32_t part;
};

static int compare_pair_parts(const void *a, const void *b)
{
    const struct pair_part *x = a, *y = b;
    if (x->message.source != y->message.source)
        return x->message.source < y->message.source ? -1 : 1;
    if (x->message.taker != y->message.taker)
        return x->message.taker < y->message.taker ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

/** Whether a asks for no less than b, whatever the columns are. */
static bool outweighs(const struct exact_row *a, const struct exact_row *b)
{
    uint32_t i = 0;
    for (uint32_t k = 0; k < b->count; k++) {
        while (i < a->count && a->terms[i].column < b->terms[k].column)
            i++;
        if (i == a->count || a->terms[i].column != b->terms[k].column || a->terms[i].value < b->terms[k].value)
            return false;
    }
    return true;
}

/** Add a row unless another outweighs it, in place of those that it outweighs. */
static void add_row(struct builder *builder, exact_row_vec *rows, const struct exact_row *row)
{
    size_t kept = 0;
    if (row->count == 0)
        return;
    for (size_t r = 0; r < rows->count; r++) {
        if (outweighs(&rows->items[r], row))
            return;
    }
    for (size_t r = 0; r < rows->count; r++) {
        if (!outweighs(row, &rows->items[r]))
            rows->items[kept++] = rows->items[r];
    }
    rows->count = kept;
    *VEC_PUSH(builder->arena, rows) = *row;
}

/** A row of dense sums; clears them. */
static struct exact_row take_row(struct builder *builder, double *sums, uint32_t columns)
{
    struct exact_row row = {0};
    for (uint32_t c = 0; c < columns; c++)
        row.count += sums[c] > 0;
    row.terms = ARENA_NEW(builder->arena, struct exact_term, row.count);
    row.count = 0;
    for (uint32_t c = 0; c < columns; c++) {
        if (sums[c] > 0)
            row.terms[row.count++] = (struct exact_term){c, sums[c]};
        sums[c] = 0;
    }
    return row;
}

static void add_port(const struct builder *builder, uint32_t device, enum port_kind kind, double factor, double *sums)
{
    size_t port = (size_t)device * PORT_KINDS + kind;
    for (size_t i = 0; i < builder->terms[port].count; i++)
        sums[builder->terms[port].items[i].column] += builder->terms[port].items[i].value * factor;
}

static void list_ports(struct builder *builder)
{
    const struct exact_kinds *kinds = builder->kinds;
    builder->terms = arena_alloc(builder->arena, kinds->port_count, sizeof(*builder->terms));
    for (uint32_t q = 0; q < kinds->part_count; q++) {
        for (uint32_t l = 0; l < kinds->parts[q].load_count; l++) {
            const struct load *load = &kinds->parts[q].loads[l];
            *VEC_PUSH(builder->arena, &builder->terms[load->port]) = (struct exact_term){q, (double)load->bytes};
        }
    }
}

static void list_pairs(struct builder *builder)
{
    const struct exact_kinds *kinds = builder->kinds;
    uint32_t count = 0;
    for (uint32_t q = 0; q < kinds->part_count; q++)
        count += kinds->parts[q].message_count;
    builder->pair_parts = ARENA_NEW(builder->arena, struct pair_part, count);
    for (uint32_t q = 0; q < kinds->part_count; q++) {
        for (uint32_t i = 0; i < kinds->parts[q].message_count; i++)
            builder->pair_parts[builder->pair_part_count++] = (struct pair_part){kinds->parts[q].messages[i], q};
    }
    if (count > 1)
        qsort(builder->pair_parts, count, sizeof(*builder->pair_parts), compare_pair_parts);
}

/** End of the entries of the pair that begins here. */
static uint32_t pair_end(const struct builder *builder, uint32_t begin)
{
    uint32_t end = begin;
    const struct exact_message *first = &builder->pair_parts[begin].message;
    while (end < builder->pair_part_count && builder->pair_parts[end].message.source == first->source &&
           builder->pair_parts[end].message.taker == first->taker)
        end++;
    return end;
}

static bool is_family(const struct builder *builder, const struct exact_family *family, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; family->part_count == end - begin && i < end; i++) {
        if (family->parts[i - begin] != builder->pair_parts[i].part)
            return false;
    }
    return family->part_count == end - begin;
}

static void find_families(struct builder *builder)
{
    VEC(struct exact_family) families = {0};
    builder->family_of_entry = ARENA_NEW(builder->arena, uint32_t, builder->pair_part_count);
    for (uint32_t begin = 0, end; begin < builder->pair_part_count; begin = end) {
        uint32_t f = 0;
        end = pair_end(builder, begin);
        while (f < families.count && !is_family(builder, &families.items[f], begin, end))
            f++;
        builder->family_of_entry[begin] = f;
        if (f < families.count)
            continue;
        struct exact_family family = {.parts = ARENA_NEW(builder->arena, uint32_t, end - begin)};
        for (uint32_t i = begin; i < end; i++)
            family.parts[family.part_count++] = builder->pair_parts[i].part;
        *VEC_PUSH(builder->arena, &families) = family;
    }
    builder->rows->families = families.items;
    builder->rows->family_count = (uint32_t)families.count;
}

/** Messages of each device by family: its share of the columns behind those of the parts. */
static uint32_t **count_messages(struct builder *builder)
{
    uint32_t devices = builder->problem->route->world->device_count;
    uint32_t **counts = ARENA_NEW(builder->arena, uint32_t *, devices);
    for (uint32_t d = 0; d < devices; d++)
        counts[d] = ARENA_NEW(builder->arena, uint32_t, builder->rows->family_count);
    for (uint32_t begin = 0; begin < builder->pair_part_count; begin = pair_end(builder, begin)) {
        const struct exact_message *message = &builder->pair_parts[begin].message;
        counts[message->source][builder->family_of_entry[begin]]++;
        counts[message->taker][builder->family_of_entry[begin]]++;
    }
    return counts;
}

/** Seconds of the messages that a device has in a round. */
static void add_messages(const struct builder *builder, const uint32_t *counts, double *sums)
{
    double seconds = builder->problem->route->world->cluster->message_seconds;
    for (uint32_t f = 0; builder->rows->messages && f < builder->rows->family_count; f++)
        sums[builder->kinds->part_count + f] += counts[f] * seconds;
}

static void add_links(struct builder *builder, uint32_t device, const uint32_t *counts, double *sums, uint32_t columns)
{
    const struct clock_rates *rates = &builder->rates[device];
    for (enum port_kind kind = PORT_NODE_OUT; kind <= PORT_POOL_IN; kind++) {
        if (rates->seconds_per_byte[kind] <= 0 || builder->terms[(size_t)device * PORT_KINDS + kind].count == 0)
            continue;
        add_port(builder, device, kind, rates->seconds_per_byte[kind], sums);
        if (port_is_wire(kind))
            add_messages(builder, counts, sums);
        const struct exact_row row = take_row(builder, sums, columns);
        add_row(builder, &builder->rows->wire, &row);
    }
}

/** One message between nodes takes its own time, whatever the ports can do. */
static void add_longest(struct builder *builder, uint32_t begin, uint32_t device, const uint32_t *counts, double *sums,
                        uint32_t columns)
{
    double seconds = builder->rates[device].message;
    if (seconds <= 0)
        return;
    for (uint32_t i = begin, end = pair_end(builder, begin); i < end; i++)
        sums[builder->pair_parts[i].part] += (double)builder->pair_parts[i].message.bytes * seconds;
    add_messages(builder, counts, sums);
    const struct exact_row row = take_row(builder, sums, columns);
    add_row(builder, &builder->rows->wire, &row);
}

static void add_copies(struct builder *builder, uint32_t device, double *sums, uint32_t columns)
{
    static const struct {
        enum port_kind kinds[2];
        bool behind;
    } copies[] = {{{PORT_PACK, PORT_COPY}, false},
                  {{PORT_HOST_READ, PORT_HOST_READ}, false},
                  {{PORT_HOST_COPY, PORT_HOST_COPY}, false},
                  {{PORT_UNPACK, PORT_UNPACK}, true},
                  {{PORT_HOST_WRITE, PORT_HOST_WRITE}, true}};
    const double *rate = builder->rates[device].seconds_per_byte;
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
        add_port(builder, device, copies[i].kinds[0], rate[copies[i].kinds[0]], sums);
        if (copies[i].kinds[1] != copies[i].kinds[0])
            add_port(builder, device, copies[i].kinds[1], rate[copies[i].kinds[1]], sums);
        const struct exact_row row = take_row(builder, sums, columns);
        add_row(builder, copies[i].behind ? &builder->rows->behind : &builder->rows->before, &row);
    }
}

static void add_times(struct builder *builder)
{
    const struct world *world = builder->problem->route->world;
    uint32_t columns = builder->kinds->part_count + builder->rows->family_count;
    uint32_t **counts = count_messages(builder);
    double *sums = ARENA_NEW(builder->arena, double, columns);
    for (uint32_t d = 0; d < world->device_count; d++) {
        add_links(builder, d, counts[d], sums, columns);
        add_copies(builder, d, sums, columns);
    }
    for (uint32_t begin = 0; begin < builder->pair_part_count; begin = pair_end(builder, begin)) {
        const struct exact_message *message = &builder->pair_parts[begin].message;
        if (world->devices[message->source].node == world->devices[message->taker].node)
            continue;
        add_longest(builder, begin, message->source, counts[message->source], sums, columns);
        add_longest(builder, begin, message->taker, counts[message->taker], sums, columns);
    }
}

/** Whether the memory of two devices is asked for the same. */
static bool same_memory(const struct builder *builder, uint32_t a, uint32_t b)
{
    const struct problem *problem = builder->problem;
    const struct problem_device *x = &problem->devices[a], *y = &problem->devices[b];
    if (x->fixed != y->fixed || x->from != y->from || x->unread != y->unread ||
        problem_cap(problem, problem->cap, a) != problem_cap(problem, problem->cap, b))
        return false;
    for (uint32_t k = 0; k < builder->kinds->kind_count; k++) {
        const struct exact_kind *kind = &builder->kinds->kinds[k];
        uint64_t alloc[2] = {0}, release[2] = {0}, stage[2] = {0};
        for (uint32_t m = 0; m < kind->memory_count; m++) {
            const struct exact_memory *memory = &kind->memory[m];
            for (int i = 0; i < 2; i++) {
                bool own = memory->device == (i == 0 ? a : b);
                alloc[i] += own ? memory->alloc : 0;
                release[i] += own ? memory->release : 0;
                stage[i] += own ? memory->stage : 0;
            }
        }
        if (alloc[0] != alloc[1] || release[0] != release[1] || stage[0] != stage[1])
            return false;
    }
    return true;
}

/** What is left for the slots of a device when all its buffers are there; false: they are not all there at once. */
static bool room_beside(const struct builder *builder, uint32_t device, uint64_t *room_out)
{
    const struct problem *problem = builder->problem;
    uint64_t all = problem->devices[device].fixed + problem->devices[device].from;
    for (uint32_t k = 0; k < builder->kinds->kind_count; k++) {
        const struct exact_kind *kind = &builder->kinds->kinds[k];
        for (uint32_t m = 0; m < kind->memory_count; m++)
            all += kind->memory[m].device == device ? kind->memory[m].alloc * kind->job_count : 0;
    }
    uint64_t cap = problem_cap(problem, problem->cap, device);
    *room_out = cap > all ? cap - all : 0;
    return cap >= all;
}

/** Slots alone: the device with less room and more to stage stands for the other one. */
static void add_slots(struct builder *builder, const struct exact_device *device)
{
    struct exact_rows *rows = builder->rows;
    size_t kept = 0;
    if (device->staged.count == 0)
        return;
    for (size_t i = 0; i < rows->slots.count; i++) {
        if (rows->slots.items[i].room <= device->room && outweighs(&rows->slots.items[i].staged, &device->staged))
            return;
    }
    for (size_t i = 0; i < rows->slots.count; i++) {
        const struct exact_device *other = &rows->slots.items[i];
        if (!(device->room <= other->room && outweighs(&device->staged, &other->staged)))
            rows->slots.items[kept++] = *other;
    }
    rows->slots.count = kept;
    *VEC_PUSH(builder->arena, &rows->slots) = *device;
}

static void add_memory(struct builder *builder, const struct exact_device *device)
{
    for (size_t i = 0; i < builder->rows->memory.count; i++) {
        const struct exact_device *other = &builder->rows->memory.items[i];
        if (same_memory(builder, other->device, device->device) && outweighs(&other->staged, &device->staged))
            return;
    }
    *VEC_PUSH(builder->arena, &builder->rows->memory) = *device;
}

static void add_devices(struct builder *builder, bool hold_old)
{
    const struct problem *problem = builder->problem;
    uint32_t columns = builder->kinds->part_count;
    double *sums = ARENA_NEW(builder->arena, double, columns);
    for (uint32_t d = 0; d < problem->route->world->device_count; d++) {
        struct exact_device device = {.device = d};
        bool fits = room_beside(builder, d, &device.room), binds = !fits || device.room < problem->staging;
        for (enum port_kind kind = PORT_NODE_OUT; kind <= PORT_NET_IN; kind++)
            add_port(builder, d, kind, 1, sums);
        device.staged = take_row(builder, sums, columns);
        device.room = device.room < problem->staging ? device.room : problem->staging;
        if (hold_old || !binds)
            add_slots(builder, &device);
        else
            add_memory(builder, &device);
    }
}

struct exact_rows *exact_rows_build(struct arena *arena, const struct problem *problem, const struct exact_kinds *kinds,
                                    bool hold_old)
{
    const struct world *world = problem->route->world;
    struct builder builder = {
        .arena = arena, .problem = problem, .kinds = kinds, .rows = ARENA_NEW(arena, struct exact_rows, 1)};
    builder.rows->messages = world->cluster->message_seconds > 0;
    builder.rates = ARENA_NEW(arena, struct clock_rates, world->device_count);
    for (uint32_t d = 0; d < world->device_count; d++)
        builder.rates[d] = clock_rates(world_machine(world, d));
    list_ports(&builder);
    list_pairs(&builder);
    find_families(&builder);
    add_times(&builder);
    add_devices(&builder, hold_old);
    return builder.rows;
}
