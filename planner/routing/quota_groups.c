/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/quota_groups.h"

#include <stdlib.h>

static int compare_demands(const void *a, const void *b)
{
    const struct quota_demand *x = a, *y = b;
    if (x->set != y->set)
        return x->set < y->set ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->taker != y->taker)
        return x->taker < y->taker ? -1 : 1;
    return (x->class > y->class) - (x->class < y->class);
}

static void list_demands(struct arena *arena, struct quota_groups *groups)
{
    const struct classes *classes = groups->classes;
    const struct world_device *devices = classes->route->world->devices;
    for (uint32_t c = 0; c < classes->count; c++)
        groups->demand_count += classes->classes[c].taker_count;
    groups->demands = ARENA_NEW(arena, struct quota_demand, groups->demand_count);
    uint32_t count = 0;
    for (uint32_t c = 0; c < classes->count; c++) {
        const struct route_class *class = &classes->classes[c];
        for (uint32_t t = 0, h = 0; t < class->taker_count; t++) {
            uint32_t node = devices[class->takers[t]].node;
            while (h < class->holder_count && devices[class->holders[h]].node < node)
                h++;
            bool inside = h < class->holder_count && devices[class->holders[h]].node == node;
            groups->demands[count++] = (struct quota_demand){.set = class->holder_set,
                                                             .node = inside ? node : QUOTA_NETWORK,
                                                             .taker = class->takers[t],
                                                             .class = c,
                                                             .at = t};
        }
    }
    if (count > 0)
        qsort(groups->demands, count, sizeof(*groups->demands), compare_demands);
}

/** Holders of a set that a node has; all of them on the network. */
static void narrow_holders(const struct world *world, const struct route_class *class, uint32_t node,
                           struct quota_group *group)
{
    uint32_t begin = 0, end = class->holder_count;
    while (node != QUOTA_NETWORK && world->devices[class->holders[begin]].node < node)
        begin++;
    while (node != QUOTA_NETWORK && world->devices[class->holders[end - 1]].node > node)
        end--;
    group->holders = &class->holders[begin];
    group->holder_count = end - begin;
}

static void list_groups(struct arena *arena, struct quota_groups *groups)
{
    const struct classes *classes = groups->classes;
    VEC(struct quota_group) list = {0};
    for (uint32_t d = 0; d < groups->demand_count; d++) {
        const struct quota_demand *demand = &groups->demands[d], *before = demand - (d > 0);
        const struct route_class *class = &classes->classes[demand->class];
        if (d == 0 || before->set != demand->set || before->node != demand->node) {
            struct quota_group *group = VEC_PUSH(arena, &list);
            group->begin = d;
            group->network = demand->node == QUOTA_NETWORK;
            narrow_holders(classes->route->world, class, demand->node, group);
            group->quota = ARENA_NEW(arena, int64_t, group->holder_count);
        }
        struct quota_group *group = &list.items[list.count - 1];
        group->end = d + 1;
        group->want += (int64_t) class->bytes;
        groups->ports[group->network].in[demand->taker] += (int64_t) class->bytes;
    }
    groups->groups = list.items;
    groups->count = (uint32_t)list.count;
}

static void init_ports(struct arena *arena, struct quota_groups *groups)
{
    const struct world *world = groups->classes->route->world;
    struct rates rates;
    rates_init(arena, world, &rates);
    for (int network = 0; network < 2; network++) {
        struct quota_ports *ports = &groups->ports[network];
        *ports = (struct quota_ports){.in = ARENA_NEW(arena, int64_t, world->device_count),
                                      .out = ARENA_NEW(arena, int64_t, world->device_count),
                                      .sent = ARENA_NEW(arena, int64_t, world->device_count),
                                      .rate = ARENA_NEW(arena, double, world->device_count)};
        for (uint32_t d = 0; d < world->device_count; d++)
            ports->rate[d] = network ? rates_network(&rates, d) : rates_inside(&rates, d);
    }
}

void quota_groups_build(struct arena *arena, const struct classes *classes, struct quota_groups *groups_out)
{
    *groups_out = (struct quota_groups){.classes = classes};
    init_ports(arena, groups_out);
    list_demands(arena, groups_out);
    list_groups(arena, groups_out);
}
