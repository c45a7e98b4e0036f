/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_STATISTICS_H
#define SHUNT_EXECUTOR_STATISTICS_H

/** `--statistics DIR`: figures of rounds, in DIR/device-NNNNN.jsonl, one JSON object a line, plan after plan. */

#include "shunt/exec.h"

/**
 * Makes the directory if its parent is there. Of an earlier run's files, those of devices `first` to `first + count` are
 * removed, which this process writes, and those from `size` on, which nobody does: the rest is left to the other processes.
 */
enum shunt_status statistics_make(const char *dir, uint32_t first, uint32_t count, uint32_t size,
                                  struct shunt_err *err);

/** After a run, well or badly ended. plan: its place in the chain; the first one starts the file. */
enum shunt_status statistics_write(const char *dir, const struct shunt_exec *exec, uint32_t device, uint32_t plan,
                                   struct shunt_err *err);

#endif
