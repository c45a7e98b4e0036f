/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/star.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define STAR_MAGIC      UINT32_C(0x54534853)
#define STAR_ADDRESSES  16u
#define STAR_MAX_RECORD (1u << 24)
#define STAR_POLL_NS    (NS_PER_MS / 2) /* between two looks at the sockets */
#define TRY_SECONDS     3.0             /* for one address */
#define WORDS_SECONDS   0.25
#define SHARE_GRACE_NS  NS_PER_SECOND /* device 0 knows more: let it time out first */

/** RECORD_HERE: device 0 has come to the vote, and its own deadline begins. */
enum record_kind { RECORD_HELLO = 1, RECORD_GATHER, RECORD_SHARE, RECORD_WORDS, RECORD_HERE };

/** Ahead of each record. */
struct record_head {
    uint32_t magic, kind, vote, bytes;
};

/** What device 0 leaves at the meeting. */
struct star_address {
    uint32_t magic, count;
    uint64_t cookie; /* who does not know it is a stranger */
    uint16_t port;   /* network byte order, like the rest */
    struct {
        uint16_t family;
        uint8_t bytes[16];
        uint32_t scope;
    } list[STAR_ADDRESSES];
};

/** First record of each connection. */
struct star_hello {
    uint64_t cookie;
    uint32_t device, hellos_crc;
};

struct record {
    struct record *next;
    struct record_head head;
    char bytes[];
};

struct link {
    int fd; /* -1: none, or lost */
    bool lost;
    struct record_head head; /* of the record that is coming in */
    uint32_t have;           /* bytes of its head, then of itself */
    bool in_body;
    struct record *coming;
    struct record *first, **last; /* complete, not taken yet */
};

struct star {
    struct members *members;
    struct link *links; /* size; at the root: all but its own, elsewhere: device 0's */
    struct pollfd *polled;
    bool root, has_words;
    struct meet_lost words;
    uint32_t votes;
    int64_t here_ns; /* when device 0 last said that it has come to a vote */
    int64_t next_look_ns;
    int listener;
    uint64_t cookie;
    uint32_t hellos_crc;
};

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

static enum shunt_status explain_lost(struct star *star, uint32_t device, struct shunt_err *err)
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
            st = explain_lost(star, i, err);
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

static bool send_record(int fd, enum record_kind kind, uint32_t vote, const void *bytes, size_t size,
                        const struct deadline *deadline)
{
    struct record_head head = {.magic = STAR_MAGIC, .kind = kind, .vote = vote, .bytes = (uint32_t)size};
    return send_bytes(fd, &head, sizeof(head), deadline) && send_bytes(fd, bytes, size, deadline);
}

static enum shunt_status send_to(struct star *star, uint32_t device, enum record_kind kind, const void *bytes,
                                 size_t size, const struct deadline *deadline, struct shunt_err *err)
{
    struct link *link = &star->links[device];
    struct waited waited = {0};
    if (link->fd < 0)
        return explain_lost(star, device, err);
    if (send_record(link->fd, kind, star->votes, bytes, size, deadline))
        return SHUNT_OK;
    if (!deadline_passed(deadline)) {
        read_link(star, link); /* its last words */
        return explain_lost(star, device, err);
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
            send_record(star->links[i].fd, RECORD_WORDS, 0, &words, sizeof(words), &deadline);
    }
}

/* ---- votes -------------------------------------------------------------------------- */

/* Records of one kind from devices [first, end). */
struct step {
    enum record_kind kind;
    const char *what;
    size_t size;
    char *into;
    uint32_t first, end;
};

static enum shunt_status find_missing(struct star *star, const struct step *step, struct waited *waited, bool *alive,
                                      struct shunt_err *err)
{
    *waited = (struct waited){0};
    *alive = true;
    for (uint32_t i = step->first; i < step->end; i++) {
        bool there = star->links[i].first != NULL;
        if (star->links[i].lost && (!there || step->kind == RECORD_GATHER)) /* who has voted waits for the verdict; */
            return explain_lost(star, i, err);
        if (there) /* with the verdict device 0 may leave */
            continue;
        waited_add(waited, i);
        *alive = *alive && members_seen_alive(star->members, i);
    }
    return SHUNT_OK;
}

/* Who waits for device 0 gives it the time that it gives others itself, from when it has come, and a little more. */
static int64_t last_moment(const struct star *star, const struct step *step, const struct deadline *deadline)
{
    int64_t grace = step->kind == RECORD_SHARE ? SHARE_GRACE_NS : 0, at = deadline->at_ns + grace;
    int64_t own = star->here_ns + (int64_t)(deadline->seconds * 1e9) + grace;
    return step->kind == RECORD_SHARE && own > at ? own : at;
}

/* Finding out who is to be named takes a while, in which what is missing may come after all. */
static enum shunt_status time_out(struct star *star, const struct step *step, struct waited *waited, double seconds,
                                  struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    struct waited missing;
    bool alive;
    enum shunt_status st = members_time_out(star->members, waited, seconds, &cause);
    star_progress(star);
    if (st == SHUNT_ERR_TIMEOUT && find_missing(star, step, &missing, &alive, NULL) == SHUNT_OK && missing.all == 0)
        return SHUNT_OK;
    return shunt_fail(err, st, "%s", cause.text);
}

static enum shunt_status wait_for_records(struct star *star, const struct step *step, const struct deadline *deadline,
                                          struct shunt_err *err)
{
    struct waited waited;
    bool alive;
    snprintf(star->members->where, sizeof(star->members->where), "at the %s", step->what);
    for (uint32_t turns = 0;; turns++) {
        star_progress(star);
        enum shunt_status st = find_missing(star, step, &waited, &alive, err);
        if (st == SHUNT_OK && waited.all == 0) /* no verdict of device 0 when somebody has given up meanwhile */
            return step->kind == RECORD_GATHER ? members_look(star->members, true, err) : SHUNT_OK;
        if (st == SHUNT_OK)
            st = members_look(star->members, false, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline) && clock_now_ns() > last_moment(star, step, deadline) && !alive)
            return time_out(star, step, &waited, deadline->seconds, err);
        if (turns > 100)
            sleep_ns(NS_PER_MS / 10);
    }
}

static enum shunt_status take_record(struct star *star, const struct step *step, uint32_t device, struct shunt_err *err)
{
    struct link *link = &star->links[device];
    struct record *record = link->first;
    char who[160];
    bool good = record->head.kind == step->kind && record->head.vote == star->votes && record->head.bytes == step->size;
    if (good)
        memcpy(step->into + (device - step->first) * step->size, record->bytes, step->size);
    link->first = record->next;
    if (link->first == NULL)
        link->last = &link->first;
    free(record);
    if (good)
        return SHUNT_OK;
    members_print(star->members, device, who, sizeof(who));
    return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s sent a record of another size", step->what, who);
}

static enum shunt_status receive_step(struct star *star, const struct step *step, const struct deadline *deadline,
                                      struct shunt_err *err)
{
    enum shunt_status st = wait_for_records(star, step, deadline, err);
    for (uint32_t i = step->first; i < step->end && st == SHUNT_OK; i++)
        st = take_record(star, step, i, err);
    return st;
}

enum shunt_status star_gather(struct star *star, const void *mine, size_t bytes, void *all, const char *what,
                              const struct deadline *deadline, struct shunt_err *err)
{
    star->votes++;
    snprintf(star->members->where, sizeof(star->members->where), "at the %s", what);
    if (!star->root)
        return send_to(star, 0, RECORD_GATHER, mine, bytes, deadline, err);
    struct step step = {RECORD_GATHER, what, bytes, (char *)all + bytes, 1, star->members->size};
    memcpy(all, mine, bytes);
    for (uint32_t i = 1; i < star->members->size; i++) {
        if (star->links[i].fd >= 0)
            send_record(star->links[i].fd, RECORD_HERE, star->votes, NULL, 0, deadline);
    }
    return receive_step(star, &step, deadline, err);
}

enum shunt_status star_share(struct star *star, void *bytes, size_t size, const char *what,
                             const struct deadline *deadline, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    star->votes++;
    snprintf(star->members->where, sizeof(star->members->where), "at the %s", what);
    if (!star->root) {
        struct step step = {RECORD_SHARE, what, size, bytes, 0, 1};
        return receive_step(star, &step, deadline, err);
    }
    for (uint32_t i = 1; i < star->members->size && st == SHUNT_OK; i++)
        st = send_to(star, i, RECORD_SHARE, bytes, size, deadline, err);
    return st;
}

/* ---- connecting ----------------------------------------------------------------------- */

static enum shunt_status fail_errno(struct shunt_err *err, const char *what)
{
    return shunt_fail(err, SHUNT_ERR_IO, "control connection: %s: %s", what, strerror(errno));
}

static socklen_t make_address(struct sockaddr_storage *storage, int family, const void *bytes, uint16_t port,
                              uint32_t scope)
{
    memset(storage, 0, sizeof(*storage));
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)storage;
        in->sin_family = AF_INET;
        in->sin_port = port;
        memcpy(&in->sin_addr, bytes, sizeof(in->sin_addr));
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = port;
    in6->sin6_scope_id = scope;
    memcpy(&in6->sin6_addr, bytes, sizeof(in6->sin6_addr));
    return sizeof(*in6);
}

static void add_address(struct star_address *address, const struct ifaddrs *one)
{
    if (one->ifa_addr == NULL || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0 ||
        address->count == STAR_ADDRESSES)
        return;
    int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
        return;
    address->list[address->count].family = (uint16_t)family;
    if (family == AF_INET) {
        memcpy(address->list[address->count].bytes, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, 4);
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)one->ifa_addr;
        memcpy(address->list[address->count].bytes, &in6->sin6_addr, 16);
        address->list[address->count].scope = in6->sin6_scope_id;
    }
    address->count++;
}

/* Opens the port: on one machine for itself alone, else for all that can reach this machine. */
static enum shunt_status listen_here(struct star *star, struct star_address *address, struct shunt_err *err)
{
    const unsigned char own[16] = {127, 0, 0, 1}, any[16] = {0};
    bool apart = !star->members->one_machine;
    struct sockaddr_storage storage;
    struct ifaddrs *all = NULL;
    int family = apart ? AF_INET6 : AF_INET, off = 0;
    star->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (star->listener < 0 && apart) {
        family = AF_INET;
        star->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (star->listener < 0)
        return fail_errno(err, "socket");
    if (family == AF_INET6)
        setsockopt(star->listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    socklen_t size = make_address(&storage, family, apart ? any : own, 0, 0);
    if (bind(star->listener, (struct sockaddr *)&storage, size) != 0 ||
        listen(star->listener, (int)star->members->size) != 0 ||
        getsockname(star->listener, (struct sockaddr *)&storage, &size) != 0)
        return fail_errno(err, "listen");
    address->port =
        family == AF_INET6 ? ((struct sockaddr_in6 *)&storage)->sin6_port : ((struct sockaddr_in *)&storage)->sin_port;
    if (apart && getifaddrs(&all) == 0) {
        for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
            add_address(address, one);
        freeifaddrs(all);
    }
    return SHUNT_OK;
}

/* Somebody has called. Who does not say the cookie is not heard of again. */
static enum shunt_status greet(struct star *star, int fd, const struct deadline *deadline, struct shunt_err *err)
{
    struct link link = {.fd = fd, .last = &link.first};
    struct star_hello hello;
    while (link.fd >= 0 && link.first == NULL && !deadline_passed(deadline)) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        poll(&polled, 1, 20);
        read_link(star, &link);
    }
    bool whole = link.fd >= 0 && link.first != NULL && link.first->head.bytes == sizeof(hello);
    if (whole)
        memcpy(&hello, link.first->bytes, sizeof(hello));
    free(link.first);
    free(link.coming);
    if (!whole || hello.cookie != star->cookie || hello.device == 0 || hello.device >= star->members->size ||
        star->links[hello.device].fd >= 0) {
        if (link.fd >= 0)
            close(link.fd);
        return SHUNT_OK;
    }
    star->links[hello.device].fd = fd;
    if (hello.hellos_crc != star->hellos_crc)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "device %u has met other processes than this one: records of an earlier run at the meeting?",
                          hello.device);
    return SHUNT_OK;
}

static void tune(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)); /* for a machine that is gone without a word */
}

static enum shunt_status accept_all(struct star *star, const struct deadline *deadline, struct shunt_err *err)
{
    for (;;) {
        struct waited waited = {0};
        for (uint32_t i = 1; i < star->members->size; i++) {
            if (star->links[i].fd < 0)
                waited_add(&waited, i);
        }
        if (waited.all == 0)
            return SHUNT_OK;
        struct pollfd polled = {.fd = star->listener, .events = POLLIN};
        poll(&polled, 1, 20);
        int fd = accept4(star->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            tune(fd);
        enum shunt_status st = fd >= 0 ? greet(star, fd, deadline, err) : members_look(star->members, false, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline))
            return members_time_out(star->members, &waited, deadline->seconds, err);
    }
}

static int try_address(const struct sockaddr_storage *storage, socklen_t size, const struct deadline *deadline)
{
    struct deadline own = deadline_after(TRY_SECONDS);
    int fd = socket(storage->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t error_size = sizeof(error);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)storage, size) == 0)
        return fd;
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    error = errno;
    while (error == EINPROGRESS && !deadline_passed(deadline) && !deadline_passed(&own)) {
        if (poll(&polled, 1, 20) <= 0)
            continue;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
        if (error == 0)
            return fd;
    }
    close(fd);
    errno = error;
    return -1;
}

static int try_all(const struct star *star, const struct star_address *address, const struct deadline *deadline)
{
    const unsigned char own[16] = {127, 0, 0, 1};
    struct sockaddr_storage storage;
    socklen_t size = make_address(&storage, AF_INET, own, address->port, 0);
    int fd = star->members->list[0].here ? try_address(&storage, size, deadline) : -1;
    for (uint32_t i = 0; i < address->count && i < STAR_ADDRESSES && fd < 0; i++) {
        size = make_address(&storage, address->list[i].family, address->list[i].bytes, address->port,
                            address->list[i].scope);
        fd = try_address(&storage, size, deadline);
    }
    return fd;
}

static enum shunt_status connect_to_root(struct star *star, const struct deadline *deadline, struct shunt_err *err)
{
    struct star_address address = {0};
    struct star_hello hello = {.device = star->members->self, .hellos_crc = star->hellos_crc};
    size_t size;
    char who[160];
    enum shunt_status st =
        meet_get(star->members->meet, MEET_ADDRESS, 0, &address, sizeof(address), &size, deadline, err);
    if (st != SHUNT_OK)
        return st;
    if (size != sizeof(address) || address.magic != STAR_MAGIC || address.count > STAR_ADDRESSES)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "the address record of device 0 is malformed");
    hello.cookie = address.cookie;
    int fd = try_all(star, &address, deadline);
    if (fd >= 0) {
        tune(fd);
        star->links[0].fd = fd;
        if (send_record(fd, RECORD_HELLO, 0, &hello, sizeof(hello), deadline))
            return SHUNT_OK;
    }
    int error = errno;
    st = members_find_cause(star->members, err);
    if (st != SHUNT_OK)
        return st;
    members_print(star->members, 0, who, sizeof(who));
    star->members->lost_device = 0;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s is lost: %s, while connecting to it", who, strerror(error));
}

static enum shunt_status be_root(struct star *star, const struct deadline *deadline, struct shunt_err *err)
{
    struct star_address address = {.magic = STAR_MAGIC};
    if (getrandom(&star->cookie, sizeof(star->cookie), 0) != sizeof(star->cookie))
        return fail_errno(err, "getrandom");
    address.cookie = star->cookie;
    enum shunt_status st = listen_here(star, &address, err);
    if (st == SHUNT_OK)
        st = star->members->meet->ops->put(star->members->meet, MEET_ADDRESS, &address, sizeof(address), err);
    if (st == SHUNT_OK)
        st = accept_all(star, deadline, err);
    if (star->listener >= 0)
        close(star->listener);
    star->listener = -1;
    return st;
}

void star_close(struct star *star)
{
    if (star == NULL)
        return;
    for (uint32_t i = 0; i < star->members->size && star->links != NULL; i++) {
        struct link *link = &star->links[i];
        if (link->fd >= 0)
            close(link->fd);
        free(link->coming);
        while (link->first != NULL) {
            struct record *record = link->first;
            link->first = record->next;
            free(record);
        }
    }
    free(star->links);
    free(star->polled);
    free(star);
}

enum shunt_status star_open(struct members *members, uint32_t hellos_crc, const struct deadline *deadline,
                            struct star **star_out, struct shunt_err *err)
{
    struct star *star = calloc(1, sizeof(*star));
    if (star != NULL) {
        *star = (struct star){.members = members, .root = members->self == 0, .listener = -1, .hellos_crc = hellos_crc};
        star->links = calloc(members->size, sizeof(*star->links));
        star->polled = calloc(members->size, sizeof(*star->polled));
    }
    if (star == NULL || star->links == NULL || star->polled == NULL) {
        star_close(star);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u connections", members->size);
    }
    for (uint32_t i = 0; i < members->size; i++) {
        star->links[i].fd = -1;
        star->links[i].last = &star->links[i].first;
    }
    enum shunt_status st = star->root ? be_root(star, deadline, err) : connect_to_root(star, deadline, err);
    uint64_t nothing = 0;
    if (st == SHUNT_OK) /* that all are connected */
        st = star_share(star, &nothing, sizeof(nothing), "meeting", deadline, err);
    if (st != SHUNT_OK)
        star_close(star);
    else
        *star_out = star;
    return st;
}
