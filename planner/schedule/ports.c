/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/ports.h"

void ports_init(struct arena *arena, const struct problem *problem, struct ports *ports_out)
{
    const struct world *world = problem->route->world;
    uint32_t machines = world->cluster->group_count + 1;
    *ports_out = (struct ports){.problem = problem, .world = world, .count = world->device_count * PORT_KINDS};
    ports_out->bytes = ARENA_NEW(arena, uint64_t, ports_out->count);
    ports_out->rates = ARENA_NEW(arena, struct clock_rates, machines);
    for (uint32_t m = 0; m < machines; m++)
        ports_out->rates[m] = clock_rates(&world->machines[m]);
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

/** The links at one end of a message. */
static void add_end(struct arena *arena, struct ports *ports, uint32_t device, bool inside, bool out, uint64_t bytes)
{
    if (inside) {
        add_bytes(arena, ports, device, out ? PORT_NODE_OUT : PORT_NODE_IN, bytes);
        return;
    }
    add_bytes(arena, ports, device, out ? PORT_NET_OUT : PORT_NET_IN, bytes);
    if (ports_rates(ports, device)->pooled)
        add_bytes(arena, ports, ports->world->devices[device].first, out ? PORT_POOL_OUT : PORT_POOL_IN, bytes);
}

void ports_add(struct arena *arena, struct ports *ports, const struct port_use *use)
{
    const struct world_device *devices = ports->world->devices;
    bool local = use->source == use->taker, inside = devices[use->source].node == devices[use->taker].node;
    if (!local) {
        add_end(arena, ports, use->source, inside, true, use->wire);
        add_end(arena, ports, use->taker, inside, false, use->wire);
    }
    add_bytes(arena, ports, use->source, local ? PORT_COPY : PORT_PACK, local ? use->written : use->packed);
    add_bytes(arena, ports, use->source, PORT_HOST_READ, use->from_host ? use->read : 0);
    if (!local)
        add_bytes(arena, ports, use->taker, PORT_UNPACK, use->written);
    add_bytes(arena, ports, use->taker, local ? PORT_HOST_COPY : PORT_HOST_WRITE, use->to_host ? use->written : 0);
}

bool ports_read_host(const struct problem *problem, uint32_t device, uint32_t item, bool fresh)
{
    const struct route *route = problem->route;
    uint32_t read = route->space->items[item].derived_from;
    return side_tier(fresh ? route->to : route->from, read) == CFG_TIER_HOST ||
           (!fresh && parks_holds(problem, device, read));
}

bool ports_write_host(const struct route *route, uint32_t item)
{
    return side_tier(route->to, item) == CFG_TIER_HOST;
}

/** ports_read_host() of a piece of the unit at hand. */
static bool reads_host(const struct walk *walk, uint32_t source, bool fresh)
{
    if (fresh)
        return walk->item.fresh_in_host;
    return walk->item.old_in_host || parks_holds(walk->problem, source, walk->item.read);
}

bool ports_piece(struct walk *walk, uint32_t piece_index, struct port_use *use_out)
{
    const struct route_piece *piece = &walk->chunk.type->pieces[piece_index];
    const struct walk_item *item = &walk->item;
    uint64_t elements = (uint64_t)walk_elements(walk, piece->cell);
    if (elements == 0)
        return false;
    uint32_t source = route_device(walk->sources[piece_index]);
    bool local = source == piece->taker;
    *use_out = (struct port_use){.source = source,
                                 .taker = piece->taker,
                                 .wire = local ? 0 : problem_aligned_bytes((int64_t)elements, item->wire_bytes),
                                 .packed = elements * item->wire_bytes,
                                 .read = elements * item->read_bytes,
                                 .written = elements * (piece->passing ? item->wire_bytes : item->new_bytes),
                                 .from_host = !piece->passed && reads_host(walk, source, piece->fresh),
                                 .to_host = !piece->passing && item->to_host};
    return true;
}

void ports_add_unit(struct arena *arena, struct ports *ports, struct walk *walk, const struct unit *unit)
{
    struct port_use use;
    walk_unit(arena, walk, unit);
    for (uint32_t i = 0; i < walk->count; i++) {
        if (ports_piece(walk, walk_piece(walk, i), &use))
            ports_add(arena, ports, &use);
    }
}
