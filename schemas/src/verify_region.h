/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_VERIFY_REGION_H
#define SHUNT_SCHEMAS_VERIFY_REGION_H

/**
 * Regions (an offset, a shape and byte strides in a buffer) turned into boxes: inside one
 * holding, by its strides; inside a whole buffer, by a grid.
 */

#include "shunt/plan.h"
#include "verify_box.h"

/**
 * True if no two elements of a view share bytes because, ordered by stride, each dimension
 * steps over everything inside it. Views that are not nested are refused as holdings.
 */
bool vview_is_nested(const struct shunt_plan_view *view);

/**
 * Place a region inside a holding that is nested: element (0, ...) of the region is element start_out of
 * the holding, and both step alike. False if it does not lie inside the holding.
 */
bool vregion_locate(const struct shunt_plan_view *holding, uint64_t holding_offset, const struct shunt_plan_view *view,
                    uint64_t offset, int64_t *start_out);

/**
 * Coordinates for all bytes of a buffer: a mixed radix number system over strides that divide
 * each other. Every region whose strides are in the grid is a few boxes of it.
 */
struct vgrid {
    uint32_t levels;
    int64_t stride[SHUNT_MAX_DIMS]; /* descending */
    int64_t radix[SHUNT_MAX_DIMS];  /* steps of a level inside one of the level above; level 0: in the buffer */
};

void vgrid_begin(struct vgrid *grid, uint32_t elem_bytes);
/** Add the strides of a view. False if the grid would need more than SHUNT_MAX_DIMS levels. */
bool vgrid_add_view(struct vgrid *grid, const struct shunt_plan_view *view);
/** False if the strides do not divide each other. */
bool vgrid_end(struct vgrid *grid, uint64_t buffer_bytes);

/** Append the boxes of a region to list. VBOX_NO: it has strides outside the grid, or too many pieces. */
enum vbox_answer vgrid_split(const struct vgrid *grid, const struct shunt_plan_view *view, uint64_t offset,
                             struct vbox_list *list);

/** Append the boxes of bytes [0, bytes). */
enum vbox_answer vgrid_split_all(const struct vgrid *grid, uint64_t bytes, struct vbox_list *list);

/** Byte offset of a grid point. */
uint64_t vgrid_offset(const struct vgrid *grid, const int64_t *point);

#endif
