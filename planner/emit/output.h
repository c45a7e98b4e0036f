/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_OUTPUT_H
#define SHUNT_PLANNER_OUTPUT_H

/**
 * Where a plan goes while it is made: a file that has no name yet, so that a large plan is never in memory as a
 * whole; or memory, where there is no file to be or the file system has none without a name.
 */

#include "shunt/plan.h"

struct output;

/**
 * @param path  of the file to be; NULL: memory, for output_take()
 * @return SHUNT_ERR_NOMEM, or SHUNT_ERR_IO when something else than a file is at `path`; err says so
 */
enum shunt_status output_open(const char *path, struct output **output_out, struct shunt_err *err);

/** Put bytes at an offset; any number of threads may. @return false: output_fail() says why */
bool output_write(struct output *output, uint64_t offset, const void *bytes, size_t size);

/** Get back what was written. @return false: output_fail() says why */
bool output_read(struct output *output, uint64_t offset, void *bytes, size_t size);

/** The status and the text of what went wrong first. */
enum shunt_status output_fail(const struct output *output, struct shunt_err *err);

/** Open what was written as a plan, which must be closed before the output is. */
enum shunt_status output_plan(const struct output *output, struct shunt_plan **plan_out, struct shunt_err *err);

/** Give the file its name, in the place of an older one, when it is safe on disk. */
enum shunt_status output_keep(struct output *output, struct shunt_err *err);

/** The bytes in memory, 16-byte aligned; release with free(). */
void *output_take(struct output *output, size_t *size_out);

/** Accepts NULL. What was not kept is gone. */
void output_close(struct output *output);

#endif
