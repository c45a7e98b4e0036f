/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_LOAD_H
#define SHUNT_PLANNER_CONFIG_LOAD_H

/** Loading from memory, for tests and fuzzing; the same contract as cfg_*_load with `name` in place of the path. */

#include "config.h"

enum shunt_status cfg_model_load_memory(const char *name, const void *bytes, size_t size, struct cfg_model **out,
                                        FILE *diag);
enum shunt_status cfg_cluster_load_memory(const char *name, const void *bytes, size_t size, struct cfg_cluster **out,
                                          FILE *diag);
enum shunt_status cfg_layout_load_memory(const char *name, const void *bytes, size_t size, struct cfg_layout **out,
                                         FILE *diag);

#endif
