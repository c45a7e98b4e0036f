/* SPDX-License-Identifier: Apache-2.0 */
/* The list of transports. */
#include <string.h>

#include "transport/transport.h"

const struct transport_row transport_rows[] = {
#ifdef SHUNT_HAVE_UCX
    {"ucx", "one process per device, host memory, through the UCX library found at run time", &transport_ucx, NULL},
#else
    {"ucx", "one process per device, host memory, through the UCX library found at run time", NULL,
     "built without UCX"},
#endif
    {"loopback", "all devices in one process, host or CUDA memory", &transport_loopback, NULL},
#ifdef SHUNT_HAVE_NCCL
    {"nccl", "one process per device, CUDA memory, through the NCCL library found at run time", &transport_nccl, NULL},
#else
    {"nccl", "one process per device, CUDA memory, through the NCCL library found at run time", NULL,
     "built without the CUDA toolkit and nccl.h"},
#endif
    {NULL, NULL, NULL, NULL},
};

enum shunt_status transport_find(const char *name, const struct transport_ops **ops_out, struct shunt_err *err)
{
    for (const struct transport_row *row = transport_rows; row->name != NULL; row++) {
        if (strcmp(row->name, name) != 0)
            continue;
        if (row->ops == NULL)
            return shunt_fail(err, SHUNT_ERR_UNSUPPORTED, "transport %s is not supported: %s", name, row->missing);
        *ops_out = row->ops;
        return SHUNT_OK;
    }
    return shunt_fail(err, SHUNT_ERR_USAGE, "no transport is called \"%s\"; known are ucx, loopback and nccl", name);
}
