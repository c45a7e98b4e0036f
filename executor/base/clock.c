/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <sched.h>
#include <time.h>

#define CLOCK_MAX_SECONDS 1e8 /* three years: keeps the sum inside int64_t */
#define REST_SPINS        64u
#define REST_NS           (NS_PER_MS / 20)

int64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

struct deadline deadline_after(double seconds)
{
    double bounded = seconds > 0 ? seconds : 0;
    if (bounded > CLOCK_MAX_SECONDS)
        bounded = CLOCK_MAX_SECONDS;
    return (struct deadline){.at_ns = clock_now_ns() + (int64_t)(bounded * 1e9), .seconds = seconds};
}

void sleep_ns(int64_t ns)
{
    struct timespec wait = {.tv_sec = ns / NS_PER_SECOND, .tv_nsec = ns % NS_PER_SECOND};
    nanosleep(&wait, NULL);
}

void clock_rest(uint32_t turns)
{
    if (turns < REST_SPINS)
        sched_yield();
    else
        sleep_ns(REST_NS);
}
