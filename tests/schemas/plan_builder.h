/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_TESTS_PLAN_BUILDER_H
#define SHUNT_TESTS_PLAN_BUILDER_H

/**
 * Plans for tests: put together record by record, edited at will, then encoded. Nothing here is
 * shared with the compiler or the reader but the records themselves. Running out of memory or
 * passing a wrong index aborts: this is test code.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shunt/plan.h"

/** A growing table. */
struct build_table {
    void *at;
    uint32_t count, room;
};

struct build_op {
    uint32_t round;
    struct shunt_plan_op op;
};

struct build_message {
    uint32_t round;
    struct shunt_plan_message message;
};

struct build_part {
    uint64_t staging_bytes[SHUNT_PLAN_MAX_DEPTH];
    uint64_t *live_bytes; /* round_count + 1 */
    struct build_table buffers, holdings, views, corners;
    struct build_table ops;      /* struct build_op; encoded by round, unpacks last */
    struct build_table messages; /* struct build_message; encoded by round */
};

struct build {
    struct shunt_plan_header header; /* counts, digests and minor version; the rest is set when encoding */
    struct shunt_plan_summary summary;
    struct build_table strings, tensors, dims;
    struct shunt_plan_device *devices; /* header.device_count */
    struct build_part *parts;
};

/** An encoded plan, 8-byte aligned. */
struct image {
    unsigned char *bytes;
    size_t size;
};

struct build *build_create(uint32_t devices, uint32_t rounds, uint32_t depth);
void build_destroy(struct build *build);

/** Offset of a new string. */
uint32_t build_string(struct build *build, const char *text);
/** Index of a new tensor. */
uint32_t build_tensor(struct build *build, const char *name, uint32_t ndim, const int64_t *dims);
/** Index of a view; dense row-major if strides is NULL. Views are interned. */
uint32_t build_view(struct build_part *part, uint32_t elem_bytes, uint32_t ndim, const int64_t *shape,
                    const int64_t *strides);
uint32_t build_corner(struct build_part *part, uint32_t ndim, const int64_t *lo);
/** Index of a new buffer of a dense local shape; round is its alloc_round or free_round, of scratch both. */
uint32_t build_buffer(struct build *build, uint32_t device, uint32_t tensor, enum shunt_state state,
                      enum shunt_dtype dtype, enum shunt_plan_side side, uint32_t ndim, const int64_t *shape,
                      uint32_t round);
/** Give the last buffer a holding; strides NULL: dense row-major. */
void build_holding(struct build_part *part, uint32_t ndim, const int64_t *lo, const int64_t *shape,
                   const int64_t *strides, uint64_t offset);
/** Index of a new op. */
uint32_t build_op(struct build_part *part, uint32_t round, enum shunt_plan_op_kind kind, uint32_t src_buffer,
                  uint32_t src_view, uint64_t src_offset, uint32_t dst_buffer, uint32_t dst_view, uint64_t dst_offset);
void build_message(struct build *build, uint32_t device, uint32_t round, enum shunt_plan_direction direction,
                   uint32_t peer, uint64_t offset, uint64_t bytes);

/** Set live bytes, device totals and every figure of the summary from the records as they are. */
void build_account(struct build *build);

struct shunt_plan_buffer *build_buffer_at(struct build *build, uint32_t device, uint32_t index);
struct shunt_plan_holding *build_holding_at(struct build *build, uint32_t device, uint32_t index);
struct shunt_plan_view *build_view_at(struct build *build, uint32_t device, uint32_t index);
struct shunt_plan_corner *build_corner_at(struct build *build, uint32_t device, uint32_t index);
struct shunt_plan_op *build_op_at(struct build *build, uint32_t device, uint32_t index);
struct shunt_plan_message *build_message_at(struct build *build, uint32_t device, uint32_t index);
void build_remove_op(struct build *build, uint32_t device, uint32_t index);
void build_remove_message(struct build *build, uint32_t device, uint32_t index);

/** Encode with right checksums. Release with image_finish(). */
struct image build_encode(const struct build *build);

struct image image_copy(const struct image *image);
void image_finish(struct image *image);
/** Recompute the checksums of everything that can be found; offsets that lie outside are left alone. */
void image_seal(struct image *image);
struct shunt_plan_header *image_header(struct image *image);
/** kind: SHUNT_SECTION_... */
struct shunt_plan_section *image_section(struct image *image, uint32_t kind);
/** Byte `offset` of a section. */
void *image_in_section(struct image *image, uint32_t kind, uint64_t offset);
struct shunt_plan_device *image_device(struct image *image, uint32_t device);

enum build_part_table {
    BUILD_BUFFERS,
    BUILD_HOLDINGS,
    BUILD_VIEWS,
    BUILD_CORNERS,
    BUILD_ROUNDS,
    BUILD_OPS,
    BUILD_MESSAGES,
    BUILD_END /* behind the last table */
};
struct shunt_plan_part_header *image_part(struct image *image, uint32_t device);
/** Record `index` of a table of a part. */
void *image_record(struct image *image, uint32_t device, enum build_part_table table, uint32_t index);

/**
 * The tiny plan of these tests: three devices on two nodes, two rounds, two staging slots.
 *
 *   embed.weight [6,4] bf16 param      old: rows 0-2 on device 0, rows 3-5 on device 1
 *                                      new: columns 0-1 on device 1, 2-3 on device 2, each with two pad rows
 *   norm.weight  [4] fp32 param        old: devices 0, 1; new: devices 1 (kept), 2
 *   flat         [2,3] fp32 exp_avg    old: flat range 0-4 on device 0 (two holdings), 5 on device 1
 *                                      new: all on device 1; device 2 has an empty buffer
 */
struct build *build_tiny(void);

/**
 * A plan with casts, a dropped state, and weights made from masters: two devices on one node, four
 * rounds, two staging slots, one tensor w [4,4] in whole rows.
 *
 *   param       old: fp32, all on device 0, never read; new: bf16, all on both, made from the master
 *   master      fp32; old: rows 0-1 on device 0, rows 2-3 on device 1; new: all on both
 *   exp_avg     old: fp32, rows as the master's; new: bf16, all on device 0
 *   exp_avg_sq  old: bf16, all on device 0; new: fp32, all on device 1
 *   momentum    old: fp32, all on device 0; the new side has none
 *
 * Masters move in round 0, exp_avg in round 1, exp_avg_sq in round 2. Weights: device 0 makes rows 0-1
 * in round 0 from its old master and rows 2-3 in round 2 from its new one; device 1 makes rows 2-3 in
 * round 1 from its old one, and in round 3 receives rows 0-1, cast in the pack.
 */
struct build *build_cast(void);
/** build_account(), and the figures that it cannot know. */
void build_cast_account(struct build *build);

/**
 * A plan with scratch buffers: three devices on two nodes, five rounds, two staging slots; w [4,4] in whole
 * rows, norm [4]. Devices 0 and 1 never have room for an old and a new half of the masters at once.
 *
 *   master   fp32; old: rows 0-1 on device 0, rows 2-3 on device 1; new: the other way round. Device 0 parks its rows
 *            in host memory in round 0, receives the others in round 2, and sends what it has parked in round 4
 *   exp_avg  old: fp32, all on device 0; new: bf16, all on device 2. It goes through the memory of device 1
 *   norm     fp32 param of device 0 on both sides, parked in host memory in rounds 0 to 2
 */
struct build *build_scratch(void);

/**
 * A regular plan of any size: every tensor is cut into rows over all devices, and the new cut is
 * half a chunk further on, so each device copies half a chunk and receives the other half from the
 * next device in two pieces. Two buffers and five ops per tensor and device.
 */
struct build *build_large(uint32_t devices, uint32_t tensors, uint32_t rounds);

/** Indices in the tiny plan that edits need. */
enum {
    TINY_EMBED,
    TINY_NORM,
    TINY_FLAT,
    /* buffers */
    TINY_D0_EMBED = 0,
    TINY_D0_NORM,
    TINY_D0_FLAT,
    TINY_D1_EMBED_OLD = 0,
    TINY_D1_EMBED_NEW,
    TINY_D1_NORM,
    TINY_D1_FLAT_OLD,
    TINY_D1_FLAT_NEW,
    TINY_D2_EMBED = 0,
    TINY_D2_NORM,
    TINY_D2_FLAT,
    /* ops, in the order of encoding */
    TINY_D0_PACK_TO_1 = 0,
    TINY_D0_PACK_TO_2,
    TINY_D0_PACK_FLAT_A,
    TINY_D0_PACK_FLAT_B,
    TINY_D1_COPY_EMBED = 0,
    TINY_D1_FILL,
    TINY_D1_PACK_EMBED,
    TINY_D1_UNPACK_EMBED,
    TINY_D1_COPY_FLAT,
    TINY_D1_PACK_NORM,
    TINY_D1_UNPACK_FLAT_A,
    TINY_D1_UNPACK_FLAT_B,
    TINY_D2_FILL = 0,
    TINY_D2_UNPACK_FROM_0,
    TINY_D2_UNPACK_FROM_1,
    TINY_D2_UNPACK_NORM,
    /* messages */
    TINY_D0_SEND_1 = 0,
    TINY_D0_SEND_2,
    TINY_D0_SEND_FLAT,
    TINY_D1_SEND_2 = 0,
    TINY_D1_RECV_0,
    TINY_D1_SEND_NORM,
    TINY_D1_RECV_FLAT,
    TINY_D2_RECV_0 = 0,
    TINY_D2_RECV_1,
    TINY_D2_RECV_NORM,
};

/** The same of the plan with scratch buffers. */
enum {
    SCRATCH_D0_MASTER_OLD,
    SCRATCH_D0_MASTER,
    SCRATCH_D0_MASTER_NEW,
    SCRATCH_D0_AVG_OLD,
    SCRATCH_D0_NORM_OLD,
    SCRATCH_D0_NORM,
    SCRATCH_D0_NORM_NEW,
    SCRATCH_D1_MASTER_OLD = 0,
    SCRATCH_D1_AVG,
    SCRATCH_D1_MASTER_NEW,
    /* ops, in the order of encoding */
    SCRATCH_D0_PARK_MASTER = 0,
    SCRATCH_D0_PARK_NORM,
    SCRATCH_D0_PACK_AVG,
    SCRATCH_D0_COPY_NORM,
    SCRATCH_D0_UNPACK_MASTER,
    SCRATCH_D0_PACK_MASTER,
    SCRATCH_D1_UNPACK_AVG = 0,
    SCRATCH_D1_PACK_MASTER,
    SCRATCH_D1_PACK_AVG,
    SCRATCH_D1_UNPACK_MASTER,
};

/** The same of the plan with casts. */
enum {
    CAST_D0_PARAM_OLD,
    CAST_D0_PARAM_NEW,
    CAST_D0_MASTER_OLD,
    CAST_D0_MASTER_NEW,
    CAST_D0_AVG_OLD,
    CAST_D0_AVG_NEW,
    CAST_D0_AVG_SQ,
    CAST_D0_MOMENTUM,
    CAST_D1_PARAM_NEW = 0,
    CAST_D1_MASTER_OLD,
    CAST_D1_MASTER_NEW,
    CAST_D1_AVG_OLD,
    CAST_D1_AVG_SQ_NEW,
    /* ops, in the order of encoding */
    CAST_D0_COPY_MASTER = 0,
    CAST_D0_COPY_PARAM_A,
    CAST_D0_PACK_MASTER,
    CAST_D0_UNPACK_MASTER,
    CAST_D0_COPY_AVG,
    CAST_D0_UNPACK_AVG,
    CAST_D0_COPY_PARAM_B,
    CAST_D0_PACK_AVG_SQ,
    CAST_D0_PACK_PARAM,
    CAST_D1_COPY_MASTER = 0,
    CAST_D1_PACK_MASTER,
    CAST_D1_UNPACK_MASTER,
    CAST_D1_COPY_PARAM,
    CAST_D1_PACK_AVG,
    CAST_D1_UNPACK_AVG_SQ,
    CAST_D1_UNPACK_PARAM,
};

#endif
