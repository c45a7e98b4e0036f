/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_ORDER_H
#define SHUNT_PLANNER_ORDER_H

/** Orders of the jobs of a problem, as arrays of job numbers. */

#include "schedule/problem.h"

/**
 * Even mix: jobs of one kind (type and element size) are spread evenly over the whole sequence,
 * job m of n at key (m + 1/2) / n, so that each stretch of it loads all stages alike.
 */
uint32_t *order_mixed(struct arena *arena, const struct problem *problem);

/**
 * Least peak first: the next job is the one that changes the potential
 *     sum over devices of exp(60 (memory - limit) / limit),  limit = max(from, to) over devices
 * least per byte, among those that do not raise the peak reached so far; when all do, the one
 * that raises it least. Ties go to the earlier job. One job per kind (the next of its type and
 * element size) is a candidate at a time; when there are more kinds than a few hundred, or fewer in a large
 * problem, each step weighs a moving sample of them.
 *
 * @param peak_out  by device: most bytes of buffers live when jobs run one after the other in
 *                  this order (unread buffers already gone), each releasing before the next allocates
 */
uint32_t *order_least_peak(struct arena *arena, const struct problem *problem, uint64_t *peak_out);

/** Most bytes of buffers live by device when jobs run one after the other in an order, as peak_out above. */
void order_peak(struct arena *arena, const struct problem *problem, const uint32_t *order, uint64_t *peak_out);

#endif
