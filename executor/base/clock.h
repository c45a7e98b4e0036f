/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_CLOCK_H
#define SHUNT_EXECUTOR_CLOCK_H

/** Monotonic time and deadlines. */

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_MS     INT64_C(1000000)

struct deadline {
    int64_t at_ns;
    double seconds; /* as asked for, for messages */
};

int64_t clock_now_ns(void);
struct deadline deadline_after(double seconds);

static inline bool deadline_passed(const struct deadline *deadline)
{
    return clock_now_ns() >= deadline->at_ns;
}

void sleep_ns(int64_t ns);
/** Between two looks at what is waited for, `turns` of which were in vain: the first ones follow without a pause. */
void clock_rest(uint32_t turns);

#endif
