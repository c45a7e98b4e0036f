/* SPDX-License-Identifier: Apache-2.0 */
#include "place/spots.h"

/** Number in the cluster of the device at `index` among the new ranks' own and then those that were asked for. */
static uint32_t id_at(const struct pair *pair, const struct spots_asked *asked, uint32_t index)
{
    uint32_t ranks = pair->to->grid.rank_count;
    return index < ranks ? pair->to->grid.ranks[index].device : asked->ids[index - ranks];
}

/** A side whose "ranks" are on all devices that count, and the world of it. */
static enum shunt_status build_world(struct arena *arena, const struct pair *pair, const struct cfg_cluster *cluster,
                                     const struct spots_asked *asked, struct world **world_out, struct shunt_err *err)
{
    struct side side = *pair->to;
    side.grid.rank_count += asked->count;
    side.grid.ranks = ARENA_NEW(arena, struct grid_rank, side.grid.rank_count);
    for (uint32_t r = 0; r < side.grid.rank_count; r++)
        side.grid.ranks[r].device = id_at(pair, asked, r);
    return world_build(arena, cluster, pair->from, &side, world_out, err);
}

enum shunt_status spots_find(struct arena *arena, const struct pair *pair, const struct cfg_cluster *cluster,
                             const struct spots_asked *asked, struct spots *spots_out, struct shunt_err *err)
{
    uint32_t ranks = pair->to->grid.rank_count;
    bool named = pair->to->layout->device_count > 0 || asked->count > 0;
    struct world *world;
    if (asked->count > 0 && asked->count < ranks)
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "--place-on: found %u devices, expected at least %u, one for each rank of %s", asked->count,
                          ranks, pair->to->layout->path);
    enum shunt_status status = build_world(arena, pair, cluster, asked, &world, err);
    if (status != SHUNT_OK)
        return status;
    struct spots spots = {
        .world = world, .free = ARENA_NEW(arena, bool, world->device_count), .fixed = world->to_device};
    for (uint32_t d = 0; d < world->device_count; d++)
        spots.free[d] = !named;
    for (uint32_t i = asked->count > 0 ? ranks : 0; i < ranks + asked->count; i++)
        spots.free[world->to_device[i]] = true;
    *spots_out = spots;
    return SHUNT_OK;
}
