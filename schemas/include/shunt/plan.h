/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLAN_H
#define SHUNT_PLAN_H

/**
 * Plan reader. A plan is hostile until it has been read: opening checks the header,
 * the section table and the global sections; taking a part checks that part. After
 * that every index, offset and size that the accessors hand out is inside its table
 * or buffer, and plain pointer access is safe.
 *
 * Thread rules: an open plan is immutable; any number of threads may read it.
 */

#include <stdbool.h>

#include "shunt/plan_format.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_plan;

/** Typed view of one device's part. Pointers live as long as the plan. */
struct shunt_plan_part {
    const struct shunt_plan_part_header *header;
    const struct shunt_plan_buffer *buffers;
    const struct shunt_plan_holding *holdings;
    const struct shunt_plan_view *views;
    const struct shunt_plan_corner *corners;
    const struct shunt_plan_round *rounds; /* round_count + 1 records */
    const struct shunt_plan_op *ops;
    const struct shunt_plan_message *messages;
};

/**
 * Map a plan file and check its header, section table and global sections.
 *
 * @param path      plan file; opened read-only
 * @param plan_out  set only on SHUNT_OK; release with shunt_plan_close()
 * @return SHUNT_ERR_IO (cannot open or map), SHUNT_ERR_PLAN (anything malformed), SHUNT_ERR_NOMEM
 */
SHUNT_API enum shunt_status shunt_plan_open(const char *path, struct shunt_plan **plan_out, struct shunt_err *err);

/** The same over bytes in memory, which must be 8-byte aligned, outlive the plan and stay unchanged. */
SHUNT_API enum shunt_status shunt_plan_open_memory(const void *bytes, size_t size, struct shunt_plan **plan_out,
                                                   struct shunt_err *err);

/** Accepts NULL. */
SHUNT_API void shunt_plan_close(struct shunt_plan *plan);

SHUNT_API const struct shunt_plan_header *shunt_plan_get_header(const struct shunt_plan *plan);
SHUNT_API const struct shunt_plan_summary *shunt_plan_get_summary(const struct shunt_plan *plan);
SHUNT_API uint32_t shunt_plan_tensor_count(const struct shunt_plan *plan);
/** index < shunt_plan_tensor_count(); the extents are at shunt_plan_tensor_dims(). */
SHUNT_API const struct shunt_plan_tensor *shunt_plan_get_tensor(const struct shunt_plan *plan, uint32_t index);
SHUNT_API const int64_t *shunt_plan_tensor_dims(const struct shunt_plan *plan, uint32_t index);
/** index < header->device_count */
SHUNT_API const struct shunt_plan_device *shunt_plan_get_device(const struct shunt_plan *plan, uint32_t index);
/** A string of a checked record; never NULL. */
SHUNT_API const char *shunt_plan_string(const struct shunt_plan *plan, uint32_t offset);

/**
 * Check the part of one device (checksum, table bounds, every index, offset, size, alignment,
 * kind and reserved field) and describe it. Cheap to call again.
 */
SHUNT_API enum shunt_status shunt_plan_get_part(const struct shunt_plan *plan, uint32_t device,
                                                struct shunt_plan_part *part_out, struct shunt_err *err);

/** Bytes from the first to behind the last element of a view: sum (shape-1)*stride + elem_bytes. */
SHUNT_API uint64_t shunt_plan_view_extent(const struct shunt_plan_view *view);
/** Product of the shape. */
SHUNT_API uint64_t shunt_plan_view_elements(const struct shunt_plan_view *view);

/** CRC-32C (Castagnoli) of bytes, continued from crc (0 to start). */
SHUNT_API uint32_t shunt_crc32c(uint32_t crc, const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
