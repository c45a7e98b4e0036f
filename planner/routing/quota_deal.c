/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/quota_deal.h"

#include <stdlib.h>

struct dealer {
    struct quota_groups *groups;
    const struct classes *classes;
    struct class_cell *cells; /* of all classes, each with its largest first */
    uint32_t *cell_begin;     /* by class */
    int64_t *deficit;         /* by holder of the group at hand */
};

static int64_t cell_elements(const struct classes *classes, const struct class_cell *cell)
{
    return classes->route->types[cell->type].pieces[cell->pieces[0]].cell->elements;
}

/** A cell and the bytes of it in one item, to deal the largest first. */
struct sized_cell {
    int64_t elements;
    uint32_t cell;
};

static int compare_cells(const void *a, const void *b)
{
    const struct sized_cell *x = a, *y = b;
    if (x->elements != y->elements)
        return x->elements > y->elements ? -1 : 1;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

/** Sort the cells of all classes, the largest first. @return them by class, in the order of the classes */
static struct class_cell *sort_cells(struct arena *arena, const struct classes *classes)
{
    uint32_t total = 0;
    for (uint32_t c = 0; c < classes->count; c++)
        total += classes->classes[c].cell_count;
    struct class_cell *cells = ARENA_NEW(arena, struct class_cell, total);
    struct sized_cell *sized = ARENA_NEW(arena, struct sized_cell, total);
    total = 0;
    for (uint32_t c = 0; c < classes->count; c++) {
        const struct route_class *class = &classes->classes[c];
        for (uint32_t i = 0; i < class->cell_count; i++)
            sized[i] = (struct sized_cell){.elements = cell_elements(classes, &class->cells[i]), .cell = i};
        qsort(sized, class->cell_count, sizeof(*sized), compare_cells);
        for (uint32_t i = 0; i < class->cell_count; i++)
            cells[total + i] = class->cells[sized[i].cell];
        total += class->cell_count;
    }
    return cells;
}

/** Deal the items of a cell for one taker to holders [first, last] of its group. */
static void deal_cell(const struct dealer *dealer, const struct quota_group *group, uint32_t first, uint32_t last,
                      const struct class_cell *cell, uint32_t at)
{
    const struct route *route = dealer->classes->route;
    const struct route_type *type = &route->types[cell->type];
    const struct quota_ports *ports = &dealer->groups->ports[group->network];
    uint32_t piece = cell->pieces[at];
    int64_t elements = type->pieces[piece].cell->elements;
    for (uint32_t i = 0; i < type->item_count; i++) {
        int64_t bytes = elements * route->space->items[type->items[i]].wire_bytes;
        uint32_t best = first;
        for (uint32_t h = first + 1; h <= last; h++)
            best = dealer->deficit[h] > dealer->deficit[best] ? h : best;
        dealer->deficit[best] -= bytes;
        ports->sent[group->holders[best]] += bytes;
        type->sources[(size_t)i * type->piece_count + piece] = group->holders[best];
    }
}

/** Lay takers and holders side by side, and deal the pieces of each taker to the holders that it meets. */
static void deal_group(const struct dealer *dealer, const struct quota_group *group)
{
    uint32_t h = 0;
    int64_t left = group->quota[0]; /* of holder h */
    for (uint32_t i = 0; i < group->holder_count; i++)
        dealer->deficit[i] = 0;
    for (uint32_t d = group->begin; d < group->end;) {
        uint32_t begin = d, first = h;
        int64_t want = 0;
        for (; d < group->end && dealer->groups->demands[d].taker == dealer->groups->demands[begin].taker; d++)
            want += quota_demand_bytes(dealer->groups, d);
        while (want > left && h + 1 < group->holder_count) {
            dealer->deficit[h] += left;
            want -= left;
            left = group->quota[++h];
        }
        dealer->deficit[h] += want;
        left -= want;
        for (uint32_t i = begin; i < d; i++) {
            const struct route_class *class = &dealer->classes->classes[dealer->groups->demands[i].class];
            const struct class_cell *cells = &dealer->cells[dealer->cell_begin[dealer->groups->demands[i].class]];
            for (uint32_t c = 0; c < class->cell_count; c++)
                deal_cell(dealer, group, first, h, &cells[c], dealer->groups->demands[i].at);
        }
    }
}

/* ---- moving what is too much ------------------------------------------------------ */

#define HAIR       1.001 /* so much longer than it must a port may be busy before pieces are moved away from it */
#define MOST_MOVES 16    /* away from one port */
#define MOST_PORTS 256   /* that are relieved */

/** A piece of one item that a busy port could leave to another holder. */
struct move {
    uint32_t *source; /* entry of the piece in its type */
    uint32_t to;
    int64_t bytes;
    double seconds; /* of the busier one of both ports afterwards */
};

/** Groups by their holders. */
struct sending {
    uint32_t *begin; /* by device */
    uint32_t *groups;
};

static double busy_seconds(const struct quota_ports *ports, uint32_t device, int64_t more)
{
    return (double)(ports->sent[device] + more) / ports->rate[device];
}

static struct sending index_groups(struct arena *arena, const struct quota_groups *groups, bool network)
{
    uint32_t devices = groups->classes->route->world->device_count;
    uint32_t *next = ARENA_NEW(arena, uint32_t, (size_t)devices + 2) + 1;
    for (uint32_t g = 0; g < groups->count; g++) {
        for (uint32_t h = 0; groups->groups[g].network == network && h < groups->groups[g].holder_count; h++)
            next[groups->groups[g].holders[h] + 1]++;
    }
    for (uint32_t d = 0; d < devices; d++)
        next[d + 1] += next[d];
    struct sending sending = {.begin = next - 1, .groups = ARENA_NEW(arena, uint32_t, next[devices])};
    for (uint32_t g = 0; g < groups->count; g++) {
        for (uint32_t h = 0; groups->groups[g].network == network && h < groups->groups[g].holder_count; h++)
            sending.groups[next[groups->groups[g].holders[h]]++] = g;
    }
    return sending; /* each entry of `next` has moved on to the end of its device: the beginning of the next */
}

static uint32_t least_busy(const struct quota_ports *ports, const struct quota_group *group)
{
    uint32_t best = group->holders[0];
    for (uint32_t h = 1; h < group->holder_count; h++) {
        if (busy_seconds(ports, group->holders[h], 0) < busy_seconds(ports, best, 0))
            best = group->holders[h];
    }
    return best;
}

/** Look for a better move among the pieces of a cell that a device sends to one taker. */
static void find_in_cell(const struct dealer *dealer, const struct quota_ports *ports, uint32_t device, uint32_t to,
                         const struct class_cell *cell, uint32_t at, struct move *best)
{
    const struct route *route = dealer->classes->route;
    const struct route_type *type = &route->types[cell->type];
    uint32_t piece = cell->pieces[at];
    for (uint32_t i = 0; i < type->item_count; i++) {
        uint32_t *source = &type->sources[(size_t)i * type->piece_count + piece];
        if (*source != device)
            continue;
        int64_t bytes = type->pieces[piece].cell->elements * route->space->items[type->items[i]].wire_bytes;
        double less = busy_seconds(ports, device, -bytes), more = busy_seconds(ports, to, bytes);
        double seconds = less > more ? less : more;
        if (seconds < best->seconds)
            *best = (struct move){.source = source, .to = to, .bytes = bytes, .seconds = seconds};
    }
}

/** The move away from a device that leaves both ports the least busy. @return false when none helps */
static bool find_move(const struct dealer *dealer, const struct sending *sending, bool network, uint32_t device,
                      struct move *move_out)
{
    const struct quota_groups *groups = dealer->groups;
    const struct quota_ports *ports = &groups->ports[network];
    *move_out = (struct move){.seconds = busy_seconds(ports, device, 0)};
    for (uint32_t i = sending->begin[device]; i < sending->begin[device + 1]; i++) {
        const struct quota_group *group = &groups->groups[sending->groups[i]];
        uint32_t to = least_busy(ports, group);
        for (uint32_t d = group->begin; to != device && d < group->end; d++) {
            const struct quota_demand *demand = &groups->demands[d];
            const struct class_cell *cells = &dealer->cells[dealer->cell_begin[demand->class]];
            for (uint32_t c = 0; c < dealer->classes->classes[demand->class].cell_count; c++)
                find_in_cell(dealer, ports, device, to, &cells[c], demand->at, move_out);
        }
    }
    return move_out->source != NULL;
}

/** Relieve all ports of a kind that are busy for longer than they may. */
static void relieve_ports(struct arena *arena, const struct dealer *dealer, bool network, double seconds)
{
    const struct quota_ports *ports = &dealer->groups->ports[network];
    struct sending sending = {0};
    struct move move;
    uint32_t relieved = 0;
    for (uint32_t d = 0; d < dealer->classes->route->world->device_count && relieved < MOST_PORTS; d++) {
        relieved += busy_seconds(ports, d, 0) > HAIR * seconds;
        for (int moves = 0; moves < MOST_MOVES && busy_seconds(ports, d, 0) > HAIR * seconds; moves++) {
            if (sending.begin == NULL)
                sending = index_groups(arena, dealer->groups, network);
            if (!find_move(dealer, &sending, network, d, &move))
                break;
            *move.source = move.to;
            ports->sent[d] -= move.bytes;
            ports->sent[move.to] += move.bytes;
        }
    }
}

void quota_deal(struct arena *arena, struct quota_groups *groups, double seconds)
{
    const struct classes *classes = groups->classes;
    struct dealer dealer = {.groups = groups,
                            .classes = classes,
                            .cells = sort_cells(arena, classes),
                            .cell_begin = ARENA_NEW(arena, uint32_t, (size_t)classes->count + 1),
                            .deficit = ARENA_NEW(arena, int64_t, classes->route->world->device_count)};
    for (uint32_t c = 0; c < classes->count; c++)
        dealer.cell_begin[c + 1] = dealer.cell_begin[c] + classes->classes[c].cell_count;
    for (uint32_t g = 0; g < groups->count; g++)
        deal_group(&dealer, &groups->groups[g]);
    for (int network = 0; network < 2; network++)
        relieve_ports(arena, &dealer, network, seconds);
}
