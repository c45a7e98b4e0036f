/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's file in the staging folder: reserved before the move, written and put on disk after it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/store.h"

#define CHUNK_BYTES   (UINT64_C(8) << 20)
#define SYNC_PAUSE_NS (5 * NS_PER_MS)
#define VISIBLE_NS    (5 * NS_PER_SECOND) /* how long a network file system may hide a new folder from us */

static enum shunt_status file_fail(const struct store_file *file, const char *call, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_IO, "%s %s: %s", call, file->path, strerror(errno));
}

static enum shunt_status set_path(struct store_file *file, const char *dir, const char *staging, uint32_t rank,
                                  struct shunt_err *err)
{
    int size = snprintf(file->path, sizeof(file->path), "%s/%s/%s", dir, staging, rank_name(rank).text);
    if (size < 0 || (size_t)size >= sizeof(file->path))
        return shunt_fail(err, SHUNT_ERR_INPUT, "--store: the name of the directory is too long");
    return SHUNT_OK;
}

/* ---- before the move ----------------------------------------------------------------------- */

/* The root has made the folder, perhaps on another machine. */
static enum shunt_status create(struct store_file *file, const char *dir, struct shunt_err *err)
{
    for (int64_t end = clock_now_ns() + VISIBLE_NS;; sleep_ns(20 * NS_PER_MS)) {
        file->fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0)
            return SHUNT_OK;
        if (errno != ENOENT || clock_now_ns() > end)
            break;
    }
    if (errno == ENOENT)
        return shunt_fail(err, SHUNT_ERR_IO,
                          "--store %s: what device 0 has made there is not here: is it a folder that "
                          "all processes see?",
                          dir);
    return file_fail(file, "write", err);
}

static enum shunt_status reserve(const struct store_file *file, uint64_t bytes, struct shunt_err *err)
{
    int error = bytes == 0 || fallocate(file->fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
    struct statvfs info;
    if (error != EOPNOTSUPP && error != ENOSYS) {
        errno = error;
        return error == 0 ? SHUNT_OK
                          : shunt_fail(err, SHUNT_ERR_IO, "reserve %" PRIu64 " bytes for %s: %s", bytes, file->path,
                                       strerror(error));
    }
    if (fstatvfs(file->fd, &info) == 0 && (uint64_t)info.f_bavail * info.f_frsize < bytes)
        return shunt_fail(err, SHUNT_ERR_IO, "reserve %" PRIu64 " bytes for %s: %" PRIu64 " are free", bytes,
                          file->path, (uint64_t)info.f_bavail * info.f_frsize);
    return SHUNT_OK;
}

enum shunt_status store_reserve(const char *dir, const char *staging, uint32_t rank, uint64_t bytes,
                                struct shunt_err *err)
{
    struct store_file file = {.fd = -1};
    enum shunt_status st = set_path(&file, dir, staging, rank, err);
    if (st == SHUNT_OK)
        st = create(&file, dir, err);
    if (st == SHUNT_OK)
        st = reserve(&file, bytes, err);
    store_file_close(&file);
    return st;
}

/* ---- after the move -------------------------------------------------------------------------- */

enum shunt_status store_file_open(struct store_file *file, const char *dir, const char *staging, uint32_t rank,
                                  const struct contents_poll *poll, struct shunt_err *err)
{
    *file = (struct store_file){.fd = -1, .poll = poll};
    enum shunt_status st = set_path(file, dir, staging, rank, err);
    if (st != SHUNT_OK)
        return st;
    file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return file->fd >= 0 ? SHUNT_OK : file_fail(file, "write", err);
}

static enum shunt_status poll_now(const struct store_file *file, struct shunt_err *err)
{
    return file->poll != NULL ? file->poll->poll(file->poll->ctx, err) : SHUNT_OK;
}

static enum shunt_status write_chunk(struct store_file *file, const char *at, uint64_t size, struct shunt_err *err)
{
    file->written.crc32c = shunt_crc32c(file->written.crc32c, at, size);
    file->written.bytes += size;
    while (size > 0) {
        ssize_t n = write(file->fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return file_fail(file, "write", err);
        at += n;
        size -= (uint64_t)n;
    }
    return poll_now(file, err);
}

enum shunt_status store_file_write(struct store_file *file, const void *bytes, uint64_t size, struct shunt_err *err)
{
    for (uint64_t done = 0; done < size; done += CHUNK_BYTES) {
        uint64_t n = size - done < CHUNK_BYTES ? size - done : CHUNK_BYTES;
        enum shunt_status st = write_chunk(file, (const char *)bytes + done, n, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

struct sync {
    int fd, error;
    _Atomic bool done;
};

static void *run_sync(void *arg)
{
    struct sync *sync = arg;
    sync->error = fsync(sync->fd) == 0 ? 0 : errno;
    atomic_store(&sync->done, true);
    return NULL;
}

/* One call to the kernel, which can take minutes: it has a thread of its own, so that peers see that we live. */
enum shunt_status store_file_sync(struct store_file *file, struct shunt_err *err)
{
    pthread_t thread;
    enum shunt_status st = SHUNT_OK;
    struct sync sync = {.fd = file->fd};
    if (ftruncate(file->fd, (off_t)file->written.bytes) != 0)
        return file_fail(file, "truncate", err);
    bool threaded = pthread_create(&thread, NULL, run_sync, &sync) == 0;
    if (!threaded)
        run_sync(&sync);
    while (st == SHUNT_OK && !atomic_load(&sync.done)) {
        sleep_ns(SYNC_PAUSE_NS);
        st = poll_now(file, err);
    }
    if (threaded)
        pthread_join(thread, NULL);
    if (st == SHUNT_OK && sync.error != 0) {
        errno = sync.error;
        return file_fail(file, "fsync", err);
    }
    return st;
}

void store_file_close(struct store_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}
