/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/statistics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/jsonw.h"

#define FILE_NAME "device-%05" PRIu32 ".jsonl"

/* The device whose file has this name; UINT32_MAX: it is none of ours. */
static uint32_t device_of(const char *name)
{
    char own[40];
    uint32_t device;
    if (sscanf(name, "device-%" SCNu32, &device) != 1)
        return UINT32_MAX;
    snprintf(own, sizeof(own), FILE_NAME, device);
    return strcmp(name, own) == 0 ? device : UINT32_MAX;
}

/* Whatever becomes of this run, nobody shall take an earlier one's figures for its own. */
static enum shunt_status remove_stale(const char *dir, uint32_t first, uint32_t count, uint32_t size,
                                      struct shunt_err *err)
{
    enum shunt_status st = SHUNT_OK;
    DIR *open = opendir(dir);
    if (open == NULL)
        return shunt_fail(err, SHUNT_ERR_IO, "--statistics %s: %s", dir, strerror(errno));
    for (struct dirent *entry = readdir(open); entry != NULL && st == SHUNT_OK; entry = readdir(open)) {
        uint32_t device = device_of(entry->d_name);
        bool own = device >= first && device - first < count;
        if (device == UINT32_MAX || !(own || device >= size))
            continue;
        if (unlinkat(dirfd(open), entry->d_name, 0) != 0 && errno != ENOENT)
            st = shunt_fail(err, SHUNT_ERR_IO, "remove %s/%s: %s", dir, entry->d_name, strerror(errno));
    }
    closedir(open);
    return st;
}

static enum shunt_status name_file(const char *dir, uint32_t device, char *path, size_t room, struct shunt_err *err)
{
    if (snprintf(path, room, "%s/" FILE_NAME, dir, device) >= (int)room)
        return shunt_fail(err, SHUNT_ERR_IO, "%s: the name of a file there is too long", dir);
    return SHUNT_OK;
}

/* That it cannot be written is to be known before anything moves. */
static enum shunt_status make_file(const char *dir, uint32_t device, struct shunt_err *err)
{
    char path[4096];
    enum shunt_status st = name_file(dir, device, path, sizeof(path), err);
    if (st != SHUNT_OK)
        return st;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "write %s: %s", path, strerror(errno));
    close(fd);
    return SHUNT_OK;
}

enum shunt_status statistics_make(const char *dir, uint32_t first, uint32_t count, uint32_t size, struct shunt_err *err)
{
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return shunt_fail(err, SHUNT_ERR_IO, "--statistics %s: make directory: %s", dir, strerror(errno));
    enum shunt_status st = remove_stale(dir, first, count, size, err);
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++)
        st = make_file(dir, first + i, err);
    return st;
}

static void print_round(FILE *file, uint32_t plan, const struct shunt_exec_round *round)
{
    struct jsonw json = {.file = file};
    jsonw_open(&json, NULL, '{');
    jsonw_u64(&json, "plan", plan);
    jsonw_u64(&json, "device", round->device);
    jsonw_u64(&json, "round", round->round);
    jsonw_bool(&json, "finished", round->finished != 0);
    jsonw_u64(&json, "moved_sent", round->sent_bytes);
    jsonw_u64(&json, "moved_received", round->received_bytes);
    jsonw_u64(&json, "wire_sent", round->wire_sent_bytes);
    jsonw_u64(&json, "wire_received", round->wire_received_bytes);
    jsonw_u64(&json, "copied", round->copied_bytes);
    jsonw_u64(&json, "filled", round->filled_bytes);
    jsonw_double(&json, "pack_seconds", round->pack_seconds);
    jsonw_double(&json, "wire_seconds", round->wire_seconds);
    jsonw_double(&json, "wait_seconds", round->wait_seconds);
    jsonw_double(&json, "unpack_seconds", round->unpack_seconds);
    jsonw_close(&json, '}');
    putc('\n', file);
}

enum shunt_status statistics_write(const char *dir, const struct shunt_exec *exec, uint32_t device, uint32_t plan,
                                   struct shunt_err *err)
{
    char path[4096];
    uint32_t count;
    const struct shunt_exec_round *rounds = shunt_exec_get_rounds(exec, &count);
    enum shunt_status st = name_file(dir, device, path, sizeof(path), err);
    if (st != SHUNT_OK)
        return st;
    FILE *file = fopen(path, plan == 0 ? "w" : "a");
    if (file == NULL)
        return shunt_fail(err, SHUNT_ERR_IO, "write %s: %s", path, strerror(errno));
    for (uint32_t k = 0; k < count; k++)
        print_round(file, plan, &rounds[k]);
    bool bad = ferror(file) != 0;
    if (fclose(file) != 0 || bad)
        return shunt_fail(err, SHUNT_ERR_IO, "write %s: %s", path, strerror(errno));
    return SHUNT_OK;
}
