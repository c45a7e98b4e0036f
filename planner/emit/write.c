/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A plan gets its name when it is complete and on disk. Until then it has none at all, where the file
 * system can do that, so that nothing stays behind however the program ends. Where it cannot, or for the
 * moment in which an old file is replaced, signals that would end the program wait until the other
 * name is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emit/file.h"
#include "emit/output.h"

#define CHUNK_BYTES (8u << 20)
#define EARLY_BYTES (1u << 20) /* so many at once begin their way to the disk while others are still made */
#define NAME_TRIES  100

/** Where a file goes. */
struct target {
    const char *path;
    char *folder;
    char *temporary; /* path.XXXXXX */
    sigset_t held;   /* signals that are held back now */
    sigset_t before; /* what was blocked before hold_signals() */
};

struct output {
    struct target target;
    char *path;           /* of the file to be, behind symbolic links; NULL: there is none */
    int fd;               /* of a file without a name; -1: the bytes are in memory */
    pthread_mutex_t lock; /* of what follows */
    unsigned char *bytes;
    uint64_t size, capacity;
    int problem; /* errno of what went wrong first; 0: nothing */
};

/* Those that would end the program; an ignored one is no reason to stop. */
static void hold_signals(struct target *target)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigemptyset(&target->held);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        struct sigaction action;
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&target->held, ending[i]);
    }
    sigprocmask(SIG_BLOCK, &target->held, &target->before);
}

/** Those that came meanwhile strike here. */
static void let_signals(struct target *target)
{
    int saved = errno;
    sigprocmask(SIG_SETMASK, &target->before, NULL);
    sigemptyset(&target->held);
    errno = saved;
}

/** One that is held back has come. */
static bool signal_waits(const struct target *target)
{
    sigset_t pending, both;
    return sigpending(&pending) == 0 && sigandset(&both, &pending, &target->held) == 0 && sigisemptyset(&both) == 0;
}

static bool write_at(int fd, uint64_t offset, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = pwrite(fd, bytes, size, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        bytes += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    return true;
}

static bool read_at(int fd, uint64_t offset, unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t got = pread(fd, bytes, size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO;
        if (got <= 0)
            return false;
        bytes += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

/** Copy all bytes to a file. False also, with EINTR, when a signal waits. */
static bool copy_all(const struct output *output, int fd)
{
    unsigned char *room = output->fd >= 0 ? malloc(CHUNK_BYTES) : NULL;
    bool good = output->fd < 0 || room != NULL;
    for (uint64_t at = 0; good && at < output->size; at += CHUNK_BYTES) {
        size_t size = output->size - at < CHUNK_BYTES ? (size_t)(output->size - at) : CHUNK_BYTES;
        good = output->fd < 0 || read_at(output->fd, at, room, size);
        good = good && write_at(fd, at, output->fd < 0 ? output->bytes + at : room, size);
        if (good && signal_waits(&output->target)) {
            errno = EINTR;
            good = false;
        }
    }
    int saved = errno;
    free(room);
    errno = saved;
    return good;
}

static bool make_durable(const struct target *target, int fd)
{
    if (fchmod(fd, 0644) != 0 || fsync(fd) != 0)
        return false;
    errno = EINTR;
    return !signal_waits(target);
}

/** Give an unnamed file the temporary name. */
static bool link_unnamed(int fd, struct target *target)
{
    char link[40], *suffix = target->temporary + strlen(target->temporary) - 6;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    for (unsigned try = 0; try < NAME_TRIES; try++) {
        snprintf(suffix, 7, "%06x", ((unsigned)getpid() * 64 + try) & 0xFFFFFF);
        if (linkat(AT_FDCWD, link, AT_FDCWD, target->temporary, AT_SYMLINK_FOLLOW) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

/** @return SHUNT_ERR_UNSUPPORTED: not on this file system */
static enum shunt_status name_file(struct output *output)
{
    struct target *target = &output->target;
    if (output->fd < 0)
        return SHUNT_ERR_UNSUPPORTED;
    if (!make_durable(target, output->fd))
        return SHUNT_ERR_IO;
    enum shunt_status status = SHUNT_OK;
    hold_signals(target);
    if (!link_unnamed(output->fd, target)) {
        status = SHUNT_ERR_UNSUPPORTED;
    } else if (rename(target->temporary, target->path) != 0) {
        status = SHUNT_ERR_IO;
        unlink(target->temporary);
    }
    let_signals(target);
    return status;
}

static enum shunt_status write_named(const struct output *output, struct target *target)
{
    memset(target->temporary + strlen(target->temporary) - 6, 'X', 6);
    hold_signals(target);
    int fd = mkostemp(target->temporary, O_CLOEXEC);
    bool good = fd >= 0 && copy_all(output, fd) && make_durable(target, fd);
    int saved = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        saved = errno;
        good = false;
    }
    if (good && rename(target->temporary, target->path) != 0) {
        saved = errno;
        good = false;
    }
    if (fd >= 0 && !good)
        unlink(target->temporary);
    errno = saved;
    let_signals(target);
    return good ? SHUNT_OK : SHUNT_ERR_IO;
}

/** Make the rename itself durable. A file system that cannot sync a folder is no reason to fail. */
static void sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static bool target_init(struct target *target, const char *path)
{
    size_t room = strlen(path) + sizeof(".XXXXXX");
    *target = (struct target){.path = path, .folder = strdup(path), .temporary = malloc(room)};
    if (target->folder == NULL || target->temporary == NULL)
        return false;
    sigemptyset(&target->held);
    snprintf(target->temporary, room, "%s.XXXXXX", path);
    char *slash = strrchr(target->folder, '/');
    if (slash != NULL) {
        slash[slash == target->folder] = '\0';
        return true;
    }
    free(target->folder);
    target->folder = strdup(".");
    return target->folder != NULL;
}

static enum shunt_status find_target(struct output *output, const char *path, struct shunt_err *err)
{
    struct stat old;
    /* behind a symbolic link the file is replaced, not the link */
    output->path = realpath(path, NULL);
    if (output->path == NULL)
        output->path = strdup(path);
    if (output->path == NULL || !target_init(&output->target, output->path))
        return shunt_fail(err, SHUNT_ERR_NOMEM, "write \"%s\": out of memory", path);
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
        return shunt_fail(err, SHUNT_ERR_IO, "write \"%s\": found %s, expected a file or nothing", output->path,
                          S_ISDIR(old.st_mode) ? "a directory" : "a device or pipe");
    /* without /proc it could neither be read as a plan nor be named */
    if (access("/proc/self/fd", F_OK) == 0)
        output->fd = open(output->target.folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    return SHUNT_OK;
}

enum shunt_status output_open(const char *path, struct output **output_out, struct shunt_err *err)
{
    struct output *output = calloc(1, sizeof(*output));
    if (output == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    output->fd = -1;
    pthread_mutex_init(&output->lock, NULL);
    enum shunt_status status = path == NULL ? SHUNT_OK : find_target(output, path, err);
    if (status == SHUNT_OK)
        *output_out = output;
    else
        output_close(output);
    return status;
}

/** Keep in memory; the lock is held. */
static bool keep_bytes(struct output *output, uint64_t offset, const void *bytes, size_t size)
{
    if (offset + size > output->capacity) {
        uint64_t larger = offset + size > 2 * output->capacity ? offset + size : 2 * output->capacity;
        unsigned char *grown = realloc(output->bytes, larger);
        if (grown == NULL)
            return false;
        output->bytes = grown;
        output->capacity = larger;
    }
    memcpy(output->bytes + offset, bytes, size);
    return true;
}

bool output_write(struct output *output, uint64_t offset, const void *bytes, size_t size)
{
    bool written = output->fd < 0 || write_at(output->fd, offset, bytes, size);
    int problem = errno;
    if (output->fd >= 0 && written && size >= EARLY_BYTES) /* a hint: what it says does not matter */
        (void)sync_file_range(output->fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
    pthread_mutex_lock(&output->lock);
    if (output->fd < 0 && !keep_bytes(output, offset, bytes, size)) {
        written = false;
        problem = ENOMEM;
    }
    if (written && offset + size > output->size)
        output->size = offset + size;
    if (!written && output->problem == 0)
        output->problem = problem;
    pthread_mutex_unlock(&output->lock);
    return written;
}

bool output_read(struct output *output, uint64_t offset, void *bytes, size_t size)
{
    if (output->fd < 0) {
        memcpy(bytes, output->bytes + offset, size);
        return true;
    }
    if (read_at(output->fd, offset, bytes, size))
        return true;
    output->problem = errno;
    return false;
}

enum shunt_status output_fail(const struct output *output, struct shunt_err *err)
{
    if (output->path == NULL || output->problem == ENOMEM)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for a plan of %llu bytes",
                          (unsigned long long)output->size);
    return shunt_fail(err, SHUNT_ERR_IO, "write \"%s\": %s", output->path, strerror(output->problem));
}

enum shunt_status output_plan(const struct output *output, struct shunt_plan **plan_out, struct shunt_err *err)
{
    char link[40];
    if (output->fd < 0)
        return shunt_plan_open_memory(output->bytes, output->size, plan_out, err);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", output->fd);
    return shunt_plan_open(link, plan_out, err);
}

enum shunt_status output_keep(struct output *output, struct shunt_err *err)
{
    enum shunt_status status = name_file(output);
    if (status == SHUNT_ERR_UNSUPPORTED)
        status = write_named(output, &output->target);
    if (status != SHUNT_OK)
        return shunt_fail(err, status, "write \"%s\": %s", output->path, strerror(errno));
    sync_folder(output->target.folder);
    return SHUNT_OK;
}

void *output_take(struct output *output, size_t *size_out)
{
    void *bytes = output->bytes;
    *size_out = output->size;
    output->bytes = NULL;
    return bytes;
}

void output_close(struct output *output)
{
    if (output == NULL)
        return;
    if (output->fd >= 0)
        close(output->fd);
    free(output->target.folder);
    free(output->target.temporary);
    free(output->path);
    free(output->bytes);
    pthread_mutex_destroy(&output->lock);
    free(output);
}

enum shunt_status file_write(const char *path, const void *bytes, size_t size, struct shunt_err *err)
{
    struct output *output;
    enum shunt_status status = output_open(path, &output, err);
    if (status != SHUNT_OK)
        return status;
    status = output_write(output, 0, bytes, size) ? output_keep(output, err) : output_fail(output, err);
    output_close(output);
    return status;
}
