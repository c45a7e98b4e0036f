/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "compile.h"
#include "emit/digest.h"
#include "space/pair.h"
#include "space/world.h"

/** One side of the comparison. */
struct comparison {
    const struct shunt_plan *plan;
    const struct space *space;
    const struct side *side;
    const char *path;
    enum shunt_plan_side own; /* buffers of this side or of both count */
    bool placed;              /* the plan chose the ranks' devices: they need not be the layout's */
};

static bool belongs(const struct comparison *comparison, const struct shunt_plan_buffer *buffer)
{
    return buffer->side == comparison->own || buffer->side == SHUNT_SIDE_BOTH;
}

/** Whether a view has this shape and these strides, in elements. Strides of single rows do not matter. */
static bool same_view(const struct shunt_plan_view *view, uint32_t ndim, const int64_t *shape, const int64_t *stride,
                      uint32_t elem_bytes)
{
    if (view->ndim != ndim || view->elem_bytes != elem_bytes)
        return false;
    for (uint32_t d = 0; d < ndim; d++) {
        if (view->shape[d] != shape[d] || (shape[d] > 1 && view->stride[d] != stride[d] * elem_bytes))
            return false;
    }
    return true;
}

static bool same_holding(const struct shunt_plan_part *part, const struct shunt_plan_holding *found,
                         const struct placement_holding *want, uint32_t elem_bytes)
{
    int64_t shape[SHUNT_MAX_DIMS];
    for (uint32_t d = 0; d < want->box.ndim; d++) {
        shape[d] = want->box.hi[d] - want->box.lo[d];
        if (part->corners[found->corner].lo[d] != want->box.lo[d])
            return false;
    }
    return found->offset == (uint64_t)want->offset * elem_bytes &&
           same_view(&part->views[found->view], want->box.ndim, shape, want->stride, elem_bytes);
}

/** Whether a buffer of the new side says what the layouts say that it is made from. */
static bool same_origin(const struct comparison *comparison, const struct shunt_plan_buffer *buffer, uint32_t i)
{
    const struct space_item *item = &comparison->space->items[i];
    return comparison->own == SHUNT_SIDE_FROM ||
           (shunt_plan_origin_state(buffer) == comparison->space->items[item->derived_from].state &&
            shunt_plan_origin_dtype(buffer) == item->read_dtype);
}

static bool same_buffer(const struct comparison *comparison, const struct shunt_plan_part *part,
                        const struct shunt_plan_buffer *buffer, uint32_t i, const struct placement_variant *variant)
{
    const struct space_item *item = &comparison->space->items[i];
    enum space_side which = comparison->own == SHUNT_SIDE_FROM ? SPACE_FROM : SPACE_TO;
    int64_t stride[SHUNT_MAX_DIMS];
    placement_dense_strides(variant->ndim, variant->shape, stride);
    if (buffer->tensor != item->tensor || buffer->state != item->state || buffer->dtype != item->dtype[which] ||
        (buffer->tier == SHUNT_TIER_HOST) != (side_tier(comparison->side, i) == CFG_TIER_HOST) ||
        !same_origin(comparison, buffer, i) || buffer->holding_count != variant->holding_count ||
        buffer->bytes != (uint64_t)variant->elements * item->elem_bytes[which] ||
        (buffer->bytes > 0 &&
         !same_view(&part->views[buffer->view], variant->ndim, variant->shape, stride, item->elem_bytes[which])))
        return false;
    for (uint32_t h = 0; h < variant->holding_count; h++) {
        if (!same_holding(part, &part->holdings[buffer->holding_begin + h], &variant->holdings[h],
                          item->elem_bytes[which]))
            return false;
    }
    return true;
}

/** "bf16" of the device, or "bf16 made from master in fp32": what a buffer is, but for where it lies. */
static const char *describe(char text[96], unsigned dtype, bool host, unsigned state, unsigned origin,
                            unsigned origin_dtype)
{
    int length = snprintf(text, 96, "%s%s", shunt_dtype_name(dtype), host ? " on the host" : " on the device");
    if (origin != state || origin_dtype != dtype)
        snprintf(text + length, 96 - (size_t)length, " made from %s in %s", shunt_state_name(origin),
                 shunt_dtype_name(origin_dtype));
    return text;
}

/** Dtype, tier or origin differ: SHUNT_OK when they do not. */
static enum shunt_status refuse_kind(const struct comparison *comparison, const struct shunt_plan_buffer *buffer,
                                     uint32_t i, uint32_t rank, const char *tensor, struct shunt_err *err)
{
    const struct space_item *item = &comparison->space->items[i];
    bool from = comparison->own == SHUNT_SIDE_FROM, on_host = side_tier(comparison->side, i) == CFG_TIER_HOST;
    unsigned dtype = item->dtype[from ? SPACE_FROM : SPACE_TO];
    char found[96], wanted[96];
    describe(found, buffer->dtype, buffer->tier == SHUNT_TIER_HOST, buffer->state,
             from ? buffer->state : (unsigned)shunt_plan_origin_state(buffer),
             from ? buffer->dtype : (unsigned)shunt_plan_origin_dtype(buffer));
    describe(wanted, dtype, on_host, item->state,
             from ? item->state : comparison->space->items[item->derived_from].state, from ? dtype : item->read_dtype);
    if (strcmp(found, wanted) == 0)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: rank %u: %s/%s: the plan has %s, the layout %s", comparison->path,
                      rank, shunt_state_name(item->state), tensor, found, wanted);
}

static const char *buffer_tensor(const struct comparison *comparison, const struct shunt_plan_buffer *buffer)
{
    return shunt_plan_string(comparison->plan, shunt_plan_get_tensor(comparison->plan, buffer->tensor)->name);
}

static enum shunt_status refuse_extra(const struct comparison *comparison, const struct shunt_plan_buffer *buffer,
                                      uint32_t rank, struct shunt_err *err)
{
    return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: rank %u: %s/%s: the plan has it, the layout does not",
                      comparison->path, rank, shunt_state_name(buffer->state), buffer_tensor(comparison, buffer));
}

/** The next buffer of the plan is another item than the next of the layout: the earlier one is what is missing. */
static enum shunt_status refuse_other(const struct comparison *comparison, const struct shunt_plan_buffer *buffer,
                                      uint32_t i, uint32_t rank, const char *tensor, struct shunt_err *err)
{
    const struct space_item *item = &comparison->space->items[i];
    if (buffer != NULL &&
        (buffer->tensor < item->tensor || (buffer->tensor == item->tensor && buffer->state < item->state)))
        return refuse_extra(comparison, buffer, rank, err);
    return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: rank %u: %s/%s: the layout has it, the plan does not",
                      comparison->path, rank, shunt_state_name(item->state), tensor);
}

/** First boxes of both sides, to show where they part. */
static enum shunt_status refuse_item(const struct comparison *comparison, const struct shunt_plan_part *part,
                                     const struct shunt_plan_buffer *buffer, uint32_t i, uint32_t rank,
                                     const struct placement_variant *variant, struct shunt_err *err)
{
    const struct space_item *item = &comparison->space->items[i];
    const struct shunt_plan_tensor *tensor = shunt_plan_get_tensor(comparison->plan, item->tensor);
    char found[SHUNT_MAX_DIMS * 48] = "nothing", wanted[SHUNT_MAX_DIMS * 48] = "nothing";
    const char *name = shunt_plan_string(comparison->plan, tensor->name);
    if (buffer == NULL || buffer->tensor != item->tensor || buffer->state != item->state)
        return refuse_other(comparison, buffer, i, rank, name, err);
    if (refuse_kind(comparison, buffer, i, rank, name, err) != SHUNT_OK)
        return SHUNT_ERR_MISMATCH;
    if (variant->holding_count > 0)
        box_print(&variant->holdings[0].box, wanted, sizeof(wanted));
    if (buffer->holding_count > 0) {
        const struct shunt_plan_holding *holding = &part->holdings[buffer->holding_begin];
        struct box box = {.ndim = tensor->ndim};
        for (uint32_t d = 0; d < tensor->ndim; d++) {
            box.lo[d] = part->corners[holding->corner].lo[d];
            box.hi[d] = box.lo[d] + part->views[holding->view].shape[d];
        }
        box_print(&box, found, sizeof(found));
    }
    return shunt_fail(
        err, SHUNT_ERR_MISMATCH,
        "%s: rank %u: %s/%s: the plan has %u boxes beginning with %s, the layout %u beginning with %s, or "
        "they lie elsewhere in the buffer",
        comparison->path, rank, shunt_state_name(item->state), name, buffer->holding_count, found,
        variant->holding_count, wanted);
}

/** Both lists ascend by item: walk them together. */
static enum shunt_status compare_rank(const struct comparison *comparison, const struct shunt_plan_part *part,
                                      uint32_t rank, struct shunt_err *err)
{
    uint32_t b = 0, count = part->header->buffer_count;
    for (uint32_t i = 0; i < comparison->space->item_count; i++) {
        const struct placement_variant *variant = side_variant(comparison->side, i, rank);
        if (variant == NULL)
            continue;
        while (b < count && !belongs(comparison, &part->buffers[b]))
            b++;
        if (b == count || !same_buffer(comparison, part, &part->buffers[b], i, variant))
            return refuse_item(comparison, part, b < count ? &part->buffers[b] : NULL, i, rank, variant, err);
        b++;
    }
    while (b < count && !belongs(comparison, &part->buffers[b]))
        b++;
    if (b < count)
        return refuse_extra(comparison, &part->buffers[b], rank, err);
    return SHUNT_OK;
}

static enum shunt_status compare_side(const struct comparison *comparison, struct shunt_err *err)
{
    const struct shunt_plan_header *header = shunt_plan_get_header(comparison->plan);
    bool from = comparison->own == SHUNT_SIDE_FROM;
    uint32_t ranks = from ? header->from_rank_count : header->to_rank_count;
    if (ranks != comparison->side->grid.rank_count)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: found %u ranks, the plan has %u", comparison->path,
                          comparison->side->grid.rank_count, ranks);
    for (uint32_t d = 0; d < header->device_count; d++) {
        const struct shunt_plan_device *device = shunt_plan_get_device(comparison->plan, d);
        struct shunt_plan_part part;
        uint32_t rank = from ? device->from_rank : device->to_rank;
        if (rank == SHUNT_PLAN_NONE)
            continue;
        if (!comparison->placed && comparison->side->grid.ranks[rank].device != device->id)
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: rank %u is on device %u, in the plan on device %u",
                              comparison->path, rank, comparison->side->grid.ranks[rank].device, device->id);
        enum shunt_status status = shunt_plan_get_part(comparison->plan, d, &part, err);
        if (status == SHUNT_OK)
            status = compare_rank(comparison, &part, rank, err);
        shunt_plan_drop_part(comparison->plan, d);
        if (status != SHUNT_OK)
            return status;
    }
    return SHUNT_OK;
}

static enum shunt_status compare_tensors(struct arena *arena, const struct comparison *comparison,
                                         struct shunt_err *err)
{
    const struct space *space = comparison->space;
    if (shunt_plan_tensor_count(comparison->plan) != space->tensor_count)
        return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: found %u tensors, the plan has %u", comparison->path,
                          space->tensor_count, shunt_plan_tensor_count(comparison->plan));
    for (uint32_t i = 0; i < space->item_count; i++) {
        const struct space_item *item = &space->items[i];
        const struct space_family *family = &space->families[item->family];
        const struct shunt_plan_tensor *tensor = shunt_plan_get_tensor(comparison->plan, item->tensor);
        const char *name = shunt_plan_string(comparison->plan, tensor->name);
        if (i > 0 && item->tensor == space->items[i - 1].tensor)
            continue;
        if (strcmp(name, space_tensor_name(arena, family, item->layer, item->expert)) != 0 ||
            tensor->ndim != family->ndim ||
            memcmp(shunt_plan_tensor_dims(comparison->plan, item->tensor), family->shape,
                   family->ndim * sizeof(int64_t)) != 0)
            return shunt_fail(err, SHUNT_ERR_MISMATCH, "%s: tensor %s of the plan has another name or shape",
                              comparison->path, name);
    }
    return SHUNT_OK;
}

/** What the plan says of the state beside the tensors. */
static enum shunt_status compare_notes(struct arena *arena, const struct comparison *comparison, struct shunt_err *err)
{
    const struct shunt_plan_summary *summary = shunt_plan_get_summary(comparison->plan);
    if (shunt_plan_get_header(comparison->plan)->version_minor < 1 ||
        strcmp(shunt_plan_string(comparison->plan, summary->state_notes),
               beside_text(arena, &comparison->space->beside)) == 0)
        return SHUNT_OK;
    return shunt_fail(err, SHUNT_ERR_MISMATCH,
                      "%s: the plan says something else about the state beside the tensors than the documents",
                      comparison->path);
}

static enum shunt_status compare_documents(struct arena *arena, const struct shunt_plan *plan,
                                           const struct compile_documents *documents, struct shunt_err *err)
{
    struct pair pair;
    struct shunt_plan_placement placement;
    struct comparison from = {.plan = plan, .path = documents->from->path, .own = SHUNT_SIDE_FROM};
    struct comparison to = {.plan = plan, .path = documents->to->path, .own = SHUNT_SIDE_TO};
    enum shunt_status status = pair_build(arena, documents->model, documents->from, documents->to, &pair, err);
    if (status != SHUNT_OK)
        return status;
    from.space = to.space = pair.space;
    from.side = pair.from;
    to.side = pair.to;
    to.placed = shunt_plan_get_placement(plan, &placement);
    status = compare_tensors(arena, &from, err);
    if (status == SHUNT_OK)
        status = compare_side(&from, err);
    if (status == SHUNT_OK)
        status = compare_side(&to, err);
    return status == SHUNT_OK ? compare_notes(arena, &from, err) : status;
}

/** Layouts under other names than the plan's may be the same; when they are not, the names say more than the rest. */
static enum shunt_status explain(const struct shunt_plan *plan, const struct compile_documents *documents,
                                 enum shunt_status status, struct shunt_err *err)
{
    const struct shunt_plan_summary *summary = shunt_plan_get_summary(plan);
    const char *from = shunt_plan_string(plan, summary->from), *to = shunt_plan_string(plan, summary->to);
    const struct shunt_err why = *err;
    bool old = strcmp(documents->from->name, from) == 0, new = strcmp(documents->to->name, to) == 0;
    if ((old && new) || shunt_status_exit_code(status) != 1)
        return status;
    bool swapped = strcmp(documents->from->name, to) == 0 && strcmp(documents->to->name, from) == 0;
    const struct cfg_layout *other = old ? documents->to : documents->from;
    return shunt_fail(err, status, "%s: layout `%.200s` is not the plan's %s layout `%.200s`%s %.400s", other->path,
                      other->name, old ? "new" : "old", old ? to : from, swapped ? "; are the two swapped?" : ":",
                      why.text);
}

enum shunt_status cli_compare_layouts(const struct shunt_plan *plan, const char *from_path, const char *to_path,
                                      FILE *diag, struct shunt_err *err)
{
    const struct compile_options options = {.from_path = from_path, .to_path = to_path, .any_cluster = true};
    struct compile_documents documents;
    enum shunt_status status = compile_load(&options, &documents, diag);
    if (status != SHUNT_OK)
        return status;
    struct arena *arena = malloc(sizeof(*arena));
    if (arena == NULL) {
        compile_unload(&documents);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory");
    }
    arena_init(arena);
    if (setjmp(arena->on_failure) == 0)
        status = explain(plan, &documents, compare_documents(arena, plan, &documents, err), err);
    else
        status = shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory while comparing layouts");
    arena_finish(arena);
    free(arena);
    compile_unload(&documents);
    return status;
}
