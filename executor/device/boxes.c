/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An op becomes one box, or a few: a row whose length is no multiple of 16 is cut into a part that is and a
 * rest, and a box of more rows than 31 bits count is cut along its outermost dimension.
 */
#include "device/boxes.h"

#include <stdlib.h>
#include <string.h>

#include "device/walk.h"

#define MAX_ROWS      (UINT64_C(1) << 31)
#define WIDE          16u
#define MIN_SPLIT_ROW 256u /* rows of fewer bytes are not worth two boxes */

/* An op as rows: contiguous on both sides, placed by strides. Units are bytes; of a cast, elements. */
struct shape {
    uint32_t kind;
    uint64_t dst_elem, src_elem; /* bytes of a unit on each side */
    uint64_t row;                /* units */
    uint64_t dst_offset, src_offset;
    uint32_t ndim; /* innermost first */
    uint64_t extent[SHUNT_MAX_DIMS], dst_stride[SHUNT_MAX_DIMS], src_stride[SHUNT_MAX_DIMS];
};

static void add_dim(struct shape *shape, uint64_t extent, uint64_t dst_stride, uint64_t src_stride)
{
    shape->extent[shape->ndim] = extent;
    shape->dst_stride[shape->ndim] = dst_stride;
    shape->src_stride[shape->ndim] = src_stride;
    shape->ndim++;
}

/* Strides are counted in units, so that a walk joins what is contiguous on both sides of a cast too. */
static struct shape shape_of(const struct device_work *work)
{
    const struct shunt_plan_view *dst = work->dst.view, *src = work->zero ? work->dst.view : work->src.view;
    bool cast = work->cast != SHUNT_CAST_NONE;
    struct shape shape = {.kind = work->zero                           ? KERNEL_ZERO
                                  : work->cast == SHUNT_CAST_FP32_BF16 ? KERNEL_NARROW
                                  : cast                               ? KERNEL_WIDEN
                                                                       : KERNEL_COPY,
                          .dst_elem = cast ? dst->elem_bytes : 1,
                          .src_elem = cast ? src->elem_bytes : 1,
                          .dst_offset = work->dst.offset,
                          .src_offset = work->zero ? 0 : work->src.offset};
    int64_t dst_stride[SHUNT_MAX_DIMS], src_stride[SHUNT_MAX_DIMS];
    struct walk walk;
    for (uint32_t d = 0; d < dst->ndim; d++) {
        dst_stride[d] = dst->stride[d] / (int64_t)shape.dst_elem;
        src_stride[d] = src->stride[d] / (int64_t)shape.src_elem;
    }
    walk_init(&walk, dst->ndim, cast ? 1 : dst->elem_bytes, dst->shape, dst_stride, src_stride);
    shape.row = walk.unit_bytes;
    if (walk.count > 1)
        add_dim(&shape, walk.count, walk.a_step * shape.dst_elem, walk.b_step * shape.src_elem);
    for (int d = walk.outer - 1; d >= 0; d--)
        add_dim(&shape, walk.shape[d], walk.a_stride[d] * shape.dst_elem, walk.b_stride[d] * shape.src_elem);
    return shape;
}

static uint64_t rows_of(const struct shape *shape)
{
    uint64_t rows = 1;
    for (uint32_t d = 0; d < shape->ndim; d++)
        rows *= shape->extent[d];
    return rows;
}

/* Bits that are not zero in any place where a vector may start. */
static uint64_t places(const struct shape *shape)
{
    uint64_t bits = shape->dst_offset;
    if (shape->kind != KERNEL_ZERO)
        bits |= shape->src_offset;
    for (uint32_t d = 0; d < shape->ndim; d++)
        bits |= shape->dst_stride[d] | (shape->kind != KERNEL_ZERO ? shape->src_stride[d] : 0);
    return bits;
}

/* Units of the widest vector that fits. */
static uint32_t vector_of(const struct shape *shape)
{
    bool cast = shape->kind == KERNEL_NARROW || shape->kind == KERNEL_WIDEN;
    uint64_t wide = shape->kind == KERNEL_NARROW ? shape->src_offset : shape->dst_offset;
    uint64_t half = shape->kind == KERNEL_NARROW ? shape->dst_offset : shape->src_offset;
    if (!cast) {
        uint64_t bits = places(shape) | shape->row | WIDE;
        return (uint32_t)(bits & (~bits + 1));
    }
    for (uint32_t d = 0; d < shape->ndim; d++) {
        wide |= shape->kind == KERNEL_NARROW ? shape->src_stride[d] : shape->dst_stride[d];
        half |= shape->kind == KERNEL_NARROW ? shape->dst_stride[d] : shape->src_stride[d];
    }
    return wide % 16 == 0 && half % 8 == 0 && shape->row % 4 == 0 ? 4 : 1;
}

struct kernel_divisor boxes_divisor(uint32_t number)
{
    return (struct kernel_divisor){.magic = number <= 1 ? 0 : UINT64_MAX / number + 1, .number = number};
}

static struct kernel_box box_of(const struct shape *shape, const struct device_work *work)
{
    uint32_t vector = vector_of(shape);
    struct kernel_box box = {.dst_base = work->dst.base,
                             .src_base = work->zero ? work->dst.base : work->src.base,
                             .dst_offset = shape->dst_offset,
                             .src_offset = shape->src_offset,
                             .kind = shape->kind,
                             .dst_bytes = vector * (uint32_t)shape->dst_elem,
                             .src_bytes = vector * (uint32_t)shape->src_elem,
                             .rows = (uint32_t)rows_of(shape),
                             .row_vectors = shape->row / vector,
                             .ndim = shape->ndim};
    for (uint32_t d = 0; d < shape->ndim; d++)
        box.dims[d] =
            (struct kernel_dim){boxes_divisor((uint32_t)shape->extent[d]), shape->dst_stride[d], shape->src_stride[d]};
    if (box.row_vectors <= KERNEL_TILE_VECTORS) {
        box.tile_rows = KERNEL_TILE_VECTORS / (uint32_t)box.row_vectors;
        box.short_row = boxes_divisor((uint32_t)box.row_vectors);
    } else {
        box.row_tiles = (uint32_t)((box.row_vectors + KERNEL_TILE_VECTORS - 1) / KERNEL_TILE_VECTORS);
    }
    return box;
}

static uint64_t tiles_of(const struct kernel_box *box)
{
    if (box->tile_rows == 0)
        return (uint64_t)box->rows * box->row_tiles;
    return ((uint64_t)box->rows + box->tile_rows - 1) / box->tile_rows;
}

static bool grow(void **list, uint32_t *room, uint64_t count, size_t size)
{
    if (count <= *room)
        return true;
    uint64_t wanted = count + count / 2 + 64;
    wanted = wanted > UINT32_MAX ? UINT32_MAX : wanted;
    void *larger = realloc(*list, wanted * size);
    if (larger == NULL)
        return false;
    *list = larger;
    *room = (uint32_t)wanted;
    return true;
}

static enum shunt_status add_box(struct boxes *boxes, const struct shape *shape, const struct device_work *work,
                                 struct shunt_err *err)
{
    struct kernel_box box = box_of(shape, work);
    uint64_t tiles = tiles_of(&box);
    if (tiles > UINT32_MAX - 1 - boxes->tile_count || boxes->box_count == UINT32_MAX - 1)
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED, "not supported: a part of more than %u tiles", UINT32_MAX - 1);
    if (!grow((void **)&boxes->boxes, &boxes->box_room, (uint64_t)boxes->box_count + 1, sizeof(box)) ||
        !grow((void **)&boxes->tiles, &boxes->tile_room, boxes->tile_count + tiles, sizeof(struct kernel_tile)))
        return shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for the tables of the kernel");
    for (uint32_t t = 0; t < tiles; t++)
        boxes->tiles[boxes->tile_count++] = (struct kernel_tile){boxes->box_count, t};
    boxes->boxes[boxes->box_count++] = box;
    return SHUNT_OK;
}

/* The part of a row that wide vectors can move, and the rest. */
static uint64_t wide_part(const struct shape *shape)
{
    bool cast = shape->kind == KERNEL_NARROW || shape->kind == KERNEL_WIDEN;
    uint64_t unit = cast ? 4 : WIDE;
    struct shape whole = *shape;
    whole.row = unit; /* would it be wide, but for its length? */
    if (shape->row * shape->dst_elem < MIN_SPLIT_ROW || shape->row % unit == 0 || vector_of(&whole) != unit)
        return shape->row;
    return shape->row - shape->row % unit;
}

static enum shunt_status add_rows(struct boxes *boxes, const struct shape *shape, const struct device_work *work,
                                  struct shunt_err *err)
{
    struct shape part = *shape;
    part.row = wide_part(shape);
    enum shunt_status st = add_box(boxes, &part, work, err);
    if (st != SHUNT_OK || part.row == shape->row)
        return st;
    struct shape rest = *shape;
    rest.dst_offset += part.row * shape->dst_elem;
    rest.src_offset += part.row * shape->src_elem;
    rest.row -= part.row;
    return add_box(boxes, &rest, work, err);
}

/* Boxes of at most MAX_ROWS rows, cut along the outermost dimension, and further in if one of its steps is too many. */
static enum shunt_status add_shape(struct boxes *boxes, const struct shape *shape, const struct device_work *work,
                                   struct shunt_err *err)
{
    if (rows_of(shape) < MAX_ROWS)
        return add_rows(boxes, shape, work, err);
    uint32_t last = shape->ndim - 1;
    uint64_t inner = rows_of(shape) / shape->extent[last], step = inner < MAX_ROWS ? (MAX_ROWS - 1) / inner : 1;
    for (uint64_t at = 0; at < shape->extent[last]; at += step) {
        struct shape part = *shape;
        uint64_t left = shape->extent[last] - at;
        part.dst_offset += at * shape->dst_stride[last];
        part.src_offset += at * shape->src_stride[last];
        part.extent[last] = left < step ? left : step;
        if (part.extent[last] == 1)
            part.ndim--;
        enum shunt_status st = add_shape(boxes, &part, work, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

enum shunt_status boxes_create(struct boxes *boxes, const struct device_work *work, uint32_t count,
                               struct shunt_err *err)
{
    *boxes = (struct boxes){.op_count = count};
    boxes->tile_begin = calloc((size_t)count + 1, sizeof(uint32_t));
    enum shunt_status st = boxes->tile_begin != NULL
                               ? SHUNT_OK
                               : shunt_fail(err, SHUNT_ERR_NOMEM, "out of memory for the tables of the kernel");
    for (uint32_t i = 0; i < count && st == SHUNT_OK; i++) {
        if (!work[i].skipped) {
            struct shape shape = shape_of(&work[i]);
            st = add_shape(boxes, &shape, &work[i], err);
        }
        boxes->tile_begin[i + 1] = boxes->tile_count;
    }
    if (st != SHUNT_OK)
        boxes_destroy(boxes);
    return st;
}

void boxes_destroy(struct boxes *boxes)
{
    free(boxes->boxes);
    free(boxes->tiles);
    free(boxes->tile_begin);
    *boxes = (struct boxes){0};
}
