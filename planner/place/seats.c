/* SPDX-License-Identifier: Apache-2.0 */
#include "place/seats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shunt/plan_format.h"

/* Cost of a byte on the slower kind of link: enough for its ratio to the faster one, and little for the sums' sake. */
#define SLOW_WEIGHT 1000
#define MOST_BYTES  (UINT64_C(1) << 52)

static void list_nodes(struct arena *arena, struct seats *seats)
{
    const struct world *world = seats->world;
    seats->nodes = ARENA_NEW(arena, struct seats_node, world->device_count);
    seats->node_of = ARENA_NEW(arena, uint32_t, world->device_count);
    seats->old_class = ARENA_NEW(arena, uint32_t, world->device_count);
    for (uint32_t d = 0; d < world->device_count; d++) {
        const struct world_device *device = &world->devices[d];
        if (d == 0 || device->node != world->devices[d - 1].node)
            seats->nodes[seats->node_count++].begin = d;
        struct seats_node *node = &seats->nodes[seats->node_count - 1];
        seats->node_of[d] = seats->node_count - 1;
        node->machine = device->machine;
        node->count++;
        node->free_count += seats->free[d];
        if (node->free_count > seats->most_free)
            seats->most_free = node->free_count;
    }
}

static void find_overlap(struct arena *arena, struct seats *seats)
{
    const struct world *world = seats->world;
    uint32_t old_ranks = seats->pair->from->grid.rank_count;
    uint32_t *node_of_old = ARENA_NEW(arena, uint32_t, old_ranks);
    for (uint32_t r = 0; r < old_ranks; r++)
        node_of_old[r] = seats->node_of[world->from_device[r]];
    seats->overlap = overlap_build(arena, seats->pair, node_of_old, seats->node_count);
    for (uint32_t d = 0; d < world->device_count; d++) {
        uint32_t rank = world->devices[d].from_rank;
        seats->old_class[d] = rank == WORLD_NO_RANK ? SEATS_NO_CLASS : seats->overlap->old_class[rank];
    }
}

static int64_t weight_of(double slowest, double rate)
{
    int64_t weight = (int64_t)lround(SLOW_WEIGHT * slowest / rate);
    return weight < 1 ? 1 : weight;
}

/** A link inside nodes that is slower than those between counts like them. */
static void weigh(struct seats *seats)
{
    const struct cfg_machine *machines = seats->world->machines;
    double slowest = machines[seats->nodes[0].machine].inter_node;
    for (uint32_t n = 1; n < seats->node_count; n++) {
        double between = machines[seats->nodes[n].machine].inter_node;
        slowest = between < slowest ? between : slowest;
    }
    seats->between = SLOW_WEIGHT;
    seats->unit_seconds = 1 / (slowest * SLOW_WEIGHT);
    for (uint32_t n = 0; n < seats->node_count; n++) {
        struct seats_node *node = &seats->nodes[n];
        double between = machines[node->machine].inter_node, inside = machines[node->machine].intra_node;
        node->between = weight_of(slowest, between);
        node->inside = inside > between ? weight_of(slowest, inside) : node->between;
        seats->unlike = seats->unlike || node->between != seats->between || node->inside != seats->nodes[0].inside;
    }
}

/** Bytes of a new rank in device memory. */
static uint64_t device_bytes(const struct side *to, uint32_t rank)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < to->space->item_count; i++) {
        const struct placement_variant *variant = side_variant(to, i, rank);
        if (variant != NULL && side_tier(to, i) != CFG_TIER_HOST)
            bytes += (uint64_t)variant->elements * to->space->items[i].elem_bytes[SPACE_TO];
    }
    return bytes;
}

/** What devices have for a rank, and ranks need, where some devices have less than others: those of a class need the same. */
static void find_room(struct arena *arena, struct seats *seats)
{
    const struct world *world = seats->world;
    const struct cfg_cluster *cluster = world->cluster;
    uint64_t most = world_most_memory(world), taken = cluster->device_reserve + cluster->transport_buffers;
    uint32_t ranks = seats->pair->to->grid.rank_count, known = 0;
    uint64_t *of_class = ARENA_NEW(arena, uint64_t, seats->overlap->new_class_count);
    bool is_less = false;
    for (uint32_t d = 0; d < world->device_count; d++)
        is_less = is_less || world_machine(world, d)->memory < most;
    if (!is_less)
        return;
    seats->room = ARENA_NEW(arena, uint64_t, world->device_count);
    seats->rank_bytes = ARENA_NEW(arena, uint64_t, ranks);
    for (uint32_t d = 0; d < world->device_count; d++) {
        uint64_t memory = world_machine(world, d)->memory, own = taken;
        own += memory < most ? SHUNT_PLAN_SHORT_BYTES - 1 : 0; /* plans may count as much as missing */
        seats->room[d] = memory > own ? memory - own : 0;
    }
    for (uint32_t r = 0; r < ranks; r++) { /* classes count up in the order of their first ranks */
        if (seats->overlap->new_class[r] == known)
            of_class[known++] = device_bytes(seats->pair->to, r);
        seats->rank_bytes[r] = of_class[seats->overlap->new_class[r]];
    }
}

/** Devices of the nodes that hold most, of those that have less than `below`; 0: none. */
static uint32_t largest_node(const struct seats *seats, uint32_t below)
{
    uint32_t largest = 0;
    for (uint32_t n = 0; n < seats->node_count; n++) {
        int64_t devices = seats->world->machines[seats->nodes[n].machine].devices_per_node;
        if (devices < below && devices > largest)
            largest = (uint32_t)devices;
    }
    return largest;
}

static bool holds_teams(const struct seats *seats)
{
    uint64_t places = 0;
    for (uint32_t n = 0; n < seats->node_count; n++)
        places += seats->nodes[n].free_count / seats->teams.size;
    return places >= seats->teams.count;
}

/**
 * Teams that the nodes' free devices do not hold cannot be kept together. Of groups that are larger than a node, parts
 * are; which parts, smaller nodes may say.
 */
static void form_teams(struct arena *arena, struct seats *seats)
{
    for (uint32_t size = largest_node(seats, UINT32_MAX); size > 0; size = largest_node(seats, size)) {
        seats->teams = teams_build(arena, seats->pair->to, size);
        if (holds_teams(seats))
            return;
    }
    seats->teams = teams_of_one(arena, seats->pair->to);
}

static enum shunt_status check_bytes(const struct seats *seats, struct shunt_err *err)
{
    uint64_t total = 0;
    for (uint32_t r = 0; r < seats->pair->to->grid.rank_count; r++) {
        uint64_t need = seats_row(seats, r)->need;
        if (need >= MOST_BYTES || (total += need) >= MOST_BYTES)
            return shunt_fail(err, SHUNT_ERR_UNSUPPORTED,
                              "not supported: --place optimal: %s: found more than 2^52 bytes on all ranks together",
                              seats->pair->to->layout->path);
    }
    return SHUNT_OK;
}

enum shunt_status seats_build(struct arena *arena, const struct pair *pair, const struct spots *spots,
                              struct seats **seats_out, struct shunt_err *err)
{
    struct seats *seats = ARENA_NEW(arena, struct seats, 1);
    seats->pair = pair;
    seats->world = spots->world;
    seats->free = spots->free;
    seats->fixed = spots->fixed;
    list_nodes(arena, seats);
    find_overlap(arena, seats);
    find_room(arena, seats);
    weigh(seats);
    form_teams(arena, seats);
    *seats_out = seats;
    return check_bytes(seats, err);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

uint32_t seats_class_nodes(struct arena *arena, const struct seats *seats, bool by_free, uint32_t *class_out)
{
    uint32_t width = 0;
    for (uint32_t n = 0; n < seats->node_count; n++)
        width = seats->nodes[n].count > width ? seats->nodes[n].count : width;
    uint32_t *table = ARENA_NEW(arena, uint32_t, (size_t)seats->node_count * (width + 1));
    for (uint32_t n = 0; n < seats->node_count; n++) {
        const struct seats_node *node = &seats->nodes[n];
        uint32_t *row = table + (size_t)n * (width + 1);
        for (uint32_t i = 0; i < node->count; i++) {
            uint32_t device = node->begin + i;
            row[i] = 2 * (seats->old_class[device] + 1) + (by_free && seats->free[device]) + 1; /* 0: no device */
        }
        qsort(row, node->count, sizeof(*row), compare_numbers);
        row[width] = node->machine;
    }
    return classes_of_rows(arena, seats->node_count, width + 1, table, class_out);
}

int64_t seats_gain(const struct seats *seats, uint32_t new_rank, uint32_t device)
{
    const struct overlap_row *row = seats_row(seats, new_rank);
    uint64_t here = overlap_find(row->nodes, row->node_count, seats->node_of[device]), own = 0;
    if (here > 0 && seats->old_class[device] != SEATS_NO_CLASS)
        own = overlap_find(row->classes, row->class_count, seats->old_class[device]);
    return seats_gain_of(seats, new_rank, device, here, own);
}

bool seats_keep_room(struct seats *seats)
{
    int64_t most = seats_cost_of_need(seats), ranks = seats->pair->to->grid.rank_count;
    if (most >= INT64_MAX / 4 / (ranks + 1))
        return false;
    seats->fit_gain = most + 1;
    return true;
}

bool seats_drop_small(struct arena *arena, struct seats *seats)
{
    uint32_t ranks = seats->pair->to->grid.rank_count, left = 0;
    uint64_t largest = 0;
    bool *free = ARENA_NEW(arena, bool, seats->world->device_count);
    for (uint32_t r = 0; r < ranks; r++)
        largest = seats->rank_bytes[r] > largest ? seats->rank_bytes[r] : largest;
    struct seats_node *nodes = ARENA_NEW(arena, struct seats_node, seats->node_count);
    memcpy(nodes, seats->nodes, seats->node_count * sizeof(*nodes));
    seats->nodes = nodes;
    seats->most_free = 0;
    for (uint32_t n = 0; n < seats->node_count; n++) {
        struct seats_node *node = &seats->nodes[n];
        node->free_count = 0;
        for (uint32_t d = node->begin; d < node->begin + node->count; d++) {
            free[d] = seats->free[d] && seats->room[d] >= largest;
            node->free_count += free[d];
        }
        left += node->free_count;
        seats->most_free = node->free_count > seats->most_free ? node->free_count : seats->most_free;
    }
    seats->free = free;
    seats->fit_gain = 0;
    form_teams(arena, seats);
    return left >= ranks;
}

int64_t seats_cost_of_need(const struct seats *seats)
{
    int64_t cost = 0;
    for (uint32_t r = 0; r < seats->pair->to->grid.rank_count; r++)
        cost += (int64_t)seats_row(seats, r)->need * seats->between;
    return cost;
}

struct seats_figures seats_figures(const struct seats *seats, const uint32_t *device_of)
{
    struct seats_figures figures = {.cost = seats_cost_of_need(seats)};
    for (uint32_t r = 0; r < seats->pair->to->grid.rank_count; r++) {
        const struct overlap_row *row = seats_row(seats, r);
        uint32_t class = seats->old_class[device_of[r]];
        figures.cost -= seats_gain(seats, r, device_of[r]);
        figures.moved += row->need;
        if (class != SEATS_NO_CLASS)
            figures.moved -= overlap_find(row->classes, row->class_count, class);
    }
    return figures;
}
