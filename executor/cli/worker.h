/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_WORKER_H
#define SHUNT_EXECUTOR_WORKER_H

/** One process's part of a command: its devices through all plans of the chain. */

#include "cli/chain.h"
#include "cli/options.h"
#include "cli/result.h"
#include "replay/world.h"

/** Called with each local result, and, at the root, with everybody's. */
struct worker_sink {
    void *ctx;
    void (*result)(void *ctx, uint32_t plan, const struct plan_result *result);
    void (*progress)(void *ctx, uint32_t plan, uint32_t device, uint32_t round, uint32_t round_count);
};

/**
 * Fill or load, then run, check and report each plan, then store.
 *
 * @return SHUNT_OK, or the status that the whole run ends with; every process has been told
 */
enum shunt_status worker_run(const struct options *options, const struct chain *chain, struct shunt_world *world,
                             const struct worker_sink *sink, struct shunt_err *err);

#endif
