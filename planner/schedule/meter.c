/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/meter.h"

void meter_init(struct arena *arena, const struct problem *problem, struct meter *meter_out)
{
    const struct world *world = problem->route->world;
    *meter_out = (struct meter){.message_seconds = world->cluster->message_seconds};
    ports_init(arena, problem, &meter_out->ports);
    meter_out->messages = ARENA_NEW(arena, uint32_t, world->device_count);
    meter_out->longest = ARENA_NEW(arena, uint64_t, world->device_count);
    meter_out->closed = ARENA_NEW(arena, uint32_t, world->device_count);
    meter_out->total = ARENA_NEW(arena, uint64_t, meter_out->ports.count);
}

static void count_message(struct meter *meter, uint32_t device, bool opens, bool inside, uint64_t bytes)
{
    meter->messages[device] += opens;
    if (!inside && bytes > meter->longest[device])
        meter->longest[device] = bytes;
}

void meter_add(struct arena *arena, struct meter *meter, const struct port_use *use, uint64_t message)
{
    const struct world_device *devices = meter->ports.world->devices;
    ports_add(arena, &meter->ports, use);
    if (use->source == use->taker)
        return;
    bool inside = devices[use->source].node == devices[use->taker].node, opens = message == use->wire;
    count_message(meter, use->source, opens, inside, message);
    count_message(meter, use->taker, opens, inside, message);
}

void meter_add_parks(struct arena *arena, struct meter *meter)
{
    const struct problem *problem = meter->ports.problem;
    for (uint32_t d = 0; parks_any(problem) && d < problem->route->world->device_count; d++) {
        uint64_t bytes = parks_bytes(problem, d);
        const struct port_use use = {.source = d, .taker = d, .read = bytes, .written = bytes, .to_host = true};
        ports_add(arena, &meter->ports, &use);
    }
}

static void close_device(struct meter *meter, uint32_t device, struct round_cost *cost)
{
    const struct clock_share share = {.bytes = &meter->ports.bytes[(size_t)device * PORT_KINDS],
                                      .longest = meter->longest[device],
                                      .messages = meter->messages[device]};
    clock_raise(ports_rates(&meter->ports, device), meter->message_seconds, &share, cost);
    meter->messages[device] = 0;
    meter->longest[device] = 0;
    meter->closed[device] = meter->closed_count;
}

struct round_cost meter_close(struct meter *meter)
{
    struct ports *ports = &meter->ports;
    struct round_cost cost = {0};
    meter->closed_count++;
    for (size_t i = 0; i < ports->touched.count; i++) {
        uint32_t port = ports->touched.items[i], device = port / PORT_KINDS;
        meter->total[port] += ports->bytes[port];
        if (meter->closed[device] != meter->closed_count)
            close_device(meter, device, &cost);
    }
    ports_clear(ports);
    return cost;
}
