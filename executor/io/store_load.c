/* SPDX-License-Identifier: Apache-2.0 */
/* A set to load from: is all of it there, and no more. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/store_dir.h"

enum shunt_status store_set_open(struct store_set *set, const char *dir, struct shunt_err *err)
{
    *set = (struct store_set){.dir = dir};
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "open directory %s: %s", dir, strerror(errno));
    enum shunt_status st = manifest_read(dir_fd, dir, &set->manifest, &set->stored, err);
    close(dir_fd);
    return st;
}

void store_set_close(struct store_set *set)
{
    manifest_finish(&set->manifest);
}

struct scan {
    const struct store_set *set;
    int dir_fd, staging_fd; /* staging_fd is -1 unless a commit is unfinished */
    uint32_t ranks;
    uint8_t *seen; /* one per rank */
    struct name_list surplus, sizes;
};

/* A file in the staging folder comes before one of the same name outside. */
static void look_at(struct scan *scan, uint32_t rank)
{
    struct stat st;
    const struct rank_name name = rank_name(rank);
    if ((scan->staging_fd < 0 || fstatat(scan->staging_fd, name.text, &st, 0) != 0) &&
        fstatat(scan->dir_fd, name.text, &st, 0) != 0)
        return;
    scan->seen[rank] = 1;
    if (scan->set->stored && (uint64_t)st.st_size != scan->set->manifest.files[rank].bytes)
        name_list_add(&scan->sizes, name.text);
}

static bool visit(void *ctx, const char *name)
{
    struct scan *scan = ctx;
    uint32_t rank;
    if (rank_name_parse(name, &rank) && rank >= scan->ranks && scan->staging_fd < 0)
        name_list_add(&scan->surplus, name); /* an unfinished commit has yet to remove those */
    return true;
}

static enum shunt_status judge_scan(struct scan *scan, struct shunt_err *err)
{
    struct name_list missing = {{0}, 0};
    const char *dir = scan->set->dir;
    for (uint32_t r = 0; r < scan->ranks; r++) {
        if (!scan->seen[r])
            name_list_add(&missing, rank_name(r).text);
    }
    if (missing.count > 0)
        return shunt_fail(err, SHUNT_ERR_IO, "%s: the plan's old side has %u ranks; missing: %s", dir, scan->ranks,
                          name_list_text(&missing));
    if (scan->surplus.count > 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: the plan's old side has %u ranks; not of them: %s", dir,
                          scan->ranks, name_list_text(&scan->surplus));
    if (scan->sizes.count > 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: not of the size that " MANIFEST_NAME " says: %s", dir,
                          name_list_text(&scan->sizes));
    return SHUNT_OK;
}

static enum shunt_status scan_files(struct scan *scan, struct shunt_err *err)
{
    scan->seen = calloc(scan->ranks, 1);
    if (scan->seen == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u ranks", scan->ranks);
    enum shunt_status st = dir_each(scan->dir_fd, scan->set->dir, visit, scan, err);
    for (uint32_t r = 0; r < scan->ranks && st == SHUNT_OK; r++)
        look_at(scan, r);
    if (st == SHUNT_OK)
        st = judge_scan(scan, err);
    free(scan->seen);
    return st;
}

/* What the manifest says about the set as a whole. */
static enum shunt_status check_manifest(const struct store_set *set, const struct shunt_plan_header *plan,
                                        struct shunt_err *err)
{
    const struct manifest *manifest = &set->manifest;
    if (manifest->ranks != plan->from_rank_count)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "%s/" MANIFEST_NAME ": a set of %u ranks, the plan's old side has %u", set->dir,
                          manifest->ranks, plan->from_rank_count);
    if (memcmp(manifest->layout_digest, plan->from_digest, sizeof(plan->from_digest)) != 0)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "%s/" MANIFEST_NAME ": the set was stored as another layout than the plan's old one (a set "
                          "without " MANIFEST_NAME " is taken for whatever the plan says)",
                          set->dir);
    return SHUNT_OK;
}

enum shunt_status store_set_check(const struct store_set *set, const struct shunt_plan_header *plan,
                                  struct shunt_err *err)
{
    struct scan scan = {.set = set, .dir_fd = -1, .staging_fd = -1, .ranks = plan->from_rank_count};
    enum shunt_status st = set->stored ? check_manifest(set, plan, err) : SHUNT_OK;
    if (st != SHUNT_OK)
        return st;
    scan.dir_fd = open(set->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scan.dir_fd < 0)
        return shunt_fail(err, SHUNT_ERR_IO, "open directory %s: %s", set->dir, strerror(errno));
    if (set->stored)
        scan.staging_fd = openat(scan.dir_fd, set->manifest.staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    st = scan_files(&scan, err);
    if (scan.staging_fd >= 0)
        close(scan.staging_fd);
    close(scan.dir_fd);
    return st;
}
