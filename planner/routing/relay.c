/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/relay.h"

#include <stdlib.h>
#include <string.h>

#include "routing/figures.h"
#include "routing/relay_work.h"
#include "routing/sources.h"

#define WORTH 0.98 /* the busiest port must get down to this share: relaying takes more rounds */
#define PARTS 32   /* of what a port carries at best: so large a cell may be */
#define NEAR  1.01 /* so near to what no plan beats, sources that take turns are good enough */

/** From a holder, or on the device itself. */
static void take_directly(struct relay *relay, const struct relay_target *target, const struct relay_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &target->type->pieces[run->pieces[i]];
        uint32_t source = piece->taker;
        if (piece->candidate_count > 0)
            source = sources_pick(relay->route->world, piece, relay->ports.node_out, relay->ports.net_out);
        relay_set_source(relay, target, run->pieces[i], source, 0);
    }
}

/** From the least loaded of those that make it themselves. */
static void take_made(struct relay *relay, const struct relay_target *target, const struct relay_run *run)
{
    uint32_t maker = RELAY_UNSUPPLIED;
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &target->type->pieces[run->pieces[i]];
        const uint64_t *load = relay->ports.node_out;
        if (piece->fresh && (maker == RELAY_UNSUPPLIED || load[piece->taker] < load[maker]))
            maker = piece->taker;
    }
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &target->type->pieces[run->pieces[i]];
        relay_set_source(relay, target, run->pieces[i], piece->fresh ? piece->taker : maker, piece->fresh ? 0 : 1);
    }
}

/** The taker of a run whose network port has received least, and of those the one whose has sent least. */
static uint32_t choose_gateway(const struct relay *relay, const struct route_type *type, const struct relay_run *run)
{
    const uint64_t *in = relay->ports.net_in, *out = relay->ports.net_out;
    uint32_t best = 0;
    for (uint32_t i = 1; i < run->count; i++) {
        uint32_t a = type->pieces[run->pieces[i]].taker, b = type->pieces[run->pieces[best]].taker;
        if (in[a] < in[b] || (in[a] == in[b] && out[a] < out[b]))
            best = i;
    }
    return run->pieces[best];
}

/** The holder that has sent least over the network, with `more` bytes by device. */
static uint32_t choose_holder(const struct relay *relay, const struct route_piece *piece, const uint64_t *more)
{
    uint32_t best = piece->candidates[0];
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < piece->candidate_count; i++) {
        uint32_t holder = piece->candidates[i];
        uint64_t sent = relay->ports.net_out[holder] + more[holder];
        if (sent < least) {
            best = holder;
            least = sent;
        }
    }
    return best;
}

/** What the holders of a cell send, if each does its share. */
static void count_wanted(struct relay *relay, const struct route_piece *piece, uint64_t bytes, uint32_t needy)
{
    relay->entering[choose_holder(relay, piece, relay->entering)] += bytes;
    for (uint32_t i = 0; i < piece->candidate_count; i++)
        relay->wanted[piece->candidates[i]] += bytes * (needy - 1) / piece->candidate_count;
}

/** Choose the gateways of all runs that need one. That of a single run is supplied at once, unless quotas say by whom. */
static void enter_nodes(struct relay *relay, const struct relay_target *target, uint32_t run_count)
{
    uint32_t needy = 0, last = 0;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        if (run->kind != RELAY_NEEDY)
            continue;
        uint32_t gateway = choose_gateway(relay, target->type, run);
        target->sources[gateway] = RELAY_UNSUPPLIED;
        relay->ports.net_in[target->type->pieces[gateway].taker] += target->bytes;
        needy++;
        last = r;
    }
    if (needy == 1 && !relay->by_quota)
        relay_supply_run(relay, target, &relay->runs[last]);
    else if (needy > 1)
        count_wanted(relay, &target->type->pieces[relay->runs[last].pieces[0]], target->bytes, needy);
}

struct relay_target relay_target_of(const struct relay *relay, const struct relay_task *task, uint32_t index)
{
    struct route_type *type = &relay->route->types[task->type];
    uint32_t p = relay->cells[task->type].pieces[relay->cells[task->type].begin[task->cell]];
    return (struct relay_target){.type = type,
                                 .sources = &type->sources[(size_t)index * type->piece_count],
                                 .bytes = (uint64_t)type->pieces[p].cell->elements *
                                          relay->route->space->items[type->items[index]].wire_bytes};
}

uint32_t relay_list_task(struct relay *relay, const struct relay_task *task)
{
    const struct cells *cells = &relay->cells[task->type];
    uint32_t begin = cells->begin[task->cell], end = cells->begin[task->cell + 1];
    return relay_list_runs(relay->route->world, &relay->route->types[task->type], &cells->pieces[begin], end - begin,
                           relay->runs);
}

static void choose_sources(struct relay *relay, const struct relay_task *task)
{
    struct route_type *type = &relay->route->types[task->type];
    uint32_t run_count = relay_list_task(relay, task);
    for (uint32_t n = 0; n < type->item_count; n++) {
        uint32_t i = relay->widest_first[task->type][n];
        const struct relay_target target = relay_target_of(relay, task, i);
        bool forwards = relay_can_forward(relay->route, type->items[i]);
        for (uint32_t r = 0; r < run_count; r++) {
            const struct relay_run *run = &relay->runs[r];
            if (run->kind == RELAY_HELD || !forwards)
                take_directly(relay, &target, run);
            else if (run->kind == RELAY_MADE)
                take_made(relay, &target, run);
        }
        if (forwards)
            enter_nodes(relay, &target, run_count);
    }
}

/** Nodes that the holders of a cell supply themselves: one, and as many more as keeps them at the limit. */
static uint32_t count_direct(const struct relay *relay, const struct route_piece *piece, uint32_t needy, double *carry)
{
    double room = 0, wanted = 0;
    for (uint32_t i = 0; i < piece->candidate_count; i++) {
        uint32_t holder = piece->candidates[i];
        uint64_t sent = relay->sent[holder];
        room += relay->out_limit > sent ? (double)(relay->out_limit - sent) : 0;
        wanted += (double)relay->wanted[holder];
    }
    if (room >= wanted)
        return needy;
    *carry += (needy - 1) * (room / wanted);
    uint32_t more = (uint32_t)*carry;
    *carry -= more;
    return 1 + more;
}

uint32_t relay_count_needy(const struct relay *relay, uint32_t run_count)
{
    uint32_t needy = 0;
    for (uint32_t r = 0; r < run_count; r++)
        needy += relay->runs[r].kind == RELAY_NEEDY;
    return needy;
}

static void finish_sources(struct relay *relay, const struct relay_task *task)
{
    struct route_type *type = &relay->route->types[task->type];
    uint32_t run_count = relay_list_task(relay, task), needy = 0, last = 0;
    for (uint32_t r = 0; r < run_count; r++) {
        needy += relay->runs[r].kind == RELAY_NEEDY;
        last = relay->runs[r].kind == RELAY_NEEDY ? r : last;
    }
    double carry = 0.5;
    for (uint32_t n = 0; needy > 1 && n < type->item_count; n++) {
        uint32_t i = relay->widest_first[task->type][n];
        const struct relay_target target = relay_target_of(relay, task, i);
        if (!relay_can_forward(relay->route, type->items[i]))
            continue;
        const struct route_piece *piece = &type->pieces[relay->runs[last].pieces[0]];
        relay_supply_runs(relay, &target, run_count, count_direct(relay, piece, needy, &carry));
    }
}

static int compare_tasks(const void *a, const void *b)
{
    const struct relay_task *x = a, *y = b;
    if (x->choice != y->choice)
        return x->choice ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

static bool has_choice(const struct relay *relay, const struct relay_task *task)
{
    const struct cells *cells = &relay->cells[task->type];
    const struct route_piece *pieces = relay->route->types[task->type].pieces;
    for (uint32_t i = cells->begin[task->cell]; i < cells->begin[task->cell + 1]; i++) {
        if (pieces[cells->pieces[i]].candidate_count > 1 || pieces[cells->pieces[i]].joined)
            return true;
    }
    return false;
}

struct sized_item {
    uint32_t bytes, index;
};

static int compare_items(const void *a, const void *b)
{
    const struct sized_item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

/** Indices of a type's items, the widest first: what is dealt in turns is then dealt in turns of one size. */
static uint32_t *list_widest_first(struct arena *arena, const struct route *route, const struct route_type *type)
{
    struct sized_item *items = ARENA_NEW(arena, struct sized_item, type->item_count);
    uint32_t *order = ARENA_NEW(arena, uint32_t, type->item_count);
    for (uint32_t i = 0; i < type->item_count; i++)
        items[i] = (struct sized_item){.bytes = route->space->items[type->items[i]].wire_bytes, .index = i};
    if (type->item_count > 1)
        qsort(items, type->item_count, sizeof(*items), compare_items);
    for (uint32_t i = 0; i < type->item_count; i++)
        order[i] = items[i].index;
    return order;
}

static void list_tasks(struct arena *arena, struct relay *relay)
{
    VEC(struct relay_task) tasks = {0};
    for (uint32_t t = 0; t < relay->route->type_count; t++) {
        struct route_type *type = &relay->route->types[t];
        uint32_t widest = 0;
        type->sources = ARENA_NEW(arena, uint32_t, (size_t)type->item_count * type->piece_count);
        relay->cells[t] = cells_index(arena, type);
        relay->widest_first[t] = list_widest_first(arena, relay->route, type);
        for (uint32_t i = 0; i < type->item_count; i++) {
            uint32_t bytes = relay->route->space->items[type->items[i]].wire_bytes;
            widest = bytes > widest ? bytes : widest;
        }
        for (uint32_t c = 0; c < type->cell_count; c++) {
            const struct cells *cells = &relay->cells[t];
            if (cells->begin[c] == cells->begin[c + 1])
                continue;
            struct relay_task task = {.type = t, .cell = c};
            task.bytes = (uint64_t)type->pieces[cells->pieces[cells->begin[c]]].cell->elements * widest;
            task.choice = has_choice(relay, &task);
            *VEC_PUSH(arena, &tasks) = task;
        }
    }
    relay->tasks = tasks.items;
    relay->task_count = tasks.count;
    if (tasks.count > 0)
        qsort(tasks.items, tasks.count, sizeof(*tasks.items), compare_tasks);
}

/* ---- all of it ---------------------------------------------------------------------- */

static void choose_in_turns(struct relay *relay)
{
    uint32_t devices = relay->route->world->device_count;
    /* what no choice of sources avoids: all that enters nodes, and once what leaves those that have it */
    for (uint32_t d = 0; d < devices; d++)
        relay->sent[d] = relay->ports.net_out[d] + relay->entering[d];
    uint64_t in = relay_ports_most(relay->ports.net_in, devices), out = relay_ports_most(relay->sent, devices);
    relay->out_limit = in > out ? in : out;
    for (size_t i = 0; i < relay->task_count; i++)
        finish_sources(relay, &relay->tasks[i]);
}

/** @param start  seconds that no routes are faster than; by quota alone */
static void choose_all(struct arena *arena, struct route *route, bool by_quota, double start)
{
    uint32_t devices = route->world->device_count;
    struct relay relay = {.route = route,
                          .cells = ARENA_NEW(arena, struct cells, route->type_count),
                          .runs = ARENA_NEW(arena, struct relay_run, devices),
                          .widest_first = ARENA_NEW(arena, uint32_t *, route->type_count),
                          .by_quota = by_quota};
    relay_ports_init(arena, devices, &relay.ports);
    relay.entering = ARENA_NEW(arena, uint64_t, devices);
    relay.wanted = ARENA_NEW(arena, uint64_t, devices);
    relay.sent = ARENA_NEW(arena, uint64_t, devices);
    relay.waiting = ARENA_NEW(arena, struct relay_queued, devices);
    relay.senders = ARENA_NEW(arena, struct relay_queued, devices);
    list_tasks(arena, &relay);
    for (size_t i = 0; i < relay.task_count; i++)
        choose_sources(&relay, &relay.tasks[i]);
    if (by_quota)
        relay_supply_by_quota(arena, &relay, start);
    else
        choose_in_turns(&relay);
}

/** Choose by quotas, and keep what is better. @return seconds of the busiest port */
static double try_quotas(struct arena *arena, struct route *route, double seconds)
{
    uint32_t **before = ARENA_NEW(arena, uint32_t *, route->type_count);
    for (uint32_t t = 0; t < route->type_count; t++)
        before[t] = route->types[t].sources;
    choose_all(arena, route, true, route->figures.lower_bound_seconds);
    double other = relay_route_seconds(arena, route);
    for (uint32_t t = 0; t < route->type_count && other >= seconds; t++)
        route->types[t].sources = before[t];
    return other < seconds ? other : seconds;
}

struct route *relay_build(struct arena *arena, const struct route *direct)
{
    const struct cfg_machine *machine = world_machine(direct->world, 0); /* of unlike ones, any */
    double seconds = relay_route_seconds(arena, direct), least = direct->figures.lower_bound_seconds;
    bool one_node = direct->world->devices[0].node == direct->world->devices[direct->world->device_count - 1].node;
    if (one_node || machine->intra_node <= machine->inter_node || least >= WORTH * seconds)
        return NULL;
    struct route *route = ARENA_NEW(arena, struct route, 1);
    *route = *direct;
    route->types = ARENA_NEW(arena, struct route_type, route->type_count);
    for (uint32_t t = 0; t < route->type_count; t++)
        route->types[t] = direct->types[t];
    double carried = least * machine->inter_node / PARTS;
    relay_cut_cells(arena, route, carried < 1 ? 1 : (uint64_t)carried);
    choose_all(arena, route, false, 0);
    double relayed = relay_route_seconds(arena, route);
    if (relayed > NEAR * least)
        relayed = try_quotas(arena, route, relayed);
    if (relayed > WORTH * seconds)
        return NULL;
    route_figures_recount(arena, route);
    return route;
}
