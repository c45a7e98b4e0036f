/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_STAGES_H
#define SHUNT_PLANNER_STAGES_H

/** Which pipeline stages hold a tensor: one, up to three for a tied one, or all. */

#include "space/pipeline.h"
#include "space/space.h"

#define STAGES_MAX 3

struct stages {
    bool all;
    uint32_t count;             /* 0 when all */
    int64_t chunks[STAGES_MAX]; /* chunk on each stage; the first is the original, the others declared replicas */
    int64_t stages[STAGES_MAX]; /* distinct */
};

struct stages stages_of(const struct pipeline *pipeline, const struct space_family *family, int64_t layer);
bool stages_have(const struct stages *stages, int64_t stage);
bool stages_equal(const struct stages *a, const struct stages *b);

#endif
