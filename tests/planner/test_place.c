/* SPDX-License-Identifier: Apache-2.0 */
/** Placement against trying everything: costs counted element by element, ranks permuted in all ways. */

#include "place/place.h"
#include "place/teams.h"
#include "side_rig.h"
#include "space/pair.h"

#include <stdlib.h>

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % limit;
}

/* ---- random moves ------------------------------------------------------------------------- */

static int64_t two_segments[] = {8, 8}, whole_up[] = {12}, whole_vocab[] = {24};

static struct cfg_tensor tensors[] = {
    {.name = (char *)"embed",
     .ndim = 2,
     .shape = {24, 2},
     .stage = CFG_STAGE_FIRST,
     .cut_dim = 0,
     .segment_count = 1,
     .segments = whole_vocab,
     .dtype = -1},
    {.name = (char *)"layer.{i}.gate_up",
     .ndim = 2,
     .shape = {16, 3},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = 0,
     .segment_count = 2,
     .segments = two_segments,
     .layer_end = 4,
     .dtype = -1},
    {.name = (char *)"layer.{i}.down",
     .ndim = 2,
     .shape = {3, 12},
     .stage = CFG_STAGE_LAYER,
     .cut_dim = 1,
     .segment_count = 1,
     .segments = whole_up,
     .layer_end = 4,
     .dtype = -1},
    {.name = (char *)"norm", .ndim = 1, .shape = {5}, .stage = CFG_STAGE_LAST, .cut_dim = -1, .dtype = -1},
};
static struct cfg_model model = {
    .path = (char *)"model.yaml", .name = (char *)"tiny", .layers = 4, .tensor_count = 4, .tensors = tensors};

/** Sizes whose product is at most `most`. */
static struct cfg_layout random_layout(uint32_t most)
{
    static const int64_t parts[] = {1, 2, 4};
    struct cfg_layout layout = rig_layout();
    layout.vocab_padded = 24;
    do {
        layout.size[CFG_AXIS_TP] = parts[random_below(3)];
        layout.size[CFG_AXIS_PP] = parts[random_below(3)];
        layout.size[CFG_AXIS_DP] = 1 + random_below(4);
    } while (cfg_layout_world(&layout) > most);
    if (random_below(2) == 0)
        layout.order[3] = CFG_AXIS_PP, layout.order[4] = CFG_AXIS_DP;
    static const enum cfg_shard_rule rules[] = {CFG_SHARD_NONE, CFG_SHARD_ZERO1, CFG_SHARD_ZERO3, CFG_SHARD_MEGATRON};
    layout.shard.rule = rules[random_below(4)];
    return layout;
}

/** Shuffled device numbers below `devices`. */
static void random_devices(struct cfg_layout *layout, uint32_t devices, uint32_t *room)
{
    for (uint32_t d = 0; d < devices; d++) {
        uint32_t other = random_below(d + 1);
        room[d] = room[other];
        room[other] = d;
    }
    layout->devices = room;
    layout->device_count = (uint32_t)cfg_layout_world(layout);
}

/* ---- counting --------------------------------------------------------------------------------- */

/** Which elements of an item a rank holds, one flag each. */
static bool *held(struct arena *arena, const struct side *side, uint32_t item, uint32_t rank)
{
    const struct space_family *family = &side->space->families[side->space->items[item].family];
    bool *flags = ARENA_NEW(arena, bool, (size_t)space_family_elements(family));
    const struct placement_variant *variant = side_variant(side, item, rank);
    for (uint32_t h = 0; variant != NULL && h < variant->holding_count; h++) {
        const struct box *box = &variant->holdings[h].box;
        int64_t width = box->ndim > 1 ? family->shape[1] : 1, end = box->ndim > 1 ? box->hi[1] : 1;
        for (int64_t i = box->lo[0]; i < box->hi[0]; i++) {
            for (int64_t j = box->ndim > 1 ? box->lo[1] : 0; j < end; j++)
                flags[i * width + j] = true;
        }
    }
    return flags;
}

struct counts {
    uint64_t *missing, *missing_in_node; /* by new rank and device of the world */
};

/** What device d lacks of new rank r, and what its whole node lacks. */
static void count_item(struct arena *arena, const struct pair *pair, const struct world *world, uint32_t item,
                       const struct counts *counts)
{
    int64_t elements = space_family_elements(&pair->space->families[pair->space->items[item].family]);
    uint32_t devices = world->device_count, bytes = pair->space->items[item].wire_bytes;
    bool **on = ARENA_NEW(arena, bool *, devices);
    for (uint32_t d = 0; d < devices; d++)
        on[d] = world->devices[d].from_rank == WORLD_NO_RANK
                    ? ARENA_NEW(arena, bool, (size_t)elements)
                    : held(arena, pair->from, item, world->devices[d].from_rank);
    for (uint32_t r = 0; r < pair->to->grid.rank_count; r++) {
        const bool *wants = held(arena, pair->to, item, r);
        for (uint32_t d = 0; d < devices; d++) {
            for (int64_t e = 0; e < elements; e++) {
                bool near = false;
                for (uint32_t other = 0; other < devices; other++)
                    near = near || (on[other][e] && world->devices[other].node == world->devices[d].node);
                counts->missing[r * devices + d] += wants[e] && !on[d][e] ? bytes : 0;
                counts->missing_in_node[r * devices + d] += wants[e] && !near ? bytes : 0;
            }
        }
    }
}

static struct cfg_group group = {.node_count = 2};
static uint32_t group_of[8];
static struct cfg_cluster cluster = {.path = (char *)"cluster.yaml",
                                     .name = (char *)"ten",
                                     .intra_node_bytes_per_second = 1e12,
                                     .inter_node_bytes_per_second = 1e11,
                                     .groups = &group,
                                     .group_of = group_of};

/** Rates of the group's nodes, and what a byte takes there: inside a node, and between nodes beside that. */
static const struct rates {
    double intra_node, inter_node;
    uint64_t inside, more_between;
} all_rates[] = {{0, 0, 1, 9}, {5e11, 5e10, 2, 18}, {0, 2.5e10, 1, 39}};

static const struct rates *own_rates = &all_rates[0];

/** What comes inside a node and between nodes, in picoseconds. */
static uint64_t cost_of(const struct counts *counts, const struct world *world, size_t at)
{
    const struct rates *rates = &all_rates[0];
    if (cfg_cluster_group(&cluster, world->devices[at % world->device_count].node) > 0)
        rates = own_rates;
    return rates->inside * counts->missing[at] + rates->more_between * counts->missing_in_node[at];
}

struct permuting {
    const struct world *world;
    const struct counts *counts;
    const struct teams *teams;
    const bool *free;
    const uint64_t *rank_bytes;
    bool keep; /* teams on one node */
    uint64_t best;
    uint32_t node_of_team;
};

/** Of a memory that is less than that of others, plans may count 64 KiB as missing. */
static bool has_room(const struct world *world, uint32_t device, uint64_t bytes)
{
    return world_machine(world, device)->memory == world_most_memory(world) ||
           bytes + 65535 <= world_machine(world, device)->memory;
}

static void permute(struct permuting *permuting, uint32_t at, uint32_t taken, uint32_t node, uint64_t cost)
{
    const struct teams *teams = permuting->teams;
    uint32_t devices = permuting->world->device_count;
    if (cost >= permuting->best)
        return;
    if (at == teams->count * teams->size) {
        permuting->best = cost;
        return;
    }
    for (uint32_t d = 0; d < devices; d++) {
        const struct world_device *device = &permuting->world->devices[d];
        if ((taken >> d & 1) != 0 || !permuting->free[d] ||
            !has_room(permuting->world, d, permuting->rank_bytes[teams->ranks[at]]) ||
            (permuting->keep && at % teams->size != 0 && device->node != node))
            continue;
        permute(permuting, at + 1, taken | 1u << d, device->node,
                cost + cost_of(permuting->counts, permuting->world, (size_t)teams->ranks[at] * devices + d));
    }
}

/* ---- one move --------------------------------------------------------------------------------- */

struct found {
    uint32_t exact, moves, refused, short_of_room;
    double worst_gap;
    uint32_t methods[4];
};

struct move {
    struct pair pair;
    struct spots_asked asked;
    struct spots spots;
    struct counts counts;
    uint64_t rank_bytes[8];
    uint32_t number;
};

/** Which devices may be taken, told without the compiler's help. */
static void check_free(const struct move *move)
{
    const struct cfg_layout *to = move->pair.to->layout;
    for (uint32_t d = 0; d < move->spots.world->device_count; d++) {
        bool free = to->device_count == 0 && move->asked.count == 0;
        for (uint32_t r = 0; r < to->device_count && move->asked.count == 0; r++)
            free = free || to->devices[r] == move->spots.world->devices[d].id;
        for (uint32_t i = 0; i < move->asked.count; i++)
            free = free || move->asked.ids[i] == move->spots.world->devices[d].id;
        CHECK_MSG(move->spots.free[d] == free, "%u: device %u", move->number, d);
    }
}

static void find_devices(const struct move *move, const struct place *place, uint32_t *device_of)
{
    const struct world *world = move->spots.world;
    uint32_t taken = 0;
    for (uint32_t r = 0; r < move->pair.to->grid.rank_count; r++) {
        uint32_t d = 0;
        while (d < world->device_count && world->devices[d].id != place->devices[r])
            d++;
        CHECK(d < world->device_count && move->spots.free[d] && (taken >> d & 1) == 0);
        taken |= 1u << d;
        device_of[r] = d;
    }
}

struct sums {
    uint64_t moved, cost;
};

static struct sums sum_up(const struct move *move, const uint32_t *device_of)
{
    struct sums sums = {0};
    for (uint32_t r = 0; r < move->pair.to->grid.rank_count; r++) {
        size_t at = (size_t)r * move->spots.world->device_count + device_of[r];
        sums.moved += move->counts.missing[at];
        sums.cost += cost_of(&move->counts, move->spots.world, at);
    }
    return sums;
}

/** The cheapest of all ways; with teams on one node each if there is such a way. */
static uint64_t best_cost(struct arena *arena, const struct move *move)
{
    struct teams teams = teams_build(arena, move->pair.to, (uint32_t)cluster.devices_per_node);
    struct permuting permuting = {.world = move->spots.world,
                                  .counts = &move->counts,
                                  .teams = &teams,
                                  .free = move->spots.free,
                                  .rank_bytes = move->rank_bytes,
                                  .keep = true,
                                  .best = UINT64_MAX};
    permute(&permuting, 0, 0, 0, 0);
    permuting.keep = permuting.best < UINT64_MAX;
    if (!permuting.keep)
        permute(&permuting, 0, 0, 0, 0);
    return permuting.best;
}

static void note(struct found *found, const struct place *place, uint64_t cost, uint64_t best)
{
    static const char *const methods[] = {"assignment", "nested assignment", "transport and swaps", "fixed"};
    double gap = best > 0 ? (double)cost / (double)best - 1 : 0;
    found->moves++;
    found->exact += cost == best;
    for (size_t m = 0; m < 4; m++)
        found->methods[m] += strcmp(place->method, methods[m]) == 0;
    found->worst_gap = gap > found->worst_gap ? gap : found->worst_gap;
}

static void check_move(struct arena *arena, const struct move *move, struct found *found)
{
    struct place place;
    struct shunt_err err = {0};
    uint32_t device_of[8];
    uint64_t best = best_cost(arena, move);
    enum shunt_status status = place_choose(arena, &move->pair, &cluster, &move->asked, &place, &err);
    if (best == UINT64_MAX) {
        found->refused++;
        CHECK_EQ_U64(status, SHUNT_ERR_INFEASIBLE);
        CHECK_CONTAINS(err.text, "the memory that it needs: rank ");
        return;
    }
    CHECK_MSG(status == SHUNT_OK, "%u: %s", move->number, err.text);
    if (status != SHUNT_OK)
        return;
    find_devices(move, &place, device_of);
    struct sums fixed = sum_up(move, move->spots.fixed), chosen = sum_up(move, device_of);
    CHECK_EQ_U64(place.moved, chosen.moved);
    CHECK_EQ_U64(place.moved_fixed, fixed.moved);
    CHECK_EQ_U64(place.cost_picoseconds, chosen.cost);

    bool fixed_is_free = true, fits_anywhere = true;
    for (uint32_t r = 0; r < move->pair.to->grid.rank_count; r++) {
        CHECK(has_room(move->spots.world, device_of[r], move->rank_bytes[r]));
        fixed_is_free = fixed_is_free && move->spots.free[move->spots.fixed[r]] &&
                        has_room(move->spots.world, move->spots.fixed[r], move->rank_bytes[r]);
        for (uint32_t d = 0; d < move->spots.world->device_count; d++)
            fits_anywhere = fits_anywhere && has_room(move->spots.world, d, move->rank_bytes[r]);
    }
    found->short_of_room += !fits_anywhere;
    if (fixed_is_free && fixed.cost < best)
        best = fixed.cost;
    CHECK_MSG(place.bound_picoseconds <= best && best <= chosen.cost, "%u: %s: bound %llu, best %llu, cost %llu",
              move->number, place.method, (unsigned long long)place.bound_picoseconds, (unsigned long long)best,
              (unsigned long long)chosen.cost);
    bool may_differ =
        !fits_anywhere || strcmp(place.method, "transport and swaps") == 0 || strcmp(place.method, "fixed") == 0;
    CHECK_MSG(may_differ || (chosen.cost == best && place.bound_picoseconds == best), "%u: %s", move->number,
              place.method);
    note(found, &place, chosen.cost, best);
}

/** Most moves are on nodes of which some are unlike the others, in rates, in memory or in both. */
static void draw_cluster(void)
{
    cluster.devices_per_node = INT64_C(1) << (1 + random_below(3));
    cluster.device_memory = 1 << 20;
    cluster.group_count = random_below(4) > 0;
    cluster.grouped_nodes = cluster.group_count > 0 ? 8 : 0;
    own_rates = &all_rates[random_below(3)];
    group.intra_node_bytes_per_second = own_rates->intra_node;
    group.inter_node_bytes_per_second = own_rates->inter_node;
    group.device_memory = random_below(2) * (65600 + random_below(1200));
    for (uint32_t n = 0; n < 8; n++)
        group_of[n] = random_below(2);
}

static void count_all(struct arena *arena, struct move *move)
{
    for (uint32_t r = 0; r < move->pair.to->grid.rank_count; r++)
        move->rank_bytes[r] = side_rank_bytes(move->pair.to, r);
    size_t pairs = (size_t)move->pair.to->grid.rank_count * move->spots.world->device_count;
    move->counts = (struct counts){ARENA_NEW(arena, uint64_t, pairs), ARENA_NEW(arena, uint64_t, pairs)};
    for (uint32_t i = 0; i < move->pair.space->item_count; i++)
        count_item(arena, &move->pair, move->spots.world, i, &move->counts);
}

static void try_move(struct arena *arena, struct found *found, uint32_t n)
{
    struct cfg_layout from = random_layout(8), to = random_layout(8), others = {0};
    uint32_t old_devices[8], new_devices[8], asked[10];
    struct move move = {.number = n};
    struct shunt_err err = {0};
    draw_cluster();
    if (n % 2 == 0)
        random_devices(&from, 8, old_devices);
    if (n % 3 == 0)
        random_devices(&to, 8, new_devices);
    if (n % 5 == 0) {
        random_devices(&others, 10, asked);
        move.asked = (struct spots_asked){(uint32_t)cfg_layout_world(&to) + random_below(2), asked};
    }
    enum shunt_status status = pair_build(arena, &model, &from, &to, &move.pair, &err);
    if (status == SHUNT_OK)
        status = spots_find(arena, &move.pair, &cluster, &move.asked, &move.spots, &err);
    CHECK_MSG(status == SHUNT_OK, "%u: %s", n, err.text);
    if (status != SHUNT_OK)
        return;
    check_free(&move);
    count_all(arena, &move);
    check_move(arena, &move, found);
}

static void run_move(struct found *found, uint32_t n)
{
    struct arena arena;
    arena_init(&arena);
    if (setjmp(arena.on_failure) == 0)
        try_move(&arena, found, n);
    else
        CHECK(!"out of memory");
    arena_finish(&arena);
}

static void placement_is_near_the_best(void)
{
    struct found found = {0};
    random_state = 3;
    for (uint32_t n = 0; n < 400; n++)
        run_move(&found, n);
    printf("# %u moves, %u refused, %u short of memory: %u exact, %u fixed; %u assignments, %u nested, %u with swaps; "
           "worst gap %.3f %%\n",
           found.moves, found.refused, found.short_of_room, found.exact, found.methods[3], found.methods[0],
           found.methods[1], found.methods[2], 100 * found.worst_gap);
    CHECK(found.methods[0] > 20 && found.methods[1] > 20 && found.methods[2] > 20);
    CHECK(found.refused > 10 && found.short_of_room > 10);
    CHECK(found.exact + 3 >= found.moves && found.worst_gap < 0.02);
}

static const struct test_case cases[] = {
    {"placement_is_near_the_best", placement_is_near_the_best},
};
TEST_MAIN(cases)
