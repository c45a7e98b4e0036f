/* SPDX-License-Identifier: Apache-2.0 */
/** Control connections: two members find each other whoever else calls, and lose nothing of their votes. */

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "launch/board.h"
#include "transport/star_internal.h"

#define SIZE    2
#define SECONDS 30.0 /* against a hang */

struct end {
    struct meet *meet;
    struct members members;
    struct member list[SIZE];
    struct star *star;
    enum shunt_status status;
    struct shunt_err err;
};

static bool progress(void *ctx)
{
    return star_progress(((struct end *)ctx)->star);
}

static bool take_last_words(void *ctx, struct meet_lost *lost_out)
{
    return star_take_last_words(((struct end *)ctx)->star, lost_out);
}

static void join(struct end *end, int fd, uint32_t rank)
{
    struct board *seen;
    memset(end, 0, sizeof(*end));
    CHECK_EQ_U64(board_join(fd, rank, SIZE, 1, &end->meet, &seen, &end->err), SHUNT_OK);
    end->members = (struct members){.meet = end->meet,
                                    .size = SIZE,
                                    .self = rank,
                                    .list = end->list,
                                    .one_machine = true,
                                    .patience_seconds = 0.4,
                                    .ctx = end,
                                    .progress = progress,
                                    .take_last_words = take_last_words};
    end->list[0].here = end->list[1].here = true;
}

static void *open_end(void *arg)
{
    struct end *end = arg;
    struct deadline deadline = deadline_after(SECONDS);
    end->status = star_open(&end->members, 7, &deadline, &end->star, &end->err);
    return NULL;
}

/* ---- strangers ---------------------------------------------------------------------- */

enum stranger { NOBODY, SILENT, GONE, HALF_A_HELLO, WORDS, LARGE, WRONG_COOKIE, WRONG_DEVICE, NOISE, STRANGERS };

static const char *const stranger_names[STRANGERS] = {
    "nobody", "silent", "gone", "half a hello", "words", "large record", "wrong cookie", "wrong device", "noise"};

static size_t what_it_says(enum stranger stranger, const struct star_address *address, char *bytes)
{
    struct record_head head = {.magic = STAR_MAGIC, .kind = RECORD_HELLO, .bytes = sizeof(struct star_hello)};
    struct star_hello hello = {.cookie = address->cookie, .device = 1, .hellos_crc = 7};
    struct meet_lost words = {.device = 1, .status = SHUNT_ERR_PEER, .text = "I am a stranger"};
    const void *body = &hello;
    size_t size = sizeof(hello);
    if (stranger == NOBODY || stranger == SILENT || stranger == GONE)
        return 0;
    if (stranger == WORDS) {
        head.kind = RECORD_WORDS;
        head.bytes = sizeof(words);
        body = &words;
        size = sizeof(words);
    }
    head.bytes = stranger == LARGE ? UINT32_C(0xffffffff) : head.bytes;
    head.magic = stranger == NOISE ? 0 : head.magic;
    hello.cookie ^= stranger == WRONG_COOKIE;
    hello.device = stranger == WRONG_DEVICE ? SIZE : 1;
    size = stranger == HALF_A_HELLO ? size / 2 : size;
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), body, size);
    return sizeof(head) + size;
}

/* Calls before the member does. @return the connection */
static int call(enum stranger stranger, struct meet *meet)
{
    struct star_address address;
    struct shunt_err err = {{0}};
    struct deadline deadline = deadline_after(SECONDS);
    char bytes[4096];
    size_t size;
    CHECK_EQ_U64(meet_get(meet, MEET_ADDRESS, 0, &address, sizeof(address), &size, &deadline, &err), SHUNT_OK);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = address.port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    size = what_it_says(stranger, &address, bytes);
    CHECK(size == 0 || send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
    if (stranger != GONE)
        return fd;
    close(fd);
    return -1;
}

/* ---- cases -------------------------------------------------------------------------- */

static void *vote_at_root(void *arg)
{
    struct end *end = arg;
    struct deadline deadline = deadline_after(SECONDS);
    uint64_t all[SIZE] = {0}, mine = 40, sum = 0;
    end->status = star_gather(end->star, &mine, sizeof(mine), all, "sum", &deadline, &end->err);
    sum = all[0] + all[1];
    if (end->status == SHUNT_OK)
        end->status = star_share(end->star, &sum, sizeof(sum), "sum", &deadline, &end->err);
    return NULL;
}

static void check_votes(struct end *root, struct end *member, const char *name)
{
    struct deadline deadline = deadline_after(SECONDS);
    struct shunt_err err = {{0}};
    struct meet_lost words;
    uint64_t mine = 2, sum = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, vote_at_root, root) == 0);
    bool good = star_gather(member->star, &mine, sizeof(mine), NULL, "sum", &deadline, &err) == SHUNT_OK &&
                star_share(member->star, &sum, sizeof(sum), "sum", &deadline, &err) == SHUNT_OK;
    pthread_join(thread, NULL);
    CHECK_MSG(good && root->status == SHUNT_OK && sum == 42, "%s: %s%s", name, err.text, root->err.text);
    CHECK_MSG(!star_take_last_words(root->star, &words), "%s: %s", name, words.text);
}

static void strangers_are_not_heard(void)
{
    for (enum stranger stranger = NOBODY; stranger < STRANGERS; stranger++) {
        struct board *board;
        struct shunt_err err = {{0}};
        struct end ends[SIZE];
        pthread_t thread;
        int fd, other = -1;
        CHECK_EQ_U64(board_create(SIZE, 1, &board, &fd, &err), SHUNT_OK);
        join(&ends[0], dup(fd), 0);
        join(&ends[1], fd, 1);
        CHECK(pthread_create(&thread, NULL, open_end, &ends[0]) == 0);
        if (stranger != NOBODY)
            other = call(stranger, ends[1].meet);
        open_end(&ends[1]);
        pthread_join(thread, NULL);
        for (int i = 0; i < SIZE; i++)
            CHECK_MSG(ends[i].status == SHUNT_OK, "%s: device %d: %s", stranger_names[stranger], i, ends[i].err.text);
        if (ends[0].star != NULL && ends[1].star != NULL)
            check_votes(&ends[0], &ends[1], stranger_names[stranger]);
        for (int i = 0; i < SIZE; i++) {
            star_close(ends[i].star);
            meet_close(ends[i].meet);
        }
        if (other >= 0)
            close(other);
        board_destroy(board);
    }
}

/** Without the member: the deadline names it, and not whoever called. */
static void the_missing_member_is_named(void)
{
    struct board *board;
    struct shunt_err err = {{0}};
    struct deadline deadline = deadline_after(0.5);
    struct end root;
    int fd;
    CHECK_EQ_U64(board_create(SIZE, 1, &board, &fd, &err), SHUNT_OK);
    join(&root, fd, 0);
    snprintf(root.members.where, sizeof(root.members.where), "at the meeting");
    CHECK_EQ_U64(star_open(&root.members, 7, &deadline, &root.star, &root.err), SHUNT_ERR_TIMEOUT);
    CHECK_MSG(strstr(root.err.text, "device 1") != NULL, "%s", root.err.text);
    meet_close(root.meet);
    board_destroy(board);
}

static const struct test_case cases[] = {
    {"strangers_are_not_heard", strangers_are_not_heard},
    {"the_missing_member_is_named", the_missing_member_is_named},
};

TEST_MAIN(cases)
