/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_EXEC_PRIVATE_H
#define SHUNT_EXECUTOR_EXEC_PRIVATE_H

/** The struct behind shunt/exec.h. */

#include "replay/engine.h"
#include "replay/journal.h"

struct shunt_exec {
    enum shunt_exec_state state;
    struct shunt_plan *own_plan; /* NULL when the caller's is shared */
    struct engine engine;
    struct shunt_exec_progress progress;
    struct journal *journal; /* NULL: none */
};

#endif
