/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/proving.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"

#define TICK_NS (NS_PER_SECOND / 2)

enum verdict_state { STILL_BUSY = 0, READY };

struct verdict {
    uint32_t state, status;
    char text[1024];
};
_Static_assert(sizeof(struct verdict) <= TRANSPORT_SHARE_MAX, "a verdict fits a share");

/* The proof has a thread of its own: it takes as long as the plan is large, and does not look after peers. */
struct proof {
    const struct chain *chain;
    enum shunt_status status;
    struct shunt_err err;
    _Atomic bool done;
};

static void *prove(void *arg)
{
    struct proof *proof = arg;
    proof->status = chain_verify(proof->chain, &proof->err);
    atomic_store(&proof->done, true);
    return NULL;
}

static void wait_for(const struct proof *proof, int64_t until_ns)
{
    for (int64_t pause = NS_PER_MS / 8; !atomic_load(&proof->done) && clock_now_ns() < until_ns; sleep_ns(pause))
        pause = pause < 16 * NS_PER_MS ? 2 * pause : pause;
}

/* Every tick is a message to all: a lost peer is noticed, and nobody's deadline passes. */
static enum shunt_status tell_while_busy(struct shunt_world *world, const struct proof *proof, double timeout_seconds,
                                         struct shunt_err *err)
{
    int64_t tick = timeout_seconds < 2 ? (int64_t)(timeout_seconds / 4 * (double)NS_PER_SECOND) : TICK_NS;
    for (;;) {
        struct verdict busy = {.state = STILL_BUSY};
        wait_for(proof, clock_now_ns() + tick);
        if (atomic_load(&proof->done))
            return SHUNT_OK;
        enum shunt_status st = world_share(world, &busy, sizeof(busy), "proof of the plan", timeout_seconds, err);
        if (st == SHUNT_OK)
            st = shunt_world_poll(world, err);
        if (st != SHUNT_OK)
            return st;
    }
}

static enum shunt_status prove_for_all(struct shunt_world *world, const struct chain *chain, double timeout_seconds,
                                       struct verdict *verdict, struct shunt_err *err)
{
    struct proof proof = {.chain = chain};
    pthread_t thread;
    enum shunt_status st = SHUNT_OK;
    bool threaded = pthread_create(&thread, NULL, prove, &proof) == 0;
    if (threaded)
        st = tell_while_busy(world, &proof, timeout_seconds, err);
    else
        prove(&proof);
    if (threaded)
        pthread_join(thread, NULL);
    verdict->status = (uint32_t)proof.status;
    memcpy(verdict->text, proof.err.text, sizeof(verdict->text));
    return st;
}

enum shunt_status proving_run(struct shunt_world *world, const struct chain *chain, bool proves, double timeout_seconds,
                              struct shunt_err *err)
{
    struct verdict verdict = {.state = READY};
    enum shunt_status st = SHUNT_OK;
    if (world->transport->root && proves)
        st = prove_for_all(world, chain, timeout_seconds, &verdict, err);
    do {
        if (st == SHUNT_OK)
            st = world_share(world, &verdict, sizeof(verdict), "proof of the plan", timeout_seconds, err);
    } while (st == SHUNT_OK && verdict.state == STILL_BUSY);
    if (st != SHUNT_OK)
        return st;
    verdict.text[sizeof(verdict.text) - 1] = '\0';
    if (verdict.state != READY || verdict.status > SHUNT_ERR_INTERNAL)
        return shunt_fail(err, SHUNT_ERR_TRANSPORT, "proof of the plan: a malformed verdict came from device 0");
    world->told = verdict.status != SHUNT_OK;
    if (verdict.status == SHUNT_OK)
        return SHUNT_OK;
    return shunt_fail(err, (enum shunt_status)verdict.status, "%s", verdict.text);
}
