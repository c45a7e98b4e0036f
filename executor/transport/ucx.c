/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ucx.h"

#include <stdio.h>
#include <stdlib.h>

static void ucx_free(struct ucx *ucx)
{
    for (uint32_t i = 0; i < ucx->base.size && ucx->peers != NULL; i++)
        free(ucx->peers[i].record);
    ucx_orphans_free(ucx);
    free(ucx->members.list);
    free(ucx->peers);
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++)
        free(ucx->groups[i].requests);
    free(ucx);
}

static void ucx_close(struct transport *transport)
{
    struct ucx *ucx = (struct ucx *)transport;
    ucx->closing = true;
    if (ucx->local.worker != NULL)
        ucx_data_close(ucx);
    if (ucx->control.worker != NULL)
        ucx_control_close(ucx);
    segments_close(&ucx->segments);
    ucx_free(ucx);
}

/* Tell why, take back what is under way, and let go of the memory that the caller gave. */
static void ucx_abandon(struct transport *transport, enum shunt_status status, const char *cause)
{
    struct ucx *ucx = (struct ucx *)transport;
    if (status != SHUNT_ERR_PEER && status != SHUNT_ERR_TIMEOUT)
        ucx->members.lost_device = transport->first_local;
    meet_report_failure(ucx->members.meet, transport->first_local, ucx->members.lost_device, status, cause);
    if (ucx->control.worker != NULL)
        ucx_last_words(ucx, status, ucx->members.meet->seen_lost ? ucx->members.meet->lost.text : cause);
    if (ucx->local.worker != NULL) {
        ucx_data_cancel(ucx);
        ucx_data_close(ucx);
    }
    segments_sweep(); /* after who was killed */
}

static enum shunt_status ucx_open(const struct transport_config *config, struct transport **transport_out,
                                  struct shunt_err *err)
{
    struct deadline deadline = deadline_after(config->timeout_seconds);
    enum shunt_status st = ucx_api_load(err);
    if (st != SHUNT_OK)
        return st;
    struct ucx *ucx = calloc(1, sizeof(*ucx));
    struct ucx_peer *peers = calloc(config->size, sizeof(*peers));
    struct member *list = calloc(config->size, sizeof(*list));
    if (ucx == NULL || peers == NULL || list == NULL) {
        free(ucx);
        free(peers);
        free(list);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u devices", config->size);
    }
    ucx->peers = peers;
    ucx->base = (struct transport){.ops = &transport_ucx,
                                   .size = config->size,
                                   .first_local = config->rank,
                                   .local_count = 1,
                                   .root = config->rank == 0};
    snprintf(ucx->base.library, sizeof(ucx->base.library), "UCX %s", ucx_api.ucp_get_version_string());
    ucx->members = (struct members){.meet = config->meet,
                                    .size = config->size,
                                    .self = config->rank,
                                    .list = list,
                                    .patience_seconds = 0.4,
                                    .ctx = ucx,
                                    .progress = ucx_progress_any,
                                    .take_last_words = ucx_take_last_words};
    ucx->segments.fd = -1;
    snprintf(ucx->members.where, sizeof(ucx->members.where), "at the meeting");
    for (uint32_t i = 0; i < TRANSPORT_GROUPS; i++)
        ucx->groups[i].owner = ucx;
    for (uint32_t i = 0; i < config->size; i++) {
        ucx->peers[i].owner = ucx;
        ucx->peers[i].device = i;
    }
    ucx_log_divert();
    st = ucx_meet_all(ucx, &deadline, err);
    if (st == SHUNT_OK)
        st = ucx_control_connect(ucx, &deadline, err);
    if (st != SHUNT_OK) {
        st = ucx_explain(ucx, st, err);
        ucx_close(&ucx->base);
        segments_sweep();
        return st;
    }
    *transport_out = &ucx->base;
    return SHUNT_OK;
}

const struct transport_ops transport_ucx = {
    .name = "ucx",
    .many_messages = true,
    .look = ucx_api_load,
    .open = ucx_open,
    .prepare = ucx_prepare,
    .post = ucx_post,
    .wait = ucx_wait,
    .gather = ucx_gather,
    .share = ucx_share,
    .poll = ucx_poll,
    .abandon = ucx_abandon,
    .close = ucx_close,
};
