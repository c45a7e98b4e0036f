/* SPDX-License-Identifier: Apache-2.0 */
#include "io/contents.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/walk.h"
#include "io/origin.h"

#define PAD_BYTE    0xEE
#define POLL_BYTES  (UINT64_C(4) << 20)
#define WRONG_BLOCK 512u /* a multiple of every element size */

/* One holding of one buffer, walked together with its tensor's stream of bytes. */
struct holding_walk {
    struct walk walk;     /* a: offset in the buffer, b: offset in the stream */
    struct origin origin; /* of the stream */
    uint32_t elem_bytes;
};

/* What is common to a fill or a check of one buffer. */
struct job {
    const struct engine *engine;
    const struct contents_poll *poll;
    const struct lineage *lineage; /* of the old side; NULL: it is what was filled */
    uint32_t buffer;
    void *data; /* its bytes, as the host sees them */
    uint64_t since_poll;
};

static enum shunt_status poll_world(void *ctx, struct shunt_err *err)
{
    return shunt_world_poll(ctx, err);
}

struct contents_poll contents_poll_world(struct shunt_world *world)
{
    return (struct contents_poll){.ctx = world, .poll = poll_world};
}

static enum shunt_status job_poll(struct job *job, uint64_t bytes, struct shunt_err *err)
{
    job->since_poll += bytes;
    if (job->since_poll < POLL_BYTES || job->poll == NULL)
        return SHUNT_OK;
    job->since_poll = 0;
    return job->poll->poll(job->poll->ctx, err);
}

static const struct shunt_plan_buffer *plan_buffer(const struct job *job)
{
    return &job->engine->part.buffers[job->buffer];
}

static const struct shunt_plan_tensor *job_tensor(const struct job *job)
{
    return shunt_plan_get_tensor(job->engine->plan, plan_buffer(job)->tensor);
}

/* The buffer's elements, from what was filled. */
static struct origin job_origin(const struct job *job, uint64_t seed)
{
    const char *tensor = shunt_plan_string(job->engine->plan, job_tensor(job)->name);
    struct descent descent = descent_of(plan_buffer(job));
    if (job->lineage != NULL) {
        const struct descent first = lineage_find(job->lineage, descent.state, tensor);
        descent = descent_join(&first, &descent);
    }
    return origin_of(&descent, seed, tensor);
}

static void holding_walk_init(struct holding_walk *hw, const struct job *job, uint64_t seed, uint32_t holding_index)
{
    const struct engine *engine = job->engine;
    const struct shunt_plan_buffer *buffer = plan_buffer(job);
    const struct shunt_plan_tensor *tensor = job_tensor(job);
    const struct shunt_plan_holding *holding = &engine->part.holdings[holding_index];
    const struct shunt_plan_view *view = &engine->part.views[holding->view];
    const int64_t *lo = engine->part.corners[holding->corner].lo;
    const int64_t *dims = shunt_plan_tensor_dims(engine->plan, buffer->tensor);
    int64_t stride[SHUNT_MAX_DIMS], step = view->elem_bytes, start = 0;
    for (uint32_t d = tensor->ndim; d-- > 0;) {
        stride[d] = step;
        start += lo[d] * step;
        step *= dims[d];
    }
    walk_init(&hw->walk, view->ndim, view->elem_bytes, view->shape, view->stride, stride);
    hw->walk.a += holding->offset;
    hw->walk.b += (uint64_t)start;
    hw->origin = job_origin(job, seed);
    hw->elem_bytes = view->elem_bytes;
}

/* Elements in holdings; the rest of the buffer is pads. */
static uint64_t held_elements(const struct job *job)
{
    const struct shunt_plan_buffer *buffer = plan_buffer(job);
    uint64_t elements = 0;
    for (uint32_t h = 0; h < buffer->holding_count; h++) {
        uint32_t view = job->engine->part.holdings[buffer->holding_begin + h].view;
        elements += shunt_plan_view_elements(&job->engine->part.views[view]);
    }
    return elements;
}

static bool has_pads(const struct job *job)
{
    const struct shunt_plan_buffer *buffer = plan_buffer(job);
    return held_elements(job) * shunt_dtype_bytes(buffer->dtype) < buffer->bytes;
}

/* ---- fill ---------------------------------------------------------------------- */

static enum shunt_status fill_buffer(struct job *job, uint64_t seed, struct shunt_err *err)
{
    const struct shunt_plan_buffer *buffer = plan_buffer(job);
    char *data = job->data;
    if (has_pads(job))
        memset(data, buffer->side == SHUNT_SIDE_BOTH ? 0 : PAD_BYTE, buffer->bytes);
    for (uint32_t h = 0; h < buffer->holding_count; h++) {
        struct holding_walk hw;
        holding_walk_init(&hw, job, seed, buffer->holding_begin + h);
        const struct walk *w = &hw.walk;
        do {
            for (uint64_t i = 0; i < w->count; i++)
                origin_write(&hw.origin, w->b + i * w->b_step, data + w->a + i * w->a_step, w->unit_bytes);
            enum shunt_status st = job_poll(job, w->count * w->unit_bytes, err);
            if (st != SHUNT_OK)
                return st;
        } while (walk_next(&hw.walk));
    }
    return SHUNT_OK;
}

static enum shunt_status fill_in_window(struct job *job, uint64_t seed, struct shunt_err *err)
{
    struct engine_window window;
    enum shunt_status st = engine_window_open(job->engine, job->buffer, false, &window, err);
    if (st != SHUNT_OK)
        return st;
    job->data = window.data;
    st = fill_buffer(job, seed, err);
    enum shunt_status closed = engine_window_close(&window, st == SHUNT_OK, st == SHUNT_OK ? err : NULL);
    return st == SHUNT_OK ? closed : st;
}

enum shunt_status contents_fill(struct shunt_exec *exec, uint64_t seed, const struct contents_poll *poll,
                                struct shunt_err *err)
{
    struct job job = {.engine = &exec->engine, .poll = poll};
    for (uint32_t i = 0; i < exec->engine.part.header->buffer_count; i++) {
        job.buffer = i;
        if (!shunt_plan_on_old_side(plan_buffer(&job)))
            continue;
        enum shunt_status st = fill_in_window(&job, seed, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

/* ---- check --------------------------------------------------------------------- */

struct check {
    struct job job;
    const struct contents_expect *expect;
    struct contents_report *report;
    /* wrong elements of the buffer at hand */
    uint64_t wrong_elems, first_wrong, last_wrong; /* global linear indices */
    uint64_t first_offset;                         /* in the buffer */
    unsigned char found[8], want[8];
    uint64_t wrong_pads, first_pad;
};

static void expected_bytes(const struct check *check, const struct origin *origin, uint64_t begin, void *out,
                           uint64_t count)
{
    if (check->expect->zeros)
        memset(out, 0, count);
    else
        origin_write(origin, begin, out, count);
}

static uint64_t compare_zeros(const unsigned char *data, uint64_t count)
{
    if (count == 0 || (data[0] == 0 && memcmp(data, data + 1, count - 1) == 0))
        return count;
    uint64_t i = 0;
    while (data[i] == 0)
        i++;
    return i;
}

static void note_wrong(struct check *check, const struct holding_walk *hw, uint64_t begin, uint64_t offset,
                       const unsigned char *data)
{
    uint64_t global = begin / hw->elem_bytes;
    if (check->wrong_elems == 0) {
        check->first_offset = offset;
        check->first_wrong = check->last_wrong = global;
        memcpy(check->found, data, hw->elem_bytes);
        expected_bytes(check, &hw->origin, begin, check->want, hw->elem_bytes);
    }
    if (global > check->last_wrong)
        check->last_wrong = global;
    check->wrong_elems++;
}

/* The next elements of a run one by one, as far as WRONG_BLOCK goes. */
static uint64_t check_elements(struct check *check, const struct holding_walk *hw, uint64_t begin, uint64_t offset,
                               const unsigned char *data, uint64_t count)
{
    unsigned char want[WRONG_BLOCK];
    if (count > sizeof(want))
        count = sizeof(want);
    expected_bytes(check, &hw->origin, begin, want, count);
    for (uint64_t i = 0; i < count; i += hw->elem_bytes) {
        if (memcmp(want + i, data + i, hw->elem_bytes) != 0)
            note_wrong(check, hw, begin + i, offset + i, data + i);
    }
    return count;
}

/* A contiguous run: in one go as far as it agrees, and by elements where it does not. */
static void check_run(struct check *check, const struct holding_walk *hw, uint64_t begin, uint64_t offset,
                      uint64_t count)
{
    const unsigned char *data = check->job.data;
    data += offset;
    for (uint64_t done = 0; done < count;) {
        done += check->expect->zeros ? compare_zeros(data + done, count - done)
                                     : origin_compare(&hw->origin, begin + done, data + done, count - done);
        if (done == count)
            return;
        done -= done % hw->elem_bytes;
        done += check_elements(check, hw, begin + done, offset + done, data + done, count - done);
    }
}

static enum shunt_status check_holdings(struct check *check, struct track *held, struct shunt_err *err)
{
    const struct shunt_plan_buffer *buffer = plan_buffer(&check->job);
    for (uint32_t h = 0; h < buffer->holding_count; h++) {
        struct holding_walk hw;
        const struct shunt_plan_holding *holding = &check->job.engine->part.holdings[buffer->holding_begin + h];
        if (held != NULL)
            track_mark_box(held, holding->offset, &check->job.engine->part.views[holding->view]);
        holding_walk_init(&hw, &check->job, check->expect->seed, buffer->holding_begin + h);
        const struct walk *w = &hw.walk;
        do {
            for (uint64_t i = 0; i < w->count; i++)
                check_run(check, &hw, w->b + i * w->b_step, w->a + i * w->a_step, w->unit_bytes);
            enum shunt_status st = job_poll(&check->job, w->count * w->unit_bytes, err);
            if (st != SHUNT_OK)
                return st;
        } while (walk_next(&hw.walk));
    }
    return SHUNT_OK;
}

static void check_pads(struct check *check, const struct track *held)
{
    const unsigned char *data = check->job.data;
    uint32_t elem = held->elem_bytes;
    for (uint64_t i = track_find(held, 0, false); i < held->elems;) {
        uint64_t end = track_find(held, i, true);
        for (; i < end; i++) {
            if (compare_zeros(data + i * elem, elem) == elem)
                continue;
            if (check->wrong_pads++ == 0)
                check->first_pad = i;
        }
        i = track_find(held, end, false);
    }
}

static size_t print_index(char *text, size_t size, const struct job *job, uint64_t linear)
{
    const struct shunt_plan_tensor *tensor = job_tensor(job);
    const int64_t *dims = shunt_plan_tensor_dims(job->engine->plan, plan_buffer(job)->tensor);
    uint64_t index[SHUNT_MAX_DIMS];
    for (uint32_t d = tensor->ndim; d-- > 0;) {
        index[d] = linear % (uint64_t)dims[d];
        linear /= (uint64_t)dims[d];
    }
    size_t used = 0;
    for (uint32_t d = 0; d < tensor->ndim; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, d == 0 ? "[" : ",", index[d]);
    return used + (size_t)snprintf(text + used, size - used, "]");
}

static void print_bytes(char *text, const unsigned char *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) /* little-endian: the last byte is the highest */
        snprintf(text + 2 * i, 3, "%02x", bytes[count - 1 - i]);
}

static void describe_wrong(struct check *check)
{
    const struct engine *engine = check->job.engine;
    uint32_t elem = shunt_dtype_bytes(plan_buffer(&check->job)->dtype);
    uint32_t rank = shunt_plan_get_device(engine->plan, engine->device)->to_rank;
    char first[160], last[160], found[17], want[17];
    print_index(first, sizeof(first), &check->job, check->first_wrong);
    print_index(last, sizeof(last), &check->job, check->last_wrong);
    print_bytes(found, check->found, elem);
    print_bytes(want, check->want, elem);
    snprintf(check->report->first, sizeof(check->report->first),
             "%s: %" PRIu64 " elements wrong on device %u (new rank %u), the first at %s (byte %" PRIu64
             " of the buffer), the last at %s: found 0x%s, expected 0x%s",
             engine->buffers[check->job.buffer].name, check->wrong_elems, engine->device, rank, first,
             check->first_offset, last, found, want);
}

static void describe_pads(struct check *check)
{
    const struct engine *engine = check->job.engine;
    snprintf(check->report->first, sizeof(check->report->first),
             "%s: %" PRIu64
             " pad elements are not zero on device %u (new rank %u), the first is local element %" PRIu64,
             engine->buffers[check->job.buffer].name, check->wrong_pads, engine->device,
             shunt_plan_get_device(engine->plan, engine->device)->to_rank, check->first_pad);
}

static void describe_never(struct check *check, uint64_t count)
{
    const struct engine *engine = check->job.engine;
    const struct track *written = &engine->buffers[check->job.buffer].written;
    uint64_t begin = track_find(written, 0, false), end = track_find(written, begin, true);
    snprintf(check->report->first, sizeof(check->report->first),
             "%s: %" PRIu64 " elements were never written on device %u (new rank %u), first the local elements "
             "[%" PRIu64 ", %" PRIu64 ")",
             engine->buffers[check->job.buffer].name, count, engine->device,
             shunt_plan_get_device(engine->plan, engine->device)->to_rank, begin, end);
}

static void count_buffer(struct check *check)
{
    const struct shunt_plan_buffer *buffer = plan_buffer(&check->job);
    const struct track *written = &check->job.engine->buffers[check->job.buffer].written;
    struct contents_report *report = check->report;
    uint32_t elem = shunt_dtype_bytes(buffer->dtype);
    uint64_t never = written->words == NULL ? 0 : written->elems - track_count(written);
    report->checked_bytes += buffer->bytes;
    report->wrong_bytes += (check->wrong_elems + check->wrong_pads) * elem;
    report->never_bytes += never * elem;
    if (report->first[0] != '\0')
        return;
    if (never != 0)
        describe_never(check, never);
    else if (check->wrong_elems != 0)
        describe_wrong(check);
    else if (check->wrong_pads != 0)
        describe_pads(check);
}

static enum shunt_status check_buffer(struct check *check, struct shunt_err *err)
{
    const struct shunt_plan_buffer *buffer = plan_buffer(&check->job);
    struct track held = {0};
    bool pads = has_pads(&check->job);
    uint32_t elem = shunt_dtype_bytes(buffer->dtype);
    check->wrong_elems = check->wrong_pads = 0;
    if (pads && !track_init(&held, buffer->bytes / elem, elem))
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory to check %s",
                          check->job.engine->buffers[check->job.buffer].name);
    enum shunt_status st = check_holdings(check, pads ? &held : NULL, err);
    if (st == SHUNT_OK && pads)
        check_pads(check, &held);
    track_finish(&held);
    if (st == SHUNT_OK)
        count_buffer(check);
    return st;
}

static enum shunt_status check_in_window(struct check *check, struct shunt_err *err)
{
    struct engine_window window;
    enum shunt_status st = engine_window_open(check->job.engine, check->job.buffer, true, &window, err);
    if (st != SHUNT_OK)
        return st;
    check->job.data = window.data;
    st = check_buffer(check, err);
    engine_window_close(&window, false, NULL);
    return st;
}

enum shunt_status contents_check(const struct shunt_exec *exec, const struct contents_expect *expect,
                                 const struct contents_poll *poll, struct contents_report *report_out,
                                 struct shunt_err *err)
{
    struct check check = {.job = {.engine = &exec->engine, .poll = poll, .lineage = expect->lineage},
                          .expect = expect,
                          .report = report_out};
    *report_out = (struct contents_report){0};
    for (uint32_t i = 0; i < exec->engine.part.header->buffer_count; i++) {
        check.job.buffer = i;
        if (!shunt_plan_on_new_side(plan_buffer(&check.job)) || plan_buffer(&check.job)->bytes == 0)
            continue;
        enum shunt_status st = check_in_window(&check, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}
