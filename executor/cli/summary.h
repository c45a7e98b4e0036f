/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_SUMMARY_H
#define SHUNT_EXECUTOR_SUMMARY_H

/** What a run prints: text or one JSON object, on stdout. */

#include "cli/chain.h"
#include "cli/options.h"
#include "cli/result.h"

struct summary {
    const struct options *options;
    const struct chain *chain; /* NULL when the plans did not open */
    const char *transport;
    struct plan_result *results; /* plan-major, device_count each; done tells which are there */
    enum shunt_status status;
    const char *error; /* empty when all is well */
};

/** Text: nothing but what is known; the closing OK line only when status is SHUNT_OK. */
void summary_print(const struct summary *summary, FILE *file);

#endif
