/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_STORING_H
#define SHUNT_EXECUTOR_STORING_H

/**
 * --load and --store of a whole world: every process calls the same functions in the same order.
 * The root is the process of device 0.
 */

#include "cli/options.h"
#include "io/store.h"
#include "replay/world.h"

struct storing {
    const struct options *options;
    struct shunt_world *world;
    struct contents_poll poll;
    struct store_set set; /* --load */
    struct store *store;  /* --store, at the root */
    char staging[32];
    struct storing_record *records; /* one per local device */
};

/** Before anything else: is the set to load all there, and can the new one be stored. Agreed by all. */
enum shunt_status storing_begin(struct storing *storing, const struct options *options, struct shunt_world *world,
                                const struct shunt_plan *first, const struct shunt_plan *last, struct shunt_err *err);

/** Write the new sides of the local devices' execs; ends when all have, and the set is there. */
enum shunt_status storing_write(struct storing *storing, struct shunt_exec *const *execs, struct shunt_err *err);

void storing_end(struct storing *storing);

#endif
