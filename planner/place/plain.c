/* SPDX-License-Identifier: Apache-2.0 */
#include "place/plain.h"

#include "place/deal.h"

/* About three seconds and 400 MB at most. */
#define MOST_WORK  4e9
#define MOST_LINKS ((size_t)1 << 24)

/** Classes of devices: of one node or of nodes that are alike, and of one old class. */
struct alike {
    uint32_t count;
    uint32_t *class_of; /* by device */
    uint32_t *first;    /* a device of each class */
    uint32_t *capacity;
};

static struct alike class_devices(struct arena *arena, const struct seats *seats)
{
    uint32_t devices = seats->world->device_count, *node_class = ARENA_NEW(arena, uint32_t, seats->node_count);
    struct alike alike = {.class_of = ARENA_NEW(arena, uint32_t, devices)};
    uint32_t *table = ARENA_NEW(arena, uint32_t, 2 * (size_t)devices);
    seats_class_nodes(arena, seats, false, node_class);
    for (uint32_t d = 0; d < devices; d++) {
        table[2 * d] = node_class[seats->node_of[d]];
        table[2 * d + 1] = seats->old_class[d];
    }
    alike.count = classes_of_rows(arena, devices, 2, table, alike.class_of);
    alike.first = ARENA_NEW(arena, uint32_t, alike.count);
    alike.capacity = ARENA_NEW(arena, uint32_t, alike.count);
    for (uint32_t d = devices; d-- > 0;) {
        alike.first[alike.class_of[d]] = d;
        alike.capacity[alike.class_of[d]] += seats->free[d];
    }
    return alike;
}

/** What a rank gains on a device of each class that has some: all devices of the nodes that count for it. */
static bool link_row(struct arena *arena, const struct seats *seats, const struct alike *alike, uint32_t rank,
                     uint32_t *met, transport_links *links)
{
    uint32_t class = seats->overlap->new_class[rank], count = seats_nodes_of(seats, rank);
    for (uint32_t i = 0; i < count; i++) {
        const struct seats_node *node = &seats->nodes[seats_node_of(seats, rank, i)];
        for (uint32_t d = node->begin; d < node->begin + node->count; d++) {
            uint32_t kind = alike->class_of[d];
            if (met[kind] == class + 1 || alike->capacity[kind] == 0)
                continue;
            met[kind] = class + 1;
            int64_t gain = seats_gain(seats, rank, d);
            if (links->count == MOST_LINKS)
                return false;
            if (gain > 0)
                *VEC_PUSH(arena, links) = (struct transport_link){class, kind, 0, gain};
        }
    }
    return true;
}

struct plain {
    const struct seats *seats;
    uint32_t *device_out;
    int64_t *gain_out;
    bool solved;
};

static void deal_devices(struct arena *arena, const struct plain *plain, const struct alike *alike,
                         transport_links *flow)
{
    const struct seats *seats = plain->seats;
    uint32_t devices = seats->world->device_count;
    uint32_t *room = ARENA_NEW(arena, uint32_t, devices);
    for (uint32_t d = 0; d < devices; d++)
        room[d] = seats->free[d];
    const struct deal deal = {.item_count = seats->pair->to->grid.rank_count,
                              .place_count = devices,
                              .item_classes = seats->overlap->new_class_count,
                              .place_classes = alike->count,
                              .item_class = seats->overlap->new_class,
                              .place_class = alike->class_of,
                              .wished = seats->fixed,
                              .room = room,
                              .flow = flow};
    deal_places(arena, &deal, plain->device_out);
}

static void solve(struct arena *scratch, void *context)
{
    struct plain *plain = context;
    const struct seats *seats = plain->seats;
    const struct alike alike = class_devices(scratch, seats);
    uint32_t classes = seats->overlap->new_class_count;
    uint32_t *met = ARENA_NEW(scratch, uint32_t, alike.count), *supply = ARENA_NEW(scratch, uint32_t, classes);
    transport_links links = {0}, flow;
    for (uint32_t r = 0; r < seats->pair->to->grid.rank_count; r++) {
        uint32_t class = seats->overlap->new_class[r];
        if (supply[class]++ == 0 && !link_row(scratch, seats, &alike, r, met, &links)) /* the first of its class */
            return;
    }
    const struct transport transport = {.row_count = classes,
                                        .column_count = alike.count,
                                        .supply = supply,
                                        .capacity = alike.capacity,
                                        .link_count = links.count,
                                        .links = links.items,
                                        .most_work = MOST_WORK};
    plain->solved = transport_solve(scratch, &transport, &flow, plain->gain_out);
    if (plain->solved && plain->device_out != NULL)
        deal_devices(scratch, plain, &alike, &flow);
}

bool plain_solve(struct arena *arena, const struct seats *seats, uint32_t *device_out, int64_t *gain_out)
{
    struct plain plain = {.seats = seats, .device_out = device_out, .gain_out = gain_out};
    arena_with_scratch(arena, solve, &plain);
    return plain.solved;
}
