/* SPDX-License-Identifier: Apache-2.0 */
#include "dropped.h"

#include <stdio.h>

#include "format.h"

struct dropped {
    bool is[SHUNT_STATE_COUNT];
    uint64_t bytes[SHUNT_STATE_COUNT];
};

/** Walk the buffers of all devices; false when a part does not read. */
static bool find(const struct shunt_plan *plan, struct dropped *dropped_out)
{
    struct dropped found = {0};
    struct shunt_err err;
    bool old[SHUNT_STATE_COUNT] = {0}, kept[SHUNT_STATE_COUNT] = {0};
    /* the compiler writes a later version where it drops any: then the parts need not be read */
    if (plan == NULL || (shunt_plan_get_header(plan)->version_minor < 2 && shunt_plan_explanation(plan) != NULL)) {
        *dropped_out = found;
        return true;
    }
    for (uint32_t d = 0; d < shunt_plan_get_header(plan)->device_count; d++) {
        struct shunt_plan_part part;
        if (shunt_plan_get_part(plan, d, &part, &err) != SHUNT_OK)
            return false;
        for (uint32_t b = 0; b < part.header->buffer_count; b++) {
            const struct shunt_plan_buffer *buffer = &part.buffers[b];
            if (shunt_plan_on_new_side(buffer))
                kept[buffer->state] = true;
            if (shunt_plan_on_old_side(buffer)) {
                old[buffer->state] = true;
                found.bytes[buffer->state] += buffer->bytes;
            }
        }
        shunt_plan_drop_part(plan, d);
    }
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++)
        found.is[s] = old[s] && !kept[s];
    *dropped_out = found;
    return true;
}

void dropped_print(const char *head, const struct shunt_plan *plan)
{
    struct dropped dropped;
    uint32_t count = 0;
    uint64_t bytes = 0;
    if (!find(plan, &dropped)) {
        printf("%snot known: a part of the plan does not read (verify says why)\n", head);
        return;
    }
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if (!dropped.is[s])
            continue;
        printf("%s%s", count == 0 ? head : ", ", shunt_state_name(s));
        count++;
        bytes += dropped.bytes[s];
    }
    if (count > 0)
        printf(" %s dropped, %s: the new layout does not keep %s\n", count == 1 ? "is" : "are", fmt_bytes(bytes).s,
               count == 1 ? "it" : "them");
}

void dropped_json(struct json *json, const struct shunt_plan *plan)
{
    struct dropped dropped;
    json_key(json, "dropped_states");
    if (!find(plan, &dropped)) {
        json_null(json);
        return;
    }
    json_array_begin(json);
    for (unsigned s = 0; s < SHUNT_STATE_COUNT; s++) {
        if (!dropped.is[s])
            continue;
        json_object_begin(json);
        json_key_string(json, "state", shunt_state_name(s));
        json_key_u64(json, "bytes", dropped.bytes[s]);
        json_object_end(json);
    }
    json_array_end(json);
}
