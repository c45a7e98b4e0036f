/* SPDX-License-Identifier: Apache-2.0 */
/* A proof that takes long, seen by the process that proves and by those that wait, over a transport of the test. */
#include <string.h>

#include "base/clock.h"
#include "cli/proving.h"
#include "harness.h"

/* In place of cli/chain.c's. */
static int64_t proof_ns;
static enum shunt_status proof_status;
static uint32_t proofs;

enum shunt_status chain_verify(const struct chain *chain, struct shunt_err *err)
{
    (void)chain;
    proofs++;
    sleep_ns(proof_ns);
    return proof_status == SHUNT_OK ? SHUNT_OK : shunt_fail(err, proof_status, "a.plan: device 3: wrong");
}

/* ---- a transport that keeps what is shared, or shares what was kept --------------------------- */

#define MOST 64u

static unsigned char shared[MOST][TRANSPORT_SHARE_MAX];
static uint32_t count, next, lost_after;

static enum shunt_status share(struct transport *transport, void *bytes, size_t size, const char *what,
                               const struct deadline *deadline, struct shunt_err *err)
{
    (void)what, (void)deadline;
    if (transport->root && count < MOST)
        memcpy(shared[count++], bytes, size);
    else if (!transport->root && next < count)
        memcpy(bytes, shared[next++], size);
    else
        return shunt_fail(err, SHUNT_ERR_TIMEOUT, "timed out");
    return transport->root && count > lost_after ? shunt_fail(err, SHUNT_ERR_PEER, "device 2 is lost") : SHUNT_OK;
}

static enum shunt_status poll_nothing(struct transport *transport, struct shunt_err *err)
{
    (void)transport, (void)err;
    return SHUNT_OK;
}

static const struct transport_ops ops = {.name = "double", .share = share, .poll = poll_nothing};

/* What the root does, and then what another process makes of it. */
static void run_both(bool proves, enum shunt_status status[2], struct shunt_err err[2])
{
    count = next = 0;
    for (int i = 0; i < 2; i++) {
        struct transport transport = {.ops = &ops, .size = 2, .root = i == 0};
        struct shunt_world world = {.transport = &transport};
        err[i].text[0] = '\0';
        status[i] = proving_run(&world, NULL, proves, 0.4, &err[i]);
    }
}

static void waits_for_a_long_proof(void)
{
    enum shunt_status status[2];
    struct shunt_err err[2];
    proof_ns = 900 * NS_PER_MS; /* more than two deadlines; a tick is a quarter of one */
    proof_status = SHUNT_OK;
    lost_after = MOST;
    run_both(true, status, err);
    CHECK_EQ_U64(status[0], SHUNT_OK);
    CHECK_EQ_U64(status[1], SHUNT_OK);
    CHECK_MSG(count >= 4 && count <= 12, "%u messages", count);
    CHECK_EQ_U64(next, count);
}

static void everybody_gets_the_verdict(void)
{
    enum shunt_status status[2];
    struct shunt_err err[2];
    proof_ns = 0;
    proof_status = SHUNT_ERR_VERIFY;
    run_both(true, status, err);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_U64(status[i], SHUNT_ERR_VERIFY);
        CHECK_STR(err[i].text, "a.plan: device 3: wrong");
    }
    proofs = 0;
    run_both(false, status, err); /* --no-verify */
    CHECK(status[0] == SHUNT_OK && status[1] == SHUNT_OK && proofs == 0);
    memset(shared, 0xFF, sizeof(shared));
    struct transport transport = {.ops = &ops, .size = 2};
    struct shunt_world world = {.transport = &transport};
    next = 0;
    CHECK_EQ_U64(proving_run(&world, NULL, true, 1, &err[1]), SHUNT_ERR_TRANSPORT);
    CHECK_CONTAINS(err[1].text, "malformed verdict");
}

static void a_lost_peer_ends_it(void)
{
    enum shunt_status status[2];
    struct shunt_err err[2];
    proof_ns = 500 * NS_PER_MS;
    proof_status = SHUNT_OK;
    lost_after = 1;
    run_both(true, status, err);
    CHECK_EQ_U64(status[0], SHUNT_ERR_PEER);
    CHECK_STR(err[0].text, "device 2 is lost");
    CHECK_EQ_U64(status[1], SHUNT_ERR_TIMEOUT);
    CHECK(count == 2);
}

static const struct test_case cases[] = {
    {"waits_for_a_long_proof", waits_for_a_long_proof},
    {"everybody_gets_the_verdict", everybody_gets_the_verdict},
    {"a_lost_peer_ends_it", a_lost_peer_ends_it},
};
TEST_MAIN(cases)
