/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_CHAIN_H
#define SHUNT_EXECUTOR_CHAIN_H

/** The plans of one command: each one's new side is the next one's old side. */

#include "shunt/plan.h"

/** What is known of a plan once it is proved. */
struct chain_proof {
    bool proved;
    uint32_t dropped_states; /* bits 1 << enum shunt_state */
};

struct chain {
    char *const *paths; /* borrowed */
    struct shunt_plan **plans;
    uint32_t count;
    uint32_t device_count;
    struct chain_proof *proofs; /* one per plan, all zero until chain_verify() */
};

/**
 * Open all plans and check that they fit each other.
 *
 * @return as shunt_plan_open(), and SHUNT_ERR_MISMATCH when two neighbours do not fit
 */
enum shunt_status chain_open(char *const *paths, uint32_t count, struct chain *chain_out, struct shunt_err *err);

/** Prove every plan, and fill its proof. @return SHUNT_ERR_VERIFY, SHUNT_ERR_NOMEM */
enum shunt_status chain_verify(const struct chain *chain, struct shunt_err *err);

void chain_close(struct chain *chain);

#endif
