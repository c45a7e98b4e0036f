/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Teams start in the nodes that are best for each alone. Two teams of a node may want the same device; then the node
 * gains less than its teams would alone, which is its loss. The search goes through the nodes that lose something
 * (all nodes, where teams are few), and through the teams in them: each may move to a node with room, or change places
 * with a team of another node, if both nodes together gain. What nodes gain at most, the sum of what their teams gain
 * alone, is known without an assignment, and rules most pairs out. Where teams are few and the bound is not met, it
 * starts again many times, from the best choice so far with two random teams exchanged. The number of assignments is
 * bounded, so that the search ends on any machine at the same place.
 *
 *     node 0  team A (wants devices 0, 2)  team B (wants 0, 2): loss      A <-> C: no loss in either
 *     node 1  team C (wants 1, 3)          team D (wants 1, 3): loss
 */
#include "place/nodes.h"

#include <string.h>

#include "solve/assign.h"

#define TRIALS_PER_TEAM 24
#define LEAST_TRIALS    4096
#define RESTARTS        256
#define RESTART_TRIALS  65536
#define MOST_TO_RESTART 512 /* teams: those are few */

#define NO_TEAM UINT32_MAX

/** Teams of a node. */
struct room {
    uint32_t count, places;
    uint32_t *teams;
    int64_t gain, alone; /* of all of them: together, and the sum of each alone */
};

struct search {
    const struct seats *seats;
    const struct solo *solo;
    struct room *rooms; /* by node */
    uint32_t *node_of;  /* by team */
    struct assign assign;
    int64_t *gains;
    uint32_t *columns, *devices;
    uint32_t *trial;  /* teams of a node as they might be */
    uint64_t left;    /* assignments */
    bool is_thorough; /* the teams are few */
    uint64_t random;
};

/** What each rank of some teams gains on each free device of a node. @return the number of ranks */
static uint32_t fill_gains(struct search *search, uint32_t node_index, const uint32_t *teams, uint32_t count)
{
    const struct seats *seats = search->seats;
    const struct seats_node *node = &seats->nodes[node_index];
    int64_t *gain = search->gains;
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t m = 0; m < seats->teams.size; m++) {
            uint32_t rank = seats->teams.ranks[teams[t] * seats->teams.size + m];
            for (uint32_t d = node->begin; d < node->begin + node->count; d++) {
                if (seats->free[d])
                    *gain++ = seats_gain(seats, rank, d);
            }
        }
    }
    return count * seats->teams.size;
}

static int64_t gain_on(struct search *search, uint32_t node, const uint32_t *teams, uint32_t count)
{
    uint32_t ranks = fill_gains(search, node, teams, count);
    return assign_solve(&search->assign, ranks, search->seats->nodes[node].free_count, search->gains, NULL);
}

static void settle(struct search *search, uint32_t node)
{
    struct room *room = &search->rooms[node];
    room->gain = gain_on(search, node, room->teams, room->count);
    room->alone = 0;
    for (uint32_t t = 0; t < room->count; t++)
        room->alone += solo_value(search->solo, room->teams[t], node);
}

static void fill_rooms(struct arena *arena, struct search *search)
{
    const struct seats *seats = search->seats;
    search->rooms = ARENA_NEW(arena, struct room, seats->node_count);
    for (uint32_t n = 0; n < seats->node_count; n++) {
        search->rooms[n].places = seats->nodes[n].free_count / seats->teams.size;
        search->rooms[n].teams = ARENA_NEW(arena, uint32_t, search->rooms[n].places);
    }
    for (uint32_t t = 0; t < seats->teams.count; t++) {
        struct room *room = &search->rooms[search->node_of[t]];
        room->teams[room->count++] = t;
    }
    for (uint32_t n = 0; n < seats->node_count; n++)
        settle(search, n);
}

/* ---- moves and swaps --------------------------------------------------------------- */

/** Teams of a node without one of them and with another one. @return their number */
static uint32_t change_teams(struct search *search, const struct room *room, uint32_t out, uint32_t in)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < room->count; t++) {
        if (room->teams[t] != out)
            search->trial[count++] = room->teams[t];
    }
    if (in != NO_TEAM)
        search->trial[count++] = in;
    return count;
}

static int64_t alone_after(const struct search *search, uint32_t node, uint32_t out, uint32_t in)
{
    int64_t alone = search->rooms[node].alone;
    if (out != NO_TEAM)
        alone -= solo_value(search->solo, out, node);
    return in == NO_TEAM ? alone : alone + solo_value(search->solo, in, node);
}

static int64_t gain_after(struct search *search, uint32_t node, uint32_t out, uint32_t in)
{
    uint32_t count = change_teams(search, &search->rooms[node], out, in);
    search->left -= search->left > 0;
    return gain_on(search, node, search->trial, count);
}

static void put_team(struct search *search, uint32_t node, uint32_t out, uint32_t in)
{
    struct room *room = &search->rooms[node];
    uint32_t count = change_teams(search, room, out, in);
    for (uint32_t t = 0; t < count; t++)
        room->teams[t] = search->trial[t];
    room->count = count;
    if (in != NO_TEAM)
        search->node_of[in] = node;
    settle(search, node);
}

/** Let `team` of node `a` change places with `other` of node `b`, or with nobody, if that gains. */
static bool try_change(struct search *search, uint32_t a, uint32_t team, uint32_t b, uint32_t other)
{
    int64_t now = search->rooms[a].gain + search->rooms[b].gain;
    int64_t there_at_most = alone_after(search, b, other, team);
    if (alone_after(search, a, team, other) + there_at_most <= now || search->left == 0)
        return false;
    int64_t here = gain_after(search, a, team, other);
    if (here + there_at_most <= now || here + gain_after(search, b, other, team) <= now)
        return false;
    put_team(search, a, team, other);
    put_team(search, b, other, team);
    return true;
}

static bool try_node(struct search *search, uint32_t a, uint32_t team, uint32_t b)
{
    const struct room *room = &search->rooms[b];
    if (b == a || room->places == 0)
        return false;
    if (room->count < room->places && try_change(search, a, team, b, NO_TEAM))
        return true;
    for (uint32_t t = 0; t < room->count; t++) {
        if (try_change(search, a, team, b, room->teams[t]))
            return true;
    }
    return false;
}

/** Try all nodes where the team gains something. */
static bool improve_team(struct search *search, uint32_t node, uint32_t team)
{
    const struct solo *solo = search->solo;
    uint32_t class = solo->team_class[team];
    for (size_t v = solo->value_begin[class]; v < solo->value_begin[class + 1]; v++) {
        uint32_t node_class = solo->values[v].column;
        for (uint32_t i = solo->nodes.begin[node_class]; i < solo->nodes.begin[node_class + 1]; i++) {
            if (search->left == 0)
                return false;
            if (try_node(search, node, team, solo->nodes.members[i]))
                return true;
        }
    }
    return false;
}

/** Whether other teams may gain more on a node; where teams are many, only if its own stand in each other's way. */
static bool may_improve(const struct search *search, uint32_t node)
{
    const struct room *room = &search->rooms[node];
    return room->gain < room->alone || (search->is_thorough && room->count > 0);
}

static bool improve_node(struct search *search, uint32_t node)
{
    struct room *room = &search->rooms[node];
    for (uint32_t t = 0; t < room->count && may_improve(search, node); t++) {
        if (improve_team(search, node, room->teams[t]))
            return true;
    }
    return false;
}

static int64_t total_gain(const struct search *search)
{
    int64_t gain = 0;
    for (uint32_t n = 0; n < search->seats->node_count; n++)
        gain += search->rooms[n].gain;
    return gain;
}

static void improve(struct search *search)
{
    bool better = true;
    while (better && search->left > 0 && total_gain(search) < search->solo->gain) {
        better = false;
        for (uint32_t n = 0; n < search->seats->node_count; n++) {
            while (may_improve(search, n) && improve_node(search, n))
                better = true;
        }
    }
}

/* ---- restarts -------------------------------------------------------------------------- */

static uint32_t random_below(struct search *search, uint32_t limit)
{
    search->random = search->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(search->random >> 33) % limit;
}

/** Exchange two teams, whatever it costs; the second may be an empty place. */
static void exchange(struct search *search, uint32_t team)
{
    uint32_t a = search->node_of[team], b = random_below(search, search->seats->node_count);
    const struct room *room = &search->rooms[b];
    if (a == b || room->places == 0)
        return;
    uint32_t place = random_below(search, room->places);
    uint32_t other = place < room->count ? room->teams[place] : NO_TEAM;
    put_team(search, a, team, other);
    put_team(search, b, other, team);
}

static void go_back(struct search *search, const uint32_t *node_of)
{
    for (uint32_t n = 0; n < search->seats->node_count; n++)
        search->rooms[n].count = 0;
    for (uint32_t t = 0; t < search->seats->teams.count; t++) {
        struct room *room = &search->rooms[search->node_of[t] = node_of[t]];
        room->teams[room->count++] = t;
    }
    for (uint32_t n = 0; n < search->seats->node_count; n++)
        settle(search, n);
}

static void restart(struct arena *arena, struct search *search)
{
    uint32_t teams = search->seats->teams.count, *best = ARENA_NEW(arena, uint32_t, teams);
    int64_t most = total_gain(search);
    memcpy(best, search->node_of, teams * sizeof(*best));
    search->left = RESTART_TRIALS;
    for (uint32_t k = 0; k < RESTARTS && search->left > 0 && most < search->solo->gain; k++) {
        exchange(search, random_below(search, teams));
        improve(search);
        int64_t gain = total_gain(search);
        if (gain >= most) {
            most = gain;
            memcpy(best, search->node_of, teams * sizeof(*best));
        } else {
            go_back(search, best);
        }
    }
    go_back(search, best);
}

/* ---- devices ----------------------------------------------------------------------- */

static uint32_t team_rank(const struct search *search, const struct room *room, uint32_t i)
{
    const struct teams *teams = &search->seats->teams;
    return teams->ranks[room->teams[i / teams->size] * teams->size + i % teams->size];
}

/** Of equally good choices take one in which most ranks stay where the layout has them. */
static void prefer_fixed(struct search *search, const struct room *room, uint32_t ranks, const uint32_t *devices,
                         uint32_t count)
{
    const struct seats *seats = search->seats;
    for (uint32_t i = 0; i < ranks * count; i++) {
        if (search->gains[i] > INT64_MAX / 4 / (ranks + 1))
            return; /* the sums would not fit */
    }
    for (uint32_t i = 0; i < ranks; i++) {
        for (uint32_t c = 0; c < count; c++) {
            int64_t *gain = &search->gains[i * count + c];
            *gain = *gain * (ranks + 1) + (seats->fixed[team_rank(search, room, i)] == devices[c]);
        }
    }
}

static void take_devices(struct search *search, uint32_t node_index, uint32_t *device_out)
{
    const struct seats_node *node = &search->seats->nodes[node_index];
    const struct room *room = &search->rooms[node_index];
    uint32_t ranks = fill_gains(search, node_index, room->teams, room->count), count = 0;
    for (uint32_t d = node->begin; d < node->begin + node->count; d++) {
        if (search->seats->free[d])
            search->devices[count++] = d;
    }
    prefer_fixed(search, room, ranks, search->devices, count);
    assign_solve(&search->assign, ranks, count, search->gains, search->columns);
    for (uint32_t i = 0; i < ranks; i++)
        device_out[team_rank(search, room, i)] = search->devices[search->columns[i]];
}

int64_t nodes_fill(struct arena *arena, const struct seats *seats, const struct solo *solo, uint32_t *device_out)
{
    struct search search = {.seats = seats, .solo = solo, .node_of = solo->node_of};
    assign_init(arena, seats->most_free, seats->most_free, &search.assign);
    search.gains = ARENA_NEW(arena, int64_t, (size_t)seats->most_free * seats->most_free);
    search.columns = ARENA_NEW(arena, uint32_t, seats->most_free);
    search.devices = ARENA_NEW(arena, uint32_t, seats->most_free);
    search.trial = ARENA_NEW(arena, uint32_t, seats->most_free + 1);
    search.left = LEAST_TRIALS + (uint64_t)TRIALS_PER_TEAM * seats->teams.count;
    search.is_thorough = seats->teams.count <= MOST_TO_RESTART;
    fill_rooms(arena, &search);
    improve(&search);
    if (search.is_thorough)
        restart(arena, &search);
    for (uint32_t n = 0; n < seats->node_count; n++)
        take_devices(&search, n, device_out);
    return total_gain(&search);
}
