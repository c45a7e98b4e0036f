/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

#include <inttypes.h>
#include <stdlib.h>

/* Devices named so far. The first walk counts and checks, the second one writes ids. */
struct device_set {
    unsigned char *named; /* one bit per device; first walk */
    uint32_t *ids;        /* second walk */
    uint32_t count;
};

static bool name_device(void *context, const struct cfg_site *site, uint64_t device)
{
    struct device_set *set = context;
    unsigned char bit = (unsigned char)(1u << (device % 8)), *byte = &set->named[device / 8];
    if ((*byte & bit) != 0) {
        cfg_report(site->loader->diag, site->node->pos, site->path,
                   "found device %" PRIu64 " twice, expected distinct devices", device);
        return false;
    }
    *byte |= bit;
    set->count++;
    return true;
}

static bool keep_device(void *context, const struct cfg_site *site, uint64_t device)
{
    struct device_set *set = context;
    (void)site;
    set->ids[set->count++] = (uint32_t)device;
    return true;
}

bool cfg_devices_read(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_layout *layout = object;
    struct device_set set = {.named = cfg_site_alloc(site, CFG_MAX_DEVICES / 8)};
    bool good = set.named != NULL && cfg_site_numbers(site, field, name_device, &set);
    free(set.named);
    if (!good)
        return false;
    set.ids = cfg_site_alloc(site, set.count * sizeof(*set.ids));
    if (set.ids == NULL)
        return false;
    set.count = 0;
    layout->devices = set.ids;
    if (!cfg_site_numbers(site, field, keep_device, &set))
        return false;
    layout->device_count = set.count;
    return true;
}
