/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/star_internal.h"

#define STAR_MAX_RECORD (1u << 24)
#define STAR_POLL_NS    (NS_PER_MS / 2) /* between two looks at the sockets */
#define WORDS_SECONDS   0.25

/* ---- records in ------------------------------------------------------------------- */

static void lose(struct link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->lost = true;
    free(link->coming);
    link->coming = NULL;
}

static void keep_words(struct star *star, const struct record *record)
{
    if (star->has_words || record->head.bytes != sizeof(star->words))
        return;
    memcpy(&star->words, record->bytes, sizeof(star->words));
    star->words.text[sizeof(star->words.text) - 1] = '\0';
    star->has_words = star->words.device < star->members->size;
}

static void finish_record(struct star *star, struct link *link)
{
    struct record *record = link->coming;
    link->coming = NULL;
    link->have = 0;
    link->in_body = false;
    if (record->head.kind == RECORD_WORDS)
        keep_words(star, record);
    if (record->head.kind == RECORD_HERE)
        star->here_ns = clock_now_ns();
    if (record->head.kind == RECORD_WORDS || record->head.kind == RECORD_HERE) {
        free(record);
        return;
    }
    *link->last = record;
    link->last = &record->next;
}

/* The head is there: make room for the rest. */
static void begin_body(struct star *star, struct link *link)
{
    link->in_body = true;
    link->have = 0;
    if (link->head.magic == STAR_MAGIC && link->head.bytes <= STAR_MAX_RECORD)
        link->coming = calloc(1, sizeof(*link->coming) + link->head.bytes);
    if (link->coming == NULL) {
        lose(link);
        return;
    }
    link->coming->head = link->head;
    if (link->head.bytes == 0)
        finish_record(star, link);
}

static bool read_link(struct star *star, struct link *link)
{
    bool moved = false;
    while (link->fd >= 0) {
        char *at = link->in_body ? link->coming->bytes : (char *)&link->head;
        uint32_t want = link->in_body ? link->head.bytes : (uint32_t)sizeof(link->head);
        ssize_t n = recv(link->fd, at + link->have, want - link->have, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return moved;
        if (n <= 0) {
            lose(link);
            return true;
        }
        moved = true;
        link->have += (uint32_t)n;
        if (link->have < want)
            continue;
        if (link->in_body)
            finish_record(star, link);
        else
            begin_body(star, link);
    }
    return moved;
}

bool star_progress(struct star *star)
{
    nfds_t count = 0;
    bool moved = false;
    if (star == NULL)
        return false;
    for (uint32_t i = 0; i < star->members->size; i++) {
        if (star->links[i].fd >= 0)
            star->polled[count++] = (struct pollfd){.fd = star->links[i].fd, .events = POLLIN};
    }
    if (count == 0 || poll(star->polled, count, 0) <= 0)
        return false;
    for (uint32_t i = 0, at = 0; i < star->members->size && at < count; i++) {
        struct link *link = &star->links[i];
        if (link->fd < 0 || link->fd != star->polled[at].fd)
            continue;
        if (star->polled[at++].revents != 0)
            moved = read_link(star, link) || moved;
    }
    return moved;
}

bool star_take_last_words(struct star *star, struct meet_lost *lost_out)
{
    if (star == NULL || !star->has_words)
        return false;
    star->has_words = false;
    *lost_out = star->words;
    return true;
}

/* ---- failures --------------------------------------------------------------------- */

enum shunt_status star_explain_lost(struct star *star, uint32_t device, struct shunt_err *err)
{
    char who[160];
    enum shunt_status st = members_find_cause(star->members, err);
    if (st != SHUNT_OK)
        return st;
    members_print(star->members, device, who, sizeof(who));
    star->members->lost_device = device;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s is lost: its connection has ended, %s", who, star->members->where);
}

enum shunt_status star_poll(struct star *star, struct shunt_err *err)
{
    int64_t now = clock_now_ns();
    if (now < star->next_look_ns)
        return members_look(star->members, false, err);
    star->next_look_ns = now + STAR_POLL_NS;
    star_progress(star);
    enum shunt_status st = members_look(star->members, false, err);
    for (uint32_t i = 0; i < star->members->size && st == SHUNT_OK; i++) {
        if (star->links[i].lost)
            st = star_explain_lost(star, i, err);
    }
    return st;
}

/* ---- records out -------------------------------------------------------------------- */

/* Whole, unless the other end does not take it in time. */
static bool send_bytes(int fd, const void *bytes, size_t size, const struct deadline *deadline)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return false;
        if (n > 0) {
            at += n;
            size -= (size_t)n;
            continue;
        }
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        if (deadline_passed(deadline))
            return false;
        poll(&polled, 1, 20);
    }
    return true;
}

bool star_send_record(int fd, enum record_kind kind, uint32_t vote, const void *bytes, size_t size,
                      const struct deadline *deadline)
{
    struct record_head head = {.magic = STAR_MAGIC, .kind = kind, .vote = vote, .bytes = (uint32_t)size};
    return send_bytes(fd, &head, sizeof(head), deadline) && send_bytes(fd, bytes, size, deadline);
}

enum shunt_status star_send_to(struct star *star, uint32_t device, enum record_kind kind, const void *bytes,
                               size_t size, const struct deadline *deadline, struct shunt_err *err)
{
    struct link *link = &star->links[device];
    struct waited waited = {0};
    if (link->fd < 0)
        return star_explain_lost(star, device, err);
    if (star_send_record(link->fd, kind, star->votes, bytes, size, deadline))
        return SHUNT_OK;
    if (!deadline_passed(deadline)) {
        read_link(star, link); /* its last words */
        return star_explain_lost(star, device, err);
    }
    waited_add(&waited, device);
    return members_time_out(star->members, &waited, deadline->seconds, err);
}

void star_last_words(struct star *star, enum shunt_status status, const char *text)
{
    struct meet_lost words = {.device = star->members->lost_device, .status = (uint32_t)status};
    struct deadline deadline = deadline_after(WORDS_SECONDS);
    snprintf(words.text, sizeof(words.text), "%s", text);
    for (uint32_t i = 0; i < star->members->size; i++) {
        if (star->links[i].fd >= 0)
            star_send_record(star->links[i].fd, RECORD_WORDS, 0, &words, sizeof(words), &deadline);
    }
}
