/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_SPILL_H
#define SHUNT_PLANNER_SPILL_H

/**
 * Spilling: old buffers that are copied to host memory in the first round, freed, and read there when their time
 * comes. A problem whose buffers are parked is one like any other, in which the device memory of those buffers is gone
 * after the first rounds, as that of old buffers that nobody reads.
 */

#include "schedule/rounds.h"

/**
 * The same problem with as few bytes parked as leave every device `room` bytes beside its buffers under the cap while
 * its jobs run one after the other in `order`, where parking can do that. On each device, from the last job backwards:
 * where there is too much, the smallest old buffer that lives on and is enough is parked, or the largest.
 *
 * @param peak_out  by device: most bytes of buffers in that order, what is parked and what nobody reads already gone
 */
struct problem *spill_build(struct arena *arena, const struct problem *problem, const uint32_t *order, uint64_t room,
                            uint64_t *peak_out);

/** Put rounds in front in which parked buffers are copied and freed; for rounds that were made without. */
void spill_delay(struct arena *arena, const struct problem *problem, struct rounds *rounds);

#endif
