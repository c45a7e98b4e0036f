/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_SAFETENSORS_H
#define SHUNT_EXECUTOR_SAFETENSORS_H

/** One safetensors file per rank, entries "STATE/TENSOR" in the rank's local shape. */

#include "io/store.h"

/**
 * Read the bound old side from the set's rank-NNNNN.safetensors, NNNNN being the device's old rank.
 * Does nothing on a device without one. Every entry of the plan must be there with its dtype and
 * local shape, and no other; and the whole must have the size and checksum that the set's manifest says.
 *
 * @return SHUNT_ERR_IO, SHUNT_ERR_INPUT (malformed file), SHUNT_ERR_MISMATCH (another table, another set's
 *         file), or poll's status
 */
enum shunt_status safetensors_load(struct shunt_exec *exec, const struct store_set *set,
                                   const struct contents_poll *poll, struct shunt_err *err);

/** Bytes of the file that the new side makes; the buffers need no memory yet. */
enum shunt_status safetensors_bytes(const struct shunt_exec *exec, uint64_t *bytes_out, struct shunt_err *err);

/** Write the new side to an open file, which is neither put on disk nor closed. */
enum shunt_status safetensors_store(const struct shunt_exec *exec, struct store_file *file, struct shunt_err *err);

#endif
