/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_DIR    "/dev/shm"
#define FOLDER_PREFIX  "shunt-exec-"
#define SEGMENT_PREFIX "ucx_shm_"

/* Pids mean something inside one pid namespace only. */
static unsigned long pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
}

static void remove_folder(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry = dir == NULL ? NULL : readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strncmp(entry->d_name, SEGMENT_PREFIX, strlen(SEGMENT_PREFIX)) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL)
        closedir(dir);
    unlinkat(parent_fd, name, AT_REMOVEDIR);
}

void segments_enter(struct segments *segments)
{
    int death = 0;
    *segments = (struct segments){.fd = -1};
    int parent = open(SEGMENT_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return;
    snprintf(segments->name, sizeof(segments->name), FOLDER_PREFIX "%lu-%ld", pid_namespace(), (long)getpid());
    if (prctl(PR_GET_PDEATHSIG, &death) == 0 && death == SIGKILL)
        segments->soft_kill = prctl(PR_SET_PDEATHSIG, SIGTERM) == 0;
    remove_folder(parent, segments->name); /* of an earlier process with this pid */
    if (mkdirat(parent, segments->name, 0700) == 0)
        segments->fd = openat(parent, segments->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    close(parent);
    snprintf(segments->dir, sizeof(segments->dir), "/proc/self/fd/%d", segments->fd);
}

void segments_leave(struct segments *segments)
{
    int parent = open(SEGMENT_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) {
        remove_folder(parent, segments->name);
        if (segments->fd >= 0)
            dup3(parent, segments->fd, O_CLOEXEC);
        close(parent);
    }
    if (segments->soft_kill)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    segments->soft_kill = false;
}

void segments_close(struct segments *segments)
{
    if (segments->fd >= 0)
        close(segments->fd);
    segments->fd = -1;
}

void segments_sweep(void)
{
    DIR *dir = opendir(SEGMENT_DIR);
    unsigned long here = pid_namespace();
    for (struct dirent *entry = dir == NULL ? NULL : readdir(dir); entry != NULL; entry = readdir(dir)) {
        unsigned long space;
        long pid;
        char canonical[64];
        if (sscanf(entry->d_name, FOLDER_PREFIX "%lu-%ld", &space, &pid) != 2 || space != here || pid <= 0)
            continue;
        snprintf(canonical, sizeof(canonical), FOLDER_PREFIX "%lu-%ld", space, pid);
        if (strcmp(canonical, entry->d_name) == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
            remove_folder(dirfd(dir), entry->d_name);
    }
    if (dir != NULL)
        closedir(dir);
}
