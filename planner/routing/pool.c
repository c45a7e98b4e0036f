/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/pool.h"

#include "routing/figures.h"
#include "routing/pool_cells.h"
#include "routing/pool_types.h"
#include "routing/spread.h"

#define WORTH       0.9     /* the busiest port must get down to this share: it takes more rounds, and time to plan */
#define MOST_PIECES 2000000 /* of all items: beyond it, finding the shares of every piece takes too long */

/** A route whose types are being replaced by ones of which every item has the same sources. */
struct pool {
    struct route *route;
    struct pool_cells cells;
    struct spreader spreader;
    VEC(struct route_type) types;
};

/** Whether some piece of a type may go over a neighbour. */
static bool is_shared(const struct pool *pool, const struct route_type *type)
{
    for (uint32_t i = 0; i < type->item_count; i++) {
        for (uint32_t p = 0; p < type->piece_count; p++) {
            if (pool_cells_shared(&pool->cells, route_source(type, i, p), type->pieces[p].taker))
                return true;
        }
    }
    return false;
}

static void add_type(struct arena *arena, struct pool *pool, const struct route_type *type)
{
    for (uint32_t i = 0; i < type->item_count; i++) {
        pool->route->item_type[type->items[i]] = (uint32_t)pool->types.count;
        pool->route->item_index[type->items[i]] = i;
    }
    *VEC_PUSH(arena, &pool->types) = *type;
}

static void pool_type(struct arena *arena, struct pool *pool, const struct route_type *type)
{
    if (!is_shared(pool, type)) {
        add_type(arena, pool, type);
        return;
    }
    struct pool_types alike = pool_types_split(arena, pool->route->space, type);
    for (uint32_t t = 0; t < alike.count; t++) {
        pool_cells_deal(arena, &pool->cells, &alike.types[t]);
        spread_pieces(arena, &pool->spreader, &alike.types[t]);
        add_type(arena, pool, &alike.types[t]);
    }
}

/** Whether a neighbour can help: each link inside a node is faster than a network port. */
static bool can_help(const struct world *world)
{
    uint64_t neighbours = 0, nodes = 0;
    for (uint32_t d = 0; d < world->device_count; d++) {
        const struct cfg_machine *machine = world_machine(world, d);
        if (machine->intra_node <= machine->inter_node)
            return false;
        neighbours += world->devices[d].first != d;
        nodes += world->devices[d].first == d;
    }
    return neighbours > 0 && nodes > 1;
}

static uint64_t count_pieces(const struct route *route)
{
    uint64_t count = 0;
    for (uint32_t t = 0; t < route->type_count; t++)
        count += (uint64_t)route->types[t].item_count * route->types[t].piece_count;
    return count;
}

struct route *pool_build(struct arena *arena, const struct route *base)
{
    const struct world *world = base->world;
    if (!can_help(world) || count_pieces(base) > MOST_PIECES)
        return NULL;
    struct relay_ports ports;
    relay_ports_sum(arena, base, &ports);
    double seconds = relay_ports_seconds(&ports, world);
    struct pool pool = {.cells = {.world = world, .space = base->space}};
    pool_shares_build(arena, world, &ports, &pool.cells.shares);
    if (pool.cells.shares.seconds >= WORTH * seconds)
        return NULL;
    struct route *route = ARENA_NEW(arena, struct route, 1);
    *route = *base;
    route->item_type = ARENA_NEW(arena, uint32_t, base->space->item_count);
    route->item_index = ARENA_NEW(arena, uint32_t, base->space->item_count);
    pool.route = route;
    spreader_init(arena, world->device_count, &pool.spreader);
    for (uint32_t t = 0; t < base->type_count; t++)
        pool_type(arena, &pool, &base->types[t]);
    route->types = pool.types.items;
    route->type_count = (uint32_t)pool.types.count;
    if (relay_route_seconds(arena, route) > WORTH * seconds)
        return NULL;
    route_figures_recount(arena, route);
    return route;
}
