/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_LANES_H
#define SHUNT_PLANNER_LANES_H

/**
 * Jobs that ask the same of the same devices, but for their size, are one lane (a "direction class"); devices that
 * all lanes treat alike are one class. What is decided for a lane and a class of devices holds for all of them, so
 * that a linear program over many thousand tensors and devices has a few hundred columns.
 *
 * Example: tp 2 pp 2 -> tp 2 pp 4, 8 layers: stage 0 keeps half of its layers and gives half of them away. Each pair
 * (old stage, new stage) is a lane: its column-cut and row-cut weights, norms and Adam states differ in size alone.
 * The two devices of a stage are one class. 4 lanes and 4 classes remain of 200 jobs and 8 devices.
 *
 * Proportions are compared to 1 in `grain`; with more lanes than wanted, more coarsely, down to the set of devices.
 */

#include "schedule/loads.h"

struct lane_memory {
    uint32_t device;
    uint64_t alloc, release;
};

struct lane {
    uint32_t job_count;
    uint32_t *jobs; /* ascending */
    uint32_t memory_count;
    struct lane_memory *memory; /* of all its jobs, ascending device */
    uint32_t load_count;
    struct load *loads; /* of all its jobs, ascending port */
    uint64_t bytes;     /* alloc, release and traffic: the size that its jobs are measured in */
};

struct lanes {
    uint32_t lane_count;
    struct lane *lanes;
    uint32_t *lane_of_job;
    uint64_t *job_bytes; /* by job, as struct lane's bytes */
    uint32_t class_count;
    uint32_t *class_device; /* by class: its first device */
    uint32_t *class_size;   /* by class: devices */
    uint32_t *class_of_device;
};

struct lanes *lanes_build(struct arena *arena, const struct problem *problem, uint32_t most_lanes);

#endif
