/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting places: records, hostile records, the first cause, and what stays behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "launch/board.h"
#include "launch/meet.h"

static char dir[64];

static struct meet *join(uint32_t rank)
{
    struct meet *meet = NULL;
    struct shunt_err err = {{0}};
    CHECK_MSG(store_dir_open(dir, "job", rank, 3, &meet, &err) == SHUNT_OK, "%s", err.text);
    return meet;
}

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/shunt-meet-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static void in_job(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/job/%s", dir, name);
}

/* The directory must be as empty as before. */
static void check_clean(void)
{
    CHECK_MSG(rmdir(dir) == 0, "%s: %s", dir, strerror(errno));
}

static void records_go_round(void)
{
    make_dir();
    struct meet *a = join(0), *b = join(1);
    char got[100];
    size_t size = 99;
    struct shunt_err err;
    CHECK_EQ_U64(b->ops->try_get(b, MEET_HELLO, 0, got, sizeof(got), &size, &err), SHUNT_OK);
    CHECK_EQ_U64(size, 0);
    CHECK_EQ_U64(a->ops->put(a, MEET_HELLO, "hello", 6, &err), SHUNT_OK);
    CHECK_EQ_U64(b->ops->try_get(b, MEET_HELLO, 0, got, sizeof(got), &size, &err), SHUNT_OK);
    CHECK_EQ_U64(size, 6);
    CHECK_STR(got, "hello");
    CHECK_EQ_U64(b->ops->try_get(b, MEET_ADDRESS, 0, got, sizeof(got), &size, &err), SHUNT_OK);
    CHECK_EQ_U64(size, 0);
    CHECK_EQ_U64(b->ops->put(b, MEET_HELLO, "x", 1, &err), SHUNT_OK);
    meet_close(a);
    meet_close(b);
    check_clean();
}

static void waits_until_the_deadline(void)
{
    make_dir();
    struct meet *a = join(0);
    char got[10];
    size_t size;
    struct shunt_err err = {{0}};
    CHECK_EQ_U64(a->ops->put(a, MEET_HELLO, "x", 1, &err), SHUNT_OK);
    struct deadline deadline = deadline_after(0.1);
    CHECK_EQ_U64(meet_get(a, MEET_HELLO, 2, got, sizeof(got), &size, &deadline, &err), SHUNT_ERR_TIMEOUT);
    CHECK_CONTAINS(err.text, "device 2");
    meet_close(a);
    check_clean();
}

static void refuses_a_second_run(void)
{
    make_dir();
    struct meet *a = join(0), *again;
    struct shunt_err err = {{0}};
    CHECK_EQ_U64(store_dir_open(dir, "job", 0, 3, &again, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "another run");
    CHECK_CONTAINS(err.text, dir);
    CHECK_CONTAINS(err.text, "remove");
    CHECK_EQ_U64(a->ops->put(a, MEET_HELLO, "x", 1, &err), SHUNT_OK);
    CHECK_EQ_U64(a->ops->put(a, MEET_HELLO, "y", 1, &err), SHUNT_ERR_MISMATCH);
    CHECK_CONTAINS(err.text, "job/hello-0");
    char got[10];
    size_t size = 0;
    CHECK_EQ_U64(a->ops->try_get(a, MEET_HELLO, 0, got, sizeof(got), &size, &err), SHUNT_OK);
    CHECK_EQ_U64(size, 1);
    meet_close(a);
    check_clean();
}

static void first_cause_wins(void)
{
    make_dir();
    struct meet *a = join(0), *b = join(1), *c = join(2);
    struct shunt_err err = {{0}};
    for (int i = 0; i < 3; i++) {
        struct meet *each[] = {a, b, c};
        CHECK_EQ_U64(each[i]->ops->put(each[i], MEET_HELLO, "x", 1, &err), SHUNT_OK);
    }
    CHECK_EQ_U64(meet_poll(b, true, &err), SHUNT_OK);
    meet_report(a, 2, SHUNT_ERR_PEER, "device 2 is lost: first");
    meet_report(c, 1, SHUNT_ERR_PEER, "device 1 is lost: second");
    CHECK_EQ_U64(meet_poll(b, true, &err), SHUNT_ERR_PEER);
    CHECK_STR(err.text, "device 2 is lost: first");
    CHECK_EQ_U64(meet_poll(c, true, &err), SHUNT_ERR_PEER);
    CHECK_STR(err.text, "device 2 is lost: first");
    struct deadline deadline = deadline_after(5);
    char got[10];
    size_t size;
    CHECK_EQ_U64(meet_get(b, MEET_ADDRESS, 2, got, sizeof(got), &size, &deadline, &err), SHUNT_ERR_PEER);
    meet_close(a);
    meet_close(b);
    free(c); /* a killed process: others remove its records (the descriptors leak, as they would not there) */
    check_clean();
}

/* Rank 0 shows life as it looks for causes; of the others nothing is known. */
static void rank_0_shows_life(void)
{
    make_dir();
    struct meet *a = join(0), *b = join(1);
    struct shunt_err err = {{0}};
    CHECK(meet_silent_seconds(b, 0) < 0);
    CHECK_EQ_U64(a->ops->put(a, MEET_HELLO, "x", 1, &err), SHUNT_OK);
    CHECK_EQ_U64(meet_poll(a, true, &err), SHUNT_OK);
    sleep_ns(300 * NS_PER_MS);
    CHECK(meet_silent_seconds(b, 0) >= 0.25); /* file systems count in ticks of the kernel */
    for (int i = 0; i < 2; i++) {
        int64_t begin = clock_now_ns();
        CHECK_EQ_U64(meet_poll(a, true, &err), SHUNT_OK);
        double silent = meet_silent_seconds(b, 0), most = (double)(clock_now_ns() - begin) / 1e9 + 0.05;
        CHECK_MSG(silent >= 0 && silent <= most, "%f of %f s", silent, most);
        sleep_ns(300 * NS_PER_MS);
    }
    CHECK(meet_silent_seconds(b, 0) >= 0.25);
    CHECK(meet_silent_seconds(b, 1) < 0);
    meet_close(a);
    meet_close(b);
    check_clean();
}

/* A run that failed before its first record says so to those who are there, and to no later run. */
static void an_early_failure_is_forgotten(void)
{
    make_dir();
    struct shunt_err err = {{0}};
    struct meet *a = join(0);
    meet_report(a, 0, SHUNT_ERR_IO, "device 0 gave up");
    meet_close(a);
    a = join(0);
    struct meet *b = join(1);
    CHECK_EQ_U64(meet_poll(b, true, &err), SHUNT_OK);
    meet_report(a, 0, SHUNT_ERR_IO, "device 0 gave up");
    meet_close(a);
    CHECK_EQ_U64(meet_poll(b, true, &err), SHUNT_ERR_PEER);
    struct meet *late = join(2);
    CHECK_EQ_U64(meet_poll(late, true, &err), SHUNT_ERR_PEER);
    CHECK_CONTAINS(err.text, "device 0 gave up (found at the meeting on arrival");
    meet_close(b);
    meet_close(late);
    check_clean();
}

/* A cause that lies there with nobody around is of a killed run. */
static void an_old_cause_is_removed(void)
{
    static const char lost[] = "left by a killed run";
    char path[200];
    make_dir();
    snprintf(path, sizeof(path), "%s/job", dir);
    CHECK(mkdir(path, 0700) == 0);
    in_job(path, sizeof(path), "lost");
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, lost, sizeof(lost)) == (ssize_t)sizeof(lost));
    close(fd);
    struct shunt_err err = {{0}};
    struct meet *a = join(0), *b = join(1);
    CHECK_EQ_U64(meet_poll(a, true, &err), SHUNT_OK);
    CHECK_EQ_U64(meet_poll(b, true, &err), SHUNT_OK);
    meet_close(a);
    meet_close(b);
    check_clean();
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    char path[200];
    in_job(path, sizeof(path), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static void refuses_what_is_no_record(void)
{
    static char large[MEET_MAX_BYTES + 64];
    static const struct {
        const char *name;
        const void *bytes;
        size_t size;
    } rows[] = {
        {"empty head", "abc", 3},
        {"wrong magic", "0123456789abcdefpayload", 23},
        {"too large", large, sizeof(large)},
    };
    make_dir();
    struct meet *a = join(0);
    char got[MEET_MAX_BYTES], path[200];
    size_t size;
    struct shunt_err err = {{0}};
    CHECK_EQ_U64(a->ops->put(a, MEET_HELLO, "x", 1, &err), SHUNT_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_file("hello-1", rows[i].bytes, rows[i].size);
        CHECK_MSG(a->ops->try_get(a, MEET_HELLO, 1, got, sizeof(got), &size, &err) == SHUNT_ERR_MISMATCH, "%s",
                  rows[i].name);
    }
    /* a record of rank 0 under rank 1's name, one flipped byte, a FIFO, a link */
    char own[64];
    in_job(path, sizeof(path), "hello-0");
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, own, sizeof(own));
    close(fd);
    CHECK(n == 17);
    write_file("hello-1", own, (size_t)n);
    CHECK_EQ_U64(a->ops->try_get(a, MEET_HELLO, 1, got, sizeof(got), &size, &err), SHUNT_ERR_MISMATCH);
    own[16] ^= 1;
    write_file("hello-0", own, (size_t)n);
    CHECK_EQ_U64(a->ops->try_get(a, MEET_HELLO, 0, got, sizeof(got), &size, &err), SHUNT_ERR_MISMATCH);
    in_job(path, sizeof(path), "hello-1");
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_EQ_U64(a->ops->try_get(a, MEET_HELLO, 1, got, sizeof(got), &size, &err), SHUNT_ERR_IO);
    unlink(path);
    CHECK(symlink("hello-0", path) == 0);
    CHECK_EQ_U64(a->ops->try_get(a, MEET_HELLO, 1, got, sizeof(got), &size, &err), SHUNT_ERR_IO);
    unlink(path);
    write_file("lost", "nonsense", 8);
    CHECK_EQ_U64(meet_poll(a, true, &err), SHUNT_ERR_PEER);
    meet_close(a);
    check_clean();
}

static void refuses_bad_names(void)
{
    static const char *const jobs[] = {"", ".", "..", "a/b", "../x", "a b", ".hidden"};
    struct meet *meet;
    struct shunt_err err;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
        CHECK_MSG(store_dir_open("/tmp", jobs[i], 0, 1, &meet, &err) == SHUNT_ERR_USAGE, "\"%s\"", jobs[i]);
    CHECK_EQ_U64(store_dir_open("/nonexistent/dir", "job", 0, 1, &meet, &err), SHUNT_ERR_IO);
}

static void board_carries_records_and_results(void)
{
    struct board *board, *seen;
    struct meet *a, *b;
    struct shunt_err err = {{0}};
    int fd;
    CHECK_EQ_U64(board_create(2, 1, &board, &fd, &err), SHUNT_OK);
    CHECK_EQ_U64(board_join(dup(fd), 0, 2, 1, &a, &seen, &err), SHUNT_OK);
    CHECK_EQ_U64(board_join(dup(fd), 1, 2, 1, &b, &seen, &err), SHUNT_OK);
    CHECK_EQ_U64(board_join(fd, 2, 2, 1, &b, &seen, &err), SHUNT_ERR_USAGE);
    CHECK_EQ_U64(board_join(fd, 0, 3, 1, &b, &seen, &err), SHUNT_ERR_USAGE);
    CHECK_EQ_U64(board_join(STDIN_FILENO + 900, 0, 2, 1, &b, &seen, &err), SHUNT_ERR_USAGE);
    char got[MEET_MAX_BYTES];
    size_t size;
    CHECK_EQ_U64(a->ops->put(a, MEET_ADDRESS, "address", 8, &err), SHUNT_OK);
    CHECK_EQ_U64(a->ops->put(a, MEET_ADDRESS, got, MEET_MAX_BYTES + 1, &err), SHUNT_ERR_INTERNAL);
    CHECK_EQ_U64(b->ops->try_get(b, MEET_ADDRESS, 0, got, sizeof(got), &size, &err), SHUNT_OK);
    CHECK_EQ_U64(size, 8);
    CHECK_EQ_U64(b->ops->try_get(b, MEET_ADDRESS, 0, got, 4, &size, &err), SHUNT_ERR_MISMATCH);
    uint64_t result[BOARD_RESULT_BYTES / 8] = {[0] = 42, [BOARD_RESULT_BYTES / 8 - 1] = 43},
                                         back[BOARD_RESULT_BYTES / 8];
    CHECK(!board_get_result(board, 0, 1, back, sizeof(back)));
    board_put_result(seen, 0, 1, result, sizeof(result));
    CHECK(board_get_result(board, 0, 1, back, sizeof(back)));
    CHECK(memcmp(result, back, sizeof(back)) == 0);
    meet_report(b, 0, SHUNT_ERR_PEER, "device 0 is lost");
    meet_report(a, 1, SHUNT_ERR_PEER, "device 1 is lost");
    struct meet_lost lost;
    CHECK(board_get_lost(board, &lost));
    CHECK_STR(lost.text, "device 0 is lost");
    CHECK_EQ_U64(meet_poll(a, true, &err), SHUNT_ERR_PEER);
    CHECK(meet_silent_seconds(b, 0) >= 0);
    meet_close(a);
    meet_close(b);
    board_destroy(board);
    close(fd);
}

static const struct test_case cases[] = {
    {"records_go_round", records_go_round},
    {"waits_until_the_deadline", waits_until_the_deadline},
    {"refuses_a_second_run", refuses_a_second_run},
    {"first_cause_wins", first_cause_wins},
    {"rank_0_shows_life", rank_0_shows_life},
    {"an_early_failure_is_forgotten", an_early_failure_is_forgotten},
    {"an_old_cause_is_removed", an_old_cause_is_removed},
    {"refuses_what_is_no_record", refuses_what_is_no_record},
    {"refuses_bad_names", refuses_bad_names},
    {"board_carries_records_and_results", board_carries_records_and_results},
};
TEST_MAIN(cases)
