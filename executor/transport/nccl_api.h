/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_NCCL_API_H
#define SHUNT_EXECUTOR_NCCL_API_H

/** NCCL is not linked: it is looked for when the transport is opened. The prototypes are those of NVIDIA's header. */

#include <nccl.h>

#include "shunt/status.h"

/** Functions that are used, one macro call each. */
#define NCCL_FUNCTIONS(X)                                                                                              \
    X(ncclCommAbort)                                                                                                   \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclCommFinalize)                                                                                                \
    X(ncclCommGetAsyncError)                                                                                           \
    X(ncclCommInitRankConfig)                                                                                          \
    X(ncclGetErrorString)                                                                                              \
    X(ncclGetLastError)                                                                                                \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclGetVersion)                                                                                                  \
    X(ncclGroupEnd)                                                                                                    \
    X(ncclGroupStart)                                                                                                  \
    X(ncclRecv)                                                                                                        \
    X(ncclSend)

struct nccl_api {
    void *library;
#define X(name) __typeof__(&name) name;
    NCCL_FUNCTIONS(X)
#undef X
    ncclResult_t (*ncclCommRevoke)(ncclComm_t comm, int flags); /* since 2.28.7; NULL where it is not there */
    int version;                                                /* 22809 */
};

/** Loads the library on first use, and keeps it. @return SHUNT_ERR_IO when there is none, or one that is too old */
enum shunt_status nccl_api_get(const struct nccl_api **api_out, struct shunt_err *err);

#endif
