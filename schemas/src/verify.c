/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The verifier's walk: read all parts, replay device by device, then compare what was added up.
 *
 * A plan that is larger than what may be held is walked once with its messages compared by digest,
 * which reads each part once and holds none. Only when that finds anything is it walked again with each
 * message held against its other end, to say what is wrong.
 */
#include <stdlib.h>

#include "alloc.h"
#include "verify_internal.h"

typedef enum shunt_status stage(struct vreplay *replay);

/* Order matters: a later stage uses what an earlier one found sound. */
static stage *const stages[] = {vbuffers_check, vops_check, vmessages_check, vcoverage_check, vmemory_check};

static bool replay_init(struct vreplay *replay)
{
    const struct shunt_plan_part_header *header = replay->part->header;
    replay->sound = schema_alloc(header->buffer_count, sizeof(*replay->sound));
    replay->old_sorted = schema_alloc(header->buffer_count, sizeof(*replay->old_sorted));
    replay->new_sorted = schema_alloc(header->buffer_count, sizeof(*replay->new_sorted));
    replay->targets = schema_alloc(header->op_count, sizeof(*replay->targets));
    return replay->sound != NULL && replay->old_sorted != NULL && replay->new_sorted != NULL && replay->targets != NULL;
}

static void replay_finish(struct vreplay *replay)
{
    free(replay->sound);
    free(replay->old_sorted);
    free(replay->new_sorted);
    free(replay->targets);
}

static enum shunt_status replay_device(struct verifier *v, uint32_t device)
{
    struct vreplay replay = {
        .v = v, .device = device, .record = shunt_plan_get_device(v->plan, device), .part = &v->parts[device].part};
    if (!v->parts[device].readable)
        return SHUNT_OK;
    if (!vparts_hold(v, device, VNONE))
        return v->status;
    enum shunt_status st = replay_init(&replay) ? SHUNT_OK : SHUNT_ERR_NOMEM;
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]) && st == SHUNT_OK; i++)
        st = stages[i](&replay);
    replay_finish(&replay);
    return st;
}

static enum shunt_status add_and_replay(struct verifier *v, uint32_t device)
{
    enum shunt_status st = vspace_add(v, device);
    return st == SHUNT_OK ? replay_device(v, device) : st;
}

static enum shunt_status walk(struct verifier *v, uint32_t threads)
{
    uint32_t count = v->header->device_count;
    v->device_peaks = schema_alloc(count, sizeof(*v->device_peaks));
    if (v->device_peaks == NULL)
        return SHUNT_ERR_NOMEM;
    enum shunt_status st = vranks_check(v);
    if (st == SHUNT_OK)
        st = vspace_open(v);
    if (st == SHUNT_OK && !vparts_open(v))
        st = SHUNT_ERR_NOMEM;
    if (st == SHUNT_OK && threads > 1)
        st = vshared_replay(v, threads, add_and_replay);
    else if (st == SHUNT_OK)
        st = vparts_read(v, 0, count, v->digest.active ? add_and_replay : vspace_add);
    for (uint32_t d = 0; d < count && st == SHUNT_OK && !v->digest.active; d++)
        st = replay_device(v, d);
    if (st != SHUNT_OK || !v->all_readable)
        return st; /* without all parts, whatever is left to compare is off */
    st = vspace_check(v);
    if (st == SHUNT_OK)
        vsummary_check(v);
    return st == SHUNT_OK ? vnotes_check(v) : st;
}

static void fill_report(const struct verifier *v)
{
    struct shunt_verify_report *report = v->report;
    report->devices = v->header->device_count;
    report->rounds = v->header->round_count;
    report->ops = v->figures.ops;
    report->messages = v->figures.messages;
    report->bytes_moved = v->figures.moved;
    report->bytes_local = v->figures.copied + v->figures.kept;
    report->bytes_filled = v->figures.filled;
    report->peak = v->figures.peak;
}

static void finish(struct verifier *v)
{
    vparts_finish(v);
    vspace_close(v);
    free(v->device_peaks);
}

/* Walk with or without digests; several threads need them. */
static enum shunt_status attempt(struct verifier *v, const struct shunt_plan *plan, struct shunt_verify_report *report,
                                 bool by_digest, uint32_t threads, struct shunt_err *err)
{
    *v = (struct verifier){
        .plan = plan, .header = shunt_plan_get_header(plan), .summary = shunt_plan_get_summary(plan), .report = report};
    *report = (struct shunt_verify_report){0};
    v->figures.rollback_until_round = v->header->round_count;
    if (by_digest && !vdigest_begin(&v->digest))
        return shunt_fail(err, SHUNT_ERR_IO, "verify: no random numbers");
    enum shunt_status st = walk(v, by_digest ? threads : 1);
    fill_report(v);
    finish(v);
    if (v->status != SHUNT_OK)
        return shunt_fail(err, v->status, "%s", v->err.text);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "verify: out of memory");
}

/* Threads are worth their while from a plan of so many parts of what may be held on. */
#define SHARED_FROM 64

enum shunt_status shunt_plan_verify(const struct shunt_plan *plan, struct shunt_verify_report *report_out,
                                    struct shunt_err *err)
{
    return shunt_plan_verify_shared(plan, 1, report_out, err);
}

enum shunt_status shunt_plan_verify_shared(const struct shunt_plan *plan, uint32_t threads,
                                           struct shunt_verify_report *report_out, struct shunt_err *err)
{
    struct verifier v;
    uint64_t bytes = shunt_plan_get_header(plan)->file_bytes;
    bool shared = threads > 1 && bytes > schema_verify_keep_bytes / SHARED_FROM;
    bool by_digest = shared || bytes > schema_verify_keep_bytes;
    enum shunt_status st = attempt(&v, plan, report_out, by_digest, shared ? threads : 1, err);
    bool sound = st == SHUNT_OK && report_out->problem_total == 0 && (!by_digest || vdigest_agrees(&v.digest));
    if (!sound && by_digest && (shared || st == SHUNT_OK))
        st = attempt(&v, plan, report_out, false, 1, err);
    if (st != SHUNT_OK || report_out->problem_total == 0)
        return st;
    return shunt_fail(err, SHUNT_ERR_VERIFY, "%s", report_out->problems[0].text);
}
