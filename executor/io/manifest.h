/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_MANIFEST_H
#define SHUNT_EXECUTOR_MANIFEST_H

/**
 * What a folder of rank files holds, as one set: DIR/shunt-store.json.
 *
 *     {"format": "shunt-store", "version": 1,
 *      "plan_id": "64 hex digits", "layout_digest": "64 hex digits", "staging": ".shunt-store-16 hex digits",
 *      "ranks": 2, "files": [
 *      {"name": "rank-00000.safetensors", "bytes": 1234, "crc32c": "0123abcd"},
 *      {"name": "rank-00001.safetensors", "bytes": 1234, "crc32c": "0123abcd"}
 *     ]}
 *
 * A set is stored by writing all files into the staging folder, then giving the manifest its name,
 * which is the moment from which on the new set counts, and only then moving the files up. Whoever
 * finds the staging folder that the manifest names looks for each file there first.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "shunt/plan_format.h"

#define MANIFEST_NAME    "shunt-store.json"
#define MANIFEST_STAGING ".shunt-store-" /* 16 hex digits follow */

struct manifest_file {
    uint64_t bytes;
    uint32_t crc32c; /* of the whole file */
};

struct manifest {
    uint8_t plan_id[SHUNT_PLAN_DIGEST_BYTES];       /* of the plan whose new side this is */
    uint8_t layout_digest[SHUNT_PLAN_DIGEST_BYTES]; /* that plan's to_digest */
    char staging[32];
    uint32_t ranks;
    struct manifest_file *files; /* one per rank */
};

/** Name of a rank's file; numbers above 99999 take more digits. */
struct rank_name {
    char text[40];
};
struct rank_name rank_name(uint32_t rank);

/** True if it is the name of a rank's file. */
bool rank_name_parse(const char *name, uint32_t *rank_out);

/** True if it is a name that a staging folder may have. */
bool manifest_is_staging(const char *name);

/** @return false when writing failed */
bool manifest_print(const struct manifest *manifest, FILE *file);

/**
 * Strictly the grammar above, with any white space.
 *
 * @return SHUNT_ERR_INPUT: "byte N: found ..., expected ..."; SHUNT_ERR_NOMEM. Released with manifest_finish()
 */
enum shunt_status manifest_parse(const char *text, size_t size, struct manifest *manifest_out, struct shunt_err *err);

/** Read the manifest of an open folder, if there is one. @return also SHUNT_ERR_IO */
enum shunt_status manifest_read(int dir_fd, const char *dir, struct manifest *manifest_out, bool *found_out,
                                struct shunt_err *err);
void manifest_finish(struct manifest *manifest);

#endif
