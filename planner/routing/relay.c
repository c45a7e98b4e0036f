/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/relay.h"

#include <stdlib.h>
#include <string.h>

#include "routing/figures.h"
#include "routing/relay_cells.h"
#include "routing/relay_ports.h"
#include "routing/relay_quota.h"
#include "routing/sources.h"

#define WORTH      0.98 /* the busiest port must get down to this share: relaying takes more rounds */
#define PARTS      32   /* of what a port carries at best: so large a cell may be */
#define NEAR       1.01 /* so near to what no plan beats, sources that take turns are good enough */
#define UNSUPPLIED UINT32_MAX

/** A cell, with what tells in which order they choose. */
struct task {
    uint64_t bytes; /* of its widest item */
    uint32_t type, cell;
    bool choice; /* of a source or of a gateway */
};

/** Sources under construction. */
struct relay {
    struct route *route;
    struct cells *cells; /* by type */
    struct relay_ports ports;
    struct relay_run *runs; /* of the cell at hand */
    size_t task_count;
    struct task *tasks;
    uint32_t **widest_first; /* by type: indices of its items */
    /* of cells that several nodes need, by device: bytes that holders send at least, and that they would send if no
       gateway sent any on; what they may send */
    uint64_t *entering, *wanted, out_limit;
    uint64_t *sent; /* by device: what it sends at least, over the network */
    /* by device: what it should still send of the class at hand, over the network; NULL where devices take turns */
    int64_t *left;
    bool by_quota;
};

/** One item of the cell at hand. */
struct target {
    struct route_type *type;
    uint32_t *sources; /* by piece */
    uint64_t bytes;
};

static void set_source(struct relay *relay, const struct target *target, uint32_t piece, uint32_t source,
                       uint32_t stage)
{
    target->sources[piece] = route_at(source, stage);
    relay_ports_add(&relay->ports, relay->route->world, source, target->type->pieces[piece].taker, target->bytes);
}

/** From a holder, or on the device itself. */
static void take_directly(struct relay *relay, const struct target *target, const struct relay_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &target->type->pieces[run->pieces[i]];
        uint32_t source = piece->taker;
        if (piece->candidate_count > 0)
            source = sources_pick(relay->route->world, piece, relay->ports.node_out, relay->ports.net_out);
        set_source(relay, target, run->pieces[i], source, 0);
    }
}

/** From the least loaded of those that make it themselves. */
static void take_made(struct relay *relay, const struct target *target, const struct relay_run *run)
{
    uint32_t maker = UNSUPPLIED;
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &target->type->pieces[run->pieces[i]];
        const uint64_t *load = relay->ports.node_out;
        if (piece->fresh && (maker == UNSUPPLIED || load[piece->taker] < load[maker]))
            maker = piece->taker;
    }
    for (uint32_t i = 0; i < run->count; i++) {
        const struct route_piece *piece = &target->type->pieces[run->pieces[i]];
        set_source(relay, target, run->pieces[i], piece->fresh ? piece->taker : maker, piece->fresh ? 0 : 1);
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

/** Whether a device should send before another one: it is further behind its quota, or has sent less. */
static bool is_ahead(const struct relay *relay, uint32_t a, uint32_t b)
{
    if (relay->left != NULL && relay->left[a] != relay->left[b])
        return relay->left[a] > relay->left[b];
    return relay->ports.net_out[a] < relay->ports.net_out[b];
}

/** Bring a run's gateway its piece, and from there the others theirs. */
static void supply_run(struct relay *relay, const struct target *target, const struct relay_run *run, uint32_t gateway,
                       uint32_t source, uint32_t stage)
{
    uint32_t device = target->type->pieces[gateway].taker;
    target->sources[gateway] = route_at(source, stage);
    relay->ports.net_out[source] += target->bytes;
    if (relay->left != NULL)
        relay->left[source] -= (int64_t)target->bytes;
    for (uint32_t i = 0; i < run->count; i++) {
        if (run->pieces[i] != gateway)
            set_source(relay, target, run->pieces[i], device, stage + 1);
    }
}

/** The piece of a run's gateway, which waits for its source; UNSUPPLIED when none does. */
static uint32_t find_waiting(const struct target *target, const struct relay_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        if (target->sources[run->pieces[i]] == UNSUPPLIED)
            return run->pieces[i];
    }
    return UNSUPPLIED;
}

/** The run that waits for its source and whose gateway should send on first; UNSUPPLIED: none waits. */
static uint32_t choose_waiting(const struct relay *relay, const struct target *target, uint32_t run_count)
{
    const struct route_piece *pieces = target->type->pieces;
    uint32_t best = UNSUPPLIED, best_piece = 0;
    for (uint32_t r = 0; r < run_count; r++) {
        uint32_t piece = find_waiting(target, &relay->runs[r]);
        if (piece == UNSUPPLIED ||
            (best != UNSUPPLIED && !is_ahead(relay, pieces[piece].taker, pieces[best_piece].taker)))
            continue;
        best = r;
        best_piece = piece;
    }
    return best;
}

static void supply_from_holder(struct relay *relay, const struct target *target, const struct relay_run *run)
{
    uint32_t gateway = find_waiting(target, run);
    const struct route_piece *piece = &target->type->pieces[gateway];
    uint32_t holder = piece->candidates[0];
    for (uint32_t i = 1; i < piece->candidate_count; i++)
        holder = is_ahead(relay, piece->candidates[i], holder) ? piece->candidates[i] : holder;
    supply_run(relay, target, run, gateway, holder, 0);
}

/** What the holders of a cell send, if each does its share. */
static void count_wanted(struct relay *relay, const struct route_piece *piece, uint64_t bytes, uint32_t needy)
{
    relay->entering[choose_holder(relay, piece, relay->entering)] += bytes;
    for (uint32_t i = 0; i < piece->candidate_count; i++)
        relay->wanted[piece->candidates[i]] += bytes * (needy - 1) / piece->candidate_count;
}

/** Choose the gateways of all runs that need one. That of a single run is supplied at once, unless quotas say by whom. */
static void enter_nodes(struct relay *relay, const struct target *target, uint32_t run_count)
{
    uint32_t needy = 0, last = 0;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        if (run->kind != RELAY_NEEDY)
            continue;
        uint32_t gateway = choose_gateway(relay, target->type, run);
        target->sources[gateway] = UNSUPPLIED;
        relay->ports.net_in[target->type->pieces[gateway].taker] += target->bytes;
        needy++;
        last = r;
    }
    if (needy == 1 && !relay->by_quota)
        supply_from_holder(relay, target, &relay->runs[last]);
    else if (needy > 1)
        count_wanted(relay, &target->type->pieces[relay->runs[last].pieces[0]], target->bytes, needy);
}

static struct target target_of(const struct relay *relay, const struct task *task, uint32_t index)
{
    struct route_type *type = &relay->route->types[task->type];
    uint32_t p = relay->cells[task->type].pieces[relay->cells[task->type].begin[task->cell]];
    return (struct target){.type = type,
                           .sources = &type->sources[(size_t)index * type->piece_count],
                           .bytes = (uint64_t)type->pieces[p].cell->elements *
                                    relay->route->space->items[type->items[index]].wire_bytes};
}

static uint32_t list_runs(struct relay *relay, const struct task *task)
{
    const struct cells *cells = &relay->cells[task->type];
    uint32_t begin = cells->begin[task->cell], end = cells->begin[task->cell + 1];
    return relay_list_runs(relay->route->world, &relay->route->types[task->type], &cells->pieces[begin], end - begin,
                           relay->runs);
}

static void choose_sources(struct relay *relay, const struct task *task)
{
    struct route_type *type = &relay->route->types[task->type];
    uint32_t run_count = list_runs(relay, task);
    for (uint32_t n = 0; n < type->item_count; n++) {
        uint32_t i = relay->widest_first[task->type][n];
        const struct target target = target_of(relay, task, i);
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

/** The gateway that has received the cell from a holder and should send on first; UNSUPPLIED: none. */
static uint32_t choose_forwarder(const struct relay *relay, const struct target *target, uint32_t run_count)
{
    uint32_t best = UNSUPPLIED;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        if (run->kind != RELAY_NEEDY || find_waiting(target, run) != UNSUPPLIED)
            continue;
        for (uint32_t i = 0; i < run->count; i++) {
            uint32_t source = target->sources[run->pieces[i]], taker = target->type->pieces[run->pieces[i]].taker;
            bool first = source >> ROUTE_STAGE_SHIFT == 0;
            if (first && (best == UNSUPPLIED || is_ahead(relay, taker, best)))
                best = taker;
        }
    }
    return best;
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

/** Sources of the gateways of several nodes: holders for some, then those for the others. */
static void supply_nodes(struct relay *relay, const struct target *target, uint32_t run_count, uint32_t direct)
{
    for (uint32_t n = 0; n < direct; n++)
        supply_from_holder(relay, target, &relay->runs[choose_waiting(relay, target, run_count)]);
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        uint32_t gateway = run->kind == RELAY_NEEDY ? find_waiting(target, run) : UNSUPPLIED;
        if (gateway != UNSUPPLIED)
            supply_run(relay, target, run, gateway, choose_forwarder(relay, target, run_count), 1);
    }
}

static uint32_t count_needy(const struct relay *relay, uint32_t run_count)
{
    uint32_t needy = 0;
    for (uint32_t r = 0; r < run_count; r++)
        needy += relay->runs[r].kind == RELAY_NEEDY;
    return needy;
}

static void finish_sources(struct relay *relay, const struct task *task)
{
    struct route_type *type = &relay->route->types[task->type];
    uint32_t run_count = list_runs(relay, task), needy = 0, last = 0;
    for (uint32_t r = 0; r < run_count; r++) {
        needy += relay->runs[r].kind == RELAY_NEEDY;
        last = relay->runs[r].kind == RELAY_NEEDY ? r : last;
    }
    double carry = 0.5;
    for (uint32_t n = 0; needy > 1 && n < type->item_count; n++) {
        uint32_t i = relay->widest_first[task->type][n];
        const struct target target = target_of(relay, task, i);
        if (!relay_can_forward(relay->route, type->items[i]))
            continue;
        const struct route_piece *piece = &type->pieces[relay->runs[last].pieces[0]];
        supply_nodes(relay, &target, run_count, count_direct(relay, piece, needy, &carry));
    }
}

static int compare_tasks(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    if (x->choice != y->choice)
        return x->choice ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

static bool has_choice(const struct relay *relay, const struct task *task)
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
    VEC(struct task) tasks = {0};
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
            struct task task = {.type = t, .cell = c};
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

/* ---- quotas ----------------------------------------------------------------------- */

/** Classes of cells that must enter nodes, and the tasks of each. */
struct quota_tasks {
    uint32_t count;
    struct relay_class *classes;
    uint32_t *begin; /* by class: its tasks are those from begin[c] to begin[c + 1] */
    uint32_t *tasks;
};

/** By type and cell: 1 + its class; 0: nothing of it must be sent. */
static uint32_t **index_classes(struct arena *arena, const struct route *route, const struct classes *classes)
{
    uint32_t **class_of = ARENA_NEW(arena, uint32_t *, route->type_count);
    for (uint32_t t = 0; t < route->type_count; t++)
        class_of[t] = ARENA_NEW(arena, uint32_t, route->types[t].cell_count);
    for (uint32_t c = 0; c < classes->count; c++) {
        for (uint32_t i = 0; i < classes->classes[c].cell_count; i++) {
            const struct class_cell *cell = &classes->classes[c].cells[i];
            class_of[cell->type][route->types[cell->type].pieces[cell->pieces[0]].cell->number] = 1 + c;
        }
    }
    return class_of;
}

/** Bytes of a task's cell in all items that may be sent on. */
static uint64_t forwarded_bytes(const struct relay *relay, const struct task *task)
{
    const struct route_type *type = &relay->route->types[task->type];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < type->item_count; i++) {
        if (relay_can_forward(relay->route, type->items[i]))
            bytes += target_of(relay, task, i).bytes;
    }
    return bytes;
}

/** The holders of a cell and the takers of all runs that need it. */
static void list_senders(struct arena *arena, const struct relay *relay, const struct task *task, uint32_t run_count,
                         struct relay_class *class)
{
    const struct route_type *type = &relay->route->types[task->type];
    uint32_t total = 0;
    for (uint32_t r = 0; r < run_count; r++)
        total += relay->runs[r].kind == RELAY_NEEDY ? relay->runs[r].count : 0;
    uint32_t *senders = NULL;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        const struct route_piece *piece = &type->pieces[run->pieces[0]];
        if (run->kind != RELAY_NEEDY)
            continue;
        if (senders == NULL) {
            senders = ARENA_NEW(arena, uint32_t, piece->candidate_count + total);
            memcpy(senders, piece->candidates, piece->candidate_count * sizeof(*senders));
            class->holder_count = class->sender_count = piece->candidate_count;
        }
        class->needy++;
        for (uint32_t i = 0; i < run->count; i++)
            senders[class->sender_count++] = type->pieces[run->pieces[i]].taker;
    }
    class->senders = senders;
    class->quota = ARENA_NEW(arena, int64_t, class->sender_count);
}

/** Sort the tasks that must enter nodes by their classes, in the order in which these have the first. */
static void sort_tasks(struct arena *arena, struct relay *relay, struct quota_tasks *sorted)
{
    struct classes classes;
    classes_build(arena, relay->route, &classes);
    uint32_t **class_of = index_classes(arena, relay->route, &classes);
    uint32_t *number = ARENA_NEW(arena, uint32_t, (size_t)classes.count + 1); /* 1 + place in sorted->classes */
    uint32_t *place = ARENA_NEW(arena, uint32_t, relay->task_count);          /* by task, likewise */
    *sorted = (struct quota_tasks){.classes = ARENA_NEW(arena, struct relay_class, classes.count),
                                   .begin = ARENA_NEW(arena, uint32_t, (size_t)classes.count + 2),
                                   .tasks = ARENA_NEW(arena, uint32_t, relay->task_count)};
    for (size_t i = 0; i < relay->task_count; i++) {
        const struct task *task = &relay->tasks[i];
        uint32_t class = class_of[task->type][task->cell], run_count = list_runs(relay, task);
        uint64_t bytes = class > 0 && count_needy(relay, run_count) > 0 ? forwarded_bytes(relay, task) : 0;
        if (bytes == 0)
            continue;
        if (number[class] == 0) {
            list_senders(arena, relay, task, run_count, &sorted->classes[sorted->count]);
            number[class] = ++sorted->count;
        }
        place[i] = number[class];
        sorted->classes[place[i] - 1].bytes += bytes;
        sorted->begin[place[i] + 1]++;
    }
    uint32_t *next = sorted->begin + 1;
    for (uint32_t c = 0; c < sorted->count; c++)
        next[c + 1] += next[c];
    for (size_t i = 0; i < relay->task_count; i++) {
        if (place[i] > 0)
            sorted->tasks[next[place[i] - 1]++] = (uint32_t)i;
    }
}

/** Supply all runs of a class so that its senders keep to their quotas. */
static void supply_class(struct relay *relay, const struct relay_class *class, const uint32_t *tasks, uint32_t count)
{
    double carry = 0.5, share = 0;
    for (uint32_t s = 0; s < class->sender_count; s++) {
        relay->left[class->senders[s]] = class->quota[s];
        share += s < class->holder_count ? (double)class->quota[s] / (double)class->bytes : 0;
    }
    for (uint32_t t = 0; t < count; t++) {
        const struct task *task = &relay->tasks[tasks[t]];
        struct route_type *type = &relay->route->types[task->type];
        uint32_t run_count = list_runs(relay, task);
        for (uint32_t n = 0; n < type->item_count; n++) {
            uint32_t i = relay->widest_first[task->type][n];
            const struct target target = target_of(relay, task, i);
            if (!relay_can_forward(relay->route, type->items[i]))
                continue;
            carry += share;
            uint32_t direct = carry < 1 ? 1 : carry > class->needy ? class->needy : (uint32_t)carry;
            carry -= direct;
            supply_nodes(relay, &target, run_count, direct);
        }
    }
}

static void choose_by_quota(struct arena *arena, struct relay *relay, double start)
{
    struct quota_tasks sorted;
    sort_tasks(arena, relay, &sorted);
    relay_quota_find(arena, relay->route->world, sorted.classes, sorted.count, relay->ports.net_out, start);
    relay->left = ARENA_NEW(arena, int64_t, relay->route->world->device_count);
    for (uint32_t c = 0; c < sorted.count; c++)
        supply_class(relay, &sorted.classes[c], &sorted.tasks[sorted.begin[c]], sorted.begin[c + 1] - sorted.begin[c]);
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
    list_tasks(arena, &relay);
    for (size_t i = 0; i < relay.task_count; i++)
        choose_sources(&relay, &relay.tasks[i]);
    if (by_quota)
        choose_by_quota(arena, &relay, start);
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
