/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_REFUSE_H
#define SHUNT_PLANNER_REFUSE_H

/**
 * Why a cap is too small, in the order in which one would ask: the device holds more than that now; its new side does
 * not fit; one tensor's two sides do not, whatever the order on that device alone; all devices together cannot be
 * ordered so, which a linear program over slices of the move bears out, with the devices that lack something. What
 * such a program says is said beside the least cap that was found, never alone.
 */

#include "schedule/problem.h"

struct refusal {
    const struct problem *problem;
    uint64_t least_cap;
    uint64_t spilled_least_cap;    /* with old buffers parked; 0: not known, or no lower */
    const uint64_t *least_slot;    /* by device: staging for one smallest chunk */
    const uint64_t *worst_buffers; /* by device: in the most frugal order that was found */
    bool solve;                    /* ask programs too */
};

/** @return SHUNT_ERR_INFEASIBLE, err written */
enum shunt_status refuse_cap(struct arena *arena, const struct refusal *refusal, struct shunt_err *err);

#endif
