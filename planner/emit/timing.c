/* SPDX-License-Identifier: Apache-2.0 */
#include "emit/timing.h"

/** Bytes of one device in one round. */
struct port_load {
    uint64_t node_out, node_in, net_out, net_in, packed, unpacked;
    uint32_t stamp;    /* round + 1 that the fields belong to */
    uint32_t messages; /* sends and receives */
};

/** Seconds of one round. */
struct round_time {
    double pack, wire, unpack;
};

static double at_least(double a, double b)
{
    return a > b ? a : b;
}

static struct port_load *load_of(struct port_load *loads, uint32_t device, uint32_t round)
{
    struct port_load *load = &loads[device];
    if (load->stamp != round + 1)
        *load = (struct port_load){.stamp = round + 1};
    return load;
}

static void raise_time(const struct cfg_cluster *cluster, const struct port_load *load, struct round_time *time)
{
    uint64_t node = load->node_out > load->node_in ? load->node_out : load->node_in;
    uint64_t net = load->net_out > load->net_in ? load->net_out : load->net_in;
    double wire = at_least((double)node / cluster->intra_node_bytes_per_second,
                           (double)net / cluster->inter_node_bytes_per_second);
    wire += load->messages * cluster->message_seconds;
    time->wire = at_least(time->wire, wire);
    time->pack = at_least(time->pack, (double)load->packed / cluster->copy_bytes_per_second);
    time->unpack = at_least(time->unpack, (double)load->unpacked / cluster->copy_bytes_per_second);
}

static void add_transfer(const struct world *world, struct port_load *loads, const struct transfer *transfer,
                         struct round_time *time)
{
    struct port_load *out = load_of(loads, transfer->source, transfer->round);
    out->packed += transfer->bytes;
    if (transfer->source != transfer->taker) {
        struct port_load *in = load_of(loads, transfer->taker, transfer->round);
        bool inside = world->devices[transfer->source].node == world->devices[transfer->taker].node;
        uint64_t *sent = inside ? &out->node_out : &out->net_out;
        uint64_t *received = inside ? &in->node_in : &in->net_in;
        *sent += transfer->bytes;
        *received += transfer->bytes;
        in->unpacked += transfer->written;
        out->messages += transfer->message_offset == 0;
        in->messages += transfer->message_offset == 0;
        raise_time(world->cluster, in, time);
    }
    raise_time(world->cluster, out, time);
}

static double total_seconds(const struct rounds *rounds, const struct round_time *times, double round_seconds)
{
    double total = 0;
    for (uint32_t k = 0; k < rounds->round_count; k++) {
        const struct round_time *now = &times[k];
        if (rounds->depth == 1) {
            total += now->pack + now->wire + now->unpack;
        } else {
            double beside = (k > 0 ? times[k - 1].unpack : 0) + (k + 1 < rounds->round_count ? times[k + 1].pack : 0);
            total += at_least(now->wire, beside);
            total += (k == 0 ? now->pack : 0) + (k + 1 == rounds->round_count ? now->unpack : 0);
        }
        total += now->wire > 0 ? round_seconds : 0;
    }
    return total;
}

struct timing timing_compute(struct arena *arena, const struct problem *problem, const struct rounds *rounds,
                             const struct lowered *lowered)
{
    const struct world *world = problem->route->world;
    const struct route_figures *figures = &problem->route->figures;
    struct port_load *loads = ARENA_NEW(arena, struct port_load, world->device_count);
    struct round_time *times = ARENA_NEW(arena, struct round_time, rounds->round_count + 1);
    for (uint32_t i = 0; i < lowered->transfer_count; i++)
        add_transfer(world, loads, &lowered->transfers[i], &times[lowered->transfers[i].round]);

    double round_seconds = world->cluster->round_seconds;
    uint64_t least_rounds = figures->max_missing > 0 ? 1 : 0;
    if (problem->staging > 0 && figures->max_missing > problem->staging)
        least_rounds = (figures->max_missing + problem->staging - 1) / problem->staging;
    return (struct timing){.predicted_seconds = total_seconds(rounds, times, round_seconds),
                           .lower_bound_rounds_seconds =
                               figures->lower_bound_seconds + (double)least_rounds * round_seconds};
}
