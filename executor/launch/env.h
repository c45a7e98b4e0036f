/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_ENV_H
#define SHUNT_EXECUTOR_ENV_H

/** Who am I? The launcher's environment says. */

#include <stdbool.h>
#include <stdint.h>

#include "shunt/status.h"

struct env_place {
    const char *launcher;
    uint32_t rank;
    uint32_t world;      /* 0: the launcher does not say */
    uint32_t local_rank; /* UINT32_MAX: the launcher does not say */
    char job[200];       /* a name of this start of this job, fit for a file name; empty if there is none */
};

/**
 * Probe SHUNT_*, torchrun, Open MPI and PMIx, Slurm, MPICH, in this order.
 *
 * @param get_variable  getenv, or a test's own
 * @return SHUNT_ERR_USAGE when no launcher is found or a variable is not a number in range
 */
enum shunt_status env_probe(char *(*get_variable)(const char *name), struct env_place *place_out,
                            struct shunt_err *err);

#endif
