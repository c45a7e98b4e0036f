/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/missing.h"

#include <stdio.h>
#include <string.h>

#include "replay/direct.h"

/* The part of its slot that a message fills. */
static uint64_t place_of(const struct engine *engine, const struct transport_message *message)
{
    if (engine->segments != NULL)
        return engine->segments->offsets[message - engine->segments->messages];
    return engine->part.messages[message - engine->messages].offset;
}

const char *missing_name(const struct engine *engine, uint32_t round, const struct transport_message *message)
{
    uint64_t begin = place_of(engine, message), best = UINT64_MAX;
    const char *name = "nothing";
    for (uint32_t i = engine->part.rounds[round].unpack_begin; i < engine->part.rounds[round + 1].op_begin; i++) {
        const struct shunt_plan_op *op = &engine->part.ops[i];
        if (op->src_offset < begin || op->src_offset >= begin + message->bytes || op->src_offset >= best)
            continue;
        best = op->src_offset;
        name = engine->buffers[op->dst_buffer].name;
    }
    return name;
}

void missing_explain(struct engine *const *engines, uint32_t count, uint32_t round, struct shunt_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t messages;
        const struct transport_message *m = engine_messages(engines[i], round, &messages);
        for (const struct transport_message *end = m + messages; m < end; m++) {
            if (m->direction != SHUNT_RECV || m->arrived == m->bytes)
                continue;
            size_t used = strlen(err->text);
            snprintf(err->text + used, sizeof(err->text) - used, "; %s from device %u has not come",
                     missing_name(engines[i], round, m), m->peer);
            return;
        }
    }
}
