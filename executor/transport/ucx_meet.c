/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How the processes find each other: a hello record tells who and where, which decides the
 * transports; the second record carries the addresses of the workers that were then opened.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shunt/exec.h"
#include "transport/ucx.h"

#define ADDRESS_MAGIC UINT32_C(0x31414853)

/* ---- hello ---------------------------------------------------------------------- */

/* cma: can the memory of that process be read? */
static bool can_read(const struct member_hello *hello)
{
    uint64_t value = 0;
    struct iovec here = {.iov_base = &value, .iov_len = sizeof(value)};
    struct iovec there = {.iov_base = (void *)(uintptr_t)hello->probe, .iov_len = sizeof(value)};
    return process_vm_readv((pid_t)hello->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof(value) &&
           value == hello->nonce;
}

/* One neighbour on the same machine is tried: the next one, so that each process is tried once. */
static void try_neighbour(struct ucx *ucx, const struct member_hello *hellos)
{
    ucx->cma = true;
    for (uint32_t step = 1; step < ucx->base.size; step++) {
        uint32_t device = (ucx->base.first_local + step) % ucx->base.size;
        if (!ucx->members.list[device].here)
            continue;
        ucx->cma = can_read(&hellos[device]);
        if (!ucx->cma)
            fprintf(stderr,
                    "shunt-exec: device %u: cannot read the memory of device %u (%s): using shared memory without "
                    "cma, which is slower\n",
                    ucx->base.first_local, device, strerror(errno));
        return;
    }
}

static enum shunt_status exchange_hellos(struct ucx *ucx, uint32_t *crc_out, const struct deadline *deadline,
                                         struct shunt_err *err)
{
    struct member_hello *hellos = calloc(ucx->base.size, sizeof(*hellos));
    if (hellos == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u devices", ucx->base.size);
    enum shunt_status st = members_meet(&ucx->members, hellos, deadline, err);
    for (uint32_t i = 0; i < ucx->base.size && st == SHUNT_OK; i++)
        ucx->peers[i].here = ucx->members.list[i].here;
    if (st == SHUNT_OK) {
        try_neighbour(ucx, hellos);
        *crc_out = shunt_crc32c(0, hellos, ucx->base.size * sizeof(*hellos));
    }
    free(hellos);
    return st;
}

/* ---- addresses ------------------------------------------------------------------ */

static enum shunt_status open_workers(struct ucx *ucx, struct shunt_err *err)
{
    bool user_tls = getenv("UCX_TLS") != NULL, user_devices = getenv("UCX_NET_DEVICES") != NULL;
    struct ucx_choice control = {.tls = "tcp,self"}, local = {.tls = ucx->cma ? "posix,cma,self" : "posix,self"},
                      remote = {.tls = "^sm"};
    if (ucx->members.one_machine && !user_devices)
        control.devices = local.devices = "lo";
    if (user_tls)
        local.tls = remote.tls = NULL;
    if (getenv("UCX_POSIX_DIR") == NULL)
        segments_enter(&ucx->segments);
    if (ucx->segments.fd >= 0)
        local.segment_dir = ucx->segments.dir;
    enum shunt_status st = ucx_worker_open(&ucx->control, "control", &control, err);
    if (st == SHUNT_OK)
        st = ucx_worker_open(&ucx->local, "local data", &local, err);
    if (st == SHUNT_OK && !ucx->members.one_machine)
        st = ucx_worker_open(&ucx->remote, "remote data", &remote, err);
    segments_leave(&ucx->segments);
    return st;
}

static enum shunt_status put_address(struct ucx *ucx, uint32_t hellos_crc, struct shunt_err *err)
{
    unsigned char *record = calloc(1, MEET_MAX_BYTES);
    if (record == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    struct ucx_address_head *head = (struct ucx_address_head *)record;
    size_t used = sizeof(*head);
    *head = (struct ucx_address_head){.magic = ADDRESS_MAGIC, .hellos_crc = hellos_crc};
    enum shunt_status st =
        ucx_worker_address(&ucx->control, record + used, MEET_MAX_BYTES - used, &head->control_bytes, err);
    used += head->control_bytes;
    if (st == SHUNT_OK)
        st = ucx_worker_address(&ucx->local, record + used, MEET_MAX_BYTES - used, &head->local_bytes, err);
    used += head->local_bytes;
    if (st == SHUNT_OK)
        st = ucx_worker_address(&ucx->remote, record + used, MEET_MAX_BYTES - used, &head->remote_bytes, err);
    used += head->remote_bytes;
    if (st == SHUNT_OK)
        st = ucx->members.meet->ops->put(ucx->members.meet, MEET_ADDRESS, record, used, err);
    free(record);
    return st;
}

static enum shunt_status get_address(struct ucx *ucx, uint32_t device, uint32_t hellos_crc,
                                     const struct deadline *deadline, struct shunt_err *err)
{
    struct ucx_peer *peer = &ucx->peers[device];
    size_t size;
    peer->record = calloc(1, MEET_MAX_BYTES);
    if (peer->record == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    enum shunt_status st =
        meet_get(ucx->members.meet, MEET_ADDRESS, device, peer->record, MEET_MAX_BYTES, &size, deadline, err);
    if (st != SHUNT_OK)
        return st;
    const struct ucx_address_head *head = (const struct ucx_address_head *)peer->record;
    uint64_t want = sizeof(*head);
    if (size >= want)
        want += (uint64_t)head->control_bytes + head->local_bytes + head->remote_bytes;
    if (size != want || head->magic != ADDRESS_MAGIC || head->control_bytes == 0 || head->local_bytes == 0 ||
        (head->remote_bytes == 0) != ucx->members.one_machine)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "the address record of device %u is malformed", device);
    if (head->hellos_crc != hellos_crc)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "device %u has met other processes than this one: records of an earlier run at the meeting?",
                          device);
    /* what is not needed is not kept: most of the room */
    unsigned char *less = realloc(peer->record, size);
    peer->record = less != NULL ? less : peer->record;
    return SHUNT_OK;
}

const void *ucx_peer_address(const struct ucx_peer *peer, const struct ucx_worker *worker)
{
    const struct ucx_address_head *head = (const struct ucx_address_head *)peer->record;
    const unsigned char *at = peer->record + sizeof(*head);
    if (worker == &peer->owner->control)
        return at;
    at += head->control_bytes;
    return worker == &peer->owner->local ? at : at + head->local_bytes;
}

enum shunt_status ucx_meet_all(struct ucx *ucx, const struct deadline *deadline, struct shunt_err *err)
{
    uint32_t hellos_crc = 0;
    meet_beat(ucx->members.meet, MEET_MEETING, 0);
    enum shunt_status st = exchange_hellos(ucx, &hellos_crc, deadline, err);
    if (st == SHUNT_OK)
        st = open_workers(ucx, err);
    if (st == SHUNT_OK)
        st = put_address(ucx, hellos_crc, err);
    for (uint32_t i = 0; i < ucx->base.size && st == SHUNT_OK; i++)
        st = get_address(ucx, i, hellos_crc, deadline, err);
    return st;
}
