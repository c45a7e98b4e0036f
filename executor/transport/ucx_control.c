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

#define CAUSE_GRACE_SECONDS 0.15 /* a broken connection may be the messenger's: wait for the cause */
#define WORDS_SECONDS       0.25
#define SHARE_GRACE_NS      NS_PER_SECOND /* device 0 knows more: let it time out first */
#define ALIVE_SECONDS       1.0

static uint64_t control_tag(uint64_t kind, uint32_t vote, uint32_t device)
{
    return kind << 56 | (uint64_t)vote << 20 | device;
}

/* ---- names ---------------------------------------------------------------------- */

void ucx_print_peer(const struct ucx *ucx, uint32_t device, char *text, size_t size)
{
    const struct ucx_peer *peer = &ucx->peers[device];
    snprintf(text, size, "device %u (pid %" PRId64 ", host %s)", device, peer->pid, peer->host);
}

void ucx_print_silent(struct ucx *ucx, double seconds, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < ucx->base.size && used + 200 < size; i++) {
        double silent = meet_silent_seconds(ucx->meet, i);
        char who[160];
        if (i == ucx->base.first_local || silent < ALIVE_SECONDS || silent < 0.5 * seconds)
            continue;
        ucx_print_peer(ucx, i, who, sizeof(who));
        used += (size_t)snprintf(text + used, size - used, ": %s has shown no life for %.1f s", who, silent);
        ucx->lost_device = i;
    }
}

/* ---- progress and failures ------------------------------------------------------ */

bool ucx_progress(struct ucx *ucx)
{
    unsigned moved = 0;
    if (ucx->local.worker != NULL)
        moved += ucp_worker_progress(ucx->local.worker);
    if (ucx->remote.worker != NULL)
        moved += ucp_worker_progress(ucx->remote.worker);
    if (ucx->control.worker != NULL)
        moved += ucp_worker_progress(ucx->control.worker);
    return moved != 0;
}

void ucx_note_failure(struct ucx *ucx, uint32_t device, ucs_status_t status)
{
    if (ucx->failed || ucx->closing)
        return;
    ucx->failed = true;
    ucx->failed_device = device;
    ucx->failed_status = status;
}

/* Last words of somebody, if any have come. */
static bool take_last_words(struct ucx *ucx, struct meet_lost *lost)
{
    ucp_tag_recv_info_t info;
    if (ucx->control.worker == NULL)
        return false;
    ucp_tag_message_h message =
        ucp_tag_probe_nb(ucx->control.worker, control_tag(KIND_LAST_WORD, 0, 0), KIND_MASK, 1, &info);
    if (message == NULL)
        return false;
    struct meet_lost words = {0};
    ucp_request_param_t param = {0};
    struct deadline deadline = deadline_after(WORDS_SECONDS);
    ucs_status_ptr_t request = ucp_tag_msg_recv_nbx(ucx->control.worker, &words, sizeof(words), message, &param);
    bool good = !UCS_PTR_IS_ERR(request) && info.length == sizeof(words);
    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline_passed(&deadline))
            ucp_worker_progress(ucx->control.worker);
        good = good && ucp_request_check_status(request) == UCS_OK;
        if (ucp_request_check_status(request) == UCS_INPROGRESS)
            ucp_request_cancel(ucx->control.worker, request);
        ucp_request_free(request);
    }
    if (!good || words.device >= ucx->base.size)
        return false;
    words.text[sizeof(words.text) - 1] = '\0';
    *lost = words;
    return true;
}

static enum shunt_status look_around(struct ucx *ucx, bool now, struct shunt_err *err)
{
    struct meet_lost lost;
    enum shunt_status st = meet_poll(ucx->meet, now, err);
    if (st == SHUNT_ERR_PEER)
        ucx->lost_device = ucx->meet->lost.device;
    if (st != SHUNT_OK)
        return st;
    if (!take_last_words(ucx, &lost))
        return SHUNT_OK;
    ucx->lost_device = lost.device;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s", lost.text);
}

/* If somebody knows why the run ends, theirs is the better word. */
static enum shunt_status find_cause(struct ucx *ucx, struct shunt_err *err)
{
    struct deadline grace = deadline_after(CAUSE_GRACE_SECONDS);
    while (!deadline_passed(&grace)) {
        enum shunt_status st = look_around(ucx, true, err);
        if (st != SHUNT_OK)
            return st;
        ucx_progress(ucx);
        sleep_ns(NS_PER_MS);
    }
    return SHUNT_OK;
}

/* A connection broke. */
static enum shunt_status explain_failure(struct ucx *ucx, struct shunt_err *err)
{
    enum shunt_status st = find_cause(ucx, err);
    if (st != SHUNT_OK)
        return st;
    char who[160];
    ucx_print_peer(ucx, ucx->failed_device, who, sizeof(who));
    ucx->lost_device = ucx->failed_device;
    return shunt_fail(err, SHUNT_ERR_PEER, "%s is lost: %s, %s", who, ucs_status_string(ucx->failed_status),
                      ucx->where);
}

enum shunt_status ucx_explain(struct ucx *ucx, enum shunt_status status, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    if (status != SHUNT_ERR_TRANSPORT)
        return status;
    enum shunt_status st = find_cause(ucx, &cause);
    return st == SHUNT_OK ? status : shunt_fail(err, st, "%s", cause.text);
}

enum shunt_status ucx_poll(struct transport *transport, struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    ucx_progress(ucx);
    if (ucx->failed)
        return explain_failure(ucx, err);
    return look_around(ucx, false, err);
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

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    struct record *record = user_data;
    record->done = true;
    record->status = status;
    record->handle = NULL;
    ucp_request_free(request);
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
    start(record, ucp_tag_send_nbx(ucx->peers[record->device].control_ep, bytes, size, tag, &param));
}

static void receive_record(struct ucx *ucx, struct record *record, void *bytes, size_t size, uint64_t tag)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv = on_received,
                                 .user_data = record};
    start(record, ucp_tag_recv_nbx(ucx->control.worker, bytes, size, tag, UINT64_MAX, &param));
}

static bool all_done(const struct record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!records[i].done)
            return false;
    }
    return true;
}

static enum shunt_status time_out(struct ucx *ucx, const struct record *records, uint32_t count, double seconds,
                                  struct shunt_err *err)
{
    char names[400] = "", silent[400];
    size_t used = 0;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (records[i].done)
            continue;
        char who[160];
        ucx->lost_device = records[i].device;
        ucx_print_peer(ucx, records[i].device, who, sizeof(who));
        if (used + 180 < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", missing == 0 ? "" : ", ", who);
        missing++;
    }
    ucx_print_silent(ucx, seconds, silent, sizeof(silent));
    return shunt_fail(err, SHUNT_ERR_TIMEOUT, "timed out after %g s %s%s; waited for %u of %u devices: %s", seconds,
                      ucx->where, silent, missing, ucx->base.size, names);
}

/*
 * Where life can be seen, a vote waits for those who still fill, load, check or store: they look up
 * only as they get on, and whatever they wait for themselves has a deadline.
 */
static bool missing_are_alive(struct ucx *ucx, const struct record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double silent = records[i].done ? 0 : meet_silent_seconds(ucx->meet, records[i].device);
        if (silent < 0 || silent >= ALIVE_SECONDS)
            return false;
    }
    return true;
}

static enum shunt_status wait_records(struct ucx *ucx, const struct record *records, uint32_t count, const char *what,
                                      const struct deadline *deadline, struct shunt_err *err)
{
    uint32_t turns = 0;
    snprintf(ucx->where, sizeof(ucx->where), "at the %s", what);
    while (!all_done(records, count)) {
        bool moved = ucx_progress(ucx);
        if (all_done(records, count)) /* what has come counts, even if its sender has left since */
            break;
        if (moved) {
            turns = 0;
            continue;
        }
        enum shunt_status st = ucx_poll(&ucx->base, err);
        if (st != SHUNT_OK && all_done(records, count))
            break;
        if (st != SHUNT_OK)
            return st;
        if (deadline_passed(deadline) && !missing_are_alive(ucx, records, count))
            return time_out(ucx, records, count, deadline->seconds, err);
        ucx_idle(&turns);
    }
    return SHUNT_OK;
}

static enum shunt_status check_records(struct ucx *ucx, const struct record *records, uint32_t count, size_t bytes,
                                       bool received, const char *what, struct shunt_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct record *r = &records[i];
        char who[160];
        ucx_print_peer(ucx, r->device, who, sizeof(who));
        if (r->status == UCS_ERR_MESSAGE_TRUNCATED || (r->status == UCS_OK && received && r->bytes != bytes))
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: %s sent a record of another size", what, who);
        if (r->status != UCS_OK) {
            ucx_note_failure(ucx, r->device, r->status);
            return explain_failure(ucx, err);
        }
    }
    return SHUNT_OK;
}

/* Let sends go out for a moment. */
static void flush_records(struct ucx *ucx, const struct record *records, uint32_t count)
{
    struct deadline deadline = deadline_after(WORDS_SECONDS);
    while (!all_done(records, count) && !deadline_passed(&deadline))
        ucp_worker_progress(ucx->control.worker);
}

/* Pending requests point into memory of this call: take them back before returning. */
static void drop_records(struct ucx *ucx, struct record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (records[i].handle != NULL)
            ucp_request_cancel(ucx->control.worker, records[i].handle);
    }
    flush_records(ucx, records, count);
}

static enum shunt_status finish_records(struct ucx *ucx, struct record *records, uint32_t count, size_t bytes,
                                        bool received, const char *what, const struct deadline *deadline,
                                        struct shunt_err *err)
{
    enum shunt_status st = wait_records(ucx, records, count, what, deadline, err);
    if (st == SHUNT_OK)
        st = check_records(ucx, records, count, bytes, received, what, err);
    drop_records(ucx, records, count);
    return st;
}

/* Records between the root and everybody else; device i's memory is `step` * i bytes into `bytes`. */
static enum shunt_status root_records(struct ucx *ucx, uint64_t kind, void *bytes, size_t size, size_t step,
                                      const char *what, const struct deadline *deadline, struct shunt_err *err)
{
    uint32_t others = ucx->base.size - 1;
    struct record *records = calloc((size_t)others + 1, sizeof(*records));
    if (records == NULL)
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for %u records", others);
    for (uint32_t i = 0; i < others; i++) {
        uint32_t device = i + 1;
        char *at = (char *)bytes + device * step;
        records[i].device = device;
        if (kind == KIND_GATHER)
            receive_record(ucx, &records[i], at, size, control_tag(kind, ucx->votes, device));
        else
            send_record(ucx, &records[i], at, size, control_tag(kind, ucx->votes, 0));
    }
    enum shunt_status st = finish_records(ucx, records, others, size, kind == KIND_GATHER, what, deadline, err);
    free(records);
    return st;
}

enum shunt_status ucx_gather(struct transport *transport, const void *mine, size_t bytes, void *all, const char *what,
                             const struct deadline *deadline, struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    ucx->votes++;
    if (transport->root) {
        memcpy(all, mine, bytes);
        return root_records(ucx, KIND_GATHER, all, bytes, bytes, what, deadline, err);
    }
    struct record record = {.device = 0};
    send_record(ucx, &record, mine, bytes, control_tag(KIND_GATHER, ucx->votes, transport->first_local));
    return finish_records(ucx, &record, 1, bytes, false, what, deadline, err);
}

enum shunt_status ucx_share(struct transport *transport, void *bytes, size_t size, const char *what,
                            const struct deadline *deadline, struct shunt_err *err)
{
    struct ucx *ucx = (struct ucx *)transport;
    ucx->votes++;
    if (transport->root)
        return root_records(ucx, KIND_SHARE, bytes, size, 0, what, deadline, err);
    struct deadline later = *deadline;
    later.at_ns += SHARE_GRACE_NS;
    struct record record = {.device = 0};
    receive_record(ucx, &record, bytes, size, control_tag(KIND_SHARE, ucx->votes, 0));
    return finish_records(ucx, &record, 1, size, true, what, &later, err);
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
    struct meet_lost words = {.device = ucx->lost_device, .status = (uint32_t)status};
    snprintf(words.text, sizeof(words.text), "%s", text);
    struct record *records = calloc(ucx->base.size, sizeof(*records));
    if (records == NULL)
        return;
    uint32_t count = 0;
    for (uint32_t i = 0; i < ucx->base.size; i++) {
        if (ucx->peers[i].control_ep == NULL || (ucx->failed && ucx->failed_device == i))
            continue;
        records[count].device = i;
        send_record(ucx, &records[count++], &words, sizeof(words),
                    control_tag(KIND_LAST_WORD, 0, ucx->base.first_local));
    }
    flush_records(ucx, records, count);
    drop_records(ucx, records, count);
    free(records);
}

void ucx_control_close(struct ucx *ucx)
{
    for (uint32_t i = 0; i < ucx->base.size; i++) {
        if (ucx->peers[i].control_ep != NULL)
            ucx_endpoint_close(ucx, ucx->peers[i].control_ep, ucx->failed);
        ucx->peers[i].control_ep = NULL;
    }
    ucx_worker_close(&ucx->control);
}
