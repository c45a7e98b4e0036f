/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/star_internal.h"

#define TRY_SECONDS   3.0 /* for one address */
#define HELLO_SECONDS 2.0 /* from a call to its hello */
#define STAR_CALLERS  64u
#define KEEP_SECONDS  10
#define KEEP_PROBES   3

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

/* Interfaces that are up; of one that is named, the first address alone: the port is opened there and nowhere else. */
static void add_address(struct star_address *address, const struct ifaddrs *one, const char *only)
{
    int family = one->ifa_addr == NULL ? AF_UNSPEC : one->ifa_addr->sa_family;
    bool wanted = only != NULL ? address->count == 0 && strcmp(one->ifa_name, only) == 0
                               : (one->ifa_flags & IFF_LOOPBACK) == 0 && address->count < STAR_ADDRESSES;
    if (!wanted || (one->ifa_flags & IFF_UP) == 0 || (family != AF_INET && family != AF_INET6))
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

static enum shunt_status list_addresses(struct star_address *address, const char *only, struct shunt_err *err)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return only == NULL ? SHUNT_OK : fail_errno(err, "getifaddrs");
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
        add_address(address, one, only);
    freeifaddrs(all);
    if (only != NULL && address->count == 0)
        return shunt_fail(err, SHUNT_ERR_USAGE,
                          "SHUNT_INTERFACE: found \"%s\", expected an interface of this machine that is up and has an "
                          "address",
                          only);
    return SHUNT_OK;
}

static int open_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Opens the port: on one machine for itself alone, else at the interface that is named, or for all that can reach it. */
static enum shunt_status listen_here(struct star *star, struct star_address *address, struct shunt_err *err)
{
    const unsigned char own[16] = {127, 0, 0, 1}, any[16] = {0};
    const char *only = getenv("SHUNT_INTERFACE");
    bool apart = !star->members->one_machine, named = apart && only != NULL;
    struct sockaddr_storage storage;
    int family = apart ? AF_INET6 : AF_INET, off = 0;
    enum shunt_status st = apart ? list_addresses(address, only, err) : SHUNT_OK;
    if (st != SHUNT_OK)
        return st;
    if (named)
        family = address->list[0].family;
    star->listener = open_socket(family);
    if (star->listener < 0 && apart && !named) {
        family = AF_INET;
        star->listener = open_socket(family);
    }
    if (star->listener < 0)
        return fail_errno(err, "socket");
    if (family == AF_INET6)
        setsockopt(star->listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    socklen_t size = make_address(&storage, family,
                                  named   ? address->list[0].bytes
                                  : apart ? any
                                          : own,
                                  0, named ? address->list[0].scope : 0);
    if (bind(star->listener, (struct sockaddr *)&storage, size) != 0 ||
        listen(star->listener, (int)star->members->size) != 0 ||
        getsockname(star->listener, (struct sockaddr *)&storage, &size) != 0)
        return fail_errno(err, "listen");
    address->port =
        family == AF_INET6 ? ((struct sockaddr_in6 *)&storage)->sin6_port : ((struct sockaddr_in *)&storage)->sin_port;
    return SHUNT_OK;
}

/* Who has called and not said the cookie yet. */
struct caller {
    int fd;
    size_t have;
    struct {
        struct record_head head;
        struct star_hello hello;
    } said;
    struct deadline deadline;
};

struct callers {
    struct caller list[STAR_CALLERS];
    struct pollfd polled[STAR_CALLERS + 1]; /* and the port */
    uint32_t count;
};

static void tune(int fd)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1}, /* the rest is for a machine that is gone without a word */
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_SECONDS},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_SECONDS},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

/* @return whether it is a member that was missing: its connection is kept */
static bool is_member(const struct star *star, const struct caller *caller)
{
    const struct record_head *head = &caller->said.head;
    const struct star_hello *hello = &caller->said.hello;
    return head->magic == STAR_MAGIC && head->kind == RECORD_HELLO && head->bytes == sizeof(*hello) &&
           hello->cookie == star->cookie && hello->device != 0 && hello->device < star->members->size &&
           star->links[hello->device].fd < 0;
}

/* Takes in what a caller says: nothing but a hello. @return whether there is more to hear */
static bool hear(struct star *star, struct caller *caller, enum shunt_status *st, struct shunt_err *err)
{
    ssize_t n = recv(caller->fd, (char *)&caller->said + caller->have, sizeof(caller->said) - caller->have, 0);
    bool later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    caller->have += n > 0 ? (size_t)n : 0;
    if ((later || n > 0) && caller->have < sizeof(caller->said) && !deadline_passed(&caller->deadline))
        return true;
    if (caller->have < sizeof(caller->said) || !is_member(star, caller)) {
        close(caller->fd);
        return false;
    }
    star->links[caller->said.hello.device].fd = caller->fd;
    if (caller->said.hello.hellos_crc != star->hellos_crc)
        *st = shunt_fail(err, SHUNT_ERR_MISMATCH,
                         "device %u has met other processes than this one: records of an earlier run at the meeting?",
                         caller->said.hello.device);
    return false;
}

/* One more caller, if somebody calls and there is room to listen to them. */
static enum shunt_status take_call(struct star *star, struct callers *callers, struct shunt_err *err)
{
    if (callers->count == STAR_CALLERS)
        return SHUNT_OK;
    int fd = accept4(star->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        return fail_errno(err, "accept"); /* all else is about a caller that is gone */
    if (fd < 0)
        return SHUNT_OK;
    tune(fd);
    callers->list[callers->count++] = (struct caller){.fd = fd, .deadline = deadline_after(HELLO_SECONDS)};
    return SHUNT_OK;
}

static enum shunt_status hear_callers(struct star *star, struct callers *callers, struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < callers->count; i++) {
        if (st != SHUNT_OK || hear(star, &callers->list[i], &st, err))
            callers->list[kept++] = callers->list[i];
    }
    callers->count = kept;
    return st;
}

static void wait_for_calls(struct star *star, struct callers *callers)
{
    nfds_t count = callers->count < STAR_CALLERS ? 1 : 0; /* with a full list, those in it have their time first */
    callers->polled[0] = (struct pollfd){.fd = star->listener, .events = POLLIN};
    for (uint32_t i = 0; i < callers->count; i++)
        callers->polled[count++] = (struct pollfd){.fd = callers->list[i].fd, .events = POLLIN};
    poll(callers->polled, count, 20);
}

static enum shunt_status listen_to(struct star *star, struct callers *callers, const struct deadline *deadline,
                                   struct shunt_err *err)
{
    for (;;) {
        struct waited waited = {0};
        for (uint32_t i = 1; i < star->members->size; i++) {
            if (star->links[i].fd < 0)
                waited_add(&waited, i);
        }
        if (waited.all == 0)
            return SHUNT_OK;
        wait_for_calls(star, callers);
        enum shunt_status st = take_call(star, callers, err);
        if (st == SHUNT_OK)
            st = hear_callers(star, callers, err);
        if (st == SHUNT_OK)
            st = members_look(star->members, false, err);
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline))
            return members_time_out(star->members, &waited, deadline->seconds, err);
    }
}

static enum shunt_status accept_all(struct star *star, const struct deadline *deadline, struct shunt_err *err)
{
    struct callers *callers = calloc(1, sizeof(*callers));
    if (callers == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for callers");
    enum shunt_status st = listen_to(star, callers, deadline, err);
    for (uint32_t i = 0; i < callers->count; i++)
        close(callers->list[i].fd);
    free(callers);
    return st;
}

/* @return the connection, or -1 with *error_out saying why there is none */
static int try_address(const struct sockaddr_storage *storage, socklen_t size, const struct deadline *deadline,
                       int *error_out)
{
    struct deadline own = deadline_after(TRY_SECONDS);
    int fd = open_socket(storage->ss_family), error = 0;
    socklen_t error_size = sizeof(error);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)storage, size) == 0)
        return fd;
    error = errno;
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    while (fd >= 0 && error == EINPROGRESS && !deadline_passed(deadline) && !deadline_passed(&own)) {
        if (poll(&polled, 1, 20) <= 0)
            continue;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
        if (error == 0)
            return fd;
    }
    *error_out = error == EINPROGRESS ? ETIMEDOUT : error;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int try_all(const struct star *star, const struct star_address *address, const struct deadline *deadline,
                   int *error_out)
{
    const unsigned char own[16] = {127, 0, 0, 1};
    struct sockaddr_storage storage;
    socklen_t size = make_address(&storage, AF_INET, own, address->port, 0);
    *error_out = EADDRNOTAVAIL;
    int fd = star->members->list[0].here ? try_address(&storage, size, deadline, error_out) : -1;
    for (uint32_t i = 0; i < address->count && i < STAR_ADDRESSES && fd < 0; i++) {
        size = make_address(&storage, address->list[i].family, address->list[i].bytes, address->port,
                            address->list[i].scope);
        fd = try_address(&storage, size, deadline, error_out);
    }
    return fd;
}

static enum shunt_status fail_to_connect(struct star *star, const struct deadline *deadline, int error,
                                         struct shunt_err *err)
{
    char who[160];
    struct waited waited = {0};
    enum shunt_status st = members_find_cause(star->members, err);
    if (st != SHUNT_OK)
        return st;
    waited_add(&waited, 0);
    if (deadline_passed(deadline))
        return members_time_out(star->members, &waited, deadline->seconds, err);
    members_print(star->members, 0, who, sizeof(who));
    star->members->lost_device = 0;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s is lost: %s, while connecting to it", who, strerror(error));
}

enum shunt_status star_call(struct star *star, const struct deadline *deadline, struct shunt_err *err)
{
    struct star_address address = {0};
    struct star_hello hello = {.device = star->members->self, .hellos_crc = star->hellos_crc};
    size_t size;
    int error;
    enum shunt_status st =
        meet_get(star->members->meet, MEET_ADDRESS, 0, &address, sizeof(address), &size, deadline, err);
    if (st != SHUNT_OK)
        return st;
    if (size != sizeof(address) || address.magic != STAR_MAGIC || address.count > STAR_ADDRESSES)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "the address record of device 0 is malformed");
    hello.cookie = address.cookie;
    int fd = try_all(star, &address, deadline, &error);
    if (fd < 0)
        return fail_to_connect(star, deadline, error, err);
    tune(fd);
    star->links[0].fd = fd;
    if (star_send_record(fd, RECORD_HELLO, 0, &hello, sizeof(hello), deadline))
        return SHUNT_OK;
    return fail_to_connect(star, deadline, errno, err);
}

enum shunt_status star_accept(struct star *star, const struct deadline *deadline, struct shunt_err *err)
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
