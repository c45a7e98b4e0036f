/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The control star: device 0 in the middle. Records of votes go in and out, a lost process is
 * noticed because its connection breaks, and a process that gives up says why before it goes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ucx.h"

#define KIND_GATHER    UINT64_C(1)
#define KIND_SHARE     UINT64_C(2)
#define KIND_LAST_WORD UINT64_C(3)
#define KIND_MASK      (UINT64_C(0xFF) << 56)

#define WORDS_SECONDS  0.25
#define SHARE_GRACE_NS NS_PER_SECOND /* device 0 knows more: let it time out first */

static uint64_t control_tag(uint64_t kind, uint32_t vote, uint32_t device)
{
    return kind << 56 | (uint64_t)vote << 20 | device;
}

/* ---- progress and failures ------------------------------------------------------ */

bool ucx_progress(struct ucx *ucx)
{
    unsigned moved = 0;
    if (ucx->local.worker != NULL)
        moved += ucx_api.ucp_worker_progress(ucx->local.worker);
    if (ucx->remote.worker != NULL)
        moved += ucx_api.ucp_worker_progress(ucx->remote.worker);
    if (ucx->control.worker != NULL)
        moved += ucx_api.ucp_worker_progress(ucx->control.worker);
    return moved != 0;
}

bool ucx_progress_any(void *ctx)
{
    return ucx_progress(ctx);
}

void ucx_note_failure(struct ucx *ucx, uint32_t device, ucs_status_t status)
{
    if (ucx->failed || ucx->closing)
        return;
    ucx->failed = true;
    ucx->failed_device = device;
    ucx->failed_status = status;
}

/* A connection broke. */
static enum shunt_status explain_failure(struct ucx *ucx, struct shunt_err *err)
{
    enum shunt_status st = members_find_cause(&ucx->members, err);
    if (st != SHUNT_OK)
        return st;
    char who[160];
    members_print(&ucx->members, ucx->failed_device, who, sizeof(who));
    ucx->members.lost_device = ucx->failed_device;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s is lost: %s, %s", who, ucx_api.ucs_status_string(ucx->failed_status),
                      ucx->members.where);
}

enum shunt_status ucx_explain(struct ucx *ucx, enum shunt_status status, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    if (status != SHUNT_ERR_TRANSPORT)
        return status;
    enum shunt_status st = members_find_cause(&ucx->members, &cause);
    return st == SHUNT_OK ? status : shunt_fail(err, st, "%s", cause.text);
}

enum shunt_status ucx_poll(struct transport *transport, struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    ucx_progress(ucx);
    if (ucx->failed)
        return explain_failure(ucx, err);
    return members_look(&ucx->members, false, err);
}

/* ---- records -------------------------------------------------------------------- */

/* A record on its way; done is set by the callback. */
struct record {
    uint32_t device;
    bool done;
    ucs_status_t status;
    size_t bytes;
    void *handle;
};

/*
 * Records of one step, with all memory that UCX points into. A cancelled send stays with UCX until
 * it goes out or its worker is destroyed, so a batch outlives its step while any record is open.
 */
struct ucx_batch {
    struct ucx_batch *next; /* among ucx->orphans */
    uint32_t count;
    char *payload;
    struct record records[];
};

static struct ucx_batch *batch_new(uint32_t count, size_t payload_bytes)
{
    struct ucx_batch *batch = calloc(1, sizeof(*batch) + count * sizeof(batch->records[0]));
    if (batch == NULL)
        return NULL;
    batch->payload = calloc(1, payload_bytes);
    if (batch->payload == NULL) {
        free(batch);
        return NULL;
    }
    batch->count = count;
    return batch;
}

static void batch_free(struct ucx_batch *batch)
{
    free(batch->payload);
    free(batch);
}

static bool all_done(const struct ucx_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        if (!batch->records[i].done)
            return false;
    }
    return true;
}

/* Let records go out for a moment. */
static void batch_flush(struct ucx *ucx, const struct ucx_batch *batch)
{
    struct deadline deadline = deadline_after(WORDS_SECONDS);
    while (!all_done(batch) && !deadline_passed(&deadline))
        ucx_api.ucp_worker_progress(ucx->control.worker);
}

/* Take back what is open; what UCX does not give back is kept until its worker is gone. */
static void batch_finish(struct ucx *ucx, struct ucx_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->records[i].handle != NULL)
            ucx_api.ucp_request_cancel(ucx->control.worker, batch->records[i].handle);
    }
    batch_flush(ucx, batch);
    if (all_done(batch)) {
        batch_free(batch);
        return;
    }
    batch->next = ucx->orphans;
    ucx->orphans = batch;
}

void ucx_orphans_free(struct ucx *ucx)
{
    while (ucx->orphans != NULL) {
        struct ucx_batch *batch = ucx->orphans;
        ucx->orphans = batch->next;
        batch_free(batch);
    }
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    struct record *record = user_data;
    record->done = true;
    record->status = status;
    record->handle = NULL;
    ucx_api.ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct record *record = user_data;
    record->bytes = info->length;
    on_sent(request, status, record);
}

static void start(struct record *record, ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        record->done = true;
        record->status = UCS_PTR_STATUS(request);
    } else if (!record->done) { /* the callback may have run inside the call, and freed it */
        record->handle = request;
    }
}

static void send_record(struct ucx *ucx, struct record *record, const void *bytes, size_t size, uint64_t tag)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.send = on_sent,
                                 .user_data = record};
    start(record, ucx_api.ucp_tag_send_nbx(ucx->peers[record->device].control_ep, bytes, size, tag, &param));
}

static ucp_request_param_t receive_param(struct record *record)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = on_received,
                                 .user_data = record};
}

static void receive_record(struct ucx *ucx, struct record *record, void *bytes, size_t size, uint64_t tag)
{
    ucp_request_param_t param = receive_param(record);
    start(record, ucx_api.ucp_tag_recv_nbx(ucx->control.worker, bytes, size, tag, UINT64_MAX, &param));
}

/* Last words of somebody, if any have come. */
bool ucx_take_last_words(void *ctx, struct meet_lost *lost)
{
    struct ucx *ucx = ctx;
    const uint64_t tag = control_tag(KIND_LAST_WORD, 0, 0);
    ucp_tag_recv_info_t info;
    struct meet_lost words;
    if (ucx->control.worker == NULL || ucx_api.ucp_tag_probe_nb(ucx->control.worker, tag, KIND_MASK, 0, &info) == NULL)
        return false;
    struct ucx_batch *batch = batch_new(1, sizeof(words));
    if (batch == NULL)
        return false;
    ucp_tag_message_h message = ucx_api.ucp_tag_probe_nb(ucx->control.worker, tag, KIND_MASK, 1, &info);
    struct record *record = &batch->records[0];
    ucp_request_param_t param = receive_param(record);
    start(record, ucx_api.ucp_tag_msg_recv_nbx(ucx->control.worker, batch->payload, sizeof(words), message, &param));
    batch_flush(ucx, batch);
    bool good = record->done && record->status == UCS_OK && record->bytes == sizeof(words);
    memcpy(&words, batch->payload, sizeof(words));
    batch_finish(ucx, batch);
    if (!good || words.device >= ucx->base.size)
        return false;
    words.text[sizeof(words.text) - 1] = '\0';
    *lost = words;
    return true;
}

static enum shunt_status time_out(struct ucx *ucx, const struct ucx_batch *batch, double seconds, struct shunt_err *err)
{
    struct waited waited = {0};
    for (uint32_t i = 0; i < batch->count; i++) {
        if (!batch->records[i].done)
            waited_add(&waited, batch->records[i].device);
    }
    return members_time_out(&ucx->members, &waited, seconds, err);
}

static bool missing_are_alive(struct ucx *ucx, const struct ucx_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        if (!batch->records[i].done && !members_seen_alive(&ucx->members, batch->records[i].device))
            return false;
    }
    return true;
}

static enum shunt_status wait_records(struct ucx *ucx, const struct ucx_batch *batch, const char *what,
                                      const struct deadline *deadline, struct shunt_err *err)
{
    uint32_t turns = 0;
    snprintf(ucx->members.where, sizeof(ucx->members.where), "at the %s", what);
    while (!all_done(batch)) {
        bool moved = ucx_progress(ucx);
        if (all_done(batch)) /* what has come counts, even if its sender has left since */
            break;
        if (moved) {
            turns = 0;
            continue;
        }
        enum shunt_status st = ucx_poll(&ucx->base, err);
        if (st != SHUNT_OK && all_done(batch))
            break;
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline) && !missing_are_alive(ucx, batch))
            return time_out(ucx, batch, deadline->seconds, err);
        ucx_idle(&turns);
    }
    return SHUNT_OK;
}

static enum shunt_status check_records(struct ucx *ucx, const struct ucx_batch *batch, size_t bytes, bool received,
                                       const char *what, struct shunt_err *err)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct record *r = &batch->records[i];
        char who[160];
        members_print(&ucx->members, r->device, who, sizeof(who));
        if (r->status == UCS_ERR_MESSAGE_TRUNCATED || (r->status == UCS_OK && received && r->bytes != bytes))
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s sent a record of another size", what, who);
        if (r->status != UCS_OK) {
            ucx_note_failure(ucx, r->device, r->status);
            return explain_failure(ucx, err);
        }
    }
    return SHUNT_OK;
}

/* One step between the root and everybody else, from one end. */
struct step {
    uint64_t kind;
    const char *what;
    size_t size;         /* of a record */
    const void *send;    /* the same record for all; NULL: receive */
    void *receive;       /* one after the other, in the order of the devices */
    uint32_t first, end; /* the devices at the other end */
};

static enum shunt_status run_step(struct ucx *ucx, const struct step *step, const struct deadline *deadline,
                                  struct shunt_err *err)
{
    uint32_t count = step->end - step->first;
    bool receives = step->send == NULL;
    size_t bytes = receives ? count * step->size : step->size;
    struct ucx_batch *batch = batch_new(count, bytes + 1);
    if (batch == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u records", count);
    if (!receives)
        memcpy(batch->payload, step->send, step->size);
    for (uint32_t i = 0; i < count; i++) {
        struct record *record = &batch->records[i];
        record->device = step->first + i;
        uint32_t named = step->kind == KIND_SHARE ? 0 : receives ? record->device : ucx->base.first_local;
        uint64_t tag = control_tag(step->kind, ucx->votes, named);
        if (receives)
            receive_record(ucx, record, batch->payload + i * step->size, step->size, tag);
        else
            send_record(ucx, record, batch->payload, step->size, tag);
    }
    enum shunt_status st = wait_records(ucx, batch, step->what, deadline, err);
    if (st == SHUNT_OK)
        st = check_records(ucx, batch, step->size, receives, step->what, err);
    if (st == SHUNT_OK && receives)
        memcpy(step->receive, batch->payload, bytes);
    batch_finish(ucx, batch);
    return st;
}

enum shunt_status ucx_gather(struct transport *transport, const void *mine, size_t bytes, void *all, const char *what,
                             const struct deadline *deadline, struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    struct step step = {.kind = KIND_GATHER, .what = what, .size = bytes};
    ucx->votes++;
    if (transport->root) {
        memcpy(all, mine, bytes);
        step.receive = (char *)all + bytes;
        step.first = 1;
        step.end = transport->size;
    } else {
        step.send = mine;
        step.end = 1;
    }
    return run_step(ucx, &step, deadline, err);
}

enum shunt_status ucx_share(struct transport *transport, void *bytes, size_t size, const char *what,
                            const struct deadline *deadline, struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    struct step step = {.kind = KIND_SHARE, .what = what, .size = size};
    struct deadline later = *deadline;
    ucx->votes++;
    if (transport->root) {
        step.send = bytes;
        step.first = 1;
        step.end = transport->size;
    } else {
        step.receive = bytes;
        step.end = 1;
        later.at_ns += SHARE_GRACE_NS;
    }
    return run_step(ucx, &step, &later, err);
}

/* ---- begin and end -------------------------------------------------------------- */

enum shunt_status ucx_control_connect(struct ucx *ucx, const struct deadline *deadline, struct shunt_err *err)
{
    uint32_t first = ucx->base.root ? 1 : 0, last = ucx->base.root ? ucx->base.size : 1;
    for (uint32_t i = first; i < last; i++) {
        enum shunt_status st = ucx_endpoint(&ucx->peers[i], &ucx->control, true, &ucx->peers[i].control_ep, err);
        if (st != SHUNT_OK)
            return st;
    }
    /* one tiny exchange, so that the connections exist: a death is noticed from here on */
    uint64_t nothing = 0, *all = calloc(ucx->base.size, sizeof(nothing));
    if (all == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    enum shunt_status st = ucx_gather(&ucx->base, &nothing, sizeof(nothing), all, "meeting", deadline, err);
    free(all);
    return st == SHUNT_OK ? ucx_share(&ucx->base, &nothing, sizeof(nothing), "meeting", deadline, err) : st;
}

void ucx_last_words(struct ucx *ucx, enum shunt_status status, const char *text)
{
    struct meet_lost words = {.device = ucx->members.lost_device, .status = (uint32_t)status};
    snprintf(words.text, sizeof(words.text), "%s", text);
    struct ucx_batch *batch = batch_new(ucx->base.size, sizeof(words));
    if (batch == NULL)
        return;
    memcpy(batch->payload, &words, sizeof(words));
    batch->count = 0;
    for (uint32_t i = 0; i < ucx->base.size; i++) {
        if (ucx->peers[i].control_ep == NULL || (ucx->failed && ucx->failed_device == i))
            continue;
        struct record *record = &batch->records[batch->count++];
        record->device = i;
        send_record(ucx, record, batch->payload, sizeof(words), control_tag(KIND_LAST_WORD, 0, ucx->base.first_local));
    }
    batch_flush(ucx, batch);
    batch_finish(ucx, batch);
}

void ucx_control_close(struct ucx *ucx)
{
    bool force = ucx->failed || ucx->orphans != NULL; /* a gentle end would wait for what does not go out */
    for (uint32_t i = 0; i < ucx->base.size; i++) {
        if (ucx->peers[i].control_ep != NULL)
            ucx_endpoint_close(ucx, ucx->peers[i].control_ep, force);
        ucx->peers[i].control_ep = NULL;
    }
    ucx_worker_close(&ucx->control);
}
