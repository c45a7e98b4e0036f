/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CAP_LP_H
#define SHUNT_PLANNER_CAP_LP_H

/**
 * How far each lane is after each of some slices of the move, as a linear program over lanes and classes of devices.
 * F[l][e] is the share of lane l that is done after slice e; it never falls, and is 1 after the last. A slice takes as
 * long as its busiest port. On every device, in every slice, what is not yet released before it and what is
 * allocated up to its end, both in full, are under the room that the device has:
 *
 *     base + sum of release (1 - F[l][e - 1]) + sum of alloc F[l][e] <= room
 *
 * so whatever the order within a slice, it fits. Three questions are asked of it: the least time, the least room
 * over all devices, and by how many bytes which devices must give way.
 */

#include "schedule/lanes.h"
#include "solve/lp.h"

enum cap_lp_mode {
    CAP_LP_TIME,   /* least sum of the slices' seconds */
    CAP_LP_CAP,    /* least room, the same on all devices */
    CAP_LP_ELASTIC /* least sum of what devices lack */
};

struct cap_lp_input {
    const struct problem *problem;
    const struct lanes *classes;
    uint32_t slices;
    uint64_t room; /* for buffers on each device: the cap less reserve, transport and staging */
    enum cap_lp_mode mode;
    double work;    /* stop the solver when it has done so much, as in the result; 0: when it has lasted very long */
    double seconds; /* stop the solver by the clock; 0: do not */
};

struct cap_lp_result {
    enum lp_status status;
    double **done;     /* by lane and slice: share done after it, on a grid, so that no last bit decides anything */
    double *begin;     /* by slice, and one more: 0 to 1, the time at which it begins */
    double room;       /* CAP_LP_CAP: the least room, proved */
    uint64_t *lacking; /* CAP_LP_ELASTIC: by class of devices, bytes */
    double work;       /* iterations times columns */
};

struct cap_lp_result cap_lp_solve(struct arena *arena, const struct cap_lp_input *input);

#endif
