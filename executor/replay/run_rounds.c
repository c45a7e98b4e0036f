/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The run: the same order of steps on every device, so that waits cannot form a cycle.
 *
 *     depth 1   alloc k  pack k  post k  wait k  unpack k  free k
 *     depth 2   alloc 0  pack 0  post 0
 *               then for each k:  unpack k-1  free k-1  alloc k+1  pack k+1  post k+1 | wait k
 *               (what stands before the bar happens while round k is on the wire; round k+1 joins it there as soon
 *               as it is packed, as its staging slot is the one that round k-1 has left)
 *               and last:         unpack last  free last
 *
 * On a device with streams the same steps, in the same order, only put work on streams, and the host goes on:
 *
 *     stream of an engine   alloc 0  pack 0  alloc 1  pack 1 | unpack 0  free 0  alloc 2  pack 2 | unpack 1 ...
 *     wire                           ^ group 0 ------------ ^   ^ group 1 ------------------- ^
 *
 * A group waits for the packs of its round, an unpack for the group. Packs and unpacks share a stream: pack k+1
 * enters the slot that unpack k-1 leaves, so they could not run side by side anyway.
 */
#include <stdlib.h>

#include "base/ranges.h"
#include "replay/checksum.h"
#include "replay/journal.h"
#include "replay/missing.h"
#include "replay/rounds.h"
#include "replay/run.h"

/* Takes, or checks, the checksums of a round on one device. */
static enum shunt_status run_checksum(struct engine *engine, uint32_t round, bool seals, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    if (engine->checksum == NULL)
        return SHUNT_OK;
    int64_t begin = clock_now_ns();
    if (seals)
        st = checksum_seal(engine, round, err);
    else
        st = checksum_check(engine, round, err);
    engine->stats.checksum_seconds += (double)(clock_now_ns() - begin) / 1e9;
    return st;
}

static enum shunt_status run_pack(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    struct shunt_exec_stats before = engine->stats;
    range_push(RANGE_PACK, engine->device, round);
    enum shunt_status st = rounds_mark(engine, round, ROUNDS_PACK, err);
    if (st == SHUNT_OK)
        st = engine_alloc(engine, round, err);
    if (st == SHUNT_OK)
        st = engine_pack(engine, round, err);
    if (st == SHUNT_OK)
        st = rounds_mark(engine, round, ROUNDS_PACKED, err);
    range_pop();
    rounds_count(engine, round, &before);
    return st;
}

/* Nobody asks for the time between these two but profilers. */
static void open_range(struct run *run, uint64_t *ranges, enum range_kind kind, uint32_t round)
{
    ranges[round % RANGES_OPEN] = range_start(kind, run->engines[0]->device, round);
}

static void close_range(uint64_t *ranges, uint32_t round)
{
    range_end(ranges[round % RANGES_OPEN]);
    ranges[round % RANGES_OPEN] = 0;
}

static enum shunt_status run_fill(struct run *run, uint32_t round, struct shunt_err *err)
{
    open_range(run, run->round_ranges, RANGE_ROUND, round);
    for (uint32_t i = 0; i < run->count; i++) {
        journal_begin(run->execs[i]->journal, round);
        enum shunt_status st = run_pack(run->engines[i], round, err);
        if (st == SHUNT_OK && run->lockstep)
            st = engine_finish_round(run->engines[i], round, err);
        if (st != SHUNT_OK)
            return st;
        journal_fill(run->execs[i]->journal, round);
        st = run_checksum(run->engines[i], round, true, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

static enum shunt_status run_mark(struct run *run, uint32_t round, enum rounds_moment moment, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    for (uint32_t i = 0; i < run->count && st == SHUNT_OK; i++)
        st = rounds_mark(run->engines[i], round, moment, err);
    return st;
}

static enum shunt_status run_post_checksums(struct run *run, uint32_t round, struct shunt_err *err)
{
    struct transport *transport = run->world->transport;
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t count;
        struct transport_message *messages = checksum_messages(run->engines[i], round, &count);
        enum shunt_status st = transport->ops->post(transport, run->engines[i]->device,
                                                    TRANSPORT_CHECKSUM_ROUND + round, messages, count, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

static enum shunt_status run_post(struct run *run, uint32_t round, struct shunt_err *err)
{
    struct transport *transport = run->world->transport;
    open_range(run, run->wire_ranges, RANGE_WIRE, round);
    meet_beat(run->world->meet, MEET_MOVING, round);
    enum shunt_status st = pace_packed(&run->pace, round, err);
    if (st == SHUNT_OK)
        st = run_mark(run, round, ROUNDS_WIRE, err);
    if (st != SHUNT_OK)
        return st;
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t count;
        struct transport_message *messages = engine_messages(run->engines[i], round, &count);
        st = transport->ops->post(transport, run->engines[i]->device, round, messages, count, err);
        if (st != SHUNT_OK)
            return st;
    }
    return run->checksum ? run_post_checksums(run, round, err) : SHUNT_OK;
}

static enum shunt_status run_arrived(struct run *run, uint32_t round, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    for (uint32_t i = 0; i < run->count && st == SHUNT_OK; i++) {
        struct shunt_exec_stats before = run->engines[i]->stats;
        st = engine_arrived(run->engines[i], round, err);
        rounds_count(run->engines[i], round, &before);
    }
    return st;
}

static enum shunt_status run_wait(struct run *run, uint32_t round, struct shunt_err *err)
{
    struct transport *transport = run->world->transport;
    struct deadline deadline = deadline_after(run->timeout_seconds);
    enum shunt_status st = run_mark(run, round, ROUNDS_WAIT, err);
    range_push(RANGE_WAIT, run->engines[0]->device, round);
    if (st == SHUNT_OK)
        st = transport->ops->wait(transport, round, &deadline, err);
    range_pop();
    close_range(run->wire_ranges, round);
    if (st == SHUNT_ERR_TIMEOUT)
        missing_explain(run->engines, run->count, round, err);
    if (st == SHUNT_OK)
        st = run_arrived(run, round, err);
    if (st == SHUNT_OK)
        st = run_mark(run, round, ROUNDS_WIRED, err);
    if (st == SHUNT_OK)
        st = pace_wired(&run->pace, round, err);
    if (st == SHUNT_OK && run->lockstep) /* the next wait is for the device alone */
        st = pace_arrived(&run->pace, round, err);
    if (st == SHUNT_OK)
        st = run_mark(run, round, ROUNDS_WAITED, err);
    if (st == SHUNT_OK && run->checksum)
        st = transport->ops->wait(transport, TRANSPORT_CHECKSUM_ROUND + round, &deadline, err);
    return st == SHUNT_OK ? shunt_world_poll(run->world, err) : st;
}

enum shunt_status run_say_done(void *ctx, uint32_t round, struct shunt_err *err)
{
    const struct run *run = ctx;
    for (uint32_t i = 0; i < run->count; i++) {
        enum shunt_status st = rounds_finish(run->engines[i], round, err);
        if (st != SHUNT_OK)
            return st;
        struct shunt_exec_progress *progress = &run->execs[i]->progress;
        if (progress->round_done != NULL)
            progress->round_done(progress->ctx, run->engines[i]->device, round, run->rounds);
    }
    return SHUNT_OK;
}

static enum shunt_status run_unpack(struct run *run, uint32_t i, uint32_t round, struct shunt_err *err)
{
    struct shunt_exec_stats before = run->engines[i]->stats;
    enum shunt_status st = rounds_mark(run->engines[i], round, ROUNDS_UNPACK, err);
    range_push(RANGE_UNPACK, run->engines[i]->device, round);
    if (st == SHUNT_OK)
        st = engine_unpack(run->engines[i], round, err);
    range_pop();
    rounds_count(run->engines[i], round, &before);
    if (st == SHUNT_OK && run->lockstep)
        st = engine_finish_round(run->engines[i], round, err);
    return st == SHUNT_OK ? run_checksum(run->engines[i], round, false, err) : st;
}

static enum shunt_status run_drain(struct run *run, uint32_t round, struct shunt_err *err)
{
    for (uint32_t i = 0; i < run->count; i++) {
        enum shunt_status st = run_unpack(run, i, round, err);
        if (st != SHUNT_OK)
            return st;
        journal_finish(run->execs[i]->journal, round);
        journal_release(run->execs[i]->journal, round);
        if (engine_frees_wait(run->engines[i], round))
            st = pace_arrived(&run->pace, round, err);
        if (st == SHUNT_OK)
            st = engine_free(run->engines[i], round, err);
        if (st == SHUNT_OK)
            st = rounds_mark(run->engines[i], round, ROUNDS_UNPACKED, err);
        if (st != SHUNT_OK)
            return st;
        journal_free(run->execs[i]->journal, round);
    }
    close_range(run->round_ranges, round);
    return pace_drained(&run->pace, round, err);
}

static enum shunt_status run_in_turn(struct run *run, struct shunt_err *err)
{
    for (uint32_t k = 0; k < run->rounds; k++) {
        enum shunt_status st = run_fill(run, k, err);
        if (st == SHUNT_OK)
            st = run_post(run, k, err);
        if (st == SHUNT_OK)
            st = run_wait(run, k, err);
        if (st == SHUNT_OK)
            st = run_drain(run, k, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

/*
 * Round k ends and round k + 1 begins. On the host k + 1 joins k on the wire. On streams waiting only puts k there
 * whole, so that what comes after it is ordered; k + 1 stands behind it in any case.
 */
static enum shunt_status run_swap(struct run *run, uint32_t k, struct shunt_err *err)
{
    bool more = k + 1 < run->rounds, streams = run->engines[0]->on->ops->asynchronous;
    enum shunt_status st = more && !streams ? run_post(run, k + 1, err) : SHUNT_OK;
    if (st == SHUNT_OK)
        st = run_wait(run, k, err);
    return st == SHUNT_OK && more && streams ? run_post(run, k + 1, err) : st;
}

static enum shunt_status run_overlapped(struct run *run, struct shunt_err *err)
{
    if (run->rounds == 0)
        return SHUNT_OK;
    enum shunt_status st = run_fill(run, 0, err);
    if (st == SHUNT_OK)
        st = run_post(run, 0, err);
    for (uint32_t k = 0; k < run->rounds && st == SHUNT_OK; k++) {
        bool more = k + 1 < run->rounds;
        if (k > 0)
            st = run_drain(run, k - 1, err);
        if (st == SHUNT_OK && more)
            st = run_fill(run, k + 1, err);
        if (st == SHUNT_OK)
            st = run_swap(run, k, err);
    }
    return st == SHUNT_OK ? run_drain(run, run->rounds - 1, err) : st;
}

static enum shunt_status nothing_to_judge(void *ctx, const void *all, uint32_t size, struct shunt_err *err)
{
    (void)ctx, (void)all, (void)size, (void)err;
    return SHUNT_OK;
}

enum shunt_status run_barrier(struct run *run, const char *what, struct shunt_err *err)
{
    uint64_t *nothing = calloc(run->count, sizeof(uint64_t));
    if (nothing == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    enum shunt_status st =
        world_vote(run->world, nothing, sizeof(uint64_t), what, nothing_to_judge, NULL, run->timeout_seconds, err);
    free(nothing);
    return st;
}

static enum shunt_status run_look_at_memory(struct run *run, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    for (uint32_t i = 0; i < run->count; i++) {
        struct engine *engine = run->engines[i];
        if (engine->on->ops->taken == NULL)
            continue;
        enum shunt_status st = engine->on->ops->taken(engine->on, &engine->stats.device_taken_bytes, &cause);
        if (st != SHUNT_OK)
            return shunt_fail(err, st, "device %u: %s", engine->device, cause.text);
    }
    return SHUNT_OK;
}

enum shunt_status run_rounds(struct run *run, struct shunt_err *err)
{
    enum shunt_status st = run_barrier(run, "start", err);
    if (st != SHUNT_OK)
        return st;
    int64_t start = clock_now_ns();
    st = run->depth == 1 ? run_in_turn(run, err) : run_overlapped(run, err);
    if (st == SHUNT_OK)
        st = pace_finish(&run->pace, err);
    double seconds = (double)(clock_now_ns() - start) / 1e9;
    for (uint32_t i = 0; i < RANGES_OPEN; i++) { /* of a run that broke off */
        close_range(run->wire_ranges, i);
        close_range(run->round_ranges, i);
    }
    for (uint32_t i = 0; i < run->count; i++)
        run->engines[i]->stats.seconds = seconds;
    if (st == SHUNT_OK)
        st = run_look_at_memory(run, err);
    return st == SHUNT_OK ? run_barrier(run, "end", err) : st;
}
