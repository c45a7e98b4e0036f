/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_LEFTOVERS_H
#define SHUNT_EXECUTOR_LEFTOVERS_H

/** What a process that was killed may leave in the system. */

#include <sys/types.h>

/**
 * Remove the System V shared memory that a dead process made and nobody uses. A transport marks its segments for
 * removal as soon as it has them, but a process may be killed in between.
 */
void leftovers_remove(pid_t dead);

#endif
