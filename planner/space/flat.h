/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_FLAT_H
#define SHUNT_PLANNER_FLAT_H

/**
 * Ranges of flattened tensors. A flat shard holds elements [begin, end) of the row-major local
 * tensor, one behind the other: the tail of a row, a block of whole rows, the head of a row, and
 * so on in every dimension, at most 2 ndim - 1 boxes.
 *
 *     local [4, 5], range [3, 13):   . . . x x     box [0,1)x[3,5)
 *                                    x x x x x     box [1,2)x[0,5)
 *                                    x x x . .     box [2,3)x[0,3)
 *                                    . . . . .
 */

#include "space/placement.h"

/**
 * The part [begin, end) of a local tensor as a buffer of its own.
 *
 * @param base      the local tensor: dense, with its holdings
 * @param begin, end  elements of the flattened local tensor; 0 <= begin < end <= elements
 * @param length    elements of the buffer, at least end - begin: what is behind them is pad
 * @return a variant without ranks
 */
struct placement_variant flat_variant(struct arena *arena, const struct placement_variant *base, int64_t begin,
                                      int64_t end, int64_t length);

/**
 * Rows [begin, end) of a local tensor as a buffer of its own (dimension 0; begin may equal end).
 */
struct placement_variant flat_rows_variant(struct arena *arena, const struct placement_variant *base, int64_t begin,
                                           int64_t end);

/** Cut a flat range of a shape into boxes. @return their number, at most 2 ndim - 1 */
uint32_t flat_boxes(uint32_t ndim, const int64_t *shape, int64_t begin, int64_t end,
                    struct box boxes_out[2 * SHUNT_MAX_DIMS]);

#endif
