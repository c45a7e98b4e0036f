/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_SAFETENSORS_H
#define SHUNT_EXECUTOR_SAFETENSORS_H

/** One safetensors file per rank, entries "STATE/TENSOR" in the rank's local shape. */

#include "io/contents.h"

/**
 * Read the bound old side from DIR/rank-NNNNN.safetensors, NNNNN being the device's old rank.
 * Does nothing on a device without one. Every entry of the plan must be there with its dtype and
 * local shape, and no other.
 *
 * @return SHUNT_ERR_IO, SHUNT_ERR_INPUT (malformed file), SHUNT_ERR_MISMATCH (another table), or poll's status
 */
enum shunt_status safetensors_load(struct shunt_exec *exec, const char *dir, const struct contents_poll *poll,
                                   struct shunt_err *err);

/**
 * Write the new side to DIR/rank-NNNNN.safetensors, NNNNN being the device's new rank. The file
 * appears under its name only when it is complete and on disk.
 */
enum shunt_status safetensors_store(const struct shunt_exec *exec, const char *dir, const struct contents_poll *poll,
                                    struct shunt_err *err);

#endif
