/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices. */
#include <string.h>

#include "base/number.h"
#include "device/device.h"
#include "shunt/exec.h"

#define MAX_ORDINAL 1023u

const struct device_row device_rows[] = {
    {"host", "host memory", &device_host, NULL},
#ifdef SHUNT_HAVE_CUDA
    {"cuda", "CUDA memory, through the CUDA Runtime library found at run time", &device_cuda, NULL},
#else
    {"cuda", "CUDA memory, through the CUDA Runtime library found at run time", NULL, "built without the CUDA toolkit"},
#endif
    {NULL, NULL, NULL, NULL},
};

enum shunt_status device_find(const char *name, const struct device_ops **ops_out, uint32_t *ordinal_out,
                              struct shunt_err *err)
{
    size_t length = strcspn(name, ":");
    uint64_t ordinal = 0;
    if (name[length] == ':' && (!number_parse_u64(name + length + 1, &ordinal) || ordinal > MAX_ORDINAL))
        return shunt_fail(err, SHUNT_ERR_USAGE, "device \"%.80s\": found \"%.40s\", expected a number from 0 to %u",
                          name, name + length + 1, MAX_ORDINAL);
    for (const struct device_row *row = device_rows; row->name != NULL; row++) {
        if (strlen(row->name) != length || strncmp(row->name, name, length) != 0)
            continue;
        if (row->ops == NULL)
            return shunt_fail(err, SHUNT_ERR_UNSUPPORTED, "device %s is not supported: %s", row->name, row->missing);
        *ops_out = row->ops;
        *ordinal_out = (uint32_t)ordinal;
        return SHUNT_OK;
    }
    return shunt_fail(err, SHUNT_ERR_USAGE, "no device is called \"%.80s\"; known are host, cuda and cuda:N", name);
}

enum shunt_status shunt_device_open(const char *name, struct shunt_device **device_out, struct shunt_err *err)
{
    const struct device_ops *ops;
    uint32_t ordinal;
    enum shunt_status st = device_find(name, &ops, &ordinal, err);
    return st == SHUNT_OK ? ops->open(ordinal, device_out, err) : st;
}

void shunt_device_close(struct shunt_device *device)
{
    if (device != NULL)
        device->ops->close(device);
}
