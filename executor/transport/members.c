/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/members.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "shunt/exec.h"
#include "transport/transport.h"

#define HELLO_MAGIC UINT32_C(0x31484853)

#define CAUSE_GRACE_SECONDS 0.3 /* a broken connection may be the messenger's: wait for the cause */
#define ALIVE_SECONDS       1.0

/* ---- hello ---------------------------------------------------------------------- */

static void read_line(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(text, (int)size, file) == NULL)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

/* Equal for processes that can open each other's /proc/PID/fd and read each other's memory. */
static void make_host_key(char *key, size_t size)
{
    char boot[40], space[64] = "";
    const char *forced = getenv("SHUNT_HOST");
    if (forced != NULL) {
        snprintf(key, size, "%s", forced);
        return;
    }
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);
    space[n > 0 ? n : 0] = '\0';
    snprintf(key, size, "%.36s %.20s", boot, space);
}

static enum shunt_status make_hello(struct members *members, struct shunt_err *err)
{
    struct member_hello *hello = &members->hello;
    *hello = (struct member_hello){.magic = HELLO_MAGIC,
                                   .bytes = sizeof(*hello),
                                   .version = SHUNT_EXEC_VERSION,
                                   .probe = (uint64_t)(uintptr_t)&hello->nonce,
                                   .pid = getpid()};
    if (getrandom(&hello->nonce, sizeof(hello->nonce), 0) != sizeof(hello->nonce))
        return shunt_fail(err, SHUNT_ERR_IO, "getrandom: %s", strerror(errno));
    if (gethostname(hello->host, sizeof(hello->host) - 1) != 0)
        snprintf(hello->host, sizeof(hello->host), "unknown");
    make_host_key(hello->host_key, sizeof(hello->host_key));
    return SHUNT_OK;
}

static enum shunt_status check_hello(const struct members *members, uint32_t device, const struct member_hello *hello,
                                     size_t size, struct shunt_err *err)
{
    if (size < 8 || hello->magic != HELLO_MAGIC)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "what device %u left at the meeting is no hello record", device);
    if (size != sizeof(*hello) || hello->bytes != sizeof(*hello) ||
        memcmp(hello->version, members->hello.version, sizeof(hello->version)) != 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "device %u runs another version of the executor than %s", device,
                          SHUNT_EXEC_VERSION);
    if (memchr(hello->host, '\0', sizeof(hello->host)) == NULL ||
        memchr(hello->host_key, '\0', sizeof(hello->host_key)) == NULL || hello->pid <= 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "the hello record of device %u is malformed", device);
    return SHUNT_OK;
}

enum shunt_status members_meet(struct members *members, struct member_hello *hellos, const struct deadline *deadline,
                               struct shunt_err *err)
{
    enum shunt_status st = make_hello(members, err);
    if (st == SHUNT_OK)
        st = members->meet->ops->put(members->meet, MEET_HELLO, &members->hello, sizeof(members->hello), err);
    members->one_machine = true;
    for (uint32_t i = 0; i < members->size && st == SHUNT_OK; i++) {
        size_t size;
        st = meet_get(members->meet, MEET_HELLO, i, &hellos[i], sizeof(hellos[i]), &size, deadline, err);
        if (st == SHUNT_OK)
            st = check_hello(members, i, &hellos[i], size, err);
        if (st != SHUNT_OK)
            break;
        struct member *member = &members->list[i];
        member->pid = hellos[i].pid;
        member->here = strcmp(hellos[i].host_key, members->hello.host_key) == 0;
        memcpy(member->host, hellos[i].host, sizeof(hellos[i].host));
        members->one_machine = members->one_machine && member->here;
    }
    return st;
}

/* ---- names ---------------------------------------------------------------------- */

void members_print(const struct members *members, uint32_t device, char *text, size_t size)
{
    const struct member *peer = &members->list[device];
    snprintf(text, size, "device %u (pid %" PRId64 ", host %s)", device, peer->pid, peer->host);
}

void members_print_silent(struct members *members, double seconds, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < members->size && used + 200 < size; i++) {
        double silent = meet_silent_seconds(members->meet, i);
        char who[160];
        if (i == members->self || silent < ALIVE_SECONDS || silent < 0.5 * seconds)
            continue;
        members_print(members, i, who, sizeof(who));
        used += (size_t)snprintf(text + used, size - used, ": %s has shown no life for %.1f s", who, silent);
        members->lost_device = i;
    }
}

/* ---- causes --------------------------------------------------------------------- */

enum shunt_status members_look(struct members *members, bool now, struct shunt_err *err)
{
    struct meet_lost lost;
    enum shunt_status st = meet_poll(members->meet, now, err);
    if (st == SHUNT_ERR_PEER)
        members->lost_device = members->meet->lost.device;
    if (st != SHUNT_OK)
        return st;
    if (!members->take_last_words(members->ctx, &lost))
        return SHUNT_OK;
    members->lost_device = lost.device;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s", lost.text);
}

enum shunt_status members_find_cause(struct members *members, struct shunt_err *err)
{
    struct deadline grace = deadline_after(CAUSE_GRACE_SECONDS);
    while (!deadline_passed(&grace)) {
        enum shunt_status st = members_look(members, true, err);
        if (st != SHUNT_OK)
            return st;
        members->progress(members->ctx);
        sleep_ns(NS_PER_MS);
    }
    return SHUNT_OK;
}

/* The round that a process waits in, if its deadline has passed; else -1. */
static int64_t waits_in(struct members *members, uint32_t device)
{
    uint32_t round;
    size_t size = 0;
    bool said =
        members->meet->ops->try_get(members->meet, MEET_WAITED, device, &round, sizeof(round), &size, NULL) == SHUNT_OK;
    return said && size == sizeof(round) ? (int64_t)round : -1;
}

/* Splits the devices by whether they wait as well: in an earlier round, in this one or a later one, or not. */
static void sort_waiters(struct members *members, const struct waited *waited, uint32_t round, struct waited *silent,
                         struct waited *level)
{
    silent->count = level->count = 0;
    for (uint32_t i = 0; i < waited->count; i++) {
        int64_t theirs = waits_in(members, waited->devices[i]);
        if (theirs < 0)
            silent->devices[silent->count++] = waited->devices[i];
        else if (theirs >= (int64_t)round)
            level->devices[level->count++] = waited->devices[i];
    }
}

/*
 * Who waits for a peer that is stuck makes others wait in turn, and all deadlines pass at about the same time. So each
 * says in which round it has waited, and looks who of those it waits for does not say so: that one is stuck. If all do,
 * something got lost on the way to whoever waits in the earliest round; the others leave the word to that one.
 */
enum shunt_status members_hear_waiters(struct members *members, struct waited *waited, struct shunt_err *err)
{
    uint32_t round = members->reached;
    struct deadline patience = deadline_after(members->patience_seconds),
                    despair = deadline_after(2 * members->patience_seconds);
    struct waited silent = {0}, level = {0};
    (void)members->meet->ops->put(members->meet, MEET_WAITED, &round, sizeof(round), NULL);
    do {
        enum shunt_status st = members_find_cause(members, err);
        if (st != SHUNT_OK)
            return st;
        sort_waiters(members, waited, round, &silent, &level);
    } while (silent.count != 0 ? !deadline_passed(&patience) : level.count == 0 && !deadline_passed(&despair));
    const struct waited *named = silent.count != 0 ? &silent : level.count != 0 ? &level : waited;
    waited->count = named->count;
    memmove(waited->devices, named->devices, sizeof(waited->devices));
    if (waited->count != 0)
        members->lost_device = waited->devices[0];
    return SHUNT_OK;
}

void waited_add(struct waited *waited, uint32_t device)
{
    waited->all++;
    for (uint32_t i = 0; i < waited->count; i++) {
        if (waited->devices[i] == device)
            return;
    }
    if (waited->count < WAITED_MAX)
        waited->devices[waited->count++] = device;
}

bool waited_names(const struct waited *waited, uint32_t device)
{
    for (uint32_t i = 0; i < waited->count; i++) {
        if (waited->devices[i] == device)
            return true;
    }
    return false;
}

/* @param count  "2 of 4 devices: ", or nothing */
static enum shunt_status name_waited(struct members *members, struct waited *waited, double seconds, const char *count,
                                     struct shunt_err *err)
{
    char names[400] = "", silent[400];
    size_t used = 0;
    enum shunt_status st = members_hear_waiters(members, waited, err);
    if (st != SHUNT_OK)
        return st;
    for (uint32_t i = 0; i < waited->count; i++) {
        char who[160];
        members_print(members, waited->devices[i], who, sizeof(who));
        if (used + 180 < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ", who);
    }
    members_print_silent(members, seconds, silent, sizeof(silent));
    return shunt_fail(err, SHUNT_ERR_TIMEOUT, "timed out after %g s %s%s; waited for %s%s", seconds, members->where,
                      silent, count, names);
}

enum shunt_status members_late(struct members *members, struct waited *waited, double seconds, struct shunt_err *err)
{
    return name_waited(members, waited, seconds, "", err);
}

enum shunt_status members_time_out(struct members *members, struct waited *waited, double seconds,
                                   struct shunt_err *err)
{
    char count[60];
    snprintf(count, sizeof(count), "%u of %u devices: ", waited->all, members->size);
    return name_waited(members, waited, seconds, count, err);
}

bool members_seen_alive(const struct members *members, uint32_t device)
{
    double silent = meet_silent_seconds(members->meet, device);
    return silent >= 0 && silent < ALIVE_SECONDS;
}

/* ---- where we are ------------------------------------------------------------------ */

void members_enter(struct members *members, uint32_t round)
{
    members->reached = 2 * round;
    if (round == TRANSPORT_PAIR_ROUND) {
        members->reached = 0;
        snprintf(members->where, sizeof(members->where), "while peers compared their messages");
    } else if (round >= TRANSPORT_CHECKSUM_ROUND) {
        members->reached = 2 * (round - TRANSPORT_CHECKSUM_ROUND) + 1;
        snprintf(members->where, sizeof(members->where), "at the checksums of round %u",
                 round - TRANSPORT_CHECKSUM_ROUND);
    } else {
        snprintf(members->where, sizeof(members->where), "in round %u", round);
    }
}
