/* SPDX-License-Identifier: Apache-2.0 */
#include "place/solo.h"

#include <stdlib.h>

#include "place/deal.h"
#include "solve/assign.h"

/* ---- classes ----------------------------------------------------------------------- */

static uint32_t class_teams(struct arena *arena, const struct seats *seats, uint32_t *class_out)
{
    uint32_t members = seats->teams.count * seats->teams.size;
    uint32_t *table = ARENA_NEW(arena, uint32_t, members);
    for (uint32_t i = 0; i < members; i++)
        table[i] = seats->overlap->new_class[seats->teams.ranks[i]];
    return classes_of_rows(arena, seats->teams.count, seats->teams.size, table, class_out);
}

/* ---- values ------------------------------------------------------------------------ */

struct valuer {
    const struct seats *seats;
    struct solo *solo;
    uint32_t class_count, node_classes;
    uint32_t *first_team; /* by class */
    uint32_t *met;        /* by class of node: the last class of team that found something there, + 1 */
    struct assign assign;
    uint64_t *by_class, *by_node; /* of each rank of the team at hand: its bytes by old class, and by node */
    int64_t *gains;               /* of the team on the node at hand */
};

/** Write a team's rows where they are found at once, or wipe them out again. */
static void lay_out(struct valuer *valuer, uint32_t team, bool wipe)
{
    const struct seats *seats = valuer->seats;
    for (uint32_t m = 0; m < seats->teams.size; m++) {
        const struct overlap_row *row = seats_row(seats, seats->teams.ranks[team * seats->teams.size + m]);
        uint64_t *by_class = valuer->by_class + (size_t)m * seats->overlap->old_class_count;
        uint64_t *by_node = valuer->by_node + (size_t)m * seats->node_count;
        for (uint32_t i = 0; i < row->class_count; i++)
            by_class[row->classes[i].key] = wipe ? 0 : row->classes[i].bytes;
        for (uint32_t i = 0; i < row->node_count; i++)
            by_node[row->nodes[i].key] = wipe ? 0 : row->nodes[i].bytes;
    }
}

/** What the team at hand gains on a node. */
static int64_t value_on(struct valuer *valuer, uint32_t team, uint32_t node_index)
{
    const struct seats *seats = valuer->seats;
    const struct seats_node *node = &seats->nodes[node_index];
    if (node->free_count < seats->teams.size)
        return 0;
    int64_t *gain = valuer->gains;
    for (uint32_t m = 0; m < seats->teams.size; m++) {
        const uint64_t *by_class = valuer->by_class + (size_t)m * seats->overlap->old_class_count;
        uint64_t here = valuer->by_node[(size_t)m * seats->node_count + node_index];
        uint32_t rank = seats->teams.ranks[team * seats->teams.size + m];
        for (uint32_t d = node->begin; d < node->begin + node->count; d++) {
            uint64_t own = seats->old_class[d] == SEATS_NO_CLASS ? 0 : by_class[seats->old_class[d]];
            if (seats->free[d])
                *gain++ = seats_gain_of(seats, rank, d, here, own);
        }
    }
    return assign_solve(&valuer->assign, seats->teams.size, node->free_count, valuer->gains, NULL);
}

static int compare_columns(const void *a, const void *b)
{
    const struct transport_link *x = a, *y = b;
    return (x->column > y->column) - (x->column < y->column);
}

/** Nodes that count for some rank of the team, one of each class. */
static void value_class(struct arena *arena, struct valuer *valuer, uint32_t class, transport_links *values)
{
    const struct seats *seats = valuer->seats;
    uint32_t team = valuer->first_team[class];
    size_t begin = values->count;
    lay_out(valuer, team, false);
    for (uint32_t m = 0; m < seats->teams.size; m++) {
        uint32_t rank = seats->teams.ranks[team * seats->teams.size + m], count = seats_nodes_of(seats, rank);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t node = seats_node_of(seats, rank, i), node_class = valuer->solo->node_class[node];
            if (valuer->met[node_class] == class + 1)
                continue;
            valuer->met[node_class] = class + 1;
            int64_t value = value_on(valuer, team, node);
            if (value > 0)
                *VEC_PUSH(arena, values) = (struct transport_link){class, node_class, 0, value};
        }
    }
    lay_out(valuer, team, true);
    if (values->count > begin)
        qsort(values->items + begin, values->count - begin, sizeof(*values->items), compare_columns);
}

struct value_work {
    struct valuer *valuer;
    struct arena *arena;
    transport_links *values;
};

static void value_all(struct arena *scratch, void *context)
{
    struct value_work *work = context;
    struct valuer *valuer = work->valuer;
    const struct seats *seats = valuer->seats;
    uint32_t size = seats->teams.size;
    uint32_t columns = seats->most_free > size ? seats->most_free : size;
    assign_init(scratch, size, columns, &valuer->assign);
    valuer->met = ARENA_NEW(scratch, uint32_t, valuer->node_classes);
    valuer->by_class = ARENA_NEW(scratch, uint64_t, (size_t)size * seats->overlap->old_class_count);
    valuer->by_node = ARENA_NEW(scratch, uint64_t, (size_t)size * seats->node_count);
    valuer->gains = ARENA_NEW(scratch, int64_t, (size_t)size * columns);
    for (uint32_t c = 0; c < valuer->class_count; c++) {
        valuer->solo->value_begin[c] = work->values->count;
        value_class(work->arena, valuer, c, work->values);
    }
    valuer->solo->value_begin[valuer->class_count] = work->values->count;
}

/* ---- teams to nodes ---------------------------------------------------------------- */

/** The node on which a team is as the layout says, if that is one node. */
static uint32_t wished_node(const struct seats *seats, uint32_t team)
{
    const uint32_t *ranks = &seats->teams.ranks[team * seats->teams.size];
    uint32_t node = seats->node_of[seats->fixed[ranks[0]]];
    for (uint32_t m = 1; m < seats->teams.size; m++) {
        if (seats->node_of[seats->fixed[ranks[m]]] != node)
            return SOLO_NO_NODE;
    }
    return node;
}

static void choose_nodes(struct arena *arena, const struct seats *seats, const struct valuer *valuer,
                         const transport_links *values, struct solo *solo)
{
    uint32_t *supply = ARENA_NEW(arena, uint32_t, valuer->class_count);
    uint32_t *capacity = ARENA_NEW(arena, uint32_t, valuer->node_classes);
    uint32_t *room = ARENA_NEW(arena, uint32_t, seats->node_count);
    uint32_t *wished = ARENA_NEW(arena, uint32_t, seats->teams.count);
    for (uint32_t t = 0; t < seats->teams.count; t++) {
        supply[solo->team_class[t]]++;
        wished[t] = wished_node(seats, t);
    }
    for (uint32_t n = 0; n < seats->node_count; n++) {
        room[n] = seats->nodes[n].free_count / seats->teams.size;
        capacity[solo->node_class[n]] += room[n];
    }
    const struct transport transport = {.row_count = valuer->class_count,
                                        .column_count = valuer->node_classes,
                                        .supply = supply,
                                        .capacity = capacity,
                                        .link_count = values->count,
                                        .links = values->items};
    transport_links flow;
    transport_solve(arena, &transport, &flow, &solo->gain);
    const struct deal deal = {.item_count = seats->teams.count,
                              .place_count = seats->node_count,
                              .item_classes = valuer->class_count,
                              .place_classes = valuer->node_classes,
                              .item_class = solo->team_class,
                              .place_class = solo->node_class,
                              .wished = wished,
                              .room = room,
                              .flow = &flow};
    deal_places(arena, &deal, solo->node_of);
}

void solo_build(struct arena *arena, const struct seats *seats, struct solo *solo_out)
{
    struct solo *solo = solo_out;
    struct valuer valuer = {.seats = seats, .solo = solo};
    transport_links values = {0};
    *solo = (struct solo){.node_of = ARENA_NEW(arena, uint32_t, seats->teams.count),
                          .team_class = ARENA_NEW(arena, uint32_t, seats->teams.count),
                          .node_class = ARENA_NEW(arena, uint32_t, seats->node_count)};
    valuer.class_count = class_teams(arena, seats, solo->team_class);
    valuer.node_classes = seats_class_nodes(arena, seats, true, solo->node_class);
    solo->nodes = classes_index(arena, valuer.node_classes, seats->node_count, solo->node_class);
    solo->value_begin = ARENA_NEW(arena, size_t, (size_t)valuer.class_count + 1);
    valuer.first_team = ARENA_NEW(arena, uint32_t, valuer.class_count);
    for (uint32_t t = seats->teams.count; t-- > 0;)
        valuer.first_team[solo->team_class[t]] = t;
    struct value_work work = {&valuer, arena, &values};
    arena_with_scratch(arena, value_all, &work);
    solo->values = values.items;
    choose_nodes(arena, seats, &valuer, &values, solo);
}

int64_t solo_value(const struct solo *solo, uint32_t team, uint32_t node)
{
    size_t lo = solo->value_begin[solo->team_class[team]], end = solo->value_begin[solo->team_class[team] + 1];
    size_t hi = end;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (solo->values[middle].column < solo->node_class[node])
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < end && solo->values[lo].column == solo->node_class[node] ? solo->values[lo].gain : 0;
}
