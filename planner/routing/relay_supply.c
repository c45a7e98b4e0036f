/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Who supplies the gateways of a cell. Of those that may send, the one that has sent least is next, again and again:
 * all are in a queue, and only the one that has just sent moves in it.
 */
#include "routing/relay_work.h"

void relay_set_source(struct relay *relay, const struct relay_target *target, uint32_t piece, uint32_t source,
                      uint32_t stage)
{
    target->sources[piece] = route_at(source, stage);
    relay_ports_add(&relay->ports, relay->route->world, source, target->type->pieces[piece].taker, target->bytes);
}

/* ---- queues ----------------------------------------------------------------------- */

/** Whether a device should send before another one: it is further behind its quota, or has sent less. */
static bool is_ahead(const struct relay *relay, struct relay_queued a, struct relay_queued b)
{
    const uint64_t *sent = relay->ports.net_out;
    if (relay->left != NULL && relay->left[a.device] != relay->left[b.device])
        return relay->left[a.device] > relay->left[b.device];
    return sent[a.device] != sent[b.device] ? sent[a.device] < sent[b.device] : a.number < b.number;
}

/** Move an entry of a heap down to where it belongs. */
static void sink(const struct relay *relay, struct relay_queued *heap, uint32_t count, uint32_t at)
{
    const struct relay_queued moved = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_ahead(relay, heap[child + 1], heap[child]);
        if (!is_ahead(relay, heap[child], moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void make_heap(const struct relay *relay, struct relay_queued *heap, uint32_t count)
{
    for (uint32_t at = count / 2; at-- > 0;)
        sink(relay, heap, count, at);
}

/** Take out the one that is ahead of all; nobody in the queue sends meanwhile. */
static struct relay_queued take_first(const struct relay *relay, struct relay_queued *heap, uint32_t *count)
{
    const struct relay_queued first = heap[0];
    heap[0] = heap[--*count];
    sink(relay, heap, *count, 0);
    return first;
}

static uint32_t queue_holders(struct relay *relay, const struct route_piece *piece)
{
    for (uint32_t i = 0; i < piece->candidate_count; i++)
        relay->senders[i] = (struct relay_queued){.device = piece->candidates[i], .number = i};
    make_heap(relay, relay->senders, piece->candidate_count);
    return piece->candidate_count;
}

/* ---- supply ----------------------------------------------------------------------- */

/** The piece of a run's gateway, which waits for its source; RELAY_UNSUPPLIED when none does. */
static uint32_t find_waiting(const struct relay_target *target, const struct relay_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        if (target->sources[run->pieces[i]] == RELAY_UNSUPPLIED)
            return run->pieces[i];
    }
    return RELAY_UNSUPPLIED;
}

/** Bring a run's gateway its piece from the first of `count` senders, and from there the others theirs. */
static void supply(struct relay *relay, const struct relay_target *target, const struct relay_run *run, uint32_t count,
                   uint32_t stage)
{
    uint32_t gateway = find_waiting(target, run), source = relay->senders[0].device;
    uint32_t device = target->type->pieces[gateway].taker;
    target->sources[gateway] = route_at(source, stage);
    relay->ports.net_out[source] += target->bytes;
    if (relay->left != NULL)
        relay->left[source] -= (int64_t)target->bytes;
    sink(relay, relay->senders, count, 0);
    for (uint32_t i = 0; i < run->count; i++) {
        if (run->pieces[i] != gateway)
            relay_set_source(relay, target, run->pieces[i], device, stage + 1);
    }
}

void relay_supply_run(struct relay *relay, const struct relay_target *target, const struct relay_run *run)
{
    const struct route_piece *piece = &target->type->pieces[find_waiting(target, run)];
    supply(relay, target, run, queue_holders(relay, piece), 0);
}

/** The gateways that wait, with the runs that they are of as numbers. @return how many */
static uint32_t queue_waiting(struct relay *relay, const struct relay_target *target, uint32_t run_count)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        uint32_t gateway = run->kind == RELAY_NEEDY ? find_waiting(target, run) : RELAY_UNSUPPLIED;
        if (gateway != RELAY_UNSUPPLIED)
            relay->waiting[count++] = (struct relay_queued){.device = target->type->pieces[gateway].taker, .number = r};
    }
    make_heap(relay, relay->waiting, count);
    return count;
}

/** Those that have their piece from a holder are the senders of the others. @return their number */
static uint32_t queue_forwarders(struct relay *relay, const struct relay_target *target, uint32_t run_count)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct relay_run *run = &relay->runs[r];
        if (run->kind != RELAY_NEEDY || find_waiting(target, run) != RELAY_UNSUPPLIED)
            continue;
        for (uint32_t i = 0; i < run->count; i++) {
            if (target->sources[run->pieces[i]] >> ROUTE_STAGE_SHIFT == 0)
                relay->senders[count++] =
                    (struct relay_queued){.device = target->type->pieces[run->pieces[i]].taker, .number = r};
        }
    }
    make_heap(relay, relay->senders, count);
    return count;
}

void relay_supply_runs(struct relay *relay, const struct relay_target *target, uint32_t run_count, uint32_t direct)
{
    uint32_t waiting = queue_waiting(relay, target, run_count), senders = 0;
    for (uint32_t n = 0; n < direct && waiting > 0; n++) {
        const struct relay_run *run = &relay->runs[take_first(relay, relay->waiting, &waiting).number];
        if (n == 0) /* all runs have the same holders */
            senders = queue_holders(relay, &target->type->pieces[run->pieces[0]]);
        supply(relay, target, run, senders, 0);
    }
    senders = waiting > 0 ? queue_forwarders(relay, target, run_count) : 0;
    for (uint32_t r = 0; r < run_count && waiting > 0; r++) {
        const struct relay_run *run = &relay->runs[r];
        if (run->kind != RELAY_NEEDY || find_waiting(target, run) == RELAY_UNSUPPLIED)
            continue;
        supply(relay, target, run, senders, 1);
        waiting--;
    }
}
