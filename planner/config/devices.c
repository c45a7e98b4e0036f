/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "scalar.h"

/* Devices named so far. The first walk counts and checks, the second one writes ids. */
struct device_set {
    const struct cfg_site *site;
    const struct cfg_field *field;
    unsigned char *named; /* one bit per device */
    uint32_t *ids;        /* NULL in the first walk */
    uint32_t count;
};

static bool add_device(struct device_set *set, const struct cfg_site *site, uint64_t device)
{
    if (set->ids != NULL) {
        set->ids[set->count++] = (uint32_t)device;
        return true;
    }
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

static const char *scan_device(const char *text, size_t length, uint64_t *out)
{
    const char *reason = cfg_scan_count(text, length, out);
    return reason == NULL && *out >= CFG_MAX_DEVICES ? cfg_out_of_range : reason;
}

/* "5" or "8-15" */
static bool add_range(struct device_set *set, const char *text, size_t length)
{
    const char *dash = memchr(text, '-', length);
    size_t first_length = dash != NULL ? (size_t)(dash - text) : length;
    uint64_t first, last;
    const char *reason = scan_device(text, first_length, &first);
    if (reason == NULL && dash != NULL)
        reason = scan_device(dash + 1, length - first_length - 1, &last);
    else
        last = first;
    if (reason == NULL && last < first)
        reason = "a range that counts down";
    if (reason != NULL)
        return cfg_site_refuse(set->site, set->field, reason);
    for (uint64_t device = first; device <= last; device++) {
        if (!add_device(set, set->site, device))
            return false;
    }
    return true;
}

static bool add_text(struct device_set *set)
{
    const char *at = set->site->node->text, *end = at + set->site->node->length;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if (!add_range(set, at, (size_t)((comma != NULL ? comma : end) - at)))
            return false;
        if (comma == NULL)
            return true;
        at = comma + 1;
        if (at < end && *at == ' ')
            at++;
    }
}

static bool add_entry(struct device_set *set, const struct cfg_site *site)
{
    const struct cfg_field entry = {.type = CFG_COUNT, .max = CFG_MAX_DEVICES - 1};
    uint64_t device;
    if (!cfg_site_scalar(site, &entry))
        return false;
    const char *reason =
        site->node->plain ? scan_device(site->node->text, site->node->length, &device) : "a text in quotes";
    return reason != NULL ? cfg_site_refuse(site, &entry, reason) : add_device(set, site, device);
}

static bool add_list(struct device_set *set)
{
    bool good = set->site->node->count != 0 || cfg_site_refuse(set->site, set->field, "of none");
    uint64_t index = 0;
    for (const struct cfg_item *item = set->site->node->first; item != NULL; item = item->next, index++) {
        const struct cfg_path path = {.up = set->site->path, .index = index};
        const struct cfg_site inner = {set->site->loader, item->value, &path};
        if (!add_entry(set, &inner))
            good = false;
    }
    return good;
}

static bool add_all(struct device_set *set)
{
    set->count = 0;
    switch (set->site->node->kind) {
    case CFG_NODE_SCALAR:
        return add_text(set);
    case CFG_NODE_LIST:
        return add_list(set);
    default:
        return cfg_site_refuse(set->site, set->field, NULL);
    }
}

bool cfg_devices_read(const struct cfg_site *site, const struct cfg_field *field, void *object)
{
    struct cfg_layout *layout = object;
    struct device_set set = {.site = site, .field = field, .named = cfg_site_alloc(site, CFG_MAX_DEVICES / 8)};
    bool good = set.named != NULL && add_all(&set);
    free(set.named);
    if (!good)
        return false;
    set.ids = cfg_site_alloc(site, set.count * sizeof(*set.ids));
    if (set.ids == NULL)
        return false;
    set.named = NULL;
    add_all(&set);
    layout->devices = set.ids;
    layout->device_count = set.count;
    return true;
}
