/* SPDX-License-Identifier: Apache-2.0 */
/** The reader against malformed plans: one field of the tiny plan changed, checksums put right again. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "harness.h"
#include "plan_builder.h"
#include "verify_internal.h"

enum place {
    HEADER,
    SECTION,
    SUMMARY,
    STRINGS,
    TENSOR,
    DIMS,
    DEVICE,
    PART,
    BUFFER,
    HOLDING,
    VIEW,
    CORNER,
    ROUND,
    OP,
    MESSAGE,
    GAP
};

/* Write `value` into `size` bytes at `offset` of record `index`; expect `want` in the error. */
struct fault {
    const char *name;
    enum place place;
    uint32_t device, index;
    size_t offset, size;
    uint64_t value;
    const char *want;
};

#define FIELD(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)
#define BIG                 (UINT64_C(1) << 60)
#define MINUS_ONE           UINT64_MAX

/* clang-format off */
static const struct fault faults[] = {
    /* header */
    {"magic", HEADER, 0, 0, 0, 1, 'X', "plan: header: magic is not \"SHUNTPLN\""},
    {"version_major", HEADER, 0, 0, FIELD(shunt_plan_header, version_major), 2, "header: version is 2.3, supported 1.3"},
    {"version_minor", HEADER, 0, 0, FIELD(shunt_plan_header, version_minor), 4, "header: version is 1.4, supported 1.3"},
    {"older version with a newer summary", HEADER, 0, 0, FIELD(shunt_plan_header, version_minor), 0, "section SUMMARY: record_bytes is 288, expected 248"},
    {"header_bytes", HEADER, 0, 0, FIELD(shunt_plan_header, header_bytes), 264, "header: header_bytes is 264, expected 256"},
    {"file_bytes", HEADER, 0, 0, FIELD(shunt_plan_header, file_bytes), 64, "header: file_bytes is 64, expected "},
    {"no device", HEADER, 0, 0, FIELD(shunt_plan_header, device_count), 0, "header: device_count is 0, allowed 1..1048576"},
    {"too many devices", HEADER, 0, 0, FIELD(shunt_plan_header, device_count), 1048577, "header: device_count is 1048577"},
    {"a device too many", HEADER, 0, 0, FIELD(shunt_plan_header, device_count), 4, "section DEVICES: bytes is 192, expected 256"},
    {"from_rank_count", HEADER, 0, 0, FIELD(shunt_plan_header, from_rank_count), 4, "header: from_rank_count is 4, allowed 1..3"},
    {"to_rank_count", HEADER, 0, 0, FIELD(shunt_plan_header, to_rank_count), 0, "header: to_rank_count is 0, allowed 1..3"},
    {"round_count", HEADER, 0, 0, FIELD(shunt_plan_header, round_count), 1048577, "header: round_count is 1048577, allowed 0..1048576"},
    {"a round too many", HEADER, 0, 0, FIELD(shunt_plan_header, round_count), 12, "part of device 0: tables end at "},
    {"overlap_depth", HEADER, 0, 0, FIELD(shunt_plan_header, overlap_depth), 3, "header: overlap_depth is 3, allowed 1..2"},
    {"section_count", HEADER, 0, 0, FIELD(shunt_plan_header, section_count), 7, "header: section_count is 7, expected 6"},
    {"header reserved", HEADER, 0, 0, FIELD(shunt_plan_header, reserved[35]), 1, "header: reserved: byte 35 is 1, expected 0"},
    /* section table */
    {"section kind", SECTION, 0, 3, FIELD(shunt_plan_section, kind), 4, "section TENSORS: kind is 4, expected 3"},
    {"section record_bytes", SECTION, 0, 3, FIELD(shunt_plan_section, record_bytes), 25, "section TENSORS: record_bytes is 25, expected 24"},
    {"section reserved", SECTION, 0, 4, FIELD(shunt_plan_section, reserved), 1, "section DIMS: reserved: byte 0 is 1, expected 0"},
    {"section offset", SECTION, 0, 2, FIELD(shunt_plan_section, offset), 448, "section SUMMARY: offset is 448, expected "},
    {"section past the file", SECTION, 0, 6, FIELD(shunt_plan_section, bytes), BIG, "section PARTS: bytes is 1152921504606846976 at offset"},
    {"section bytes wrap", SECTION, 0, 1, FIELD(shunt_plan_section, bytes), MINUS_ONE, "section STRINGS: bytes is 18446744073709551615 at offset 448"},
    {"section bytes uneven", SECTION, 0, 4, FIELD(shunt_plan_section, bytes), 39, "section DIMS: bytes is 39, expected a multiple of 8"},
    {"section in a gap", SECTION, 0, 4, FIELD(shunt_plan_section, bytes), 32, "section DIMS: gap: byte 0 is 3, expected 0"},
    {"parts crc32c", SECTION, 0, 6, FIELD(shunt_plan_section, crc32c), 1, "section PARTS: crc32c is 1, expected 0"},
    {"parts too short", SECTION, 0, 6, FIELD(shunt_plan_section, bytes), 64, "section table: sections end at "},
    {"summary twice", SECTION, 0, 2, FIELD(shunt_plan_section, bytes), 0, "section TENSORS: offset is "},
    /* strings */
    {"first string", STRINGS, 0, 0, 0, 1, 'a', "section STRINGS: first and last byte are 97 and 0, expected 0"},
    {"last string", STRINGS, 0, 0, 56, 1, 'a', "section STRINGS: first and last byte are 0 and 97, expected 0"},
    {"lone continuation", STRINGS, 0, 0, 1, 1, 0x80, "section STRINGS: byte 1 is not UTF-8"},
    {"overlong", STRINGS, 0, 0, 1, 2, 0x80C0, "section STRINGS: byte 1 is not UTF-8"},
    {"surrogate", STRINGS, 0, 0, 1, 3, 0x80A0ED, "section STRINGS: byte 1 is not UTF-8"},
    {"cut sequence", STRINGS, 0, 0, 3, 2, 0x82E2, "section STRINGS: byte 3 is not UTF-8"},
    /* summary */
    {"string offset", SUMMARY, 0, 0, FIELD(shunt_plan_summary, model), 4711, "section SUMMARY: model is string offset 4711"},
    {"inside a string", SUMMARY, 0, 0, FIELD(shunt_plan_summary, solver), 2, "section SUMMARY: solver is string offset 2, not the start"},
    {"placement offset", SUMMARY, 0, 0, FIELD(shunt_plan_summary, placement), 4711, "section SUMMARY: placement is string offset 4711"},
    {"placement of a name", SUMMARY, 0, 0, FIELD(shunt_plan_summary, placement), 1, "section SUMMARY: placement is not a method and three numbers"},
    {"state_notes offset", SUMMARY, 0, 0, FIELD(shunt_plan_summary, state_notes), 4711, "section SUMMARY: state_notes is string offset 4711"},
    {"state_notes of a name", SUMMARY, 0, 0, FIELD(shunt_plan_summary, state_notes), 1, "section SUMMARY: state_notes: line 0 is not a name, an action and a reason"},
    {"seconds NaN", SUMMARY, 0, 0, FIELD(shunt_plan_summary, predicted_seconds), 0x7FF8000000000000, "predicted_seconds is nan"},
    {"seconds negative", SUMMARY, 0, 0, FIELD(shunt_plan_summary, lower_bound_seconds), 0xBFF0000000000000, "lower_bound_seconds is -1"},
    {"peak_device", SUMMARY, 0, 0, FIELD(shunt_plan_summary, peak_device), 3, "peak_device is 3, allowed 0..2"},
    {"rollback_until_round", SUMMARY, 0, 0, FIELD(shunt_plan_summary, rollback_until_round), 3, "rollback_until_round is 3, allowed 0..2"},
    {"replicas_checked", SUMMARY, 0, 0, FIELD(shunt_plan_summary, replicas_checked), 2, "replicas_checked is 2, allowed 0..1"},
    /* tensors */
    {"tensor name", TENSOR, 0, 1, FIELD(shunt_plan_tensor, name), BIG >> 29, "section TENSORS record 1: name is string offset"},
    {"tensor without a name", TENSOR, 0, 1, FIELD(shunt_plan_tensor, name), 0, "section TENSORS record 1: name is empty"},
    {"tensor ndim", TENSOR, 0, 2, FIELD(shunt_plan_tensor, ndim), 9, "section TENSORS record 2: ndim is 9, allowed 1..6"},
    {"tensor dims", TENSOR, 0, 2, FIELD(shunt_plan_tensor, dims), 4, "record 2: dims is 4 for 2 extents, the section DIMS has 5"},
    {"tensor dims wrap", TENSOR, 0, 2, FIELD(shunt_plan_tensor, dims), MINUS_ONE, "record 2: dims is 18446744073709551615"},
    {"tensor elements", TENSOR, 0, 0, FIELD(shunt_plan_tensor, elements), 25, "record 0: elements is 25, expected 24"},
    {"extent zero", DIMS, 0, 2, 0, 8, 0, "section TENSORS record 1: extent 0 is 0, expected >= 1"},
    {"extent negative", DIMS, 0, 2, 0, 8, MINUS_ONE, "section TENSORS record 1: extent 0 is -1, expected >= 1"},
    {"extents overflow", DIMS, 0, 0, 0, 8, BIG, "section TENSORS record 0: product of the extents is above"},
    /* devices */
    {"device order", DEVICE, 0, 1, FIELD(shunt_plan_device, id), 0, "section DEVICES record 1: id is 0, the one before is 0"},
    {"node order", DEVICE, 0, 0, FIELD(shunt_plan_device, node), 1, "section DEVICES record 1: node is 0, the one before is 1"},
    {"from_rank", DEVICE, 0, 0, FIELD(shunt_plan_device, from_rank), 2, "section DEVICES record 0: from_rank is 2, allowed 0..1"},
    {"to_rank", DEVICE, 0, 2, FIELD(shunt_plan_device, to_rank), 7, "section DEVICES record 2: to_rank is 7, allowed 0..1"},
    {"cap_short", DEVICE, 0, 2, FIELD(shunt_plan_device, cap_short), 1, "section DEVICES record 2: cap_short is 1, allowed 0..0"},
    {"part_offset", DEVICE, 0, 1, FIELD(shunt_plan_device, part_offset), 0, "section DEVICES record 1: part_offset is 0, expected "},
    {"part_bytes uneven", DEVICE, 0, 1, FIELD(shunt_plan_device, part_bytes), 100, "record 1: part_bytes is 100, expected a multiple of 64"},
    {"part_bytes zero", DEVICE, 0, 1, FIELD(shunt_plan_device, part_bytes), 0, "record 1: part_bytes is 0, allowed 48.."},
    {"part_bytes wrap", DEVICE, 0, 1, FIELD(shunt_plan_device, part_bytes), MINUS_ONE - 63, "record 1: part_bytes is 18446744073709551552"},
    {"last part too short", DEVICE, 0, 2, FIELD(shunt_plan_device, part_bytes), 64, "section PARTS: bytes is "},
    /* part header */
    {"part of another device", PART, 1, 0, FIELD(shunt_plan_part_header, device), 2, "part of device 1: device is 2, expected 1"},
    {"part reserved", PART, 1, 0, FIELD(shunt_plan_part_header, reserved), 1, "part of device 1: reserved is 1"},
    {"buffer_count", PART, 1, 0, FIELD(shunt_plan_part_header, buffer_count), 0xFFFFFFFF, "part of device 1: tables end at "},
    {"op_count", PART, 1, 0, FIELD(shunt_plan_part_header, op_count), 12, "part of device 1: tables end at "},
    {"staging_bytes uneven", PART, 1, 0, FIELD(shunt_plan_part_header, staging_bytes[0]), 40, "staging_bytes is 40, expected a multiple of 16"},
    {"staging_bytes too big", PART, 1, 0, FIELD(shunt_plan_part_header, staging_bytes[1]), BIG, "staging_bytes is 1152921504606846976, allowed 0.."},
    {"part gap", GAP, 0, 0, 0, 1, 1, "part of device 0: gap: byte 0 is 1, expected 0"},
    /* views and corners */
    {"view ndim", VIEW, 0, 5, FIELD(shunt_plan_view, ndim), 0, "part of device 0 view 5: ndim is 0, allowed 1..6"},
    {"view elem_bytes", VIEW, 0, 5, FIELD(shunt_plan_view, elem_bytes), 3, "view 5: elem_bytes is 3, allowed 1, 2, 4, 8"},
    {"view shape", VIEW, 0, 5, FIELD(shunt_plan_view, shape[1]), 0, "view 5: dimension 1 has shape 0 and stride 2"},
    {"view stride", VIEW, 0, 5, FIELD(shunt_plan_view, stride[0]), MINUS_ONE, "view 5: dimension 0 has shape 3 and stride -1"},
    {"view stride uneven", VIEW, 0, 5, FIELD(shunt_plan_view, stride[0]), 9, "view 5: dimension 0: stride 9 is no multiple of elem_bytes"},
    {"view too many elements", VIEW, 0, 5, FIELD(shunt_plan_view, shape[0]), BIG, "view 5: dimension 0: size is above"},
    {"view extent overflow", VIEW, 0, 5, FIELD(shunt_plan_view, stride[0]), INT64_MAX - 1, "view 5: dimension 0: size is above"},
    {"view unused shape", VIEW, 0, 5, FIELD(shunt_plan_view, shape[5]), 2, "view 5: unused dimension 5 has shape 2 and stride 0"},
    {"view unused stride", VIEW, 0, 5, FIELD(shunt_plan_view, stride[2]), 2, "view 5: unused dimension 2 has shape 1 and stride 2"},
    {"corner negative", CORNER, 0, 0, FIELD(shunt_plan_corner, lo[0]), MINUS_ONE, "part of device 0 corner 0: lo[0] is -1"},
    {"corner unused", CORNER, 0, 0, FIELD(shunt_plan_corner, lo[4]), 1, "holding 0: dimension 4 is [1,1+1), the tensor has 1"},
    /* buffers and holdings */
    {"buffer tensor", BUFFER, 1, 1, FIELD(shunt_plan_buffer, tensor), 3, "part of device 1 buffer 1: tensor is 3, the table has 3"},
    {"buffer state", BUFFER, 1, 1, FIELD(shunt_plan_buffer, state), 9, "buffer 1: state is 9, allowed 0..8"},
    {"buffer dtype", BUFFER, 1, 1, FIELD(shunt_plan_buffer, dtype), 15, "buffer 1: dtype is 15, allowed 0..14"},
    {"buffer side", BUFFER, 1, 1, FIELD(shunt_plan_buffer, side), 4, "buffer 1: side is 4, allowed 0..3"},
    {"buffer tier", BUFFER, 1, 1, FIELD(shunt_plan_buffer, tier), 2, "buffer 1: tier is 2, allowed 0..1"},
    {"buffer bytes", BUFFER, 1, 1, FIELD(shunt_plan_buffer, bytes), BIG, "buffer 1: bytes is 1152921504606846976, allowed 0.."},
    {"buffer smaller than its view", BUFFER, 1, 1, FIELD(shunt_plan_buffer, bytes), 30, "buffer 1: view is 32 bytes at offset 0, the buffer is 30"},
    {"buffer empty with holdings", BUFFER, 1, 1, FIELD(shunt_plan_buffer, bytes), 0, "buffer 1: holding_count of an empty buffer is 1, expected 0"},
    {"buffer view", BUFFER, 1, 1, FIELD(shunt_plan_buffer, view), 99, "buffer 1: view is 99, the table has 13"},
    {"buffer view not dense", BUFFER, 1, 0, FIELD(shunt_plan_buffer, view), 8, "buffer 0: view 8 is not dense row-major"},
    {"buffer view of another dtype", BUFFER, 1, 1, FIELD(shunt_plan_buffer, dtype), SHUNT_DTYPE_FP32, "buffer 1: elem_bytes of the view is 2, expected 4"},
    {"buffer holding_begin", BUFFER, 1, 2, FIELD(shunt_plan_buffer, holding_begin), 1, "buffer 2: holding_begin is 1, expected 2"},
    {"buffer holding_count", BUFFER, 1, 4, FIELD(shunt_plan_buffer, holding_count), 2, "buffer 4: holding_count is 2, allowed 0..1"},
    {"holding of nobody", BUFFER, 1, 4, FIELD(shunt_plan_buffer, holding_count), 0, "part of device 1: holding_count is 5, expected 4"},
    {"alloc_round", BUFFER, 1, 1, FIELD(shunt_plan_buffer, alloc_round), 2, "buffer 1: alloc_round is 2, the table has 2"},
    {"alloc_round missing", BUFFER, 1, 1, FIELD(shunt_plan_buffer, alloc_round), SHUNT_PLAN_NONE, "buffer 1: alloc_round is 4294967295"},
    {"alloc_round of a kept buffer", BUFFER, 1, 2, FIELD(shunt_plan_buffer, alloc_round), 0, "buffer 2: alloc_round is 0, expected 4294967295"},
    {"free_round", BUFFER, 1, 0, FIELD(shunt_plan_buffer, free_round), 9, "buffer 0: free_round is 9, the table has 2"},
    {"free_round of a new buffer", BUFFER, 1, 1, FIELD(shunt_plan_buffer, free_round), 1, "buffer 1: free_round is 1, expected 4294967295"},
    {"buffer reserved", BUFFER, 1, 1, FIELD(shunt_plan_buffer, reserved[1]), 1, "buffer 1: reserved: byte 1 is 1"},
    {"origin_state", BUFFER, 1, TINY_D1_EMBED_NEW, FIELD(shunt_plan_buffer, origin_state), 10, "buffer 1: origin_state is 10, allowed 0..9"},
    {"origin_state of its own", BUFFER, 1, TINY_D1_EMBED_NEW, FIELD(shunt_plan_buffer, origin_state), 1 + SHUNT_STATE_PARAM, "buffer 1: origin_state is 1, the buffer's own: expected 0"},
    {"origin_state of an old buffer", BUFFER, 1, TINY_D1_EMBED_OLD, FIELD(shunt_plan_buffer, origin_state), 3, "buffer 0: origin_state is 3, allowed 0..0"},
    {"origin_state of other numbers", BUFFER, 1, TINY_D1_EMBED_NEW, FIELD(shunt_plan_buffer, origin_state), 1 + SHUNT_STATE_EXP_AVG, "buffer 1: origin_state is 4 for state 0: only weights and masters are made from each other"},
    {"origin_state of moments", BUFFER, 1, TINY_D1_FLAT_NEW, FIELD(shunt_plan_buffer, origin_state), 1 + SHUNT_STATE_EXP_AVG_SQ, "buffer 4: origin_state is 5 for state 3: only weights and masters are made from each other"},
    {"origin_dtype", BUFFER, 1, TINY_D1_EMBED_NEW, FIELD(shunt_plan_buffer, origin_dtype), 16, "buffer 1: origin_dtype is 16, allowed 0..15"},
    {"origin_dtype without a cast", BUFFER, 1, TINY_D1_EMBED_NEW, FIELD(shunt_plan_buffer, origin_dtype), 1 + SHUNT_DTYPE_FP16, "buffer 1: origin_dtype is 2 for dtype 0, between which there is no cast"},
    {"origin_dtype of a kept buffer", BUFFER, 1, TINY_D1_NORM, FIELD(shunt_plan_buffer, origin_dtype), 1 + SHUNT_DTYPE_BF16, "buffer 2: origin_dtype is 1, allowed 0..0"},
    {"holding view", HOLDING, 1, 1, FIELD(shunt_plan_holding, view), 99, "part of device 1 holding 1: view is 99, the table has 13"},
    {"holding view of another ndim", HOLDING, 1, 1, FIELD(shunt_plan_holding, view), 3, "holding 1: ndim of the view is 1, expected 2"},
    {"holding view of another dtype", HOLDING, 1, 1, FIELD(shunt_plan_holding, view), 7, "holding 1: elem_bytes of the view is 4, expected 2"},
    {"holding corner", HOLDING, 1, 1, FIELD(shunt_plan_holding, corner), 99, "holding 1: corner is 99, the table has "},
    {"holding past the buffer", HOLDING, 1, 1, FIELD(shunt_plan_holding, offset), 10, "holding 1: box is 24 bytes at offset 10, the buffer is 32"},
    {"holding offset wraps", HOLDING, 1, 1, FIELD(shunt_plan_holding, offset), MINUS_ONE, "holding 1: box is 24 bytes at offset 18446744073709551615"},
    {"holding offset uneven", HOLDING, 1, 1, FIELD(shunt_plan_holding, offset), 1, "holding 1: box is 1, expected a multiple of 2"},
    {"holding past the tensor", CORNER, 1, 0, FIELD(shunt_plan_corner, lo[0]), 4, "holding 0: dimension 0 is [4,4+3), the tensor has 6"},
    /* rounds */
    {"first op_begin", ROUND, 0, 0, FIELD(shunt_plan_round, op_begin), 1, "part of device 0 round 0: op_begin is 1, expected 0"},
    {"first message_begin", ROUND, 0, 0, FIELD(shunt_plan_round, message_begin), 1, "round 0: message_begin is 1, expected 0"},
    {"unpack_begin", ROUND, 0, 0, FIELD(shunt_plan_round, unpack_begin), 3, "round 0: unpack_begin is 3, allowed 0..2"},
    {"op_begin falls", ROUND, 0, 1, FIELD(shunt_plan_round, op_begin), 9, "round 1: unpack_begin is 4, allowed 9..4"},
    {"message_begin falls", ROUND, 0, 1, FIELD(shunt_plan_round, message_begin), 9, "round 1: message_begin is 9, allowed 0..3"},
    {"sentinel op_begin", ROUND, 0, 2, FIELD(shunt_plan_round, op_begin), 5, "round 2: op_begin is 5, expected 4"},
    {"sentinel unpack_begin", ROUND, 0, 2, FIELD(shunt_plan_round, unpack_begin), 3, "round 2: unpack_begin is 3, expected 4"},
    {"sentinel message_begin", ROUND, 0, 2, FIELD(shunt_plan_round, message_begin), 4, "round 2: message_begin is 4, expected 3"},
    {"round reserved", ROUND, 0, 1, FIELD(shunt_plan_round, reserved), 1, "round 1: reserved is 1"},
    /* ops */
    {"op kind", OP, 0, 0, FIELD(shunt_plan_op, kind), 5, "part of device 0 op 0: kind is 5, allowed 1..4"},
    {"op reserved0", OP, 0, 0, FIELD(shunt_plan_op, reserved0[1]), 1, "op 0: reserved0: byte 1 is 1"},
    {"op cast", OP, 1, TINY_D1_COPY_EMBED, FIELD(shunt_plan_op, cast), 3, "op 0: cast is 3, allowed 1..2"},
    {"pack that widens", OP, 0, 0, FIELD(shunt_plan_op, cast), SHUNT_CAST_BF16_FP32, "op 0: cast is 2, allowed 1..1"},
    {"unpack that narrows", OP, 1, TINY_D1_UNPACK_EMBED, FIELD(shunt_plan_op, cast), SHUNT_CAST_FP32_BF16, "op 3: cast is 1, allowed 2..2"},
    {"fill with a cast", OP, 1, TINY_D1_FILL, FIELD(shunt_plan_op, cast), SHUNT_CAST_FP32_BF16, "op 1: cast is 1, allowed 0..0"},
    {"cast between equal sizes", OP, 0, 0, FIELD(shunt_plan_op, cast), SHUNT_CAST_FP32_BF16, "op 0: views 5 and 6 have elem_bytes 2 and 2, expected 4 and 2 with cast 1"},
    {"op reserved1", OP, 0, 0, FIELD(shunt_plan_op, reserved1), 1, "op 0: reserved1 is 1"},
    {"unpack before the group", OP, 0, 0, FIELD(shunt_plan_op, kind), SHUNT_OP_UNPACK, "op 0: kind is 4 before the group of round 0"},
    {"pack after the group", OP, 1, TINY_D1_UNPACK_EMBED, FIELD(shunt_plan_op, kind), SHUNT_OP_PACK, "op 3: kind is 2 after the group of round 0"},
    {"op source", OP, 0, 0, FIELD(shunt_plan_op, src_buffer), 3, "op 0: source is 3, the table has 3"},
    {"op source in staging", OP, 0, 0, FIELD(shunt_plan_op, src_buffer), SHUNT_PLAN_STAGING, "op 0: source is 4294967040, the table has 3"},
    {"op target", OP, 1, TINY_D1_COPY_EMBED, FIELD(shunt_plan_op, dst_buffer), 5, "op 0: target is 5, the table has 5"},
    {"op source past the buffer", OP, 0, 0, FIELD(shunt_plan_op, src_offset), 6, "op 0: source is 20 bytes at offset 6, the buffer is 24"},
    {"op source wraps", OP, 0, 0, FIELD(shunt_plan_op, src_offset), MINUS_ONE - 1, "op 0: source is 20 bytes at offset 18446744073709551614"},
    {"op source uneven", OP, 0, 0, FIELD(shunt_plan_op, src_offset), 3, "op 0: source is 3, expected a multiple of 2"},
    {"op target past the buffer", OP, 1, TINY_D1_COPY_EMBED, FIELD(shunt_plan_op, dst_offset), 22, "op 0: target is 12 bytes at offset 22, the buffer is 32"},
    {"op source view", OP, 0, 0, FIELD(shunt_plan_op, src_view), 99, "op 0: src_view is 99, the table has 7"},
    {"op target view", OP, 0, 0, FIELD(shunt_plan_op, dst_view), 99, "op 0: dst_view is 99, the table has 7"},
    {"op of two shapes", OP, 0, 0, FIELD(shunt_plan_op, src_view), 0, "op 0: views 0 and 6 differ in shape"},
    {"op of another slot", OP, 0, 0, FIELD(shunt_plan_op, dst_buffer), SHUNT_PLAN_STAGING + 1, "op 0: target buffer is 4294967041, round 0 uses staging slot 0"},
    {"pack into a buffer", OP, 0, 0, FIELD(shunt_plan_op, dst_buffer), 0, "op 0: target buffer is 0, round 0 uses staging slot 0"},
    {"staging misaligned", OP, 0, 1, FIELD(shunt_plan_op, dst_offset), 8, "op 1: target is 8, expected a multiple of 16"},
    {"staging past the slot", OP, 0, 1, FIELD(shunt_plan_op, dst_offset), 32, "op 1: target is 12 bytes at offset 32, the buffer is 32"},
    {"staging not dense", OP, 0, 0, FIELD(shunt_plan_op, dst_view), 5, "op 0: target view in staging is not dense row-major"},
    {"unpack from a buffer", OP, 1, TINY_D1_UNPACK_EMBED, FIELD(shunt_plan_op, src_buffer), 0, "op 3: source buffer is 0, round 0 uses staging slot 0"},
    {"fill with a source", OP, 1, TINY_D1_FILL, FIELD(shunt_plan_op, src_buffer), 0, "op 1: src_buffer is 0, expected 4294967295"},
    {"fill with a source view", OP, 1, TINY_D1_FILL, FIELD(shunt_plan_op, src_view), 1, "op 1: src_view is 1, expected 0"},
    {"fill with a source offset", OP, 1, TINY_D1_FILL, FIELD(shunt_plan_op, src_offset), 2, "op 1: src_offset is 2, expected 0"},
    /* messages */
    {"message peer", MESSAGE, 0, 0, FIELD(shunt_plan_message, peer), 3, "part of device 0 message 0: peer is 3, the table has 3"},
    {"message to itself", MESSAGE, 0, 0, FIELD(shunt_plan_message, peer), 0, "message 0: peer is the device itself"},
    {"message direction", MESSAGE, 0, 1, FIELD(shunt_plan_message, direction), 2, "message 1: direction is 2, allowed 0..1"},
    {"two messages to one peer", MESSAGE, 0, 1, FIELD(shunt_plan_message, peer), 1, "message 1: direction 0 peer 1 does not ascend from direction 0 peer 1 in round 0"},
    {"messages out of order", MESSAGE, 1, 0, FIELD(shunt_plan_message, direction), 1, "message 1: direction 1 peer 0 does not ascend from direction 1 peer 2"},
    {"message of another slot", MESSAGE, 0, 2, FIELD(shunt_plan_message, buffer), SHUNT_PLAN_STAGING, "message 2: buffer is 4294967040, expected 4294967041"},
    {"message reserved", MESSAGE, 0, 0, FIELD(shunt_plan_message, reserved), 1, "message 0: reserved is 1"},
    {"message offset misaligned", MESSAGE, 0, 1, FIELD(shunt_plan_message, offset), 8, "message 1: offset is 8, expected a multiple of 16"},
    {"message bytes misaligned", MESSAGE, 0, 1, FIELD(shunt_plan_message, bytes), 8, "message 1: bytes is 8, expected a multiple of 16"},
    {"message empty", MESSAGE, 0, 1, FIELD(shunt_plan_message, bytes), 0, "message 1: bytes is 0, allowed 1.."},
    {"message past the slot", MESSAGE, 0, 1, FIELD(shunt_plan_message, bytes), 32, "message 1: 32 bytes at offset 16, the staging slot is 32"},
    {"message offset wraps", MESSAGE, 0, 1, FIELD(shunt_plan_message, offset), MINUS_ONE - 15, "message 1: 16 bytes at offset 18446744073709551600"},
};
/* clang-format on */

static unsigned char *record_of(struct image *image, const struct fault *fault)
{
    static const struct {
        uint32_t kind;
        size_t size;
    } global[] = {[SUMMARY] = {SHUNT_SECTION_SUMMARY, 0},
                  [STRINGS] = {SHUNT_SECTION_STRINGS, 0},
                  [TENSOR] = {SHUNT_SECTION_TENSORS, sizeof(struct shunt_plan_tensor)},
                  [DIMS] = {SHUNT_SECTION_DIMS, sizeof(int64_t)},
                  [DEVICE] = {SHUNT_SECTION_DEVICES, sizeof(struct shunt_plan_device)}};
    switch (fault->place) {
    case HEADER:
        return image->bytes;
    case SECTION:
        return (unsigned char *)image_section(image, fault->index);
    case PART:
        return (unsigned char *)image_part(image, fault->device);
    case GAP:
        return image_record(image, fault->device, BUILD_END, 0);
    default:
        break;
    }
    if (fault->place >= BUFFER)
        return image_record(image, fault->device, (enum build_part_table)(fault->place - BUFFER + BUILD_BUFFERS),
                            fault->index);
    return image_in_section(image, global[fault->place].kind, fault->index * global[fault->place].size);
}

static struct image tiny_image(void)
{
    struct build *build = build_tiny();
    struct image image = build_encode(build);
    build_destroy(build);
    return image;
}

/* Open and take every part. */
static enum shunt_status read_all(const struct image *image, struct shunt_err *err)
{
    struct shunt_plan *plan = NULL;
    enum shunt_status st = shunt_plan_open_memory(image->bytes, image->size, &plan, err);
    for (uint32_t d = 0; st == SHUNT_OK && d < shunt_plan_get_header(plan)->device_count; d++) {
        struct shunt_plan_part part;
        st = shunt_plan_get_part(plan, d, &part, err);
    }
    shunt_plan_close(plan);
    return st;
}

static void field_faults(void)
{
    struct image whole = tiny_image();
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const struct fault *fault = &faults[i];
        struct image image = image_copy(&whole);
        struct shunt_err err = {""};
        memcpy(record_of(&image, fault) + fault->offset, &fault->value, fault->size);
        image_seal(&image);
        enum shunt_status st = read_all(&image, &err);
        CHECK_MSG(st == SHUNT_ERR_PLAN, "%s: status %s", fault->name, shunt_status_name(st));
        CHECK_MSG(strstr(err.text, fault->want) != NULL, "%s: \"%s\" lacks \"%s\"", fault->name, err.text, fault->want);
        image_finish(&image);
    }
    printf("# %zu faults\n", sizeof(faults) / sizeof(faults[0]));
    image_finish(&whole);
}

/* ---- the tiny plan itself --------------------------------------------------------- */

static void reads_what_was_written(void)
{
    struct image image = tiny_image();
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    CHECK(shunt_plan_open_memory(image.bytes, image.size, &plan, &err) == SHUNT_OK);
    CHECK_STR(err.text, "");
    CHECK_EQ_U64(shunt_plan_get_header(plan)->device_count, 3);
    CHECK_STR(shunt_plan_string(plan, shunt_plan_get_summary(plan)->to), "columns");
    CHECK_EQ_U64(shunt_plan_tensor_count(plan), 3);
    CHECK_STR(shunt_plan_string(plan, shunt_plan_get_tensor(plan, TINY_EMBED)->name), "embed.weight");
    CHECK_EQ_U64(shunt_plan_tensor_dims(plan, TINY_FLAT)[1], 3);
    CHECK_EQ_U64(shunt_plan_get_device(plan, 2)->to_rank, 1);
    CHECK_STR(shunt_plan_string(plan, UINT32_MAX), "");
    struct shunt_plan_part part, again;
    CHECK(shunt_plan_get_part(plan, 1, &part, &err) == SHUNT_OK);
    CHECK(shunt_plan_get_part(plan, 1, &again, &err) == SHUNT_OK);
    CHECK(memcmp(&part, &again, sizeof(part)) == 0);
    CHECK_EQ_U64(part.header->op_count, 8);
    CHECK_EQ_U64(part.ops[TINY_D1_UNPACK_FLAT_B].dst_offset, 12);
    CHECK_EQ_U64(part.messages[TINY_D1_RECV_FLAT].bytes, 32);
    CHECK_EQ_U64(part.rounds[2].live_bytes, 1000 + 24 + 32 + 48 + 32 + 16 + 24);
    CHECK_EQ_U64(shunt_plan_view_elements(&part.views[8]), 6);
    CHECK_EQ_U64(shunt_plan_view_extent(&part.views[8]), 20);
    CHECK(shunt_plan_get_part(plan, 3, &part, &err) == SHUNT_ERR_USAGE);
    CHECK_STR(err.text, "plan: device 3 asked for, the plan has 3");
    shunt_plan_close(plan);
    shunt_plan_close(NULL);
    image_finish(&image);
}

static void two_tensors_of_one_name(void)
{
    struct build *build = build_tiny();
    build_tensor(build, "norm.weight", 1, (const int64_t[]){4});
    struct image image = build_encode(build);
    struct shunt_err err = {""};
    CHECK(read_all(&image, &err) == SHUNT_ERR_PLAN);
    CHECK_STR(err.text, "plan: section TENSORS record 3: name is that of record 1");
    image_finish(&image);
    build_destroy(build);
}

static void misaligned_memory(void)
{
    struct image image = tiny_image();
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    CHECK(shunt_plan_open_memory(image.bytes + 4, image.size - 4, &plan, &err) == SHUNT_ERR_USAGE);
    CHECK(plan == NULL);
    image_finish(&image);
}

/* ---- bytes ---------------------------------------------------------------------- */

static void every_truncation_is_refused(void)
{
    struct image whole = tiny_image();
    for (size_t size = 0; size < whole.size; size++) {
        unsigned char *bytes = malloc(size > 0 ? size : 1); /* exactly, so that a sanitizer sees one byte too far */
        struct image cut = {bytes, size};
        struct shunt_err err = {""};
        memcpy(bytes, whole.bytes, size);
        CHECK_MSG(read_all(&cut, &err) == SHUNT_ERR_PLAN, "%zu bytes", size);
        CHECK(err.text[0] != 0);
        free(bytes);
    }
    image_finish(&whole);
}

/* A file that says it is as short as it is, with a right header checksum, is short of sections. */
static void every_declared_truncation_is_refused(void)
{
    struct image whole = tiny_image();
    for (size_t size = 448; size < whole.size; size++) {
        struct image cut = {malloc(size), size};
        struct shunt_err err = {""};
        memcpy(cut.bytes, whole.bytes, size);
        image_header(&cut)->file_bytes = size;
        image_seal(&cut);
        CHECK_MSG(read_all(&cut, &err) == SHUNT_ERR_PLAN, "%zu bytes", size);
        free(cut.bytes);
    }
    image_finish(&whole);
}

static void longer_file_is_refused(void)
{
    struct image whole = tiny_image();
    struct image longer = {calloc(whole.size + 64, 1), whole.size + 64};
    struct shunt_err err = {""};
    memcpy(longer.bytes, whole.bytes, whole.size);
    CHECK(read_all(&longer, &err) == SHUNT_ERR_PLAN);
    CHECK_CONTAINS(err.text, "header: file_bytes is ");
    image_header(&longer)->file_bytes = longer.size;
    image_seal(&longer);
    CHECK(read_all(&longer, &err) == SHUNT_ERR_PLAN);
    CHECK_CONTAINS(err.text, "section table: sections end at ");
    image_finish(&longer);
    image_finish(&whole);
}

static void every_flipped_byte_is_refused(void)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xFF};
    struct image image = tiny_image();
    for (size_t at = 0; at < image.size; at++) {
        for (size_t m = 0; m < sizeof(masks); m++) {
            struct shunt_err err = {""};
            image.bytes[at] ^= masks[m];
            CHECK_MSG(read_all(&image, &err) == SHUNT_ERR_PLAN, "byte %zu ^ %02x", at, masks[m]);
            image.bytes[at] ^= masks[m];
        }
    }
    image_finish(&image);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; /* xorshift64, Marsaglia 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* With right checksums anything may come out of a check, but nothing may crash. */
static void mutate_sealed(struct image whole)
{
    static const uint64_t values[] = {0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, INT64_MAX, MINUS_ONE, BIG};
    static struct shunt_verify_report report;
    uint64_t state = 0x5EED, opened = 0, accepted = 0;
    for (int i = 0; i < 20000; i++) {
        struct image image = image_copy(&whole);
        for (uint64_t n = 1 + next_random(&state) % 3; n > 0; n--) {
            size_t width = (size_t)1 << next_random(&state) % 4;
            size_t at = next_random(&state) % (image.size / width) * width;
            uint64_t value = next_random(&state) % 2
                                 ? next_random(&state)
                                 : values[next_random(&state) % (sizeof(values) / sizeof(values[0]))];
            memcpy(image.bytes + at, &value, width);
        }
        image_seal(&image);
        struct shunt_plan *plan = NULL;
        struct shunt_err err = {""};
        if (shunt_plan_open_memory(image.bytes, image.size, &plan, &err) == SHUNT_OK) {
            opened++;
            accepted += shunt_plan_verify(plan, &report, &err) == SHUNT_OK;
        }
        shunt_plan_close(plan);
        image_finish(&image);
    }
    printf("# %llu opened, %llu accepted of 20000\n", (unsigned long long)opened, (unsigned long long)accepted);
    CHECK(opened > 1000);
    image_finish(&whole);
}

static void sealed_mutations_do_not_crash(void)
{
    struct build *casts = build_cast(), *scratch = build_scratch();
    mutate_sealed(tiny_image());
    mutate_sealed(build_encode(casts));
    build_destroy(casts);
    mutate_sealed(build_encode(scratch));
    build_destroy(scratch);
}

/* ---- the statement about the state beside the tensors ------------------------------ */

static const struct {
    const char *text, *want; /* want: NULL when it is well formed */
} statements[] = {
    {"step\tcopied\tthe same on every rank\n", NULL},
    {"step\tcopied\tw\nrng\treseeded\tw x\nloader\tleft\tw\nposition\trecomputed\tw\n", NULL},
    {"step\tcopied\tno end", "state_notes: line 0 is not a name, an action and a reason"},
    {"a\tleft\tw\nstep\tcopied\n", "state_notes: line 1 is not a name, an action and a reason"},
    {"\n", "state_notes: line 0 is not a name"},
    {"\tcopied\tw\n", "state_notes: line 0 has an empty name or reason"},
    {"step\tcopied\t\n", "state_notes: line 0 has an empty name or reason"},
    {"step\tdropped\tw\n", "state_notes: line 0: the action is none of copied, recomputed, reseeded, left"},
    {"step\tcopied \tw\n", "state_notes: line 0: the action is none"},
    {"step\tcopied\tw\tx\n", "state_notes: line 0 has a control character"},
    {"st\x01p\tcopied\tw\n", "state_notes: line 0 has a control character"},
    {"st\x7Fp\tcopied\tw\n", "state_notes: line 0 has a control character"},
    {"a\tleft\tw\nst\xC2\x9Bp\tcopied\tw\n", "state_notes: line 1 has a control character"},
    {"step\tcopied\tw\xC2\x80\n", "state_notes: line 0 has a control character"},
    {"step\tcopied\tw\xC2\xA0x\n", NULL},
};

static void statements_are_checked(void)
{
    for (size_t s = 0; s < sizeof(statements) / sizeof(statements[0]); s++) {
        struct build *build = build_tiny();
        struct shunt_plan *plan = NULL;
        struct shunt_err err = {""};
        build->summary.state_notes = build_string(build, statements[s].text);
        struct image image = build_encode(build);
        enum shunt_status st = shunt_plan_open_memory(image.bytes, image.size, &plan, &err);
        CHECK_MSG((st == SHUNT_OK) == (statements[s].want == NULL), "statement %zu: %s", s, err.text);
        if (statements[s].want != NULL)
            CHECK_CONTAINS(err.text, statements[s].want);
        shunt_plan_close(plan);
        image_finish(&image);
        build_destroy(build);
    }
}

static void statements_are_read_line_by_line(void)
{
    const char *at = statements[1].text;
    static const char *const names[] = {"step", "rng", "loader", "position"};
    static const char *const actions[] = {"copied", "reseeded", "left", "recomputed"};
    struct shunt_plan_note note;
    for (size_t n = 0; n < 4; n++) {
        CHECK(shunt_plan_next_note(&at, &note));
        CHECK(shunt_plan_note_is(note.name, note.name_bytes, names[n]));
        CHECK(shunt_plan_note_is(note.action, note.action_bytes, actions[n]));
        CHECK(shunt_plan_note_is(note.why, note.why_bytes, n == 1 ? "w x" : "w"));
    }
    CHECK(!shunt_plan_next_note(&at, &note));
}

/* ---- the statement about the placement ------------------------------------------------- */

static const struct {
    const char *text, *want; /* want: NULL when it is well formed */
} placements[] = {
    {"", NULL},
    {"nested assignment\t12\t5\t4", NULL},
    {"fixed\t0\t0\t0", NULL},
    {"m\t9223372036854775799\t1\t1", NULL},
    {"m\t9223372036854775808\t1\t1", "placement is not a method and three numbers"},
    {"m\t12\t4\t5", "placement: the bound 5 is above the cost 4"},
    {"m\t12\t5", "placement is not a method and three numbers"},
    {"m\t12\t5\t4\n", "placement is not a method and three numbers"},
    {"m\t12\t5\t", "placement is not a method and three numbers"},
    {"m\t12\t05\t4", "placement is not a method and three numbers"},
    {"m\t12\t-5\t-6", "placement is not a method and three numbers"},
    {"\t12\t5\t4", "placement is not a method and three numbers"},
    {"m\nn\t12\t5\t4", "placement is not a method and three numbers"},
    {"m", "placement is not a method and three numbers"},
};

static void placements_are_checked(void)
{
    for (size_t p = 0; p < sizeof(placements) / sizeof(placements[0]); p++) {
        struct build *build = build_tiny();
        struct shunt_plan *plan = NULL;
        struct shunt_err err = {""};
        struct shunt_plan_placement placement;
        build->summary.placement = build_string(build, placements[p].text);
        struct image image = build_encode(build);
        enum shunt_status st = shunt_plan_open_memory(image.bytes, image.size, &plan, &err);
        CHECK_MSG((st == SHUNT_OK) == (placements[p].want == NULL), "placement %zu: %s", p, err.text);
        if (placements[p].want != NULL)
            CHECK_CONTAINS(err.text, placements[p].want);
        else if (st == SHUNT_OK)
            CHECK(shunt_plan_get_placement(plan, &placement) == (placements[p].text[0] != '\0'));
        shunt_plan_close(plan);
        image_finish(&image);
        build_destroy(build);
    }
}

static void placements_are_read(void)
{
    struct build *build = build_tiny();
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    struct shunt_plan_placement placement;
    build->summary.placement = build_string(build, placements[1].text);
    struct image image = build_encode(build);
    CHECK(shunt_plan_open_memory(image.bytes, image.size, &plan, &err) == SHUNT_OK);
    CHECK(shunt_plan_get_placement(plan, &placement));
    CHECK(placement.method_bytes == 17 && memcmp(placement.method, "nested assignment", 17) == 0);
    CHECK_EQ_U64(placement.moved_fixed, 12);
    CHECK_EQ_U64(placement.cost_picoseconds, 5);
    CHECK_EQ_U64(placement.bound_picoseconds, 4);
    shunt_plan_close(plan);
    image_finish(&image);
    build->header.version_minor = 2; /* its place was reserved */
    image = build_encode(build);
    CHECK(shunt_plan_open_memory(image.bytes, image.size, &plan, &err) != SHUNT_OK);
    CHECK_CONTAINS(err.text, "section SUMMARY: placement is ");
    image_finish(&image);
    build_destroy(build);
}

/* A plan of version 1.0 reads, and has no statement. */
static void version_1_0_has_no_statement(void)
{
    struct build *build = build_tiny();
    for (int with = 0; with < 2; with++) {
        struct shunt_plan *plan = NULL;
        struct shunt_err err = {""};
        build->summary.state_notes = with ? build_string(build, statements[0].text) : 0;
        build->header.version_minor = 0;
        struct image image = build_encode(build);
        enum shunt_status st = shunt_plan_open_memory(image.bytes, image.size, &plan, &err);
        CHECK_MSG((st == SHUNT_OK) == !with, "%s", err.text);
        if (with)
            CHECK_CONTAINS(err.text, "section SUMMARY: state_notes is ");
        shunt_plan_close(plan);
        image_finish(&image);
    }
    build_destroy(build);
}

/* What was a reserved member before version 1.3. */
static void version_1_2_has_one_cap(void)
{
    struct build *build = build_tiny();
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    build->header.version_minor = 2;
    build->summary.cap += SHUNT_PLAN_SHORT_BYTES;
    build->devices[1].cap_short = 1;
    struct image image = build_encode(build);
    CHECK(shunt_plan_open_memory(image.bytes, image.size, &plan, &err) == SHUNT_ERR_PLAN);
    CHECK_CONTAINS(err.text, "section DEVICES record 1: cap_short is 1, expected 0");
    shunt_plan_close(plan);
    image_finish(&image);
    build_destroy(build);
}

/* ---- files ---------------------------------------------------------------------- */

static char folder[1024];

static const char *make_path(const char *name)
{
    static char path[sizeof(folder) + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static bool make_folder(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/shunt-reader-XXXXXX", base != NULL ? base : "/tmp");
    return mkdtemp(folder) != NULL;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(bytes, 1, size, file) == size);
    if (file != NULL)
        fclose(file);
}

static enum shunt_status open_path(const char *path, struct shunt_err *err)
{
    struct shunt_plan *plan = NULL;
    enum shunt_status st = shunt_plan_open(path, &plan, err);
    CHECK((st == SHUNT_OK) == (plan != NULL));
    shunt_plan_close(plan);
    return st;
}

static void opens_files(void)
{
    struct image image = tiny_image();
    struct shunt_err err = {""};
    CHECK(make_folder());
    const char *path = make_path("a.plan");
    write_file(path, image.bytes, image.size);
    CHECK(open_path(path, &err) == SHUNT_OK);
    image.bytes[500] ^= 1;
    write_file(path, image.bytes, image.size);
    CHECK(open_path(path, &err) == SHUNT_ERR_PLAN);
    CHECK_CONTAINS(err.text, "/a.plan: section STRINGS: checksum is ");
    unlink(path);
    rmdir(folder);
    image_finish(&image);
}

static void refuses_what_is_no_file(void)
{
    struct shunt_err err = {""};
    CHECK(make_folder());
    CHECK(open_path(folder, &err) == SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "not a regular file");
    const char *path = make_path("fifo");
    CHECK(mkfifo(path, 0600) == 0);
    CHECK(open_path(path, &err) == SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "not a regular file");
    unlink(path);
    CHECK(open_path(make_path("missing"), &err) == SHUNT_ERR_IO);
    CHECK_CONTAINS(err.text, "missing\": No such file or directory");
    path = make_path("empty");
    write_file(path, "", 0);
    CHECK(open_path(path, &err) == SHUNT_ERR_PLAN);
    CHECK_CONTAINS(err.text, "file is 0 bytes, a header is 256");
    unlink(path);
    rmdir(folder);
}

/* Open a large plan's file and take the part of device 1. The caller has plan, path and folder to clean up. */
static struct shunt_plan *open_large(struct image *image, struct shunt_plan_part *part)
{
    struct build *build = build_large(6, 60, 4);
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    *image = build_encode(build);
    build_destroy(build);
    CHECK(make_folder());
    write_file(make_path("a.plan"), image->bytes, image->size);
    CHECK_MSG(shunt_plan_open(make_path("a.plan"), &plan, &err) == SHUNT_OK, "%s", err.text);
    CHECK_MSG(shunt_plan_get_part(plan, 1, part, &err) == SHUNT_OK, "%s", err.text);
    return plan;
}

static void close_large(struct shunt_plan *plan, struct image *image)
{
    shunt_plan_close(plan);
    unlink(make_path("a.plan"));
    rmdir(folder);
    image_finish(image);
}

static bool same_part(const struct shunt_plan_part *part, struct image *image, uint32_t device)
{
    return memcmp(part->header, image_part(image, device), image_device(image, device)->part_bytes) == 0;
}

/* A mapped file that shrinks takes the process down; what was read before stays, and the rest is refused. */
static void a_file_may_shrink(void)
{
    static struct shunt_verify_report report;
    struct image image;
    struct shunt_plan_part part, other;
    struct shunt_err err = {""};
    struct shunt_plan *plan = open_large(&image, &part);
    CHECK(truncate(make_path("a.plan"), (off_t)image_device(&image, 1)->part_offset + 100) == 0);
    CHECK(same_part(&part, &image, 1));
    CHECK_EQ_U64(shunt_plan_get_header(plan)->file_bytes, image.size);
    CHECK_EQ_U64(shunt_plan_get_part(plan, 0, &other, &err), SHUNT_OK);
    CHECK_EQ_U64(shunt_plan_get_part(plan, 2, &other, &err), SHUNT_ERR_PLAN);
    CHECK_CONTAINS(err.text, "a.plan: truncated at byte ");
    CHECK_EQ_U64(shunt_plan_verify(plan, &report, &err), SHUNT_ERR_VERIFY);
    CHECK_EQ_U64(report.problem_total, 5); /* all but part 0: the verifier reads for itself */
    CHECK(same_part(&part, &image, 1));
    CHECK(truncate(make_path("a.plan"), 0) == 0);
    CHECK_EQ_U64(shunt_plan_get_device(plan, 5)->id, image_device(&image, 5)->id);
    close_large(plan, &image);
}

static void a_file_may_change(void)
{
    struct image image, changed;
    struct shunt_plan_part part, other;
    struct shunt_err err = {""};
    struct shunt_plan *plan = open_large(&image, &part);
    changed = image_copy(&image);
    changed.bytes[image_device(&image, 1)->part_offset + 77] ^= 1;
    write_file(make_path("a.plan"), changed.bytes, changed.size);
    CHECK(same_part(&part, &image, 1));
    CHECK_EQ_U64(shunt_plan_get_part(plan, 1, &other, &err), SHUNT_OK); /* as it was */
    CHECK(other.header == part.header);
    shunt_plan_drop_part(plan, 1);
    CHECK_EQ_U64(shunt_plan_get_part(plan, 1, &other, &err), SHUNT_ERR_PLAN);
    CHECK_CONTAINS(err.text, "part of device 1: checksum is ");
    CHECK_EQ_U64(shunt_plan_get_part(plan, 1, &other, &err), SHUNT_ERR_PLAN);
    CHECK(unlink(make_path("a.plan")) == 0); /* a plan that is replaced by rename stays readable */
    CHECK_EQ_U64(shunt_plan_get_part(plan, 4, &other, &err), SHUNT_OK);
    CHECK(same_part(&other, &image, 4));
    image_finish(&changed);
    close_large(plan, &image);
}

static uint64_t bytes_read_so_far(void)
{
    unsigned long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    CHECK(file != NULL && fscanf(file, "rchar: %llu", &bytes) == 1);
    if (file != NULL)
        fclose(file);
    return bytes;
}

/* Each byte in front of the parts once, and of the parts no other than the one asked for, once. */
static void reads_one_part_only(void)
{
    struct image image;
    struct shunt_plan_part part;
    struct shunt_err err = {""};
    uint64_t before, bytes, want;
    struct shunt_plan *plan = open_large(&image, &part);
    want = image_device(&image, 0)->part_offset + image_device(&image, 3)->part_bytes;
    shunt_plan_close(plan);
    before = bytes_read_so_far();
    CHECK_EQ_U64(shunt_plan_open(make_path("a.plan"), &plan, &err), SHUNT_OK);
    CHECK_EQ_U64(shunt_plan_get_part(plan, 3, &part, &err), SHUNT_OK);
    CHECK_EQ_U64(shunt_plan_get_part(plan, 3, &part, &err), SHUNT_OK);
    bytes = bytes_read_so_far() - before;
    CHECK_MSG(bytes >= want && bytes < want + 300, "%" PRIu64 " bytes read, %" PRIu64 " needed", bytes, want);
    CHECK(bytes < image.size / 3);
    close_large(plan, &image);
}

/* ---- out of memory ---------------------------------------------------------------- */

static int calls_left;

static void *failing_calloc(size_t count, size_t size)
{
    return calls_left-- > 0 ? calloc(count, size) : NULL;
}

/* Let the first, the second, ... allocation fail, until none does. */
static void fail_every_allocation(const char *path, const struct image *image)
{
    static struct shunt_verify_report report;
    int failures = 0;
    for (enum shunt_status st = SHUNT_ERR_NOMEM; st == SHUNT_ERR_NOMEM; failures++) {
        struct shunt_plan *plan = NULL;
        struct shunt_err err = {""};
        calls_left = failures;
        schema_calloc = failing_calloc;
        st = path != NULL ? shunt_plan_open(path, &plan, &err)
                          : shunt_plan_open_memory(image->bytes, image->size, &plan, &err);
        if (st == SHUNT_OK)
            st = shunt_plan_verify(plan, &report, &err);
        schema_calloc = calloc;
        CHECK_MSG(st == SHUNT_OK || st == SHUNT_ERR_NOMEM, "%s: %s", shunt_status_name(st), err.text);
        CHECK(st == SHUNT_OK || strstr(err.text, "out of memory") != NULL);
        shunt_plan_close(plan);
    }
    CHECK(failures > 20);
}

static void every_allocation_may_fail(void)
{
    struct build *build = build_tiny();
    build->summary.state_notes = build_string(build, "flat\tcopied\tw\nstep\tleft\tw\n");
    struct image image = build_encode(build);
    build_destroy(build);
    uint64_t keep = schema_verify_keep_bytes;
    CHECK(make_folder());
    write_file(make_path("a.plan"), image.bytes, image.size);
    fail_every_allocation(NULL, &image);
    fail_every_allocation(make_path("a.plan"), &image);
    schema_verify_keep_bytes = 0;
    fail_every_allocation(make_path("a.plan"), &image);
    schema_verify_keep_bytes = keep;
    unlink(make_path("a.plan"));
    rmdir(folder);
    image_finish(&image);
}

static const struct test_case cases[] = {
    {"reads_what_was_written", reads_what_was_written},
    {"field_faults", field_faults},
    {"two_tensors_of_one_name", two_tensors_of_one_name},
    {"misaligned_memory", misaligned_memory},
    {"every_truncation_is_refused", every_truncation_is_refused},
    {"every_declared_truncation_is_refused", every_declared_truncation_is_refused},
    {"longer_file_is_refused", longer_file_is_refused},
    {"every_flipped_byte_is_refused", every_flipped_byte_is_refused},
    {"sealed_mutations_do_not_crash", sealed_mutations_do_not_crash},
    {"statements_are_checked", statements_are_checked},
    {"statements_are_read_line_by_line", statements_are_read_line_by_line},
    {"version_1_0_has_no_statement", version_1_0_has_no_statement},
    {"placements_are_checked", placements_are_checked},
    {"placements_are_read", placements_are_read},
    {"version_1_2_has_one_cap", version_1_2_has_one_cap},
    {"opens_files", opens_files},
    {"refuses_what_is_no_file", refuses_what_is_no_file},
    {"a_file_may_shrink", a_file_may_shrink},
    {"a_file_may_change", a_file_may_change},
    {"reads_one_part_only", reads_one_part_only},
    {"every_allocation_may_fail", every_allocation_may_fail},
};
TEST_MAIN(cases)
