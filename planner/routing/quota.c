/* SPDX-License-Identifier: Apache-2.0 */
#include "routing/quota.h"

#include <math.h>
#include <stdlib.h>

#include "routing/flow.h"
#include "routing/quota_deal.h"

struct quota_work {
    const struct classes *classes;
    struct route_quotas *figures;
    struct quota_groups groups;
    double *busy;   /* by device: seconds that its port needs for what it has, of the group at hand */
    uint32_t *heap; /* holders of the group at hand */
};

static void raise_limit(struct route_quotas *figures, double seconds, const struct route_reason *reason)
{
    if (seconds <= figures->least_seconds)
        return;
    figures->least_seconds = seconds;
    figures->least = *reason;
}

/** The ports of one device. */
static void raise_by_device(struct route_quotas *figures, double seconds, enum route_limit limit, uint32_t device,
                            int64_t bytes)
{
    const struct route_reason reason = {.limit = limit, .first = device, .count = 1, .bytes = (uint64_t)bytes};
    raise_limit(figures, seconds, &reason);
}

/** What must be received, and what only one holder can send: known before any choice. Takes the latter into account. */
static double find_forced(struct quota_work *work, bool network)
{
    const struct quota_ports *ports = &work->groups.ports[network];
    double most = 0;
    for (uint32_t g = 0; g < work->groups.count; g++) {
        struct quota_group *group = &work->groups.groups[g];
        if (group->network != network || group->holder_count > 1)
            continue;
        group->quota[0] = group->want;
        ports->out[group->holders[0]] += group->want;
    }
    for (uint32_t d = 0; d < work->groups.classes->route->world->device_count; d++) {
        double in = (double)ports->in[d] / ports->rate[d], out = (double)ports->out[d] / ports->rate[d];
        raise_by_device(work->figures, in, network ? LIMIT_NETWORK_IN : LIMIT_INSIDE_IN, d, ports->in[d]);
        raise_by_device(work->figures, out, network ? LIMIT_NETWORK_OUT : LIMIT_INSIDE_OUT, d, ports->out[d]);
        most = in > most ? in : most;
        most = out > most ? out : most;
    }
    return most;
}

/** Whether the port of one holder is done before that of another one, with what they have. */
static bool is_before(const struct quota_work *work, const struct quota_group *group, uint32_t a, uint32_t b)
{
    double x = work->busy[group->holders[a]], y = work->busy[group->holders[b]];
    return x != y ? x < y : a < b;
}

/** Restore a heap of holders, the first done on top, where only the one at `at` may be too high. */
static void sift_down(const struct quota_work *work, const struct quota_group *group, uint32_t at)
{
    uint32_t *heap = work->heap, holder = heap[at], count = group->holder_count;
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_before(work, group, heap[child + 1], heap[child]);
        if (!is_before(work, group, heap[child], holder))
            break;
        heap[at] = heap[child];
    }
    heap[at] = holder;
}

/** Give each taker few holders, none of which is busy for more than some seconds. The flow finds a place for the rest. */
static void fill_group(const struct quota_work *work, struct quota_group *group, double seconds)
{
    const struct quota_ports *ports = &work->groups.ports[group->network];
    for (uint32_t h = 0; h < group->holder_count; h++) {
        work->heap[h] = h;
        work->busy[group->holders[h]] = (double)ports->out[group->holders[h]] / ports->rate[group->holders[h]];
    }
    for (uint32_t h = group->holder_count / 2; h-- > 0;)
        sift_down(work, group, h);
    for (uint32_t d = group->begin; d < group->end;) {
        uint32_t taker = work->groups.demands[d].taker;
        int64_t want = 0;
        for (; d < group->end && work->groups.demands[d].taker == taker; d++)
            want += quota_demand_bytes(&work->groups, d);
        while (want > 0) {
            uint32_t h = work->heap[0], device = group->holders[h];
            int64_t room = (int64_t)ceil(ports->rate[device] * seconds) - ports->out[device];
            int64_t amount = want < room ? want : room;
            if (amount <= 0)
                return; /* no holder has room */
            group->quota[h] += amount;
            ports->out[device] += amount;
            want -= amount;
            work->busy[device] = (double)ports->out[device] / ports->rate[device];
            sift_down(work, group, 0);
        }
    }
}

struct group_order {
    uint32_t group, holder_count;
    int64_t want;
};

static int compare_orders(const void *a, const void *b)
{
    const struct group_order *x = a, *y = b;
    if (x->holder_count != y->holder_count)
        return x->holder_count < y->holder_count ? -1 : 1;
    if (x->want != y->want)
        return x->want > y->want ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

/** Groups with a choice: those with the least choice first. @return their number */
static uint32_t order_groups(struct arena *arena, const struct quota_work *work, bool network,
                             struct group_order **order_out)
{
    struct group_order *order = ARENA_NEW(arena, struct group_order, work->groups.count);
    uint32_t count = 0;
    for (uint32_t g = 0; g < work->groups.count; g++) {
        const struct quota_group *group = &work->groups.groups[g];
        if (group->network == network && group->holder_count > 1)
            order[count++] = (struct group_order){.group = g, .holder_count = group->holder_count, .want = group->want};
    }
    if (count > 0)
        qsort(order, count, sizeof(*order), compare_orders);
    *order_out = order;
    return count;
}

/** The network of the groups (vertex 2 and on) and of the ports behind them, with what is filled already. */
static void build_network(struct arena *arena, const struct quota_work *work, const struct group_order *order,
                          uint32_t count, const struct quota_ports *ports, struct flow *flow,
                          struct flow_scale_input *input)
{
    uint32_t devices = work->groups.classes->route->world->device_count;
    struct flow_port *list = ARENA_NEW(arena, struct flow_port, devices);
    int64_t *chosen = ARENA_NEW(arena, int64_t, devices); /* bytes that are not forced */
    flow_init(2 + count + devices, flow);
    *input = (struct flow_scale_input){.source = 0, .sink = 1, .ports = list};
    for (uint32_t i = 0; i < count; i++) {
        const struct quota_group *group = &work->groups.groups[order[i].group];
        int64_t filled = 0;
        for (uint32_t h = 0; h < group->holder_count; h++) {
            flow_use(flow, flow_add(arena, flow, 2 + i, 2 + count + group->holders[h], group->want), group->quota[h]);
            chosen[group->holders[h]] += group->quota[h];
            filled += group->quota[h];
        }
        flow_use(flow, flow_add(arena, flow, 0, 2 + i, group->want), filled);
        input->wanted += group->want;
    }
    for (uint32_t d = 0; d < devices; d++) {
        int64_t forced = ports->out[d] - chosen[d];
        flow_use(flow, flow_add(arena, flow, 0, 2 + count + d, forced), forced);
        input->wanted += forced;
    }
    for (uint32_t d = 0; d < devices; d++) {
        list[d] = (struct flow_port){.arc = flow_add(arena, flow, 2 + count + d, 1, 0), .weight = ports->rate[d]};
        flow_use(flow, list[d].arc, ports->out[d]);
    }
    input->port_count = devices;
}

/** Quotas of all groups of a kind at the least time of their ports. */
static void find_quotas(struct arena *arena, struct quota_work *work, bool network)
{
    struct quota_ports *ports = &work->groups.ports[network];
    struct group_order *order;
    struct flow flow;
    struct flow_scale_input input;
    struct flow_cut cut;
    double forced = find_forced(work, network);
    uint32_t count = order_groups(arena, work, network, &order), arc = 0;
    if (count == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        fill_group(work, &work->groups.groups[order[i].group], forced);
    build_network(arena, work, order, count, ports, &flow, &input);
    if (!flow_least_scale(arena, &flow, &input, forced, &cut))
        return;
    const struct route_reason reason = {.limit = network ? LIMIT_NETWORK_OUT : LIMIT_INSIDE_OUT,
                                        .first = cut.first_port,
                                        .count = cut.port_count,
                                        .bytes = (uint64_t)cut.units};
    if (cut.port_count > 0)
        raise_limit(work->figures, cut.scale, &reason);
    for (uint32_t i = 0; i < count; i++) {
        struct quota_group *group = &work->groups.groups[order[i].group];
        for (uint32_t h = 0; h < group->holder_count; h++, arc++) {
            int64_t quota = flow_used(&flow, arc);
            ports->out[group->holders[h]] += quota - group->quota[h];
            group->quota[h] = quota;
        }
        arc++; /* from the source */
    }
}

/** The busiest port with the sources that were chosen. */
static double busiest_seconds(const struct quota_groups *groups)
{
    double most = 0;
    for (int network = 0; network < 2; network++) {
        const struct quota_ports *ports = &groups->ports[network];
        for (uint32_t d = 0; d < groups->classes->route->world->device_count; d++)
            most = fmax(most, fmax((double)ports->in[d], (double)ports->sent[d]) / ports->rate[d]);
    }
    return most;
}

static void choose(struct arena *scratch, void *context)
{
    struct quota_work *work = context;
    uint32_t devices = work->classes->route->world->device_count;
    work->busy = ARENA_NEW(scratch, double, devices);
    work->heap = ARENA_NEW(scratch, uint32_t, devices);
    quota_groups_build(scratch, work->classes, &work->groups);
    find_quotas(scratch, work, false);
    find_quotas(scratch, work, true);
    quota_deal(scratch, &work->groups, work->figures->least_seconds);
    work->figures->seconds = busiest_seconds(&work->groups);
}

void quota_choose(struct arena *arena, const struct classes *classes, struct route_quotas *figures_out)
{
    struct quota_work work = {.classes = classes, .figures = figures_out};
    *figures_out = (struct route_quotas){0};
    arena_with_scratch(arena, choose, &work);
}
