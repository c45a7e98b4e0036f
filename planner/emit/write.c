/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A plan gets its name when it is complete and on disk. Until then it has none at all, where the file
 * system can do that, so that nothing stays behind however the program ends. Where it cannot, or for the
 * moment in which an old file is replaced, signals that would end the program wait until the other
 * name is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emit/file.h"

#define CHUNK_BYTES (8u << 20)
#define NAME_TRIES  100

/** Where a file goes. */
struct target {
    const char *path;
    char *folder;
    char *temporary; /* path.XXXXXX */
    sigset_t held;   /* signals that are held back now */
    sigset_t before; /* what was blocked before hold_signals() */
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

/** False also, with EINTR, when a signal waits. */
static bool write_all(const struct target *target, int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = write(fd, at, size < CHUNK_BYTES ? size : CHUNK_BYTES);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        at += written;
        size -= (size_t)written;
        if (signal_waits(target)) {
            errno = EINTR;
            return false;
        }
    }
    return true;
}

static bool fill(const struct target *target, int fd, const void *bytes, size_t size)
{
    if (fchmod(fd, 0644) != 0 || !write_all(target, fd, bytes, size) || fsync(fd) != 0)
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
static enum shunt_status write_unnamed(struct target *target, const void *bytes, size_t size)
{
    int fd = open(target->folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd < 0)
        return SHUNT_ERR_UNSUPPORTED;
    enum shunt_status status = fill(target, fd, bytes, size) ? SHUNT_OK : SHUNT_ERR_IO;
    if (status == SHUNT_OK) {
        hold_signals(target);
        if (!link_unnamed(fd, target)) {
            status = SHUNT_ERR_UNSUPPORTED;
        } else if (rename(target->temporary, target->path) != 0) {
            status = SHUNT_ERR_IO;
            unlink(target->temporary);
        }
        let_signals(target);
    }
    int saved = errno;
    close(fd);
    errno = saved;
    return status;
}

static enum shunt_status write_named(struct target *target, const void *bytes, size_t size)
{
    memset(target->temporary + strlen(target->temporary) - 6, 'X', 6);
    hold_signals(target);
    int fd = mkostemp(target->temporary, O_CLOEXEC);
    bool good = fd >= 0 && fill(target, fd, bytes, size);
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

static enum shunt_status write_beside(const char *path, const void *bytes, size_t size, struct shunt_err *err)
{
    struct stat old;
    struct target target;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
        return shunt_fail(err, SHUNT_ERR_IO, "write \"%s\": found %s, expected a file or nothing", path,
                          S_ISDIR(old.st_mode) ? "a directory" : "a device or pipe");
    enum shunt_status status = target_init(&target, path) ? SHUNT_OK : SHUNT_ERR_NOMEM;
    if (status == SHUNT_OK)
        status = write_unnamed(&target, bytes, size);
    if (status == SHUNT_ERR_UNSUPPORTED)
        status = write_named(&target, bytes, size);
    if (status == SHUNT_ERR_NOMEM)
        shunt_fail(err, status, "write \"%s\": out of memory", path);
    else if (status != SHUNT_OK)
        shunt_fail(err, status, "write \"%s\": %s", path, strerror(errno));
    else
        sync_folder(target.folder);
    free(target.folder);
    free(target.temporary);
    return status;
}

enum shunt_status file_write(const char *path, const void *bytes, size_t size, struct shunt_err *err)
{
    /* behind a symbolic link the file is replaced, not the link */
    char *resolved = realpath(path, NULL);
    enum shunt_status status = write_beside(resolved != NULL ? resolved : path, bytes, size, err);
    free(resolved);
    return status;
}
