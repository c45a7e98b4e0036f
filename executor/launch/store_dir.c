/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Meeting in a directory that all processes see.
 *
 *     DIR/JOB/join-N                        rank N is here, or was killed
 *     DIR/JOB/hello-N, address-N, waited-N  a record of rank N: head, payload, written under a
 *                                           temporary name and linked to its own in one step
 *     DIR/JOB/lost                          the first cause of failure, likewise
 *
 * A process removes its own records when it leaves, and the folder when it is the last. A cause of
 * failure that lies there with nobody around is of an earlier run, and is removed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launch/meet.h"
#include "shunt/plan.h"

#define RECORD_MAGIC     UINT32_C(0x544d4853)
#define RECORD_MAX_BYTES MEET_MAX_BYTES
#define LOST_NAME        "lost"
#define JOIN_PREFIX      "join-"
#define OPEN_TRIES       100
#define TOUCH_NS         (NS_PER_SECOND / 5)
#define MOST_AGE         3600.0 /* seconds: what is older tells of another clock */

struct record_head {
    uint32_t magic, rank, bytes, crc32c;
};

struct store_dir {
    struct meet base;
    int dir_fd;     /* DIR/JOB */
    int parent_fd;  /* DIR */
    char dir[1024]; /* its name, for messages */
    char job[200];
    bool old_lost; /* the run had failed before this process came, or an earlier one has */

    /* Life of rank 0, which all others wait for: it touches its first record. */
    int64_t touched_ns, changed_ns; /* by this machine's clock; 0: not yet */
    struct timespec seen;
};

static const char *const key_names[MEET_KEY_COUNT] = {
    [MEET_HELLO] = "hello", [MEET_ADDRESS] = "address", [MEET_WAITED] = "waited"};

static void record_name(char *name, size_t size, enum meet_key key, uint32_t rank)
{
    snprintf(name, size, "%s-%u", key_names[key], rank);
}

static bool write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* Complete or not there at all; false with errno EEXIST when the name is taken. */
static bool write_record(const struct store_dir *store, const char *name, const void *bytes, size_t size)
{
    char temp[64];
    uint64_t salt;
    struct record_head head = {RECORD_MAGIC, store->base.rank, (uint32_t)size, shunt_crc32c(0, bytes, size)};
    if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt)) /* pids repeat on other machines */
        return false;
    snprintf(temp, sizeof(temp), ".tmp-%u-%ld-%016" PRIx64, store->base.rank, (long)getpid(), salt);
    int fd = openat(store->dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool good = write_all(fd, &head, sizeof(head)) && write_all(fd, bytes, size);
    good = close(fd) == 0 && good;
    if (good)
        good = linkat(store->dir_fd, temp, store->dir_fd, name, 0) == 0;
    int saved = errno;
    unlinkat(store->dir_fd, temp, 0);
    errno = saved;
    return good;
}

static enum shunt_status refuse_taken(const struct store_dir *store, const char *name, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_MISMATCH,
                      "the meeting has a record %s/%s/%s of rank %u already: another run uses this job name, or one "
                      "that was killed has left it; choose another --job, or remove %s/%s if no run uses it",
                      store->dir, store->job, name, store->base.rank, store->dir, store->job);
}

static enum shunt_status store_put(struct meet *meet, enum meet_key key, const void *bytes, size_t size,
                                   struct shunt_err *err)
{
    struct store_dir *store = (struct store_dir *)meet;
    char name[32];
    record_name(name, sizeof(name), key, meet->rank);
    if (size == 0 || size > RECORD_MAX_BYTES)
        return shunt_fail(err, SHUNT_ERR_INTERNAL, "a meeting record of %zu bytes", size);
    if (!write_record(store, name, bytes, size)) {
        if (errno == EEXIST)
            return refuse_taken(store, name, err);
        return shunt_fail(err, SHUNT_ERR_IO, "write %s/%s/%s: %s", store->dir, store->job, name, strerror(errno));
    }
    return SHUNT_OK;
}

/* Bytes read, 0 if there is no such file, -1 on an error of the system. */
static ssize_t read_file(int dir_fd, const char *name, void *bytes, size_t capacity)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    size_t done = 0;
    while (done < capacity) {
        ssize_t n = read(fd, (char *)bytes + done, capacity - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    close(fd);
    return (ssize_t)done;
}

/* The payload of a record into bytes; its size, 0 if it is not there, -1 if it is not a record of that rank. */
static ssize_t read_record(const struct store_dir *store, const char *name, uint32_t rank, void *bytes, size_t capacity)
{
    struct {
        struct record_head head;
        unsigned char payload[RECORD_MAX_BYTES + 1];
    } file;
    ssize_t got = read_file(store->dir_fd, name, &file, sizeof(file));
    if (got <= 0)
        return got;
    if ((size_t)got < sizeof(file.head) || file.head.magic != RECORD_MAGIC || file.head.bytes == 0 ||
        file.head.bytes > capacity || (size_t)got != sizeof(file.head) + file.head.bytes ||
        (rank != UINT32_MAX && file.head.rank != rank) ||
        shunt_crc32c(0, file.payload, file.head.bytes) != file.head.crc32c) {
        errno = EBADMSG;
        return -1;
    }
    memcpy(bytes, file.payload, file.head.bytes);
    return file.head.bytes;
}

static enum shunt_status store_try_get(struct meet *meet, enum meet_key key, uint32_t rank, void *bytes,
                                       size_t capacity, size_t *size_out, struct shunt_err *err)
{
    const struct store_dir *store = (const struct store_dir *)meet;
    char name[32];
    record_name(name, sizeof(name), key, rank);
    ssize_t size = read_record(store, name, rank, bytes, capacity);
    if (size < 0)
        return shunt_fail(err, errno == EBADMSG ? SHUNT_ERR_MISMATCH : SHUNT_ERR_IO, "read %s/%s: %s", store->job, name,
                          errno == EBADMSG ? "not a meeting record of that rank" : strerror(errno));
    *size_out = (size_t)size;
    return SHUNT_OK;
}

static void store_report_lost(struct meet *meet, const struct meet_lost *lost)
{
    (void)write_record((struct store_dir *)meet, LOST_NAME, lost, sizeof(*lost)); /* the first one wins */
}

/* One process at most every TOUCH_NS: many that did so would be a load for a shared file system. */
static void show_life(struct store_dir *store)
{
    char name[32];
    int64_t now = clock_now_ns();
    if (store->base.rank != 0 || now - store->touched_ns < TOUCH_NS)
        return;
    store->touched_ns = now;
    record_name(name, sizeof(name), MEET_HELLO, 0);
    (void)utimensat(store->dir_fd, name, NULL, AT_SYMLINK_NOFOLLOW);
}

static bool store_get_lost(struct meet *meet, struct meet_lost *lost_out)
{
    struct store_dir *store = (struct store_dir *)meet;
    struct stat st;
    show_life(store);
    if (fstatat(store->dir_fd, LOST_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (read_record(store, LOST_NAME, UINT32_MAX, lost_out, sizeof(*lost_out)) != sizeof(*lost_out) ||
        lost_out->status > SHUNT_ERR_INTERNAL || lost_out->device >= meet->size)
        *lost_out = (struct meet_lost){
            .device = meet->rank, .status = SHUNT_ERR_PEER, .text = "the run ended elsewhere, for no readable cause"};
    lost_out->text[sizeof(lost_out->text) - 1] = '\0';
    if (store->old_lost) {
        size_t used = strlen(lost_out->text);
        snprintf(lost_out->text + used, sizeof(lost_out->text) - used,
                 " (found at the meeting on arrival: if no run uses %s/%s, remove it)", store->dir, store->job);
    }
    return true;
}

/* The clock of a file server may be another: its times are looked at for a change, and alone the first time for more. */
static double store_silent_seconds(struct meet *meet, uint32_t rank)
{
    struct store_dir *store = (struct store_dir *)meet;
    struct timespec now;
    struct stat st;
    char name[32];
    record_name(name, sizeof(name), MEET_HELLO, 0);
    if (rank != 0 || fstatat(store->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -1.0;
    bool changed = st.st_mtim.tv_sec != store->seen.tv_sec || st.st_mtim.tv_nsec != store->seen.tv_nsec;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)(now.tv_sec - st.st_mtim.tv_sec) + (double)(now.tv_nsec - st.st_mtim.tv_nsec) / 1e9;
    if (changed)
        store->changed_ns =
            clock_now_ns() - (store->changed_ns == 0 && age > 0 && age < MOST_AGE ? (int64_t)(age * 1e9) : 0);
    store->seen = st.st_mtim;
    return (double)(clock_now_ns() - store->changed_ns) / 1e9;
}

static void store_beat(struct meet *meet, enum meet_phase phase, uint32_t round)
{
    (void)meet, (void)phase, (void)round;
}

static void remove_records(const struct store_dir *store, uint32_t rank)
{
    char name[32];
    for (unsigned key = 0; key < MEET_KEY_COUNT; key++) {
        record_name(name, sizeof(name), (enum meet_key)key, rank);
        unlinkat(store->dir_fd, name, 0);
    }
    snprintf(name, sizeof(name), JOIN_PREFIX "%u", rank);
    unlinkat(store->dir_fd, name, 0);
}

/* True if nothing but the cause of failure, and records called `own`, are left. */
static bool is_last(const struct store_dir *store, const char *own)
{
    int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool last = true;
    for (const struct dirent *entry = readdir(dir); entry != NULL && last; entry = readdir(dir))
        last = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
               strcmp(entry->d_name, LOST_NAME) == 0 || strcmp(entry->d_name, own) == 0;
    closedir(dir);
    return last;
}

static void store_free(struct store_dir *store)
{
    if (store->dir_fd >= 0)
        close(store->dir_fd);
    if (store->parent_fd >= 0)
        close(store->parent_fd);
    free(store);
}

static void store_close(struct meet *meet)
{
    struct store_dir *store = (struct store_dir *)meet;
    remove_records(store, meet->rank);
    if (meet->seen_lost)
        remove_records(store, meet->lost.device); /* a killed process does not do it itself */
    if (is_last(store, "")) {
        unlinkat(store->dir_fd, LOST_NAME, 0);
        unlinkat(store->parent_fd, store->job, AT_REMOVEDIR);
    }
    store_free(store);
}

static const struct meet_ops store_ops = {
    .name = "directory",
    .put = store_put,
    .try_get = store_try_get,
    .report_lost = store_report_lost,
    .get_lost = store_get_lost,
    .silent_seconds = store_silent_seconds,
    .beat = store_beat,
    .close = store_close,
};

static bool job_is_plain(const char *job)
{
    size_t length = strlen(job);
    if (length == 0 || length >= sizeof(((struct store_dir *)0)->job) || job[0] == '.')
        return false;
    for (; *job != '\0'; job++) {
        bool plain = (*job >= 'a' && *job <= 'z') || (*job >= 'A' && *job <= 'Z') || (*job >= '0' && *job <= '9') ||
                     strchr("._-", *job) != NULL;
        if (!plain)
            return false;
    }
    return true;
}

/* The folder may vanish between its making and its opening, or before a record lies in it: the last one has left. */
static bool try_join(struct store_dir *store, const char *join)
{
    if (mkdirat(store->parent_fd, store->job, 0700) != 0 && errno != EEXIST)
        return false;
    store->dir_fd = openat(store->parent_fd, store->job, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (store->dir_fd < 0)
        return false;
    if (write_record(store, join, "here", 4))
        return true;
    int saved = errno;
    close(store->dir_fd);
    store->dir_fd = -1;
    errno = saved;
    return false;
}

static enum shunt_status join_job(struct store_dir *store, struct shunt_err *err)
{
    char join[32];
    struct stat st;
    snprintf(join, sizeof(join), JOIN_PREFIX "%u", store->base.rank);
    bool joined = try_join(store, join);
    for (int i = 0; i < OPEN_TRIES && !joined && errno == ENOENT; i++)
        joined = try_join(store, join);
    if (!joined && errno == EEXIST)
        return refuse_taken(store, join, err);
    if (!joined)
        return shunt_fail(err, SHUNT_ERR_IO, "join the meeting %s/%s: %s", store->dir, store->job, strerror(errno));
    if (is_last(store, join))
        unlinkat(store->dir_fd, LOST_NAME, 0);
    store->old_lost = fstatat(store->dir_fd, LOST_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return SHUNT_OK;
}

enum shunt_status store_dir_open(const char *dir, const char *job, uint32_t rank, uint32_t size, struct meet **meet_out,
                                 struct shunt_err *err)
{
    if (!job_is_plain(job))
        return shunt_fail(err, SHUNT_ERR_USAGE,
                          "job name \"%.64s\": 1 to 199 letters, digits, '.', '_' and '-' are allowed", job);
    struct store_dir *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    store->base = (struct meet){.ops = &store_ops, .rank = rank, .size = size};
    snprintf(store->job, sizeof(store->job), "%s", job);
    store->dir_fd = -1;
    store->parent_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(store->dir, sizeof(store->dir), "%s", dir);
    enum shunt_status st = SHUNT_OK;
    if (store->parent_fd < 0)
        st = shunt_fail(err, SHUNT_ERR_IO, "open meeting directory %s: %s", dir, strerror(errno));
    if (st == SHUNT_OK)
        st = join_job(store, err);
    if (st != SHUNT_OK) {
        store_free(store);
        return st;
    }
    *meet_out = &store->base;
    return SHUNT_OK;
}
