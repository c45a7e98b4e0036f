/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_WORKERS_H
#define SHUNT_WORKERS_H

/** For the rooms of this project, and not installed: work on many things alike, shared among threads. */

#include <stdint.h>

#define SHUNT_MAX_WORKERS 64u

/** Work on things [begin, end). No two calls at once have the same `worker`, which is below the number of threads. */
typedef void shunt_work(void *context, uint32_t worker, uint32_t begin, uint32_t end);

/**
 * Have `work` called for batches that cover [0, count), by at most `threads` threads (1 to SHUNT_MAX_WORKERS), of which
 * the caller's is one, and return when all are done. Which worker gets which batch is left to chance: what is made
 * must not depend on it. Where no thread can be had, fewer do the work.
 */
void shunt_share_work(uint32_t threads, uint32_t count, uint32_t batch, shunt_work *work, void *context);

/** As many as there are processors to run on, at most 8. */
uint32_t shunt_default_workers(void);

#endif
