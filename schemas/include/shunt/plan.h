/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLAN_H
#define SHUNT_PLAN_H

/**
 * Plan reader. A plan is hostile until it has been read: opening checks the header,
 * the section table and the global sections; taking a part checks that part. After
 * that every index, offset and size that the accessors hand out is inside its table
 * or buffer, and plain pointer access is safe. What has been read stays as it was, whatever
 * becomes of the file: the reader copies bytes and checks the copy. Of a file it reads what stands in
 * front of the parts when it opens it, and each part when that is asked for.
 *
 * Thread rules: an open plan is immutable; any number of threads may read it. Closing it, and
 * dropping a part, is for when nobody else uses it, or that part.
 */

#include <stdbool.h>

#include "shunt/plan_format.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_plan;

/** Typed view of one device's part, whose part_bytes bytes begin with the header. Pointers live until the part is dropped or the plan closed. */
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
 * Read and check a plan file's header, section table and global sections.
 *
 * @param path      plan file; opened read-only, and kept open until the plan is closed
 * @param plan_out  set only on SHUNT_OK; release with shunt_plan_close()
 * @return SHUNT_ERR_IO (cannot open or read), SHUNT_ERR_PLAN (anything malformed), SHUNT_ERR_NOMEM
 */
SHUNT_API enum shunt_status shunt_plan_open(const char *path, struct shunt_plan **plan_out, struct shunt_err *err);

/** The same over bytes in memory, which must be 8-byte aligned, outlive the plan and stay unchanged. */
SHUNT_API enum shunt_status shunt_plan_open_memory(const void *bytes, size_t size, struct shunt_plan **plan_out,
                                                   struct shunt_err *err);

/** Accepts NULL. */
SHUNT_API void shunt_plan_close(struct shunt_plan *plan);

/** What stands in front of the parts lies behind the header in one piece: part_offset bytes of device 0. */
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

/** Why the plan takes as long as it is predicted to, as text: see plan-format.md, 2.3. NULL: it does not say. */
SHUNT_API const char *shunt_plan_explanation(const struct shunt_plan *plan);

/** One line of a plan's statement about the state beside its tensors. The texts are not NUL-terminated. */
struct shunt_plan_note {
    const char *name, *action, *why; /* action: "copied", "recomputed", "reseeded", "left" */
    uint32_t name_bytes, action_bytes, why_bytes;
};

/**
 * The next line of the statement, which shunt_plan_string() of the summary's `state_notes` has from its first one on.
 *
 * @param at  where to read; moves behind the line
 * @return false at the end
 */
SHUNT_API bool shunt_plan_next_note(const char **at, struct shunt_plan_note *note_out);

/** Whether a text of a note is this word. */
SHUNT_API bool shunt_plan_note_is(const char *text, uint32_t bytes, const char *word);

/** How the compiler chose devices for the new ranks, where it did not keep to the layout. */
struct shunt_plan_placement {
    const char *method; /* not NUL-terminated */
    uint32_t method_bytes;
    uint64_t moved_fixed;                         /* bytes that would be needed remotely as the layout says */
    uint64_t cost_picoseconds, bound_picoseconds; /* on the links, summed over new ranks; no choice costs less */
};

/** @return false when the new ranks are where the layout says */
SHUNT_API bool shunt_plan_get_placement(const struct shunt_plan *plan, struct shunt_plan_placement *placement_out);

/**
 * Read and check the part of one device (checksum, table bounds, every index, offset, size, alignment,
 * kind and reserved field) and describe it. Cheap to call again.
 *
 * @return SHUNT_ERR_PLAN (malformed), SHUNT_ERR_IO (cannot read), SHUNT_ERR_NOMEM, SHUNT_ERR_USAGE (no such device)
 */
SHUNT_API enum shunt_status shunt_plan_get_part(const struct shunt_plan *plan, uint32_t device,
                                                struct shunt_plan_part *part_out, struct shunt_err *err);

/**
 * Forget a part and free its memory, so that who walks all parts need not hold them all. The next
 * shunt_plan_get_part() reads and checks it again.
 */
SHUNT_API void shunt_plan_drop_part(const struct shunt_plan *plan, uint32_t device);

/** Bytes from the first to behind the last element of a view: sum (shape-1)*stride + elem_bytes. */
SHUNT_API uint64_t shunt_plan_view_extent(const struct shunt_plan_view *view);
/** Product of the shape. */
SHUNT_API uint64_t shunt_plan_view_elements(const struct shunt_plan_view *view);

/** The sides that a buffer belongs to: a kept one to both, a scratch one to neither. */
static inline bool shunt_plan_on_old_side(const struct shunt_plan_buffer *buffer)
{
    return buffer->side == SHUNT_SIDE_FROM || buffer->side == SHUNT_SIDE_BOTH;
}

static inline bool shunt_plan_on_new_side(const struct shunt_plan_buffer *buffer)
{
    return buffer->side == SHUNT_SIDE_TO || buffer->side == SHUNT_SIDE_BOTH;
}

/** Whether the plan allocates a buffer, and whether it frees it. */
static inline bool shunt_plan_is_allocated(const struct shunt_plan_buffer *buffer)
{
    return buffer->side == SHUNT_SIDE_TO || buffer->side == SHUNT_SIDE_SCRATCH;
}

static inline bool shunt_plan_is_freed(const struct shunt_plan_buffer *buffer)
{
    return buffer->side == SHUNT_SIDE_FROM || buffer->side == SHUNT_SIDE_SCRATCH;
}

/** State and dtype, on the old side, of what the elements of a buffer are made from: as a rule its own. */
static inline unsigned shunt_plan_origin_state(const struct shunt_plan_buffer *buffer)
{
    return buffer->origin_state != 0 ? buffer->origin_state - 1u : buffer->state;
}

static inline unsigned shunt_plan_origin_dtype(const struct shunt_plan_buffer *buffer)
{
    return buffer->origin_dtype != 0 ? buffer->origin_dtype - 1u : buffer->dtype;
}

/** Dtype of an element before and after a cast that is not SHUNT_CAST_NONE. */
static inline unsigned shunt_plan_cast_from(unsigned cast)
{
    return cast == SHUNT_CAST_FP32_BF16 ? SHUNT_DTYPE_FP32 : SHUNT_DTYPE_BF16;
}

static inline unsigned shunt_plan_cast_to(unsigned cast)
{
    return cast == SHUNT_CAST_FP32_BF16 ? SHUNT_DTYPE_BF16 : SHUNT_DTYPE_FP32;
}

/** CRC-32C (Castagnoli) of bytes, continued from crc (0 to start). */
SHUNT_API uint32_t shunt_crc32c(uint32_t crc, const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
