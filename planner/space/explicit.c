/* SPDX-License-Identifier: Apache-2.0 */
#include "space/explicit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space/flat.h"

#define MAX_BITMAP_ELEMENTS (INT64_C(1) << 28)

/** A tensor by name. */
struct named {
    const char *name;
    uint32_t tensor, item; /* first item */
    const struct space_family *family;
};

typedef VEC(uint32_t) number_vec;
typedef VEC(struct box) box_vec;

struct builder {
    struct arena *arena;
    const struct space *space;
    const struct cfg_layout *layout;
    struct named *names; /* sorted */
    number_vec *entries; /* by item: numbers of holdings */
    struct shunt_err *err;
};

/* ---- texts ----------------------------------------------------------------------- */

static char *box_text(struct arena *arena, const struct box *box)
{
    size_t room = (size_t)box->ndim * 48 + 1;
    return box_print(box, ARENA_NEW(arena, char, room), room);
}

static enum shunt_status refuse(const struct builder *builder, const struct cfg_holding *holding, const char *found,
                                const char *expected)
{
    uint32_t number = (uint32_t)(holding - builder->layout->holdings);
    return shunt_fail(builder->err, SHUNT_ERR_INPUT, "%s:%u:%u: holdings[%u]: found %s of %s on rank %u, expected %s",
                      builder->layout->path, holding->pos.line, holding->pos.column, number, found, holding->tensor,
                      holding->ranks[0], expected);
}

/* ---- names ----------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void list_names(struct builder *builder)
{
    const struct space *space = builder->space;
    builder->names = ARENA_NEW(builder->arena, struct named, space->tensor_count);
    for (uint32_t i = 0; i < space->item_count; i++) {
        const struct space_item *item = &space->items[i];
        const struct space_family *family = &space->families[item->family];
        struct named *named = &builder->names[item->tensor];
        if (named->name != NULL)
            continue;
        *named = (struct named){.name = space_tensor_name(builder->arena, family, item->layer, item->expert),
                                .tensor = item->tensor,
                                .item = i,
                                .family = family};
    }
    qsort(builder->names, space->tensor_count, sizeof(*builder->names), compare_names);
}

static enum shunt_status list_entries(struct builder *builder)
{
    const struct space *space = builder->space;
    list_names(builder);
    builder->entries = arena_alloc(builder->arena, space->item_count, sizeof(*builder->entries));
    for (uint32_t h = 0; h < builder->layout->holding_count; h++) {
        const struct cfg_holding *holding = &builder->layout->holdings[h];
        const struct named key = {.name = holding->tensor};
        const struct named *named =
            bsearch(&key, builder->names, space->tensor_count, sizeof(*builder->names), compare_names);
        bool left[SHUNT_STATE_COUNT];
        if (named == NULL && beside_has_left(&space->beside, holding->tensor))
            continue; /* an entry beside the tensors that this move does not copy */
        if (named == NULL)
            return refuse(builder, holding, "an entry", "a tensor of the model");
        memcpy(left, holding->state, sizeof(left));
        for (uint32_t s = 0; s < named->family->state_count; s++) {
            if (!holding->state[named->family->state[s]])
                continue;
            *VEC_PUSH(builder->arena, &builder->entries[named->item + s]) = h;
            left[named->family->state[s]] = false;
        }
        for (int s = 0; s < SHUNT_STATE_COUNT; s++) {
            if (left[s])
                return refuse(builder, holding, shunt_state_name(s), "states that this layout keeps for the tensor");
        }
    }
    return SHUNT_OK;
}

/* ---- one entry ---------------------------------------------------------------------- */

/** Refuse one box of an entry, by its extents. */
static enum shunt_status refuse_box(const struct builder *builder, const struct cfg_holding *holding,
                                    const struct cfg_box *from, const char *problem, const char *expected)
{
    struct box box = {.ndim = from->ndim};
    char extents[SHUNT_MAX_DIMS * 48], found[SHUNT_MAX_DIMS * 48 + 80];
    memcpy(box.lo, from->lo, sizeof(box.lo));
    memcpy(box.hi, from->hi, sizeof(box.hi));
    snprintf(found, sizeof(found), "box %s %s,", box_print(&box, extents, sizeof(extents)), problem);
    return refuse(builder, holding, found, expected);
}

/** A box and its strides, checked against tensor and buffer. */
static enum shunt_status read_box(const struct builder *builder, const struct cfg_holding *holding,
                                  const struct cfg_box *from, const struct space_family *family,
                                  const struct placement_variant *variant, struct placement_holding *out)
{
    int64_t shape[SHUNT_MAX_DIMS], last = from->offset;
    *out = (struct placement_holding){.box = box_whole(family->ndim, family->shape), .offset = from->offset};
    if (from->ndim != family->ndim)
        return refuse_box(builder, holding, from, "with another number of dimensions", "that of the tensor");
    for (uint32_t d = 0; d < from->ndim; d++) {
        if (from->lo[d] < 0 || from->lo[d] >= from->hi[d] || from->hi[d] > family->shape[d])
            return refuse_box(builder, holding, from, "outside the tensor, or empty", "a box inside it");
        out->box.lo[d] = from->lo[d];
        out->box.hi[d] = from->hi[d];
        shape[d] = from->hi[d] - from->lo[d];
    }
    /* without strides: those of the buffer, or of the box itself in a flat one */
    if (from->stride_count > 0)
        memcpy(out->stride, from->stride, from->ndim * sizeof(int64_t));
    else
        placement_dense_strides(from->ndim, variant->ndim == family->ndim ? variant->shape : shape, out->stride);
    for (uint32_t d = 0; d < from->ndim; d++) {
        int64_t reach;
        if (__builtin_mul_overflow(shape[d] - 1, out->stride[d], &reach) || __builtin_add_overflow(last, reach, &last))
            return refuse_box(builder, holding, from, "with strides that are too large", "a box inside the buffer");
    }
    if (last >= variant->elements)
        return refuse_box(builder, holding, from, "that leaves its buffer", "one that ends inside it");
    return SHUNT_OK;
}

/** The buffer's elements that a holding takes, as a box of local indices; false when they are no such box. */
static bool local_box(const struct placement_variant *variant, const struct placement_holding *holding, struct box *out)
{
    int64_t dense[SHUNT_MAX_DIMS], own[SHUNT_MAX_DIMS], shape[SHUNT_MAX_DIMS], at = holding->offset;
    uint32_t ndim = holding->box.ndim;
    placement_dense_strides(variant->ndim, variant->shape, dense);
    for (uint32_t d = 0; d < ndim; d++)
        shape[d] = holding->box.hi[d] - holding->box.lo[d];
    placement_dense_strides(ndim, shape, own);
    bool run = true, aligned = variant->ndim == ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        run = run && (shape[d] == 1 || holding->stride[d] == own[d]);
        aligned = aligned && (shape[d] == 1 || holding->stride[d] == dense[d]);
    }
    if (variant->ndim == 1 && run) {
        out->ndim = 1;
        *out = box_whole(1, variant->shape);
        out->lo[0] = at;
        out->hi[0] = at + box_volume(&holding->box);
        return true;
    }
    *out = box_whole(variant->ndim, variant->shape);
    for (uint32_t d = 0; aligned && d < ndim; d++) {
        out->lo[d] = at / dense[d];
        out->hi[d] = out->lo[d] + shape[d];
        at %= dense[d];
        aligned = out->hi[d] <= variant->shape[d];
    }
    return aligned;
}

/** What is left of the pads when a box is taken; false when part of it was taken before. */
static bool take_box(struct arena *arena, const struct box *box, box_vec *pads)
{
    int64_t wanted = box_volume(box);
    for (size_t p = 0; p < pads->count;) {
        struct box common, rest[BOX_MAX_PARTS], whole = pads->items[p];
        if (!box_intersect(&whole, box, &common)) {
            p++;
            continue;
        }
        wanted -= box_volume(&common);
        pads->items[p] = pads->items[--pads->count];
        uint32_t count = box_subtract(&whole, &common, rest);
        for (uint32_t i = 0; i < count; i++)
            *VEC_PUSH(arena, pads) = rest[i];
    }
    return wanted == 0;
}

/** Mark the elements of a holding in a bitmap; false when one was marked before. */
static bool mark_elements(const struct placement_holding *holding, unsigned char *seen)
{
    int64_t at[SHUNT_MAX_DIMS];
    memcpy(at, holding->box.lo, sizeof(at));
    for (int64_t n = box_volume(&holding->box); n > 0; n--) {
        int64_t element = placement_offset(holding, at);
        if (seen[element / 8] & (1u << (element % 8)))
            return false;
        seen[element / 8] |= (unsigned char)(1u << (element % 8));
        for (uint32_t d = holding->box.ndim; d-- > 0;) {
            if (++at[d] < holding->box.hi[d])
                break;
            at[d] = holding->box.lo[d];
        }
    }
    return true;
}

static enum shunt_status refuse_shared(const struct builder *builder, const struct cfg_holding *holding, uint32_t box)
{
    return refuse_box(builder, holding, &holding->boxes[box], "that shares memory with another",
                      "each element of the buffer once");
}

/** Strides that no box of local indices describes: element by element. */
static enum shunt_status pads_by_element(const struct builder *builder, const struct cfg_holding *holding,
                                         struct placement_variant *variant)
{
    if (variant->elements > MAX_BITMAP_ELEMENTS)
        return refuse(builder, holding, "a buffer of more than 2^28 elements with permuted strides",
                      "boxes that follow the buffer's own strides");
    unsigned char *seen = ARENA_NEW(builder->arena, unsigned char, (size_t)variant->elements / 8 + 1);
    for (uint32_t h = 0; h < variant->holding_count; h++) {
        if (!mark_elements(&variant->holdings[h], seen))
            return refuse_shared(builder, holding, h);
    }
    for (int64_t begin = 0; begin < variant->elements;) {
        struct box boxes[2 * SHUNT_MAX_DIMS];
        int64_t end = begin;
        while (end < variant->elements && !(seen[end / 8] & (1u << (end % 8))))
            end++;
        uint32_t count = flat_boxes(variant->ndim, variant->shape, begin, end, boxes);
        for (uint32_t b = 0; b < count; b++)
            placement_add_pad(builder->arena, variant, &boxes[b]);
        begin = end + 1;
    }
    return SHUNT_OK;
}

/** Elements of the buffer outside all boxes are pads; boxes may not share any. */
static enum shunt_status find_pads(const struct builder *builder, const struct cfg_holding *holding,
                                   struct placement_variant *variant)
{
    box_vec pads = {0};
    if (variant->elements == 0)
        return SHUNT_OK;
    *VEC_PUSH(builder->arena, &pads) = box_whole(variant->ndim, variant->shape);
    for (uint32_t h = 0; h < variant->holding_count; h++) {
        struct box box;
        if (!local_box(variant, &variant->holdings[h], &box))
            return pads_by_element(builder, holding, variant);
        if (!take_box(builder->arena, &box, &pads))
            return refuse_shared(builder, holding, h);
    }
    for (size_t p = 0; p < pads.count; p++)
        placement_add_pad(builder->arena, variant, &pads.items[p]);
    return SHUNT_OK;
}

static enum shunt_status read_entry(const struct builder *builder, const struct cfg_holding *holding,
                                    const struct space_family *family, struct placement_variant *variant)
{
    *variant = (struct placement_variant){.ndim = holding->ndim, .elements = 1};
    for (uint32_t d = 0; d < holding->ndim; d++) {
        variant->shape[d] = holding->shape[d];
        if (__builtin_mul_overflow(variant->elements, holding->shape[d], &variant->elements) ||
            variant->elements > (INT64_C(1) << 43))
            return refuse(builder, holding, "a buffer of more than 2^43 elements", "fewer");
    }
    for (uint32_t i = 0; i < holding->rank_count; i++) {
        if (holding->ranks[i] >= builder->layout->ranks)
            return refuse(builder, holding, "a rank that is not below `ranks`", "ranks of this layout");
    }
    variant->rank_count = holding->rank_count;
    variant->ranks = holding->ranks;
    variant->holdings = ARENA_NEW(builder->arena, struct placement_holding, holding->box_count);
    for (uint32_t b = 0; b < holding->box_count; b++) {
        enum shunt_status status =
            read_box(builder, holding, &holding->boxes[b], family, variant, &variant->holdings[b]);
        if (status != SHUNT_OK)
            return status;
        variant->holding_count++;
    }
    return find_pads(builder, holding, variant);
}

/* ---- one item ---------------------------------------------------------------------- */

static const char *first_box(struct arena *arena, const struct placement_variant *variant)
{
    return variant->holding_count > 0 ? box_text(arena, &variant->holdings[0].box) : "(an empty shard)";
}

/** Overlap of two entries that do not declare it, or a rank in both. */
static enum shunt_status check_pair(const struct builder *builder, const struct cfg_holding *a,
                                    const struct cfg_holding *b, const struct placement_variant *x,
                                    const struct placement_variant *y)
{
    const char *path = builder->layout->path;
    for (uint32_t i = 0; i < x->rank_count; i++) {
        for (uint32_t j = 0; j < y->rank_count; j++) {
            if (x->ranks[i] == y->ranks[j])
                return shunt_fail(builder->err, SHUNT_ERR_INPUT,
                                  "%s:%u:%u: holdings: found %s %s on rank %u a second time (first at line %u), "
                                  "expected one buffer per rank",
                                  path, b->pos.line, b->pos.column, b->tensor, first_box(builder->arena, y),
                                  y->ranks[j], a->pos.line);
        }
    }
    for (uint32_t i = 0; i < x->holding_count && !(a->copy && b->copy); i++) {
        for (uint32_t j = 0; j < y->holding_count; j++) {
            struct box common;
            if (box_intersect(&x->holdings[i].box, &y->holdings[j].box, &common))
                return shunt_fail(builder->err, SHUNT_ERR_INPUT,
                                  "%s:%u:%u: holdings: found %s %s on rank %u and on rank %u (line %u), expected one "
                                  "holder, declared replicas (one entry with both ranks) or `copy: true` on both",
                                  path, b->pos.line, b->pos.column, b->tensor, box_text(builder->arena, &common),
                                  y->ranks[0], x->ranks[0], a->pos.line);
        }
    }
    return SHUNT_OK;
}

#define MOST_RANKS_NAMED 8

/** Where the rest of a tensor is: "other parts are on rank 0, 2, 5 and 3 more". */
static const char *holders_text(struct arena *arena, const struct placement *placement)
{
    size_t room = 64 + (size_t)MOST_RANKS_NAMED * 12;
    char *text = ARENA_NEW(arena, char, room);
    FILE *file = fmemopen(text, room, "w");
    uint64_t count = 0;
    if (file == NULL)
        return "out of memory for the ranks of other parts";
    for (uint32_t v = 0; v < placement->variant_count; v++) {
        const struct placement_variant *variant = &placement->variants[v];
        for (uint32_t i = 0; variant->holding_count > 0 && i < variant->rank_count; i++, count++) {
            if (count < MOST_RANKS_NAMED)
                fprintf(file, "%s%u", count == 0 ? "other parts are on rank " : ", ", variant->ranks[i]);
        }
    }
    if (count > MOST_RANKS_NAMED)
        fprintf(file, " and %llu more", (unsigned long long)(count - MOST_RANKS_NAMED));
    fputs(count == 0 ? "no part of it is on any rank" : "", file);
    fclose(file);
    return text;
}

static enum shunt_status check_item(const struct builder *builder, uint32_t item, const struct placement *placement)
{
    const struct space_item *space_item = &builder->space->items[item];
    const struct space_family *family = &builder->space->families[space_item->family];
    const uint32_t *entries = builder->entries[item].items;
    box_vec missing = {0};
    *VEC_PUSH(builder->arena, &missing) = box_whole(family->ndim, family->shape);
    for (uint32_t v = 0; v < placement->variant_count; v++) {
        for (uint32_t w = 0; w < v; w++) {
            enum shunt_status status =
                check_pair(builder, &builder->layout->holdings[entries[w]], &builder->layout->holdings[entries[v]],
                           &placement->variants[w], &placement->variants[v]);
            if (status != SHUNT_OK)
                return status;
        }
        for (uint32_t h = 0; h < placement->variants[v].holding_count; h++)
            (void)take_box(builder->arena, &placement->variants[v].holdings[h].box, &missing);
    }
    if (missing.count == 0)
        return SHUNT_OK;
    const struct cfg_pos pos = entries != NULL ? builder->layout->holdings[entries[0]].pos : (struct cfg_pos){1, 1};
    return shunt_fail(builder->err, SHUNT_ERR_INPUT,
                      "%s:%u:%u: holdings: found no rank that holds %s of %s %s, expected one (%s)",
                      builder->layout->path, pos.line, pos.column, shunt_state_name(space_item->state),
                      space_tensor_name(builder->arena, family, space_item->layer, space_item->expert),
                      box_text(builder->arena, &missing.items[0]), holders_text(builder->arena, placement));
}

static bool same_entries(const struct builder *builder, uint32_t a, uint32_t b)
{
    return builder->entries[a].count == builder->entries[b].count &&
           (builder->entries[a].count == 0 || memcmp(builder->entries[a].items, builder->entries[b].items,
                                                     builder->entries[a].count * sizeof(uint32_t)) == 0);
}

enum shunt_status explicit_place(struct arena *arena, const struct space *space, const struct cfg_layout *layout,
                                 placement_vec *list, uint32_t *item_placement_out, struct shunt_err *err)
{
    struct builder builder = {.arena = arena, .space = space, .layout = layout, .err = err};
    enum shunt_status status = list_entries(&builder);
    for (uint32_t i = 0; status == SHUNT_OK && i < space->item_count; i++) {
        const struct space_family *family = &space->families[space->items[i].family];
        if (!space_keeps(layout, space->items[i].state)) {
            item_placement_out[i] = UINT32_MAX;
            continue;
        }
        if (i > 0 && space->items[i].tensor == space->items[i - 1].tensor &&
            space_keeps(layout, space->items[i - 1].state) && same_entries(&builder, i, i - 1)) {
            item_placement_out[i] = item_placement_out[i - 1];
            continue;
        }
        struct placement placement = {.variant_count = (uint32_t)builder.entries[i].count};
        placement.variants = ARENA_NEW(arena, struct placement_variant, placement.variant_count);
        for (uint32_t v = 0; status == SHUNT_OK && v < placement.variant_count; v++)
            status =
                read_entry(&builder, &layout->holdings[builder.entries[i].items[v]], family, &placement.variants[v]);
        if (status == SHUNT_OK)
            status = check_item(&builder, i, &placement);
        if (status != SHUNT_OK)
            return status;
        placement_index(arena, &placement);
        item_placement_out[i] = (uint32_t)list->count;
        *VEC_PUSH(arena, list) = placement;
    }
    return status;
}
