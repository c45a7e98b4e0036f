/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_PROVING_H
#define SHUNT_EXECUTOR_PROVING_H

/** One process proves the plans of a chain for a whole world. */

#include "cli/chain.h"
#include "replay/world.h"

/**
 * The root proves the chain, unless `proves` is false there, and says meanwhile that it lives; all others wait
 * for its verdict, which is everybody's.
 */
enum shunt_status proving_run(struct shunt_world *world, const struct chain *chain, bool proves, double timeout_seconds,
                              struct shunt_err *err);

#endif
