/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All devices in one process: a message is a copy, made when the round is waited for; on a device with streams
 * it is put on the wire stream then.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

struct loopback_posted {
    struct transport_message *messages;
    uint32_t count;
    uint32_t round;
};

struct loopback {
    struct transport base;
    struct loopback_posted *posted; /* TRANSPORT_GROUPS per device */
    struct shunt_device *on;        /* of all */
};

static struct loopback_posted *posted_by(struct loopback *lb, uint32_t device, uint32_t round)
{
    return &lb->posted[(size_t)device * TRANSPORT_GROUPS + round % TRANSPORT_GROUPS];
}

static enum shunt_status loopback_open(const struct transport_config *config, struct transport **transport_out,
                                       struct shunt_err *err)
{
    struct loopback *lb = calloc(1, sizeof(*lb));
    if (lb != NULL)
        lb->posted = calloc((size_t)config->size * TRANSPORT_GROUPS, sizeof(*lb->posted));
    if (lb == NULL || lb->posted == NULL) {
        free(lb);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u loopback devices", config->size);
    }
    lb->base =
        (struct transport){.ops = &transport_loopback, .size = config->size, .local_count = config->size, .root = true};
    *transport_out = &lb->base;
    return SHUNT_OK;
}

static enum shunt_status loopback_prepare(struct transport *transport, uint32_t device,
                                          const struct transport_needs *needs, struct shunt_err *err)
{
    struct loopback *lb = (struct loopback *)transport;
    if (device != 0 && needs->on != lb->on)
        return shunt_fail(err, SHUNT_ERR_USAGE, "device %u is on another device than device 0: loopback has one",
                          device);
    lb->on = needs->on;
    return SHUNT_OK;
}

static enum shunt_status loopback_post(struct transport *transport, uint32_t device, uint32_t round,
                                       struct transport_message *messages, uint32_t count, struct shunt_err *err)
{
    (void)err;
    struct loopback *lb = (struct loopback *)transport;
    *posted_by(lb, device, round) = (struct loopback_posted){.messages = messages, .count = count, .round = round};
    return SHUNT_OK;
}

/* Messages of a round are sorted by direction and peer: the first one that is not before this. */
static uint32_t first_message(const struct loopback_posted *posted, uint32_t direction, uint32_t peer)
{
    uint32_t low = 0, high = posted->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct transport_message *m = &posted->messages[mid];
        if (m->direction < direction || (m->direction == direction && m->peer < peer))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The other end of message `index` of a device: as many messages between the two come before it there as here. */
static struct transport_message *find_message(const struct loopback_posted *mine, uint32_t index,
                                              const struct loopback_posted *theirs, uint32_t device)
{
    const struct transport_message *m = &mine->messages[index];
    uint32_t opposite = m->direction == SHUNT_SEND ? SHUNT_RECV : SHUNT_SEND;
    uint32_t at = first_message(theirs, opposite, device) + index - first_message(mine, m->direction, m->peer);
    if (at < theirs->count && theirs->messages[at].direction == opposite && theirs->messages[at].peer == device)
        return &theirs->messages[at];
    return NULL;
}

static enum shunt_status copy_message(const struct loopback *lb, uint32_t device, uint32_t round,
                                      struct transport_message *to, const struct transport_message *from,
                                      struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    to->arrived = to->bytes;
    if (round >= TRANSPORT_PAIR_ROUND || !lb->on->ops->asynchronous) {
        memcpy(to->data, from->data, to->bytes);
        return SHUNT_OK;
    }
    enum shunt_status st =
        lb->on->ops->copy(lb->on, lb->on->ops->wire(lb->on), to->data, from->data, to->bytes, &cause);
    if (st == SHUNT_OK)
        return SHUNT_OK;
    return shunt_fail(err, st, "device %u: round %u: message from device %u: %s", device, round, to->peer, cause.text);
}

static enum shunt_status deliver(struct loopback *lb, uint32_t device, uint32_t round, struct shunt_err *err)
{
    const struct loopback_posted *mine = posted_by(lb, device, round);
    for (uint32_t i = 0; i < mine->count; i++) {
        struct transport_message *m = &mine->messages[i];
        struct transport_message *other = NULL;
        if (m->peer < lb->base.size && posted_by(lb, m->peer, round)->round == round)
            other = find_message(mine, i, posted_by(lb, m->peer, round), device);
        if (other == NULL)
            return shunt_fail(err, SHUNT_ERR_TRANSPORT, "round %u: device %u %s device %u, which has no such message",
                              round, device, m->direction == SHUNT_SEND ? "sends to" : "receives from", m->peer);
        if (other->bytes != m->bytes)
            return shunt_fail(err, SHUNT_ERR_TRANSPORT,
                              "round %u: device %u %s device %u: %" PRIu64 " bytes here, %" PRIu64 " there", round,
                              device, m->direction == SHUNT_SEND ? "to" : "from", m->peer, m->bytes, other->bytes);
        enum shunt_status st = m->direction == SHUNT_RECV ? copy_message(lb, device, round, m, other, err) : SHUNT_OK;
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

static enum shunt_status loopback_wait(struct transport *transport, uint32_t round, const struct deadline *deadline,
                                       struct shunt_err *err)
{
    (void)deadline;
    struct loopback *lb = (struct loopback *)transport;
    for (uint32_t device = 0; device < lb->base.size; device++) {
        enum shunt_status st = deliver(lb, device, round, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

static enum shunt_status loopback_gather(struct transport *transport, const void *mine, size_t bytes, void *all,
                                         const char *what, const struct deadline *deadline, struct shunt_err *err)
{
    (void)what, (void)deadline, (void)err;
    memcpy(all, mine, bytes * transport->size);
    return SHUNT_OK;
}

static enum shunt_status loopback_share(struct transport *transport, void *bytes, size_t size, const char *what,
                                        const struct deadline *deadline, struct shunt_err *err)
{
    (void)transport, (void)bytes, (void)size, (void)what, (void)deadline, (void)err;
    return SHUNT_OK;
}

static enum shunt_status loopback_poll(struct transport *transport, struct shunt_err *err)
{
    (void)transport, (void)err;
    return SHUNT_OK;
}

static void loopback_abandon(struct transport *transport, enum shunt_status status, const char *cause)
{
    (void)transport, (void)status, (void)cause;
}

static void loopback_close(struct transport *transport)
{
    struct loopback *lb = (struct loopback *)transport;
    free(lb->posted);
    free(lb);
}

const struct transport_ops transport_loopback = {
    .name = "loopback",
    .device_memory = true,
    .many_messages = true,
    .open = loopback_open,
    .prepare = loopback_prepare,
    .post = loopback_post,
    .wait = loopback_wait,
    .gather = loopback_gather,
    .share = loopback_share,
    .poll = loopback_poll,
    .abandon = loopback_abandon,
    .close = loopback_close,
};
