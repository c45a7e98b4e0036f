/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/pool_shares.h"

#include "routing/rates.h"

#define HALVINGS 30
#define PARCELS  1024 /* that a port carries, about */

/** Shares under construction. */
struct split {
    const struct world *world;
    const struct relay_ports *ports;
    struct rates rates;
    uint64_t *inside_out, *inside_in; /* by device: what the links inside the node carry */
    uint64_t *room;                   /* by device: what its port can take of others */
};

static const uint64_t *bytes_of(const struct split *split, enum pool_direction direction)
{
    return direction == POOL_OUT ? split->ports->net_out : split->ports->net_in;
}

/** Bytes that a port carries in some seconds. */
static uint64_t carried(const struct split *split, uint32_t device, double seconds)
{
    return (uint64_t)(seconds * rates_network(&split->rates, device));
}

/** Seconds that the ports of all nodes take when each node's are one. */
static double node_seconds(const struct split *split)
{
    double most = 0;
    for (int direction = 0; direction < POOL_DIRECTIONS; direction++) {
        const uint64_t *bytes = bytes_of(split, direction);
        for (uint32_t n = 0; n < split->world->node_count; n++) {
            uint64_t sum = 0;
            for (uint32_t d = split->rates.node_begin[n]; d < split->rates.node_begin[n + 1]; d++)
                sum += bytes[d];
            double seconds = sum > 0 ? (double)sum / rates_node(&split->rates, n) : 0;
            most = seconds > most ? seconds : most;
        }
    }
    return most;
}

typedef VEC(struct pool_share) share_vec;

/** Give what is too much for a device's port to neighbours that have room; some bytes may be left, by rounding. */
static void give_away(struct arena *arena, struct split *split, enum pool_direction direction, uint32_t device,
                      uint64_t surplus, share_vec *list)
{
    uint32_t node = split->world->devices[device].node;
    for (uint32_t m = split->rates.node_begin[node]; m < split->rates.node_begin[node + 1] && surplus > 0; m++) {
        uint64_t bytes = split->room[m] < surplus ? split->room[m] : surplus;
        if (bytes == 0 || m == device)
            continue;
        split->room[m] -= bytes;
        surplus -= bytes;
        split->inside_out[direction == POOL_OUT ? device : m] += bytes;
        split->inside_in[direction == POOL_OUT ? m : device] += bytes;
        *VEC_PUSH(arena, list) = (struct pool_share){.device = m, .bytes = bytes};
    }
}

static void split_direction(struct arena *arena, struct split *split, enum pool_direction direction, double seconds,
                            struct pool_shares *shares)
{
    const uint64_t *bytes = bytes_of(split, direction);
    uint32_t devices = split->world->device_count;
    share_vec list = {0};
    uint32_t *begin = ARENA_NEW(arena, uint32_t, (size_t)devices + 1);
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t can = carried(split, d, seconds);
        split->room[d] = can > bytes[d] ? can - bytes[d] : 0;
    }
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t can = carried(split, d, seconds), own = bytes[d] < can ? bytes[d] : can;
        *VEC_PUSH(arena, &list) = (struct pool_share){.device = d, .bytes = own};
        if (own < bytes[d])
            give_away(arena, split, direction, d, bytes[d] - own, &list);
        begin[d + 1] = (uint32_t)list.count;
    }
    shares->begin[direction] = begin;
    shares->shares[direction] = list.items;
}

/** Split what all devices have so that network ports take so long. @return seconds of the busiest link inside a node */
static double split_all(struct arena *arena, struct split *split, double seconds, struct pool_shares *shares)
{
    double most = 0;
    for (uint32_t d = 0; d < split->world->device_count; d++) {
        split->inside_out[d] = split->ports->node_out[d];
        split->inside_in[d] = split->ports->node_in[d];
    }
    for (int direction = 0; direction < POOL_DIRECTIONS; direction++)
        split_direction(arena, split, direction, seconds, shares);
    for (uint32_t d = 0; d < split->world->device_count; d++) {
        uint64_t bytes = split->inside_out[d] > split->inside_in[d] ? split->inside_out[d] : split->inside_in[d];
        double inside = (double)bytes / rates_inside(&split->rates, d);
        most = inside > most ? inside : most;
    }
    return most;
}

struct try_work {
    struct split *split;
    double seconds, inside;
};

static void try_seconds(struct arena *scratch, void *context)
{
    struct try_work *work = context;
    struct pool_shares shares = {0};
    work->inside = split_all(scratch, work->split, work->seconds, &shares);
}

/** Busiest link inside a node, when the network ports take so long: the longer they may, the less it carries. */
static double inside_at(struct arena *arena, struct split *split, double seconds)
{
    struct try_work work = {.split = split, .seconds = seconds};
    arena_with_scratch(arena, try_seconds, &work);
    return work.inside;
}

/** Seconds above `least` at which neither kind of port waits for the other. */
static double find_seconds(struct arena *arena, struct split *split, double least)
{
    double most = inside_at(arena, split, least);
    for (int i = 0; i < HALVINGS && most > least; i++) {
        double middle = least + (most - least) / 2;
        if (inside_at(arena, split, middle) > middle)
            least = middle;
        else
            most = middle;
    }
    return most > least ? most : least;
}

void pool_shares_build(struct arena *arena, const struct world *world, const struct relay_ports *ports,
                       struct pool_shares *shares_out)
{
    uint32_t devices = world->device_count;
    struct split split = {.world = world,
                          .ports = ports,
                          .inside_out = ARENA_NEW(arena, uint64_t, devices),
                          .inside_in = ARENA_NEW(arena, uint64_t, devices),
                          .room = ARENA_NEW(arena, uint64_t, devices)};
    rates_init(arena, world, &split.rates);
    *shares_out = (struct pool_shares){0};
    shares_out->seconds = find_seconds(arena, &split, node_seconds(&split));
    split_all(arena, &split, shares_out->seconds, shares_out);
    uint64_t most = 0;
    for (uint32_t d = 0; d < devices; d++) {
        uint64_t bytes = carried(&split, d, shares_out->seconds);
        most = bytes > most ? bytes : most;
    }
    shares_out->parcel = most / PARCELS + 1;
}

/** How far a share is behind, as a part of all that was dealt: the larger, the further. */
static double behind(const struct pool_share *share, double dealt, double bytes)
{
    return dealt * ((double)share->bytes / bytes) - (double)share->dealt;
}

uint32_t pool_deal(struct pool_shares *shares, enum pool_direction direction, uint32_t device, uint64_t bytes, bool own)
{
    struct pool_share *list = &shares->shares[direction][shares->begin[direction][device]];
    uint32_t count = shares->begin[direction][device + 1] - shares->begin[direction][device], best = 0;
    double dealt = (double)bytes, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        dealt += (double)list[i].dealt;
        sum += (double)list[i].bytes;
    }
    for (uint32_t i = 1; i < count && !own && sum > 0; i++) {
        if (behind(&list[i], dealt, sum) > behind(&list[best], dealt, sum))
            best = i;
    }
    list[best].dealt += bytes;
    return list[best].device;
}
