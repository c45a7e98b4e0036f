/* SPDX-License-Identifier: Apache-2.0 */
/** In place of a solver where none is linked. */
#include "solve/backend.h"

void backend_solve(const struct lp_model *model, const struct lp_attempt *attempt, struct lp_answer *answer_out)
{
    (void)model;
    (void)attempt;
    answer_out->status = LP_ABSENT;
}

const char *backend_name(void)
{
    return NULL;
}
