/* SPDX-License-Identifier: Apache-2.0 */
#include "device_list.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config/devices.h"
#include "config/scalar.h"

/** "5" or "8-15", up to `end`. @return what is wrong; NULL: nothing */
static const char *scan_range(const char *at, const char *end, uint64_t *first_out, uint64_t *last_out)
{
    const char *dash = memchr(at, '-', (size_t)(end - at));
    const char *reason = cfg_scan_count(at, (size_t)((dash != NULL ? dash : end) - at), first_out);
    *last_out = *first_out;
    if (reason == NULL && dash != NULL)
        reason = cfg_scan_count(dash + 1, (size_t)(end - dash - 1), last_out);
    if (reason == NULL && *last_out < *first_out)
        reason = "a range that counts down";
    return reason == NULL && *last_out >= CFG_MAX_DEVICES ? "too large" : reason;
}

static enum shunt_status refuse(const char *option, const char *text, const char *reason, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_USAGE, "%s: found \"%.200s\" (%s), expected devices such as \"0-7,16-23\"", option,
                      text, reason);
}

enum shunt_status device_list_parse(const char *option, const char *text, uint32_t **devices_out, uint32_t *count_out,
                                    struct shunt_err *err)
{
    uint32_t *devices = malloc(CFG_MAX_DEVICES * sizeof(*devices)), count = 0;
    bool *named = calloc(CFG_MAX_DEVICES, sizeof(*named));
    const char *reason = devices == NULL || named == NULL ? "out of memory" : NULL;
    for (const char *at = text, *end; reason == NULL && at != NULL; at = *end == ',' ? end + 1 : NULL) {
        uint64_t first, last;
        end = at + strcspn(at, ",");
        reason = scan_range(at, end, &first, &last);
        for (; reason == NULL && first <= last; first++) {
            if (named[first])
                reason = "a device twice";
            else
                devices[count++] = (uint32_t)first;
            named[first] = true;
        }
    }
    bool lacks = devices == NULL || named == NULL;
    free(named);
    if (reason == NULL) {
        *devices_out = devices;
        *count_out = count;
        return SHUNT_OK;
    }
    free(devices);
    return lacks ? shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory") : refuse(option, text, reason, err);
}
