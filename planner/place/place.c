/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The cheapest method that is exact, else the best one with its bound:
 *
 *   ranks alone                    assignment of ranks to devices: exact
 *   a team fills its node          nested assignment, ranks in nodes and teams on nodes: exact
 *   several teams share a node     teams to nodes as if alone, then moves and swaps; the bound is the lesser gain of
 *                                  teams alone and of ranks alone
 *
 * Where devices have unlike memory, the choice is made as if they had not. If some rank does not fit then, choices on
 * which more ranks fit come first; if some still do not, only devices that hold every rank count; then teams are not kept
 * together. The bound is that of the first choice.
 */
#include "place/place.h"

#include <inttypes.h>
#include <math.h>

#include "place/nodes.h"
#include "place/plain.h"

/** The bound of ranks alone is only looked for where the other one leaves more than this. */
#define GAP_THAT_IS_GOOD 1e-4

struct choice {
    const char *method;
    uint32_t *device_of;
    int64_t gain, most_gain; /* of the choice, and of any one */
    uint32_t team_size;
};

static bool teams_share_nodes(const struct seats *seats)
{
    return seats->most_free >= 2 * seats->teams.size;
}

static double gap_of(int64_t cost, int64_t bound)
{
    return bound > 0 ? (double)(cost - bound) / (double)bound : cost > 0 ? 1 : 0;
}

static void choose_by_teams(struct arena *arena, const struct seats *seats, struct choice *choice)
{
    struct solo solo;
    int64_t need = seats_cost_of_need(seats), alone;
    solo_build(arena, seats, &solo);
    choice->method = teams_share_nodes(seats) ? "transport and swaps" : "nested assignment";
    choice->gain = nodes_fill(arena, seats, &solo, choice->device_of);
    choice->most_gain = solo.gain;
    if (gap_of(need - choice->gain, need - choice->most_gain) <= GAP_THAT_IS_GOOD || seats->teams.size == 1)
        return;
    if (plain_solve(arena, seats, NULL, &alone) && alone < choice->most_gain)
        choice->most_gain = alone;
}

static void choose(struct arena *arena, const struct seats *seats, struct choice *choice)
{
    choice->device_of = ARENA_NEW(arena, uint32_t, seats->pair->to->grid.rank_count);
    if (seats->teams.size == 1 && plain_solve(arena, seats, choice->device_of, &choice->gain)) {
        choice->method = "assignment";
        choice->most_gain = choice->gain;
        return;
    }
    choose_by_teams(arena, seats, choice);
}

struct choosing {
    struct arena *arena; /* of what is kept */
    const struct pair *pair;
    const struct cfg_cluster *cluster;
    const struct spots_asked *asked;
    struct place *place;
    struct shunt_err *err;
    enum shunt_status status;
};

static uint64_t picoseconds(const struct seats *seats, int64_t cost)
{
    double picoseconds = round((double)cost * (seats->unit_seconds * 1e12));
    return picoseconds < 9e18 ? (uint64_t)picoseconds : UINT64_C(9000000000000000000);
}

static bool all_free(const struct seats *seats, const uint32_t *device_of)
{
    for (uint32_t r = 0; r < seats->pair->to->grid.rank_count; r++) {
        if (!seats->free[device_of[r]])
            return false;
    }
    return true;
}

/** The first new rank that a device cannot hold; the number of ranks: none. */
static uint32_t first_misfit(const struct seats *seats, const uint32_t *device_of)
{
    uint32_t r = 0;
    while (r < seats->pair->to->grid.rank_count && seats_fits(seats, r, device_of[r]))
        r++;
    return r;
}

static bool all_fit(const struct seats *seats, const uint32_t *device_of)
{
    return first_misfit(seats, device_of) == seats->pair->to->grid.rank_count;
}

/** Choose among other gains, devices or teams, if no choice so far has room for every rank. */
static void choose_again(struct arena *arena, const struct seats *seats, struct choice *choice)
{
    int64_t most_gain = choice->most_gain;
    choose(arena, seats, choice);
    choice->most_gain = most_gain;
    choice->team_size = seats->teams.size;
}

/** The same for devices that have room for their ranks. @return false: none was found */
static bool choose_fitting(struct arena *arena, const struct seats *seats, struct choice *choice)
{
    struct seats fitting = *seats, large = *seats;
    choose(arena, seats, choice);
    choice->team_size = seats->teams.size;
    if (all_fit(seats, choice->device_of))
        return true;
    bool kept = seats_keep_room(&fitting);
    if (kept)
        choose_again(arena, &fitting, choice);
    if (!all_fit(seats, choice->device_of) && seats_drop_small(arena, &large))
        choose_again(arena, &large, choice);
    if (!all_fit(seats, choice->device_of) && kept && seats->teams.size > 1) {
        fitting.teams = teams_of_one(arena, seats->pair->to);
        choose_again(arena, &fitting, choice);
    }
    return all_fit(seats, choice->device_of);
}

static enum shunt_status refuse_memory(const struct seats *seats, const struct choice *choice, struct shunt_err *err)
{
    uint32_t rank = first_misfit(seats, choice->device_of), device = choice->device_of[rank];
    return shunt_fail(
        err, SHUNT_ERR_INFEASIBLE,
        "infeasible: --place optimal: no choice of devices was found on which every new rank has the memory "
        "that it needs: rank %u needs %" PRIu64 " B beside what the cluster sets apart, device %u has %" PRIu64 " B",
        rank, seats->rank_bytes[rank], seats->world->devices[device].id, seats->room[device]);
}

static void conclude(const struct choosing *choosing, const struct seats *seats, const struct choice *choice)
{
    struct place *place = choosing->place;
    const uint32_t *device_of = choice->device_of;
    uint32_t ranks = seats->pair->to->grid.rank_count;
    struct seats_figures fixed = seats_figures(seats, seats->fixed);
    struct seats_figures chosen = seats_figures(seats, device_of);
    int64_t bound = seats_cost_of_need(seats) - choice->most_gain;
    place->method = choice->method;
    if (fixed.cost <= chosen.cost && all_free(seats, seats->fixed) && all_fit(seats, seats->fixed)) {
        place->method = "fixed";
        device_of = seats->fixed;
        chosen = fixed;
    }
    if (bound > chosen.cost) /* the layout's own choice, with teams across nodes */
        bound = chosen.cost;
    place->devices = ARENA_NEW(choosing->arena, uint32_t, ranks);
    for (uint32_t r = 0; r < ranks; r++)
        place->devices[r] = seats->world->devices[device_of[r]].id;
    place->moved_fixed = fixed.moved;
    place->moved = chosen.moved;
    place->cost_picoseconds = picoseconds(seats, chosen.cost);
    place->bound_picoseconds = picoseconds(seats, bound);
    place->team_size = choice->team_size;
}

static void choose_in_scratch(struct arena *scratch, void *context)
{
    struct choosing *choosing = context;
    struct spots spots;
    struct seats *seats;
    struct choice choice = {0};
    choosing->status = spots_find(scratch, choosing->pair, choosing->cluster, choosing->asked, &spots, choosing->err);
    if (choosing->status == SHUNT_OK)
        choosing->status = seats_build(scratch, choosing->pair, &spots, &seats, choosing->err);
    if (choosing->status != SHUNT_OK)
        return;
    if (choose_fitting(scratch, seats, &choice))
        conclude(choosing, seats, &choice);
    else
        choosing->status = refuse_memory(seats, &choice, choosing->err);
}

enum shunt_status place_choose(struct arena *arena, const struct pair *pair, const struct cfg_cluster *cluster,
                               const struct spots_asked *asked, struct place *place_out, struct shunt_err *err)
{
    struct choosing choosing = {
        .arena = arena, .pair = pair, .cluster = cluster, .asked = asked, .place = place_out, .err = err};
    arena_with_scratch(arena, choose_in_scratch, &choosing);
    return choosing.status;
}
