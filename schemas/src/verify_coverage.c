/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The new side of one device is written exactly once: each holding by copies and unpacks, as
 * boxes of the tensor; each pad by fills, as boxes of the buffer's grid, which the holdings and
 * the fills must tile together. On the old side, holdings must only lie apart. Scratch buffers are
 * written like the new side, and have no pads: what no holding covers is nobody's.
 *
 * What a copy or a pack reads of the new side or of scratch must have been written overlap_depth rounds before or
 * earlier. As every element has exactly one write, it is enough that no later write meets the read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "verify_internal.h"
#include "verify_late.h"

/* Ops grouped by what they write: those of group g are op[begin[g] .. begin[g + 1]). */
struct groups {
    uint32_t *begin;
    uint32_t *op;
};

struct coverage {
    struct vreplay *replay;
    struct groups writes; /* by holding */
    struct groups fills;  /* by buffer */
    struct vbox_list boxes;
    struct vbox_list whole;
};

/* ---- grouping ------------------------------------------------------------------- */

static bool is_write(const struct vreplay *replay, uint32_t op, bool fills, uint32_t *group_out)
{
    const struct shunt_plan_op *record = &replay->part->ops[op];
    if (record->kind == SHUNT_OP_PACK || (record->kind == SHUNT_OP_FILL) != fills ||
        replay->targets[op].holding == VNONE)
        return false;
    *group_out = fills ? record->dst_buffer : replay->targets[op].holding;
    return true;
}

static bool group_ops(const struct vreplay *replay, bool fills, uint32_t group_count, struct groups *groups)
{
    uint32_t op_count = replay->part->header->op_count, group = 0;
    groups->begin = schema_alloc((size_t)group_count + 2, sizeof(*groups->begin));
    groups->op = schema_alloc(op_count, sizeof(*groups->op));
    if (groups->begin == NULL || groups->op == NULL)
        return false;
    uint32_t *at = groups->begin + 1; /* at[g] walks from the begin of g to that of g + 1 */
    for (uint32_t i = 0; i < op_count; i++) {
        if (is_write(replay, i, fills, &group))
            at[group + 1]++;
    }
    for (uint32_t g = 1; g <= group_count; g++)
        at[g] += at[g - 1];
    for (uint32_t i = 0; i < op_count; i++) {
        if (is_write(replay, i, fills, &group))
            groups->op[at[group]++] = i;
    }
    return true;
}

/* ---- holdings ------------------------------------------------------------------- */

static struct vtext holding_text(const struct coverage *coverage, uint32_t buffer, uint32_t holding)
{
    const struct shunt_plan_part *part = coverage->replay->part;
    const struct shunt_plan_holding *record = &part->holdings[holding];
    return vtext_box(part->corners[record->corner].lo, part->views[record->view].shape,
                     vtensor_ndim(coverage->replay->v, part->buffers[buffer].tensor));
}

static void report_holding(const struct coverage *coverage, uint32_t buffer, uint32_t holding, const int64_t *point,
                           int64_t excess)
{
    struct vreplay *replay = coverage->replay;
    uint32_t ndim = vtensor_ndim(replay->v, replay->part->buffers[buffer].tensor);
    char times[32] = "never";
    if (excess > 0)
        snprintf(times, sizeof(times), "%" PRId64 " times", excess + 1);
    vproblem(replay->v, SHUNT_RULE_COVERAGE, replay->device, VNONE, "element %s of %s, box %s, is written %s (%s)",
             vtext_point(point, ndim).text, vtext_buffer(replay->v, replay->device, buffer).text,
             holding_text(coverage, buffer, holding).text, times, vtext_ranks(replay->v, replay->device).text);
}

static enum shunt_status check_holding(struct coverage *coverage, uint32_t buffer, uint32_t holding)
{
    const struct vreplay *replay = coverage->replay;
    const struct groups *writes = &coverage->writes;
    struct vbox whole = vbox_of_holding(replay->part, holding);
    coverage->boxes.count = 0;
    for (uint32_t i = writes->begin[holding]; i < writes->begin[holding + 1]; i++) {
        uint32_t op = writes->op[i];
        struct vbox box = vbox_of(replay->targets[op].lo, &replay->part->views[replay->part->ops[op].dst_view]);
        if (!vbox_list_add(&coverage->boxes, &box))
            return SHUNT_ERR_NOMEM;
    }
    int64_t point[SHUNT_MAX_DIMS], excess = 0;
    enum vbox_answer tiled = vbox_tiles(coverage->boxes.at, coverage->boxes.count, &whole, 1, point, &excess);
    if (tiled == VBOX_NO)
        report_holding(coverage, buffer, holding, point, excess);
    return tiled == VBOX_NOMEM ? SHUNT_ERR_NOMEM : SHUNT_OK;
}

static enum shunt_status check_holdings(struct coverage *coverage, uint32_t buffer)
{
    const struct shunt_plan_buffer *record = &coverage->replay->part->buffers[buffer];
    enum shunt_status st = SHUNT_OK;
    for (uint32_t i = 0; i < record->holding_count && st == SHUNT_OK; i++)
        st = check_holding(coverage, buffer, record->holding_begin + i);
    return st;
}

/* ---- reads of what the plan writes -------------------------------------------------- */

/* A COPY or PACK of the new side or of scratch, by the holding that it reads. */
struct fresh_read {
    uint32_t holding, op, round;
    int64_t lo[SHUNT_MAX_DIMS];
};

/* The round of an op. */
static uint32_t round_of(const struct vreplay *replay, uint32_t op)
{
    uint32_t begin = 0, end = replay->v->header->round_count;
    while (begin + 1 < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (replay->part->rounds[middle].op_begin <= op)
            begin = middle;
        else
            end = middle;
    }
    return begin;
}

static void report_early(const struct coverage *coverage, uint32_t round, const struct shunt_plan_op *op,
                         const struct vbox *read, uint32_t written)
{
    struct vreplay *replay = coverage->replay;
    const struct shunt_plan_view *view = &replay->part->views[op->src_view];
    vproblem(replay->v, SHUNT_RULE_SOURCE, replay->device, round,
             "%s reads %s of %s, of which round %" PRIu32 " writes a part: expected writes in rounds up to %" PRId64,
             op->kind == SHUNT_OP_COPY ? "copy" : "pack", vtext_box(read->lo, view->shape, view->ndim).text,
             vtext_buffer(replay->v, replay->device, op->src_buffer).text, written,
             (int64_t)round - replay->v->header->overlap_depth);
}

static void check_fresh_read(const struct coverage *coverage, const struct vlate *late, const struct fresh_read *read)
{
    struct vreplay *replay = coverage->replay;
    const struct shunt_plan_op *op = &replay->part->ops[read->op];
    const struct vbox box = vbox_of(read->lo, &replay->part->views[op->src_view]);
    uint32_t round = read->round, depth = replay->v->header->overlap_depth;
    const struct vlate_write *write = vlate_find(late, &box, round < depth ? 0 : round - depth + 1);
    if (write != NULL)
        report_early(coverage, round, op, &box, write->round);
}

/* All reads of one holding, whose writes are put in order once. */
static enum shunt_status check_fresh_holding(const struct coverage *coverage, const struct fresh_read *reads,
                                             uint32_t count)
{
    const struct vreplay *replay = coverage->replay;
    const struct groups *writes = &coverage->writes;
    uint32_t begin = writes->begin[reads->holding], write_count = writes->begin[reads->holding + 1] - begin;
    struct vlate late = {0};
    struct vlate_write *list = schema_alloc(write_count, sizeof(*list));
    for (uint32_t i = 0; list != NULL && i < write_count; i++) {
        uint32_t op = writes->op[begin + i];
        list[i].box = vbox_of(replay->targets[op].lo, &replay->part->views[replay->part->ops[op].dst_view]);
        list[i].round = round_of(replay, op);
    }
    bool built = list != NULL && vlate_build(&late, list, write_count);
    for (uint32_t i = 0; built && i < count; i++)
        check_fresh_read(coverage, &late, &reads[i]);
    vlate_finish(&late);
    free(list);
    return built ? SHUNT_OK : SHUNT_ERR_NOMEM;
}

static int compare_reads(const void *a, const void *b)
{
    const struct fresh_read *x = a, *y = b;
    if (x->holding != y->holding)
        return x->holding < y->holding ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static bool reads_fresh(const struct vreplay *replay, uint32_t op)
{
    const struct shunt_plan_op *record = &replay->part->ops[op];
    return (record->kind == SHUNT_OP_COPY || record->kind == SHUNT_OP_PACK) &&
           shunt_plan_is_allocated(&replay->part->buffers[record->src_buffer]);
}

/* Ops that read what the plan writes, where one holding has all of what they read: else that is reported with the op. */
static uint32_t list_reads(const struct vreplay *replay, struct fresh_read *reads)
{
    const struct shunt_plan_round *rounds = replay->part->rounds;
    uint32_t count = 0;
    for (uint32_t k = 0; k < replay->v->header->round_count; k++) {
        for (uint32_t i = rounds[k].op_begin; i < rounds[k].unpack_begin; i++) {
            const struct shunt_plan_op *op = &replay->part->ops[i];
            struct vend end;
            if (!reads_fresh(replay, i) || !vindex_resolve(replay->v, replay->device, op->src_buffer,
                                                           &replay->part->views[op->src_view], op->src_offset, &end))
                continue;
            reads[count] = (struct fresh_read){.holding = end.holding, .op = i, .round = k};
            memcpy(reads[count++].lo, end.lo, sizeof(end.lo));
        }
    }
    return count;
}

static enum shunt_status check_fresh_reads(const struct coverage *coverage)
{
    const struct vreplay *replay = coverage->replay;
    uint32_t most = 0;
    for (uint32_t i = 0; i < replay->part->header->op_count; i++)
        most += reads_fresh(replay, i);
    if (most == 0)
        return SHUNT_OK;
    struct fresh_read *reads = schema_alloc(most, sizeof(*reads));
    if (reads == NULL)
        return SHUNT_ERR_NOMEM;
    uint32_t count = list_reads(replay, reads);
    enum shunt_status st = SHUNT_OK;
    qsort(reads, count, sizeof(*reads), compare_reads);
    for (uint32_t i = 0, end = 0; i < count && st == SHUNT_OK; i = end) {
        for (end = i + 1; end < count && reads[end].holding == reads[i].holding; end++)
            ;
        st = check_fresh_holding(coverage, &reads[i], end - i);
    }
    free(reads);
    return st;
}

/* ---- the buffer's bytes ----------------------------------------------------------- */

static bool make_grid(const struct vreplay *replay, const struct shunt_plan_buffer *buffer, struct vgrid *grid)
{
    const struct shunt_plan_part *part = replay->part;
    vgrid_begin(grid, shunt_dtype_bytes(buffer->dtype));
    bool fits = vgrid_add_view(grid, &part->views[buffer->view]);
    for (uint32_t i = 0; i < buffer->holding_count && fits; i++)
        fits = vgrid_add_view(grid, &part->views[part->holdings[buffer->holding_begin + i].view]);
    return fits && vgrid_end(grid, buffer->bytes);
}

/* Boxes of the buffer's holdings, then of its fills; *fills_at is where those begin. */
static enum shunt_status collect_boxes(struct coverage *coverage, uint32_t index, const struct vgrid *grid,
                                       size_t *fills_at)
{
    struct vreplay *replay = coverage->replay;
    const struct shunt_plan_part *part = replay->part;
    const struct shunt_plan_buffer *buffer = &part->buffers[index];
    enum vbox_answer answer = VBOX_YES;
    coverage->boxes.count = 0;
    for (uint32_t i = 0; i < buffer->holding_count && answer == VBOX_YES; i++) {
        const struct shunt_plan_holding *holding = &part->holdings[buffer->holding_begin + i];
        answer = vgrid_split(grid, &part->views[holding->view], holding->offset, &coverage->boxes);
    }
    if (answer == VBOX_NO)
        vproblem(replay->v, SHUNT_RULE_HOLDING, replay->device, VNONE, "a holding of %s is no box of its buffer",
                 vtext_buffer(replay->v, replay->device, index).text);
    *fills_at = coverage->boxes.count;
    for (uint32_t i = coverage->fills.begin[index]; i < coverage->fills.begin[index + 1] && answer == VBOX_YES; i++) {
        const struct shunt_plan_op *fill = &part->ops[coverage->fills.op[i]];
        answer = vgrid_split(grid, &part->views[fill->dst_view], fill->dst_offset, &coverage->boxes);
        if (answer == VBOX_NO)
            vproblem(replay->v, SHUNT_RULE_TARGET, replay->device, VNONE,
                     "fill of %" PRIu64 " bytes at offset %" PRIu64 " of %s is no box of its buffer",
                     vview_bytes(&part->views[fill->dst_view]), fill->dst_offset,
                     vtext_buffer(replay->v, replay->device, index).text);
    }
    if (answer == VBOX_NO)
        coverage->boxes.count = 0;
    return answer == VBOX_NOMEM ? SHUNT_ERR_NOMEM : SHUNT_OK;
}

/* Two boxes share bytes: whose they are says which rule is broken. */
static void report_meeting(const struct coverage *coverage, uint32_t index, const struct vgrid *grid, size_t fills_at,
                           size_t first, size_t second)
{
    struct vreplay *replay = coverage->replay;
    const struct vbox *a = &coverage->boxes.at[first], *b = &coverage->boxes.at[second];
    int64_t point[SHUNT_MAX_DIMS];
    for (int d = 0; d < SHUNT_MAX_DIMS; d++)
        point[d] = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
    enum shunt_verify_rule rule = SHUNT_RULE_COVERAGE;
    const char *what = "is filled twice";
    if (second < fills_at) {
        rule = SHUNT_RULE_HOLDING;
        what = "belongs to two holdings";
    } else if (first < fills_at) {
        rule = SHUNT_RULE_TARGET;
        what = "belongs to a holding and is filled";
    }
    vproblem(replay->v, rule, replay->device, VNONE, "byte %" PRIu64 " of %s %s", vgrid_offset(grid, point),
             vtext_buffer(replay->v, replay->device, index).text, what);
}

static enum shunt_status check_apart(struct coverage *coverage, uint32_t index, const struct vgrid *grid,
                                     size_t fills_at, bool *apart_out)
{
    size_t first = 0, second = 0;
    enum vbox_answer met = vbox_find_meeting(coverage->boxes.at, coverage->boxes.count, &first, &second);
    *apart_out = met == VBOX_NO;
    if (met == VBOX_YES)
        report_meeting(coverage, index, grid, fills_at, first, second);
    return met == VBOX_NOMEM ? SHUNT_ERR_NOMEM : SHUNT_OK;
}

/* Holdings and fills are apart; do they leave a byte of the buffer? */
static enum shunt_status check_pads(struct coverage *coverage, uint32_t index, const struct vgrid *grid)
{
    struct vreplay *replay = coverage->replay;
    const struct shunt_plan_buffer *buffer = &replay->part->buffers[index];
    coverage->whole.count = 0;
    enum vbox_answer answer = vgrid_split_all(grid, buffer->bytes, &coverage->whole);
    int64_t point[SHUNT_MAX_DIMS] = {0}, excess = 0;
    if (answer == VBOX_YES)
        answer = vbox_tiles(coverage->boxes.at, coverage->boxes.count, coverage->whole.at, coverage->whole.count, point,
                            &excess);
    if (answer == VBOX_NO)
        vproblem(replay->v, SHUNT_RULE_COVERAGE, replay->device, VNONE,
                 "byte %" PRIu64 " of %s is a pad that no op fills (%s)", vgrid_offset(grid, point),
                 vtext_buffer(replay->v, replay->device, index).text, vtext_ranks(replay->v, replay->device).text);
    return answer == VBOX_NOMEM ? SHUNT_ERR_NOMEM : SHUNT_OK;
}

/* The common case: one holding that is the whole buffer, and no fill. */
static bool is_plain(const struct coverage *coverage, uint32_t index)
{
    const struct shunt_plan_part *part = coverage->replay->part;
    const struct shunt_plan_buffer *buffer = &part->buffers[index];
    if (coverage->fills.begin[index] != coverage->fills.begin[index + 1] || buffer->holding_count != 1)
        return false;
    const struct shunt_plan_holding *holding = &part->holdings[buffer->holding_begin];
    return vview_bytes(&part->views[holding->view]) == buffer->bytes;
}

static enum shunt_status check_bytes(struct coverage *coverage, uint32_t index)
{
    struct vreplay *replay = coverage->replay;
    const struct shunt_plan_buffer *buffer = &replay->part->buffers[index];
    struct vgrid grid;
    if (buffer->bytes == 0 || is_plain(coverage, index))
        return SHUNT_OK;
    if (!make_grid(replay, buffer, &grid)) {
        vproblem(replay->v, SHUNT_RULE_HOLDING, replay->device, VNONE,
                 "strides of the holdings of %s do not divide each other",
                 vtext_buffer(replay->v, replay->device, index).text);
        return SHUNT_OK;
    }
    size_t fills_at = 0, before = replay->v->report->problem_total;
    bool apart = false;
    enum shunt_status st = collect_boxes(coverage, index, &grid, &fills_at);
    if (st == SHUNT_OK && replay->v->report->problem_total == before)
        st = check_apart(coverage, index, &grid, fills_at, &apart);
    if (st == SHUNT_OK && apart && buffer->side == SHUNT_SIDE_TO)
        st = check_pads(coverage, index, &grid);
    return st;
}

enum shunt_status vcoverage_check(struct vreplay *replay)
{
    const struct shunt_plan_part *part = replay->part;
    struct coverage coverage = {.replay = replay};
    enum shunt_status st = SHUNT_OK;
    if (!group_ops(replay, false, part->header->holding_count, &coverage.writes) ||
        !group_ops(replay, true, part->header->buffer_count, &coverage.fills))
        st = SHUNT_ERR_NOMEM;
    for (uint32_t i = 0; i < part->header->buffer_count && st == SHUNT_OK; i++) {
        if (!replay->sound[i])
            continue;
        st = check_bytes(&coverage, i);
        if (st == SHUNT_OK && shunt_plan_is_allocated(&part->buffers[i]))
            st = check_holdings(&coverage, i);
    }
    if (st == SHUNT_OK)
        st = check_fresh_reads(&coverage);
    free(coverage.writes.begin);
    free(coverage.writes.op);
    free(coverage.fills.begin);
    free(coverage.fills.op);
    vbox_list_finish(&coverage.boxes);
    vbox_list_finish(&coverage.whole);
    return st;
}
