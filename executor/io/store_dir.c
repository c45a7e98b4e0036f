/* SPDX-License-Identifier: Apache-2.0 */
#include "io/store_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define NAMED 4u /* names in a message */

enum shunt_status dir_each(int dir_fd, const char *dir, bool (*visit)(void *ctx, const char *name), void *ctx,
                           struct shunt_err *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        return shunt_fail(err, SHUNT_ERR_IO, "list %s: %s", dir, strerror(saved));
    }
    bool more = true;
    errno = 0;
    for (const struct dirent *entry = readdir(list); entry != NULL && more; entry = readdir(list)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            more = visit(ctx, entry->d_name);
        errno = 0;
    }
    int failed = more ? errno : 0;
    closedir(list);
    return failed == 0 ? SHUNT_OK : shunt_fail(err, SHUNT_ERR_IO, "list %s: %s", dir, strerror(failed));
}

void name_list_add(struct name_list *list, const char *name)
{
    size_t used = strlen(list->text);
    if (list->count++ < NAMED)
        snprintf(list->text + used, sizeof(list->text) - used, "%s%s", used == 0 ? "" : ", ", name);
}

const char *name_list_text(struct name_list *list)
{
    size_t used = strlen(list->text);
    if (list->count > NAMED)
        snprintf(list->text + used, sizeof(list->text) - used, " and %u more", list->count - NAMED);
    return list->text;
}
