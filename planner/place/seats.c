/* SPDX-License-Identifier: Apache-2.0 */
#include "place/seats.h"

#include <math.h>
#include <stdlib.h>

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

/** The rates of most nodes, for all. A link inside nodes that is slower than those between counts like them. */
static void weigh(struct seats *seats)
{
    const struct cfg_cluster *cluster = seats->world->cluster;
    double between = cluster->inter_node_bytes_per_second, inside = cluster->intra_node_bytes_per_second;
    seats->between = SLOW_WEIGHT;
    seats->inside = inside > between ? (int64_t)lround(SLOW_WEIGHT * between / inside) : SLOW_WEIGHT;
    if (seats->inside < 1)
        seats->inside = 1;
    seats->unit_seconds = 1 / (between * SLOW_WEIGHT);
}

/** Teams that the nodes' free devices do not hold cannot be kept together. */
static void form_teams(struct arena *arena, struct seats *seats)
{
    uint64_t places = 0;
    seats->teams = teams_build(arena, seats->pair->to, (uint32_t)seats->world->cluster->devices_per_node);
    for (uint32_t n = 0; n < seats->node_count; n++)
        places += seats->nodes[n].free_count / seats->teams.size;
    if (places < seats->teams.count)
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
    uint32_t *table = ARENA_NEW(arena, uint32_t, (size_t)seats->node_count * width);
    for (uint32_t n = 0; n < seats->node_count; n++) {
        const struct seats_node *node = &seats->nodes[n];
        uint32_t *row = table + (size_t)n * width;
        for (uint32_t i = 0; i < node->count; i++) {
            uint32_t device = node->begin + i;
            row[i] = 2 * (seats->old_class[device] + 1) + (by_free && seats->free[device]) + 1; /* 0: no device */
        }
        qsort(row, node->count, sizeof(*row), compare_numbers);
    }
    return classes_of_rows(arena, seats->node_count, width, table, class_out);
}

int64_t seats_gain(const struct seats *seats, const struct overlap_row *row, uint32_t device)
{
    uint64_t here = overlap_find(row->nodes, row->node_count, seats->node_of[device]), own = 0;
    if (here > 0 && seats->old_class[device] != SEATS_NO_CLASS)
        own = overlap_find(row->classes, row->class_count, seats->old_class[device]);
    return (int64_t)here * (seats->between - seats->inside) + (int64_t)own * seats->inside;
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
        figures.cost -= seats_gain(seats, row, device_of[r]);
        figures.moved += row->need;
        if (class != SEATS_NO_CLASS)
            figures.moved -= overlap_find(row->classes, row->class_count, class);
    }
    return figures;
}
