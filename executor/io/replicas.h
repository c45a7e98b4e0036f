/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_REPLICAS_H
#define SHUNT_EXECUTOR_REPLICAS_H

/**
 * Copies of the old side: a plan reads one of them and takes the others for equal, which only their bytes can tell.
 * Compared are boxes that are held whole by several buffers; boxes that overlap in part are not.
 */

#include "io/contents.h"
#include "replay/world.h"

/**
 * All devices of the world take checksums of what their old sides hold, the root compares them, and all get its verdict.
 *
 * @param execs  the local devices, bound and filled
 * @return SHUNT_ERR_CHECK, which names tensor, box and both devices; SHUNT_ERR_UNSUPPORTED (built without xxhash, or more
 *         boxes than fit in memory), SHUNT_ERR_NOMEM, and what a world fails with
 */
enum shunt_status replicas_compare(struct shunt_world *world, struct shunt_exec *const *execs, uint32_t count,
                                   const struct contents_poll *poll, double timeout_seconds, struct shunt_err *err);

#endif
