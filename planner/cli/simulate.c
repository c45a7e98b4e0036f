/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate.h"

#include <string.h>

/** Bytes of a round that all devices of the node at hand send to, and receive from, other nodes. */
struct pool {
    uint64_t out, in;
};

struct simulator {
    const struct shunt_plan *plan;
    const struct world *world;
    struct clock_rates *rates; /* by machine */
    uint32_t round_count;
    struct round_cost *costs; /* by round */
    struct pool *pools;       /* by round */
    uint32_t *peers;          /* by device: 1 + the last device that had messages with it */
    struct simulation *out;
};

static enum shunt_status check_devices(const struct shunt_plan *plan, const struct cfg_cluster *cluster,
                                       struct shunt_err *err)
{
    uint64_t count = world_count_devices(cluster);
    uint32_t last = shunt_plan_get_device(plan, shunt_plan_get_header(plan)->device_count - 1)->id;
    if (cluster->nodes == 0 || last < count)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_INPUT,
                      "simulate: found device %u in the plan, expected less than %llu, the devices of %s", last,
                      (unsigned long long)count, cluster->path);
}

static struct world *list_world(struct arena *arena, const struct shunt_plan *plan, const struct cfg_cluster *cluster)
{
    uint32_t count = shunt_plan_get_header(plan)->device_count;
    uint32_t *ids = ARENA_NEW(arena, uint32_t, count);
    for (uint32_t d = 0; d < count; d++)
        ids[d] = shunt_plan_get_device(plan, d)->id;
    return world_list(arena, cluster, ids, count);
}

/* ---- one device ------------------------------------------------------------------------ */

/** Bytes of one end of an op in a buffer. */
static uint64_t end_bytes(const struct shunt_plan_part *part, uint32_t view)
{
    return shunt_plan_view_elements(&part->views[view]) * part->views[view].elem_bytes;
}

static bool on_host(const struct shunt_plan_part *part, uint32_t buffer)
{
    return buffer < part->header->buffer_count && part->buffers[buffer].tier == SHUNT_TIER_HOST;
}

static void count_op(const struct shunt_plan_part *part, const struct shunt_plan_op *op, uint64_t bytes[PORT_KINDS])
{
    static const enum port_kind written[] = {
        [SHUNT_OP_COPY] = PORT_COPY, [SHUNT_OP_PACK] = PORT_PACK, [SHUNT_OP_UNPACK] = PORT_UNPACK};
    if (op->kind == SHUNT_OP_FILL)
        return;
    bytes[written[op->kind]] += end_bytes(part, op->dst_view);
    if (on_host(part, op->src_buffer))
        bytes[PORT_HOST_READ] += end_bytes(part, op->src_view);
    if (on_host(part, op->dst_buffer))
        bytes[op->kind == SHUNT_OP_COPY ? PORT_HOST_COPY : PORT_HOST_WRITE] += end_bytes(part, op->dst_view);
}

static void count_message(const struct simulator *simulator, uint32_t device, uint32_t round,
                          const struct shunt_plan_message *message, uint64_t bytes[PORT_KINDS],
                          struct clock_share *share)
{
    const struct world_device *devices = simulator->world->devices;
    bool out = message->direction == SHUNT_SEND, inside = devices[device].node == devices[message->peer].node;
    share->messages++;
    if (inside) {
        bytes[out ? PORT_NODE_OUT : PORT_NODE_IN] += message->bytes;
        return;
    }
    bytes[out ? PORT_NET_OUT : PORT_NET_IN] += message->bytes;
    *(out ? &simulator->pools[round].out : &simulator->pools[round].in) += message->bytes;
    share->longest = message->bytes > share->longest ? message->bytes : share->longest;
}

static void raise_busiest(struct simulator *simulator, uint32_t device, const uint64_t total[PORT_KINDS])
{
    const struct clock_rates *rates = &simulator->rates[simulator->world->devices[device].machine];
    for (enum port_kind kind = 0; kind < PORT_KINDS; kind++) {
        double seconds = (double)total[kind] * rates->seconds_per_byte[kind];
        struct timing_port *busiest = &simulator->out->timing.busiest[kind];
        if (seconds > busiest->seconds)
            *busiest = (struct timing_port){.device = device, .seconds = seconds};
    }
}

static void replay_device(struct simulator *simulator, uint32_t device, const struct shunt_plan_part *part)
{
    const struct world *world = simulator->world;
    uint64_t total[PORT_KINDS] = {0};
    for (uint32_t k = 0; k < simulator->round_count; k++) {
        const struct shunt_plan_round *round = &part->rounds[k];
        uint64_t bytes[PORT_KINDS] = {0};
        struct clock_share share = {.bytes = bytes};
        for (uint32_t i = round[0].op_begin; i < round[1].op_begin; i++)
            count_op(part, &part->ops[i], bytes);
        for (uint32_t i = round[0].message_begin; i < round[1].message_begin; i++)
            count_message(simulator, device, k, &part->messages[i], bytes, &share);
        clock_raise(&simulator->rates[world->devices[device].machine], world->cluster->message_seconds, &share,
                    &simulator->costs[k]);
        for (enum port_kind kind = 0; kind < PORT_KINDS; kind++)
            total[kind] += bytes[kind];
    }
    raise_busiest(simulator, device, total);
}

/** What the devices of a node had together, behind the last of them. */
static void close_node(struct simulator *simulator, uint32_t first)
{
    const struct clock_rates *rates = &simulator->rates[simulator->world->devices[first].machine];
    uint64_t total[PORT_KINDS] = {0};
    for (uint32_t k = 0; rates->pooled && k < simulator->round_count; k++) {
        const uint64_t bytes[PORT_KINDS] = {
            [PORT_POOL_OUT] = simulator->pools[k].out, [PORT_POOL_IN] = simulator->pools[k].in};
        clock_raise(rates, 0, &(struct clock_share){.bytes = bytes}, &simulator->costs[k]);
        total[PORT_POOL_OUT] += bytes[PORT_POOL_OUT];
        total[PORT_POOL_IN] += bytes[PORT_POOL_IN];
    }
    raise_busiest(simulator, first, total);
    memset(simulator->pools, 0, simulator->round_count * sizeof(*simulator->pools));
}

/* ---- memory ------------------------------------------------------------------------------ */

static uint32_t count_peers(struct simulator *simulator, uint32_t device, const struct shunt_plan_part *part)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < part->header->message_count; i++) {
        uint32_t *met = &simulator->peers[part->messages[i].peer];
        count += *met != device + 1;
        *met = device + 1;
    }
    return count;
}

/** The peak with what this cluster takes in place of what the plan's did. */
static void weigh_memory(struct simulator *simulator, uint32_t device, uint32_t peers)
{
    const struct shunt_plan_summary *summary = shunt_plan_get_summary(simulator->plan);
    const struct cfg_cluster *cluster = simulator->world->cluster;
    uint64_t had = summary->reserve + summary->transport + peers * summary->transport_per_peer;
    uint64_t peak = shunt_plan_get_device(simulator->plan, device)->peak_bytes;
    struct simulated_memory here = {.device = device, .memory = world_machine(simulator->world, device)->memory};
    here.peak = (peak > had ? peak - had : 0) + cluster->device_reserve + cluster->transport_buffers +
                peers * cluster->transport_per_peer;
    struct simulated_memory *fullest = &simulator->out->memory;
    int64_t left = (int64_t)(here.memory - here.peak), least = (int64_t)(fullest->memory - fullest->peak);
    if (fullest->memory == 0 || left < least)
        *fullest = here;
}

/* ---- the plan ---------------------------------------------------------------------------- */

static enum shunt_status replay(struct simulator *simulator, struct shunt_err *err)
{
    const struct world *world = simulator->world;
    for (uint32_t d = 0; d < world->device_count; d++) {
        struct shunt_plan_part part;
        enum shunt_status status = shunt_plan_get_part(simulator->plan, d, &part, err);
        if (status != SHUNT_OK)
            return status;
        replay_device(simulator, d, &part);
        weigh_memory(simulator, d, count_peers(simulator, d, &part));
        shunt_plan_drop_part(simulator->plan, d);
        if (d + 1 == world->device_count || world->devices[d + 1].node != world->devices[d].node)
            close_node(simulator, world->devices[d].first);
    }
    return SHUNT_OK;
}

enum shunt_status simulate(struct arena *arena, const struct shunt_plan *plan, const struct cfg_cluster *cluster,
                           struct simulation *simulation_out, struct shunt_err *err)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(plan);
    enum shunt_status status = check_devices(plan, cluster, err);
    if (status != SHUNT_OK)
        return status;
    *simulation_out = (struct simulation){0};
    struct simulator simulator = {.plan = plan,
                                  .world = list_world(arena, plan, cluster),
                                  .rates = ARENA_NEW(arena, struct clock_rates, (size_t)cluster->group_count + 1),
                                  .round_count = header->round_count,
                                  .costs = ARENA_NEW(arena, struct round_cost, header->round_count),
                                  .pools = ARENA_NEW(arena, struct pool, header->round_count),
                                  .peers = ARENA_NEW(arena, uint32_t, header->device_count),
                                  .out = simulation_out};
    for (uint32_t m = 0; m <= cluster->group_count; m++)
        simulator.rates[m] = clock_rates(&simulator.world->machines[m]);
    status = replay(&simulator, err);
    struct timing *timing = &simulation_out->timing;
    timing->sum = clock_total(simulator.costs, header->round_count, header->overlap_depth, cluster->round_seconds);
    timing->predicted_seconds = timing->sum.total;
    return status;
}
