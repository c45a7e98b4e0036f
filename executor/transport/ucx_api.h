/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_UCX_API_H
#define SHUNT_EXECUTOR_UCX_API_H

/**
 * The UCX library, which is not linked: it is looked for when the transport is first asked for, so that everything else
 * runs where it is missing. The prototypes are those of its headers, and so is the version that is asked for.
 */

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include "shunt/status.h"

/** What is used, one macro call each: functions, and the names of the log's levels. */
#define UCX_FUNCTIONS(X)                                                                                               \
    X(ucp_cleanup)                                                                                                     \
    X(ucp_config_modify)                                                                                               \
    X(ucp_config_read)                                                                                                 \
    X(ucp_config_release)                                                                                              \
    X(ucp_ep_close_nbx)                                                                                                \
    X(ucp_ep_create)                                                                                                   \
    X(ucp_get_version_string)                                                                                          \
    X(ucp_init_version)                                                                                                \
    X(ucp_request_cancel)                                                                                              \
    X(ucp_request_check_status)                                                                                        \
    X(ucp_request_free)                                                                                                \
    X(ucp_tag_msg_recv_nbx)                                                                                            \
    X(ucp_tag_probe_nb)                                                                                                \
    X(ucp_tag_recv_nbx)                                                                                                \
    X(ucp_tag_send_nbx)                                                                                                \
    X(ucp_worker_create)                                                                                               \
    X(ucp_worker_destroy)                                                                                              \
    X(ucp_worker_get_address)                                                                                          \
    X(ucp_worker_progress)                                                                                             \
    X(ucp_worker_release_address)                                                                                      \
    X(ucs_log_level_names)                                                                                             \
    X(ucs_log_push_handler)                                                                                            \
    X(ucs_status_string)

struct ucx_api {
    void *library;
#define X(name) __typeof__(&name) name;
    UCX_FUNCTIONS(X)
#undef X
};

/** Filled in by the first ucx_api_load() that succeeds; does not change afterwards. */
extern struct ucx_api ucx_api;

/** Loads the library on first use, and keeps it. @return SHUNT_ERR_IO when there is none, or one that is too old */
enum shunt_status ucx_api_load(struct shunt_err *err);

#endif
