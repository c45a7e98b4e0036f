/* SPDX-License-Identifier: Apache-2.0 */
#include "space/world.h"

#include <stdlib.h>

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/** Rank r runs on device r where the layout does not say otherwise: then it has too many ranks. */
static enum shunt_status refuse_device(const struct cfg_cluster *cluster, const struct side *side, uint32_t rank,
                                       uint64_t count, struct shunt_err *err)
{
    static const char *const fields[] = {
        [CFG_FORM_PARALLEL] = "parallel", [CFG_FORM_MESH] = "mesh", [CFG_FORM_HOLDINGS] = "ranks"};
    const struct cfg_layout *layout = side->layout;
    if (layout->device_count == 0)
        return shunt_fail(err, SHUNT_ERR_INPUT,
                          "%s:%u:%u: %s: found %u ranks, expected at most %llu, the devices of %s", layout->path,
                          layout->ranks_pos.line, layout->ranks_pos.column, fields[layout->form], side->grid.rank_count,
                          (unsigned long long)count, cluster->path);
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: devices: found device %u for rank %u, expected less than %llu, the devices of %s",
                      layout->path, layout->devices_pos.line, layout->devices_pos.column, side->grid.ranks[rank].device,
                      rank, (unsigned long long)count, cluster->path);
}

uint64_t world_count_devices(const struct cfg_cluster *cluster)
{
    uint64_t count = 0;
    for (uint64_t node = 0; node < (uint64_t)cluster->nodes; node++)
        count += (uint64_t)cfg_cluster_machine(cluster, cfg_cluster_group(cluster, node)).devices_per_node;
    return count;
}

static enum shunt_status check_devices(const struct cfg_cluster *cluster, const struct side *side,
                                       struct shunt_err *err)
{
    uint64_t count = world_count_devices(cluster);
    for (uint32_t r = 0; cluster->nodes > 0 && r < side->grid.rank_count; r++) {
        if (side->grid.ranks[r].device >= count)
            return refuse_device(cluster, side, r, count, err);
    }
    return SHUNT_OK;
}

static uint32_t *map_ranks(struct arena *arena, struct world *world, const struct side *side, bool is_from)
{
    uint32_t *device_of = ARENA_NEW(arena, uint32_t, side->grid.rank_count);
    for (uint32_t r = 0; r < side->grid.rank_count; r++) {
        uint32_t lo = 0, hi = world->device_count;
        while (lo + 1 < hi) {
            uint32_t middle = (lo + hi) / 2;
            if (world->devices[middle].id <= side->grid.ranks[r].device)
                lo = middle;
            else
                hi = middle;
        }
        device_of[r] = lo;
        if (is_from)
            world->devices[lo].from_rank = r;
        else
            world->devices[lo].to_rank = r;
    }
    return device_of;
}

static void list_machines(struct arena *arena, struct world *world)
{
    world->machines = ARENA_NEW(arena, struct cfg_machine, (size_t)world->cluster->group_count + 1);
    for (uint32_t g = 0; g <= world->cluster->group_count; g++)
        world->machines[g] = cfg_cluster_machine(world->cluster, g);
}

/** Find the nodes of the devices, which ascend. */
static void find_nodes(struct world *world)
{
    uint64_t node = 0, begin = 0; /* of the node at hand: its number, its first device */
    for (uint32_t d = 0; d < world->device_count; d++) {
        struct world_device *device = &world->devices[d];
        for (;;) {
            device->machine = cfg_cluster_group(world->cluster, node);
            uint64_t end = begin + (uint64_t)world->machines[device->machine].devices_per_node;
            if (device->id < end)
                break;
            begin = end;
            node++;
        }
        device->node = (uint32_t)node;
        bool same = d > 0 && world->devices[d - 1].node == device->node;
        device->first = same ? world->devices[d - 1].first : d;
        world->node_count = device->node + 1;
    }
}

uint64_t world_most_memory(const struct world *world)
{
    uint64_t most = 0;
    for (uint32_t d = 0; d < world->device_count; d++)
        most = world_machine(world, d)->memory > most ? world_machine(world, d)->memory : most;
    return most;
}

struct world *world_list(struct arena *arena, const struct cfg_cluster *cluster, const uint32_t *ids, uint32_t count)
{
    struct world *world = ARENA_NEW(arena, struct world, 1);
    world->cluster = cluster;
    world->devices = ARENA_NEW(arena, struct world_device, count);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && ids[i] == ids[i - 1])
            continue;
        struct world_device *device = &world->devices[world->device_count++];
        device->id = ids[i];
        device->from_rank = device->to_rank = WORLD_NO_RANK;
    }
    list_machines(arena, world);
    find_nodes(world);
    return world;
}

enum shunt_status world_build(struct arena *arena, const struct cfg_cluster *cluster, const struct side *from,
                              const struct side *to, struct world **world_out, struct shunt_err *err)
{
    enum shunt_status status = check_devices(cluster, from, err);
    if (status == SHUNT_OK)
        status = check_devices(cluster, to, err);
    if (status != SHUNT_OK)
        return status;

    uint32_t total = from->grid.rank_count + to->grid.rank_count;
    uint32_t *ids = ARENA_NEW(arena, uint32_t, total);
    for (uint32_t r = 0; r < total; r++)
        ids[r] =
            r < from->grid.rank_count ? from->grid.ranks[r].device : to->grid.ranks[r - from->grid.rank_count].device;
    qsort(ids, total, sizeof(*ids), compare_ids);

    struct world *world = world_list(arena, cluster, ids, total);
    world->from_device = map_ranks(arena, world, from, true);
    world->to_device = map_ranks(arena, world, to, false);
    *world_out = world;
    return SHUNT_OK;
}
