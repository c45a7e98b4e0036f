/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/clock.h"

const char *const port_names[PORT_KINDS] = {
    [PORT_NODE_OUT] = "node out",
    [PORT_NODE_IN] = "node in",
    [PORT_NET_OUT] = "network out",
    [PORT_NET_IN] = "network in",
    [PORT_POOL_OUT] = "node's network out",
    [PORT_POOL_IN] = "node's network in",
    [PORT_PACK] = "pack",
    [PORT_UNPACK] = "unpack",
    [PORT_COPY] = "copy",
    [PORT_HOST_READ] = "host to device",
    [PORT_HOST_COPY] = "copy to host",
    [PORT_HOST_WRITE] = "device to host",
};

static double at_least(double a, double b)
{
    return a > b ? a : b;
}

struct clock_rates clock_rates(const struct cfg_machine *machine)
{
    double together = machine->inter_node * (double)machine->devices_per_node;
    struct clock_rates rates = {.pooled = machine->node_inter_node < together, .message = 1 / machine->message};
    double *seconds = rates.seconds_per_byte;
    seconds[PORT_NODE_OUT] = seconds[PORT_NODE_IN] = 1 / machine->intra_node;
    seconds[PORT_NET_OUT] = seconds[PORT_NET_IN] = 1 / machine->inter_node;
    seconds[PORT_POOL_OUT] = seconds[PORT_POOL_IN] = 1 / machine->node_inter_node;
    seconds[PORT_PACK] = 1 / machine->pack;
    seconds[PORT_UNPACK] = 1 / machine->unpack;
    seconds[PORT_COPY] = 1 / machine->copy;
    seconds[PORT_HOST_READ] = 1 / machine->host_to_device;
    seconds[PORT_HOST_COPY] = seconds[PORT_HOST_WRITE] = 1 / machine->device_to_host;
    return rates;
}

static double seconds_of(const struct clock_rates *rates, const struct clock_share *share, enum port_kind kind)
{
    return (double)share->bytes[kind] * rates->seconds_per_byte[kind];
}

void clock_raise(const struct clock_rates *rates, double message_seconds, const struct clock_share *share,
                 struct round_cost *cost)
{
    double link = (double)share->longest * rates->message;
    for (enum port_kind kind = PORT_NODE_OUT; kind <= PORT_NET_IN; kind++)
        link = at_least(link, seconds_of(rates, share, kind));
    double pool = at_least(seconds_of(rates, share, PORT_POOL_OUT), seconds_of(rates, share, PORT_POOL_IN));
    double before = seconds_of(rates, share, PORT_PACK) + seconds_of(rates, share, PORT_COPY);
    before = at_least(before, seconds_of(rates, share, PORT_HOST_READ));
    before = at_least(before, seconds_of(rates, share, PORT_HOST_COPY));
    double behind = at_least(seconds_of(rates, share, PORT_UNPACK), seconds_of(rates, share, PORT_HOST_WRITE));
    cost->link = at_least(cost->link, at_least(link, pool));
    cost->wire = at_least(cost->wire, at_least(link + share->messages * message_seconds, pool));
    cost->before = at_least(cost->before, before);
    cost->behind = at_least(cost->behind, behind);
}

struct clock_sum clock_total(const struct round_cost *costs, uint32_t round_count, uint32_t depth, double round_seconds)
{
    struct clock_sum sum = {0};
    for (uint32_t k = 0; k < round_count; k++) {
        const struct round_cost *now = &costs[k];
        bool first = k == 0, last = k + 1 == round_count;
        sum.links += now->link;
        sum.messages += now->wire - now->link;
        sum.rounds += now->wire > 0 ? round_seconds : 0;
        if (depth == 1) {
            sum.copies += now->before + now->behind;
            continue;
        }
        double beside = (first ? 0 : costs[k - 1].behind) + (last ? 0 : costs[k + 1].before);
        sum.copies += at_least(beside - now->wire, 0) + (first ? now->before : 0) + (last ? now->behind : 0);
    }
    sum.total = sum.links + sum.messages + sum.copies + sum.rounds;
    return sum;
}
