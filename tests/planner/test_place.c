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

/** Nine tenths of what comes between nodes, and all that comes: the rates below, in units of a byte inside a node. */
static uint64_t cost_of(const struct counts *counts, size_t at)
{
    return counts->missing[at] + 9 * counts->missing_in_node[at];
}

struct permuting {
    const struct world *world;
    const struct counts *counts;
    const struct teams *teams;
    const bool *free;
    bool keep; /* teams on one node */
    uint64_t best;
    uint32_t node_of_team;
};

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
            (permuting->keep && at % teams->size != 0 && device->node != node))
            continue;
        permute(permuting, at + 1, taken | 1u << d, device->node,
                cost + cost_of(permuting->counts, (size_t)teams->ranks[at] * devices + d));
    }
}

/* ---- one move --------------------------------------------------------------------------------- */

static struct cfg_cluster cluster = {.path = (char *)"cluster.yaml",
                                     .name = (char *)"ten",
                                     .intra_node_bytes_per_second = 1e12,
                                     .inter_node_bytes_per_second = 1e11};

struct found {
    uint32_t exact, moves, fixed;
    double worst_gap;
    uint32_t methods[4];
};

static void check_devices(const struct world *world, const struct place *place, uint32_t ranks, const bool *free,
                          uint32_t *device_of)
{
    uint32_t taken = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t d = 0;
        while (d < world->device_count && world->devices[d].id != place->devices[r])
            d++;
        CHECK(d < world->device_count && free[d] && (taken >> d & 1) == 0);
        taken |= 1u << d;
        device_of[r] = d;
    }
}

static void check_move(struct arena *arena, const struct pair *pair, const struct world *world, struct found *found,
                       uint32_t n)
{
    struct place place;
    struct shunt_err err = {0};
    uint32_t ranks = pair->to->grid.rank_count, devices = world->device_count, device_of[8];
    const struct counts counts = {ARENA_NEW(arena, uint64_t, (size_t)ranks * devices),
                                  ARENA_NEW(arena, uint64_t, (size_t)ranks * devices)};
    bool free[16], named = pair->to->layout->device_count > 0;
    for (uint32_t i = 0; i < pair->space->item_count; i++)
        count_item(arena, pair, world, i, &counts);
    for (uint32_t d = 0; d < devices; d++)
        free[d] = !named || world->devices[d].to_rank != WORLD_NO_RANK;
    CHECK_MSG(place_choose(arena, pair, world, &place, &err) == SHUNT_OK, "%s", err.text);
    check_devices(world, &place, ranks, free, device_of);

    uint64_t moved = 0, moved_fixed = 0, cost = 0, cost_fixed = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        size_t fixed = (size_t)r * devices + world->to_device[r], chosen = (size_t)r * devices + device_of[r];
        moved += counts.missing[chosen];
        moved_fixed += counts.missing[fixed];
        cost += cost_of(&counts, chosen);
        cost_fixed += cost_of(&counts, fixed);
    }
    CHECK_EQ_U64(place.moved, moved);
    CHECK_EQ_U64(place.moved_fixed, moved_fixed);
    CHECK_EQ_U64(place.cost_picoseconds, cost);
    CHECK_MSG(cost <= cost_fixed, "%u", n);

    struct teams teams = teams_build(arena, pair->to, (uint32_t)cluster.devices_per_node);
    struct permuting permuting = {
        .world = world, .counts = &counts, .teams = &teams, .free = free, .keep = true, .best = UINT64_MAX};
    permute(&permuting, 0, 0, 0, 0);
    if (permuting.best == UINT64_MAX) { /* the nodes cannot keep the teams together */
        permuting.keep = false;
        permute(&permuting, 0, 0, 0, 0);
    }
    uint64_t best = permuting.best < cost_fixed ? permuting.best : cost_fixed;
    CHECK_MSG(place.bound_picoseconds <= best && best <= cost, "%u: %s: bound %llu, best %llu, cost %llu", n,
              place.method, (unsigned long long)place.bound_picoseconds, (unsigned long long)best,
              (unsigned long long)cost);
    bool shared = strcmp(place.method, "transport and swaps") == 0 || strcmp(place.method, "fixed") == 0;
    CHECK_MSG(shared || (cost == best && place.bound_picoseconds == best), "%u: %s", n, place.method);
    found->moves++;
    found->exact += cost == best;
    found->fixed += strcmp(place.method, "fixed") == 0;
    found->methods[0] += strcmp(place.method, "assignment") == 0;
    found->methods[1] += strcmp(place.method, "nested assignment") == 0;
    found->methods[2] += strcmp(place.method, "transport and swaps") == 0;
    double gap = best > 0 ? (double)cost / (double)best - 1 : 0;
    found->worst_gap = gap > found->worst_gap ? gap : found->worst_gap;
}

static void try_move(struct arena *arena, struct found *found, uint32_t n)
{
    struct cfg_layout from = random_layout(8), to = random_layout(8);
    uint32_t old_devices[8], new_devices[8];
    struct pair pair;
    struct world *world;
    struct shunt_err err = {0};
    cluster.devices_per_node = INT64_C(1) << (1 + random_below(3));
    if (n % 2 == 0)
        random_devices(&from, 8, old_devices);
    if (n % 3 == 0)
        random_devices(&to, 8, new_devices);
    enum shunt_status status = pair_build(arena, &model, &from, &to, &pair, &err);
    if (status == SHUNT_OK)
        status = world_build(arena, &cluster, pair.from, pair.to, &world, &err);
    CHECK_MSG(status == SHUNT_OK, "%u: %s", n, err.text);
    if (status == SHUNT_OK)
        check_move(arena, &pair, world, found, n);
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
    for (uint32_t n = 0; n < 300; n++)
        run_move(&found, n);
    printf("# %u moves: %u exact, %u fixed; %u assignments, %u nested, %u with swaps; worst gap %.3f %%\n", found.moves,
           found.exact, found.fixed, found.methods[0], found.methods[1], found.methods[2], 100 * found.worst_gap);
    CHECK(found.methods[0] > 20 && found.methods[1] > 20 && found.methods[2] > 20);
    CHECK(found.exact >= 297 && found.worst_gap < 0.02);
}

static const struct test_case cases[] = {
    {"placement_is_near_the_best", placement_is_near_the_best},
};
TEST_MAIN(cases)
