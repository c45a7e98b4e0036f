/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_STORE_H
#define SHUNT_EXECUTOR_STORE_H

/**
 * A folder of rank files as one set that is there as a whole or not at all; see io/manifest.h.
 *
 * Storing. One process, the root, opens the folder before the move: it makes it, locks it, cleans up
 * after a run that died, refuses what is in the way and makes a staging folder. Each rank then
 * reserves its file there. After the move each rank writes its file and puts it on disk; when all
 * have, the root commits.
 *
 * Loading. Everybody opens the set; the root checks that all of it is there, and nothing more.
 */

#include "io/contents.h"
#include "io/manifest.h"

/* ---- storing: the root --------------------------------------------------------------- */

struct store;

/**
 * Make ready the folder `dir` for a set of `ranks` files of `bytes` bytes in all.
 *
 * @return SHUNT_ERR_IO (no parent, not writable, no space, another run stores there now),
 *         SHUNT_ERR_MISMATCH (files of other ranks, or something else, are in the way), SHUNT_ERR_INPUT, SHUNT_ERR_NOMEM
 */
enum shunt_status store_open(const char *dir, uint32_t ranks, uint64_t bytes, struct store **store_out,
                             struct shunt_err *err);

/** Name of the staging folder; lives as long as the store. */
const char *store_staging(const struct store *store);

/** What a rank has written; every rank's must be given before the commit. */
void store_put_file(struct store *store, uint32_t rank, const struct manifest_file *file);

/**
 * All files are in the staging folder and on disk: from somewhere in here on the new set counts, and
 * the old one is gone. Polls between steps.
 */
enum shunt_status store_commit(struct store *store, const struct shunt_plan_header *plan,
                               const struct contents_poll *poll, struct shunt_err *err);

/** Without a commit nothing of the store stays. Accepts NULL. */
void store_close(struct store *store);

/** Clean up after a run that died, unless another one stores there now. Says nothing. */
void store_tidy(const char *dir);

/* ---- storing: each rank ---------------------------------------------------------------- */

/** Make the file of a rank in the staging folder and reserve its space. */
enum shunt_status store_reserve(const char *dir, const char *staging, uint32_t rank, uint64_t bytes,
                                struct shunt_err *err);

/** A rank's file while it is written. */
struct store_file {
    char path[4096];
    int fd;
    struct manifest_file written;
    const struct contents_poll *poll; /* may be NULL */
};

enum shunt_status store_file_open(struct store_file *file, const char *dir, const char *staging, uint32_t rank,
                                  const struct contents_poll *poll, struct shunt_err *err);
/** Append; polls every few megabytes. */
enum shunt_status store_file_write(struct store_file *file, const void *bytes, uint64_t size, struct shunt_err *err);
/** Put it on disk, however long that takes; polls meanwhile. */
enum shunt_status store_file_sync(struct store_file *file, struct shunt_err *err);
void store_file_close(struct store_file *file);

/* ---- loading ------------------------------------------------------------------------- */

/** A set to load from. */
struct store_set {
    const char *dir; /* borrowed */
    bool stored;     /* there is a manifest */
    struct manifest manifest;
};

enum shunt_status store_set_open(struct store_set *set, const char *dir, struct shunt_err *err);

/**
 * The set is one for the old side of this plan and all of it is there, and no other rank's file. Without a
 * manifest, exactly the ranks' files must be there.
 */
enum shunt_status store_set_check(const struct store_set *set, const struct shunt_plan_header *plan,
                                  struct shunt_err *err);
void store_set_close(struct store_set *set);

#endif
