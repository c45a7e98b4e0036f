/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_RESULT_H
#define SHUNT_EXECUTOR_RESULT_H

/** What one device has to tell about one plan. Sent between processes as it is. */

#include "io/contents.h"
#include "shunt/exec.h"

struct plan_result {
    uint32_t done;
    uint32_t device;
    struct shunt_exec_stats stats;
    struct contents_report report; /* zero without --check */
};

#endif
