/* SPDX-License-Identifier: Apache-2.0 */
/* UCX contexts, workers and endpoints. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ucx.h"

#define CLOSE_SECONDS 0.5

static enum shunt_status ucx_fail(struct shunt_err *err, const char *call, const char *what, ucs_status_t status)
{
    return shunt_fail(err, SHUNT_ERR_TRANSPORT, "UCX %s (%s): %s", call, what, ucx_api.ucs_status_string(status));
}

/* What only some versions or transports know: no error if this one does not. */
static void set_if_known(ucp_config_t *config, const char *name, const char *value)
{
    (void)ucx_api.ucp_config_modify(config, name, value);
}

static enum shunt_status open_context(struct ucx_worker *worker, const char *what, const struct ucx_choice *choice,
                                      struct shunt_err *err)
{
    ucp_config_t *config;
    ucs_status_t status = ucx_api.ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return ucx_fail(err, "ucp_config_read", what, status);
    if (choice->tls != NULL)
        status = ucx_api.ucp_config_modify(config, "TLS", choice->tls);
    if (status == UCS_OK && choice->devices != NULL)
        status = ucx_api.ucp_config_modify(config, "NET_DEVICES", choice->devices);
    if (choice->segment_dir != NULL) {
        set_if_known(config, "DIR", choice->segment_dir); /* 1.13 */
        set_if_known(config, "POSIX_DIR", choice->segment_dir);
    }
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME, .features = UCP_FEATURE_TAG, .name = what};
    if (status == UCS_OK)
        status = ucx_api.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &worker->context);
    ucx_api.ucp_config_release(config);
    return status == UCS_OK ? SHUNT_OK : ucx_fail(err, "ucp_init", what, status);
}

enum shunt_status ucx_worker_open(struct ucx_worker *worker, const char *what, const struct ucx_choice *choice,
                                  struct shunt_err *err)
{
    enum shunt_status st = open_context(worker, what, choice, err);
    if (st != SHUNT_OK)
        return st;
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucs_status_t status = ucx_api.ucp_worker_create(worker->context, &params, &worker->worker);
    if (status == UCS_OK)
        return SHUNT_OK;
    ucx_api.ucp_cleanup(worker->context);
    *worker = (struct ucx_worker){0};
    return ucx_fail(err, "ucp_worker_create", what, status);
}

void ucx_worker_close(struct ucx_worker *worker)
{
    if (worker->worker == NULL)
        return;
    ucx_api.ucp_worker_destroy(worker->worker);
    ucx_api.ucp_cleanup(worker->context);
    *worker = (struct ucx_worker){0};
}

void ucx_worker_leave(struct ucx_worker *worker)
{
    static struct left {
        struct ucx_worker worker;
        struct left *next;
    } * _Atomic all; /* for leak checkers */
    struct left *left = malloc(sizeof(*left));
    if (left != NULL) {
        left->worker = *worker;
        left->next = atomic_load(&all);
        while (!atomic_compare_exchange_weak(&all, &left->next, left))
            ;
    }
    *worker = (struct ucx_worker){0};
}

enum shunt_status ucx_worker_address(const struct ucx_worker *worker, void *bytes, size_t capacity, uint32_t *size_out,
                                     struct shunt_err *err)
{
    ucp_address_t *address;
    size_t size;
    *size_out = 0;
    if (worker->worker == NULL)
        return SHUNT_OK;
    ucs_status_t status = ucx_api.ucp_worker_get_address(worker->worker, &address, &size);
    if (status != UCS_OK)
        return ucx_fail(err, "ucp_worker_get_address", "address", status);
    if (size <= capacity) {
        memcpy(bytes, address, size);
        *size_out = (uint32_t)size;
    }
    ucx_api.ucp_worker_release_address(worker->worker, address);
    if (size > capacity)
        return shunt_fail(err, SHUNT_ERR_TRANSPORT,
                          "UCX needs an address of %zu bytes, %zu are left: choose fewer UCX_NET_DEVICES", size,
                          capacity);
    return SHUNT_OK;
}

/* ---- endpoints ------------------------------------------------------------------ */

static void on_peer_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_peer *peer = arg;
    (void)ep;
    ucx_note_failure(peer->owner, peer->device, status);
}

/** Failures to connect that mean that the peer is gone: it had published this address a moment ago. */
static bool means_lost(ucs_status_t status)
{
    return status == UCS_ERR_SHMEM_SEGMENT || status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_REJECTED ||
           status == UCS_ERR_NOT_CONNECTED || status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_IO_ERROR;
}

enum shunt_status ucx_endpoint(struct ucx_peer *peer, const struct ucx_worker *worker, bool notices, ucp_ep_h *ep_out,
                               struct shunt_err *err)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .address = ucx_peer_address(peer, worker),
                              .err_mode = notices ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE};
    if (notices) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_handler = (ucp_err_handler_t){.cb = on_peer_failure, .arg = peer};
    }
    ucs_status_t status = ucx_api.ucp_ep_create(worker->worker, &params, ep_out);
    if (status == UCS_OK)
        return SHUNT_OK;
    char who[160];
    members_print(&peer->owner->members, peer->device, who, sizeof(who));
    if (!means_lost(status))
        return ucx_fail(err, "ucp_ep_create", who, status);
    peer->owner->members.lost_device = peer->device;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s is lost: %s, while connecting to it", who,
                      ucx_api.ucs_status_string(status));
}

void ucx_endpoint_close(struct ucx *ucx, ucp_ep_h ep, bool force)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    struct deadline deadline = deadline_after(CLOSE_SECONDS);
    ucs_status_ptr_t request = ucx_api.ucp_ep_close_nbx(ep, &param);
    uint32_t turns = 0;
    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucx_api.ucp_request_check_status(request) == UCS_INPROGRESS && !deadline_passed(&deadline)) {
        if (!ucx_progress(ucx))
            ucx_idle(&turns);
    }
    ucx_api.ucp_request_free(request);
}

void ucx_idle(uint32_t *turns)
{
    ++*turns;
    if (*turns > 2000)
        sleep_ns(50000);
    else if (*turns > 50)
        sched_yield();
}

/* ---- log ------------------------------------------------------------------------ */

static ucs_log_func_rc_t log_to_stderr(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                       const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)line, (void)function;
    if (level > component->log_level || getenv("UCX_LOG_LEVEL") == NULL)
        return UCS_LOG_FUNC_RC_STOP;
    char text[512];
    vsnprintf(text, sizeof(text), format, args);
    fprintf(stderr, "shunt-exec: UCX %s: %s\n", (*ucx_api.ucs_log_level_names)[level], text);
    return UCS_LOG_FUNC_RC_STOP;
}

void ucx_log_divert(void)
{
    static bool done;
    if (!done)
        ucx_api.ucs_log_push_handler(log_to_stderr);
    done = true;
}
