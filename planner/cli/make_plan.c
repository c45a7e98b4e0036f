/* SPDX-License-Identifier: Apache-2.0 */
#include "make_plan.h"

#include <stdlib.h>

#include "emit/output.h"
#include "shunt/verify.h"
#include "shunt/workers.h"

static enum shunt_status prove(const struct shunt_plan *plan, uint32_t threads, struct shunt_err *err)
{
    struct shunt_err why;
    struct shunt_verify_report *found = malloc(sizeof(*found));
    if (found == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    enum shunt_status status =
        shunt_plan_verify_shared(plan, threads > 0 ? threads : shunt_default_workers(), found, &why);
    free(found);
    if (status == SHUNT_ERR_NOMEM)
        return shunt_fail(err, status, "%s", why.text);
    if (status != SHUNT_OK)
        return shunt_fail(err, SHUNT_ERR_INTERNAL,
                          "the compiled plan breaks a rule, and was not written (a fault of the compiler): %.800s",
                          why.text);
    return SHUNT_OK;
}

void made_plan_free(struct made_plan *made)
{
    shunt_plan_close(made->plan);
    output_close(made->output);
    *made = (struct made_plan){0};
}

enum shunt_status make_plan(const struct compile_options *options, const struct compile_documents *documents,
                            bool verify, const char *path, struct made_plan *made_out, struct shunt_err *err)
{
    struct made_plan made = {0};
    enum shunt_status status = output_open(path, &made.output, err);
    if (status == SHUNT_OK)
        status = compile_plan_to(options, documents, made.output, err);
    if (status == SHUNT_OK)
        status = output_plan(made.output, &made.plan, err);
    if (status == SHUNT_OK && verify)
        status = prove(made.plan, options->threads, err);
    if (status == SHUNT_OK)
        status = output_keep(made.output, err);
    if (status == SHUNT_OK)
        *made_out = made;
    else
        made_plan_free(&made);
    return status;
}
