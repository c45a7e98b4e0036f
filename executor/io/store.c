/* SPDX-License-Identifier: Apache-2.0 */
/* The root's part of storing a set: make ready, commit, clean up. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/store_dir.h"

#define POLL_FILES 64u

struct store {
    char *dir;
    int dir_fd, staging_fd;
    bool made_dir, committed;
    struct manifest manifest;
};

static enum shunt_status io_fail(const struct store *store, const char *what, const char *name, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_IO, "%s %s/%s: %s", what, store->dir, name, strerror(errno));
}

/* ---- after a run that died ---------------------------------------------------------------- */

static bool remove_file(void *ctx, const char *name)
{
    unlinkat(*(const int *)ctx, name, 0);
    return true;
}

/* A staging folder that is no set's. */
static void remove_staging(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    (void)dir_each(fd, name, remove_file, &fd, NULL);
    close(fd);
    unlinkat(dir_fd, name, AT_REMOVEDIR);
}

struct surplus {
    int dir_fd;
    uint32_t ranks;
};

static bool remove_surplus(void *ctx, const char *name)
{
    const struct surplus *surplus = ctx;
    uint32_t rank;
    if (rank_name_parse(name, &rank) && rank >= surplus->ranks)
        unlinkat(surplus->dir_fd, name, 0);
    return true;
}

/*
 * Behind the manifest's rename: give the files their names, and take away what the set before had more. What is
 * done already is left as it is, so that anybody may do the rest. `poll` may be NULL.
 */
static enum shunt_status move_up(const struct store *store, int staging_fd, const struct manifest *manifest,
                                 const struct contents_poll *poll, struct shunt_err *err)
{
    struct surplus surplus = {store->dir_fd, manifest->ranks};
    for (uint32_t r = 0; r < manifest->ranks; r++) {
        const struct rank_name name = rank_name(r);
        if (renameat(staging_fd, name.text, store->dir_fd, name.text) != 0 && errno != ENOENT)
            return io_fail(store, "rename", name.text, err);
        if (poll != NULL && r % POLL_FILES == 0)
            (void)poll->poll(poll->ctx, NULL); /* to show life: nothing that it says would undo the commit */
    }
    enum shunt_status st = dir_each(store->dir_fd, store->dir, remove_surplus, &surplus, err);
    if (st == SHUNT_OK && fsync(store->dir_fd) != 0)
        st = io_fail(store, "fsync", ".", err);
    if (st == SHUNT_OK && unlinkat(store->dir_fd, manifest->staging, AT_REMOVEDIR) != 0)
        st = io_fail(store, "remove", manifest->staging, err);
    return st;
}

static enum shunt_status finish_commit(const struct store *store, const struct manifest *manifest,
                                       struct shunt_err *err)
{
    int fd = openat(store->dir_fd, manifest->staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return SHUNT_OK;
    if (fd < 0)
        return io_fail(store, "open", manifest->staging, err);
    enum shunt_status st = move_up(store, fd, manifest, NULL, err);
    close(fd);
    return st;
}

static bool remove_dead(void *ctx, const char *name)
{
    if (manifest_is_staging(name))
        remove_staging(((const struct store *)ctx)->dir_fd, name);
    return true;
}

/* The folder is ours: finish a commit that was broken off, remove what was staged and never committed. */
static enum shunt_status recover(struct store *store, struct manifest *old, bool *found, struct shunt_err *err)
{
    enum shunt_status st = manifest_read(store->dir_fd, store->dir, old, found, err);
    if (st == SHUNT_OK && *found)
        st = finish_commit(store, old, err);
    return st == SHUNT_OK ? dir_each(store->dir_fd, store->dir, remove_dead, store, err) : st;
}

/* ---- making ready ------------------------------------------------------------------------- */

/* Names of rank files that the new set would neither replace nor, as part of the old set, remove. */
struct obstacles {
    const struct store *store;
    uint32_t known; /* ranks of the set that is there */
    struct name_list foreign, no_files;
};

static bool find_obstacles(void *ctx, const char *name)
{
    struct obstacles *obstacles = ctx;
    struct stat st;
    uint32_t rank;
    if (!rank_name_parse(name, &rank))
        return true;
    if (rank >= obstacles->store->manifest.ranks && rank >= obstacles->known)
        name_list_add(&obstacles->foreign, name);
    else if (fstatat(obstacles->store->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        name_list_add(&obstacles->no_files, name);
    return true;
}

/* `old` has no ranks unless `found`. */
static enum shunt_status check_obstacles(const struct store *store, const struct manifest *old, bool found,
                                         struct shunt_err *err)
{
    struct obstacles obstacles = {.store = store, .known = old->ranks};
    enum shunt_status st = dir_each(store->dir_fd, store->dir, find_obstacles, &obstacles, err);
    if (st != SHUNT_OK)
        return st;
    if (obstacles.no_files.count > 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "--store %s: in the way, and no files: %s", store->dir,
                          name_list_text(&obstacles.no_files));
    if (obstacles.foreign.count > 0 && !found)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "--store: %s has no " MANIFEST_NAME ", so files of other ranks (%s) are not removed: choose "
                          "another DIR, or remove them",
                          store->dir, name_list_text(&obstacles.foreign));
    if (obstacles.foreign.count > 0)
        return shunt_fail(
            err, SHUNT_ERR_MISMATCH,
            "--store %s: the new set has %u ranks and would leave these of another one, which nothing says "
            "may go: %s",
            store->dir, store->manifest.ranks, name_list_text(&obstacles.foreign));
    return SHUNT_OK;
}

static enum shunt_status check_space(const struct store *store, uint64_t bytes, struct shunt_err *err)
{
    struct statvfs info;
    if (fstatvfs(store->dir_fd, &info) != 0)
        return SHUNT_OK; /* the reservation of each file will tell */
    uint64_t available = (uint64_t)info.f_bavail * info.f_frsize;
    if (available >= bytes)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_IO, "--store %s: no space: the set needs %" PRIu64 " bytes, %" PRIu64 " are free",
                      store->dir, bytes, available);
}

static enum shunt_status open_dir(struct store *store, struct shunt_err *err)
{
    store->made_dir = mkdir(store->dir, 0777) == 0;
    if (!store->made_dir && errno != EEXIST)
        return shunt_fail(err, SHUNT_ERR_IO, "--store %s: make directory: %s", store->dir, strerror(errno));
    store->dir_fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->dir_fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "--store %s: open directory: %s", store->dir, strerror(errno));
    /* not every file system has such locks: then two runs at once are the caller's business */
    if (flock(store->dir_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return shunt_fail(err, SHUNT_ERR_IO, "--store %s: another run stores there now", store->dir);
    return SHUNT_OK;
}

static enum shunt_status make_staging(struct store *store, struct shunt_err *err)
{
    uint64_t id;
    if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
        return shunt_fail(err, SHUNT_ERR_IO, "--store %s: no random numbers: %s", store->dir, strerror(errno));
    snprintf(store->manifest.staging, sizeof(store->manifest.staging), MANIFEST_STAGING "%016" PRIx64, id);
    if (mkdirat(store->dir_fd, store->manifest.staging, 0777) != 0)
        return shunt_fail(err, SHUNT_ERR_IO, "--store %s: write there: %s", store->dir, strerror(errno));
    store->staging_fd = openat(store->dir_fd, store->manifest.staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return store->staging_fd >= 0 ? SHUNT_OK : io_fail(store, "open", store->manifest.staging, err);
}

static enum shunt_status make_ready(struct store *store, uint64_t bytes, struct shunt_err *err)
{
    struct manifest old = {.ranks = 0};
    bool found = false;
    enum shunt_status st = open_dir(store, err);
    if (st == SHUNT_OK)
        st = recover(store, &old, &found, err);
    if (st == SHUNT_OK)
        st = check_obstacles(store, &old, found, err);
    manifest_finish(&old);
    if (st == SHUNT_OK)
        st = check_space(store, bytes, err);
    return st == SHUNT_OK ? make_staging(store, err) : st;
}

enum shunt_status store_open(const char *dir, uint32_t ranks, uint64_t bytes, struct store **store_out,
                             struct shunt_err *err)
{
    struct store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    store->dir_fd = store->staging_fd = -1;
    store->dir = strdup(dir);
    store->manifest.ranks = ranks;
    store->manifest.files = calloc(ranks, sizeof(*store->manifest.files));
    enum shunt_status st = store->dir != NULL && store->manifest.files != NULL
                               ? make_ready(store, bytes, err)
                               : shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u ranks", ranks);
    if (st != SHUNT_OK) {
        store_close(store);
        return st;
    }
    *store_out = store;
    return SHUNT_OK;
}

const char *store_staging(const struct store *store)
{
    return store->manifest.staging;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    if (store->staging_fd >= 0)
        close(store->staging_fd);
    if (store->staging_fd >= 0 && !store->committed)
        remove_staging(store->dir_fd, store->manifest.staging);
    if (store->made_dir && !store->committed)
        rmdir(store->dir);
    if (store->dir_fd >= 0)
        close(store->dir_fd); /* and with it the lock */
    manifest_finish(&store->manifest);
    free(store->dir);
    free(store);
}

void store_tidy(const char *dir)
{
    struct store store = {.dir = (char *)dir};
    struct manifest old = {.ranks = 0};
    bool found;
    store.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store.dir_fd < 0)
        return;
    if (flock(store.dir_fd, LOCK_EX | LOCK_NB) == 0)
        (void)recover(&store, &old, &found, NULL);
    manifest_finish(&old);
    close(store.dir_fd);
}

/* ---- commit ---------------------------------------------------------------------------- */

void store_put_file(struct store *store, uint32_t rank, const struct manifest_file *file)
{
    if (rank < store->manifest.ranks)
        store->manifest.files[rank] = *file;
}

static enum shunt_status write_manifest(const struct store *store, struct shunt_err *err)
{
    int fd = openat(store->staging_fd, MANIFEST_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        if (fd >= 0)
            close(fd);
        return io_fail(store, "write", MANIFEST_NAME, err);
    }
    bool written = manifest_print(&store->manifest, file) && fflush(file) == 0 && fsync(fd) == 0;
    enum shunt_status st = written ? SHUNT_OK : io_fail(store, "write", MANIFEST_NAME, err);
    fclose(file);
    return st;
}

enum shunt_status store_commit(struct store *store, const struct shunt_plan_header *plan,
                               const struct contents_poll *poll, struct shunt_err *err)
{
    memcpy(store->manifest.plan_id, plan->plan_id, sizeof(plan->plan_id));
    memcpy(store->manifest.layout_digest, plan->to_digest, sizeof(plan->to_digest));
    enum shunt_status st = write_manifest(store, err);
    if (st == SHUNT_OK && fsync(store->staging_fd) != 0)
        st = io_fail(store, "fsync", store->manifest.staging, err);
    if (st == SHUNT_OK && poll != NULL)
        st = poll->poll(poll->ctx, err);
    if (st != SHUNT_OK)
        return st;
    if (renameat(store->staging_fd, MANIFEST_NAME, store->dir_fd, MANIFEST_NAME) != 0)
        return io_fail(store, "rename", MANIFEST_NAME, err);
    store->committed = true; /* the old set is no more: from here on what fails is finished by the next run */
    if (fsync(store->dir_fd) != 0)
        return io_fail(store, "fsync", ".", err);
    return move_up(store, store->staging_fd, &store->manifest, poll, err);
}
