/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/ports.h"

void ports_init(struct arena *arena, const struct problem *problem, struct ports *ports_out)
{
    const struct world *world = problem->route->world;
    const struct cfg_cluster *cluster = world->cluster;
    *ports_out = (struct ports){.problem = problem, .count = world->device_count * PORT_KINDS};
    ports_out->bytes = ARENA_NEW(arena, uint64_t, ports_out->count);
    double node = 1 / cluster->intra_node_bytes_per_second, net = 1 / cluster->inter_node_bytes_per_second;
    ports_out->seconds_per_byte[PORT_NODE_OUT] = ports_out->seconds_per_byte[PORT_NODE_IN] = node;
    ports_out->seconds_per_byte[PORT_NET_OUT] = ports_out->seconds_per_byte[PORT_NET_IN] = net;
    ports_out->seconds_per_byte[PORT_PACK] = ports_out->seconds_per_byte[PORT_UNPACK] =
        1 / cluster->copy_bytes_per_second;
}

void ports_clear(struct ports *ports)
{
    for (size_t i = 0; i < ports->touched.count; i++)
        ports->bytes[ports->touched.items[i]] = 0;
    ports->touched.count = 0;
}

static void add_bytes(struct arena *arena, struct ports *ports, uint32_t device, enum port_kind kind, uint64_t bytes)
{
    uint32_t port = device * PORT_KINDS + kind;
    if (bytes == 0)
        return;
    if (ports->bytes[port] == 0)
        *VEC_PUSH(arena, &ports->touched) = port;
    ports->bytes[port] += bytes;
}

/** Bytes that a piece copies locally in a chunk. */
static uint64_t local_bytes(const struct chunk *chunk, const struct route_piece *piece)
{
    if (chunk->groups > 1 && piece->spread % chunk->groups != chunk->group)
        return 0;
    struct box slice = piece->cell->box;
    if (chunk->slices > 1)
        slice = box_slice(&slice, chunk->slice, chunk->slices);
    return (uint64_t)box_volume(&slice) * chunk->job->elem_bytes;
}

static void add_piece(struct arena *arena, struct ports *ports, const struct chunk *chunk, uint32_t p)
{
    const struct route_piece *piece = &chunk->type->pieces[p];
    const struct world_device *devices = ports->problem->route->world->devices;
    uint32_t source, taker = piece->taker;
    uint64_t bytes = rounds_piece_bytes(chunk, p, &source);
    if (source == taker) {
        add_bytes(arena, ports, taker, PORT_PACK, local_bytes(chunk, piece));
        return;
    }
    bool inside = devices[source].node == devices[taker].node;
    add_bytes(arena, ports, source, inside ? PORT_NODE_OUT : PORT_NET_OUT, bytes);
    add_bytes(arena, ports, taker, inside ? PORT_NODE_IN : PORT_NET_IN, bytes);
    add_bytes(arena, ports, source, PORT_PACK, bytes);
    add_bytes(arena, ports, taker, PORT_UNPACK, bytes);
}

void ports_add_unit(struct arena *arena, struct ports *ports, const struct unit *unit)
{
    const struct problem *problem = ports->problem;
    const struct chunk chunk = rounds_chunk(problem, &problem->jobs[unit->job], &unit->chunking, unit->chunk);
    for (uint32_t p = 0; p < chunk.type->piece_count; p++)
        add_piece(arena, ports, &chunk, p);
}
