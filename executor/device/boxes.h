/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_BOXES_H
#define SHUNT_EXECUTOR_BOXES_H

/** Tables of the kernel, made from what ops do. No CUDA in here. */

#include "device/device.h"
#include "device/kernel.h"

struct boxes {
    struct kernel_box *boxes;
    struct kernel_tile *tiles; /* of all ops, in their order */
    uint32_t *tile_begin;      /* op_count + 1: tiles of an op; an op that is skipped has none */
    uint32_t op_count;
    uint32_t box_count, tile_count;
    uint32_t box_room, tile_room;
};

/** @return SHUNT_ERR_NOMEM; SHUNT_ERR_UNSUPPORTED for more tiles than 32 bits count */
enum shunt_status boxes_create(struct boxes *boxes, const struct device_work *work, uint32_t count,
                               struct shunt_err *err);
void boxes_destroy(struct boxes *boxes);

/** number is below 2^31 and not 0 */
struct kernel_divisor boxes_divisor(uint32_t number);

#endif
