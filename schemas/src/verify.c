/* SPDX-License-Identifier: Apache-2.0 */
/** The verifier's walk: read all parts, replay device by device, then compare what was added up. */
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
    replay->targets = schema_alloc(header->op_count, sizeof(*replay->targets));
    return replay->sound != NULL && replay->old_sorted != NULL && replay->targets != NULL;
}

static void replay_finish(struct vreplay *replay)
{
    free(replay->sound);
    free(replay->old_sorted);
    free(replay->targets);
}

static enum shunt_status replay_device(struct verifier *v, uint32_t device)
{
    struct vreplay replay = {
        .v = v, .device = device, .record = shunt_plan_get_device(v->plan, device), .part = &v->parts[device].part};
    if (!v->parts[device].readable)
        return SHUNT_OK;
    enum shunt_status st = replay_init(&replay) ? SHUNT_OK : SHUNT_ERR_NOMEM;
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]) && st == SHUNT_OK; i++)
        st = stages[i](&replay);
    replay_finish(&replay);
    return st;
}

static bool all_readable(const struct verifier *v)
{
    for (uint32_t d = 0; d < v->header->device_count; d++) {
        if (!v->parts[d].readable)
            return false;
    }
    return true;
}

static enum shunt_status walk(struct verifier *v)
{
    uint32_t count = v->header->device_count;
    v->parts = schema_alloc(count, sizeof(*v->parts));
    v->device_peaks = schema_alloc(count, sizeof(*v->device_peaks));
    if (v->parts == NULL || v->device_peaks == NULL)
        return SHUNT_ERR_NOMEM;
    enum shunt_status st = vranks_check(v);
    for (uint32_t d = 0; d < count && st == SHUNT_OK; d++)
        st = vindex_part(v, d);
    for (uint32_t d = 0; d < count && st == SHUNT_OK; d++)
        st = replay_device(v, d);
    if (st != SHUNT_OK || !all_readable(v))
        return st; /* without all parts, whatever is left to compare is off */
    st = vspace_check(v);
    if (st == SHUNT_OK)
        vsummary_check(v);
    return st;
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
    for (uint32_t d = 0; v->parts != NULL && d < v->header->device_count; d++)
        vindex_finish(&v->parts[d]);
    free(v->parts);
    free(v->device_peaks);
}

enum shunt_status shunt_plan_verify(const struct shunt_plan *plan, struct shunt_verify_report *report_out,
                                    struct shunt_err *err)
{
    struct verifier v = {.plan = plan,
                         .header = shunt_plan_get_header(plan),
                         .summary = shunt_plan_get_summary(plan),
                         .report = report_out};
    *report_out = (struct shunt_verify_report){0};
    v.figures.rollback_until_round = v.header->round_count;
    enum shunt_status st = walk(&v);
    fill_report(&v);
    finish(&v);
    if (st != SHUNT_OK)
        return shunt_fail(err, st, "verify: out of memory");
    if (report_out->problem_total == 0)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_VERIFY, "%s", report_out->problems[0].text);
}
