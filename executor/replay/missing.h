/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_MISSING_H
#define SHUNT_EXECUTOR_MISSING_H

/** What a message that did not come would have brought, for errors. */

#include "replay/engine.h"

/** Name of the first buffer that a received message of the round goes to; "nothing" if no unpack reads it. */
const char *missing_name(const struct engine *engine, uint32_t round, const struct transport_message *message);

/** Adds to the text of a timeout what the first message is for that the engines wait for in the round. */
void missing_explain(struct engine *const *engines, uint32_t count, uint32_t round, struct shunt_err *err);

#endif
