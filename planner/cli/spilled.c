/* SPDX-License-Identifier: Apache-2.0 */
#include "spilled.h"

#include <stdio.h>

#include "format.h"

struct spilled {
    uint64_t buffers, bytes, devices;
    uint64_t most; /* of one device */
    uint32_t most_device;
};

/** What a device parks. */
static void add_part(const struct shunt_plan_part *part, uint32_t id, struct spilled *spilled)
{
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < part->header->buffer_count; b++) {
        const struct shunt_plan_buffer *buffer = &part->buffers[b];
        if (buffer->side != SHUNT_SIDE_SCRATCH || buffer->tier != SHUNT_TIER_HOST)
            continue;
        spilled->buffers++;
        bytes += buffer->bytes;
    }
    spilled->devices += bytes > 0;
    spilled->bytes += bytes;
    if (bytes > spilled->most) {
        spilled->most = bytes;
        spilled->most_device = id;
    }
}

/** Walk the buffers of all devices; false when a part does not read. A plan that parks nothing is not walked. */
static bool find(const struct shunt_plan *plan, struct spilled *spilled_out)
{
    struct spilled found = {0};
    struct shunt_err err;
    uint32_t devices = shunt_plan_get_summary(plan)->host_peak > 0 ? shunt_plan_get_header(plan)->device_count : 0;
    for (uint32_t d = 0; d < devices; d++) {
        struct shunt_plan_part part;
        if (shunt_plan_get_part(plan, d, &part, &err) != SHUNT_OK)
            return false;
        add_part(&part, shunt_plan_get_device(plan, d)->id, &found);
        shunt_plan_drop_part(plan, d);
    }
    *spilled_out = found;
    return true;
}

void spilled_print(const char *head, const struct shunt_plan *plan)
{
    struct spilled spilled;
    if (!find(plan, &spilled)) {
        printf("%snot known: a part of the plan does not read (verify says why)\n", head);
        return;
    }
    if (spilled.bytes > 0)
        printf("%s%s old buffers of %s device%s, %s, to host memory; most %s, on device %s\n", head,
               fmt_count(spilled.buffers).s, fmt_count(spilled.devices).s, spilled.devices == 1 ? "" : "s",
               fmt_bytes(spilled.bytes).s, fmt_bytes(spilled.most).s, fmt_count(spilled.most_device).s);
}

void spilled_json(struct json *json, const struct shunt_plan *plan)
{
    struct spilled spilled;
    json_key(json, "spilled");
    if (!find(plan, &spilled)) {
        json_null(json);
        return;
    }
    json_object_begin(json);
    json_key_u64(json, "buffers", spilled.buffers);
    json_key_u64(json, "bytes", spilled.bytes);
    json_key_u64(json, "devices", spilled.devices);
    json_key_u64(json, "most", spilled.most);
    json_key(json, "most_device");
    if (spilled.most > 0)
        json_u64(json, spilled.most_device);
    else
        json_null(json);
    json_object_end(json);
}
