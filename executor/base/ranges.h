/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_RANGES_H
#define SHUNT_EXECUTOR_RANGES_H

/**
 * Named stretches of time for profilers (NVTX), where the build has its header; else nothing.
 *
 * They are what the host does: on a device with streams a profiler shows the work that was put there beneath them. All are
 * in the domain "shunt", with the round as payload and the device as category. Nothing is loaded, and hardly any time
 * taken, unless the profiler asks for it (NVTX_INJECTION64_PATH).
 */

#include <stdint.h>

enum range_kind {
    RANGE_ROUND = 0, /* from its first allocation to its last free; rounds overlap */
    RANGE_WIRE,      /* from the first message to the end of the last one; so do they */
    RANGE_PACK,
    RANGE_WAIT,
    RANGE_UNPACK,
    RANGE_KINDS
};

/** A stretch inside of which others of the same thread may lie, but none reaches beyond it. */
void range_push(enum range_kind kind, uint32_t device, uint32_t round);
void range_pop(void);

/** A stretch that may overlap others. 0: nobody looks. */
uint64_t range_start(enum range_kind kind, uint32_t device, uint32_t round);
void range_end(uint64_t range);

#endif
