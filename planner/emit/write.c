/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emit/file.h"

static bool write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        at += written;
        size -= (size_t)written;
    }
    return true;
}

/** Make the rename itself durable. A file system that cannot sync a folder is no reason to fail. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return;
    char *slash = strrchr(copy, '/');
    if (slash != NULL)
        slash[slash == copy] = '\0';
    int fd = open(slash == NULL ? "." : copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(copy);
}

static enum shunt_status write_temporary(int fd, const void *bytes, size_t size)
{
    bool done = fchmod(fd, 0644) == 0 && write_all(fd, bytes, size) && fsync(fd) == 0;
    int saved = errno;
    bool closed = close(fd) == 0;
    if (!done)
        errno = saved;
    return done && closed ? SHUNT_OK : SHUNT_ERR_IO;
}

static enum shunt_status write_beside(const char *path, const void *bytes, size_t size, struct shunt_err *err)
{
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
        return shunt_fail(err, SHUNT_ERR_IO, "write \"%s\": found %s, expected a file or nothing", path,
                          S_ISDIR(old.st_mode) ? "a directory" : "a device or pipe");
    size_t room = strlen(path) + sizeof(".XXXXXX");
    char *temporary = malloc(room);
    if (temporary == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "write \"%s\": out of memory", path);
    snprintf(temporary, room, "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        enum shunt_status status = shunt_fail(err, SHUNT_ERR_IO, "create \"%s\": %s", temporary, strerror(errno));
        free(temporary);
        return status;
    }
    enum shunt_status status = write_temporary(fd, bytes, size);
    if (status == SHUNT_OK && rename(temporary, path) != 0)
        status = SHUNT_ERR_IO;
    if (status != SHUNT_OK) {
        shunt_fail(err, status, "write \"%s\": %s", path, strerror(errno));
        unlink(temporary);
    } else {
        sync_folder(path);
    }
    free(temporary);
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
