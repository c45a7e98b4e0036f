/* SPDX-License-Identifier: Apache-2.0 */
/** The verifier against well-formed plans that are wrong: one edit of the tiny plan, one rule broken. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "plan_builder.h"
#include "verify_internal.h"
#include "verify_rig.h"
#include "verify_sip.h"

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define SLOT(k)  (SHUNT_PLAN_STAGING + (k))

/* ---- edits ---------------------------------------------------------------------- */

/* messages: H4 and its relatives */

static void recv_shorter(struct build *b)
{
    build_message_at(b, 1, TINY_D1_RECV_FLAT)->bytes = 16;
}

static void recv_longer(struct build *b)
{
    b->parts[1].staging_bytes[1] = 64;
    build_message_at(b, 1, TINY_D1_RECV_FLAT)->bytes = 48;
}

static void other_dtype(struct build *b)
{
    build_buffer_at(b, 2, TINY_D2_NORM)->dtype = SHUNT_DTYPE_I32;
}

/* The same 16 bytes, unpacked as eight bf16 elements of a tensor that has four. */
static void other_element_size(struct build *b)
{
    struct shunt_plan_buffer *buffer = build_buffer_at(b, 2, TINY_D2_NORM);
    uint32_t view = build_view(&b->parts[2], 2, 1, I64(4), NULL);
    buffer->dtype = SHUNT_DTYPE_BF16;
    buffer->bytes = 8;
    buffer->view = view;
    build_holding_at(b, 2, buffer->holding_begin)->view = view;
    build_op_at(b, 2, TINY_D2_UNPACK_NORM)->src_view = view;
    build_op_at(b, 2, TINY_D2_UNPACK_NORM)->dst_view = view;
}

static void other_state(struct build *b)
{
    build_buffer_at(b, 2, TINY_D2_NORM)->state = SHUNT_STATE_MASTER;
}

static void send_alone(struct build *b)
{
    build_remove_message(b, 2, TINY_D2_RECV_NORM);
}

static void recv_alone(struct build *b)
{
    build_remove_message(b, 1, TINY_D1_SEND_NORM);
}

static void other_round(struct build *b)
{
    struct build_message *messages = b->parts[2].messages.at;
    messages[TINY_D2_RECV_1].round = 1;
    messages[TINY_D2_RECV_1].message.buffer = SLOT(1);
    build_remove_message(b, 2, TINY_D2_RECV_NORM);
    b->parts[2].staging_bytes[1] = 32;
}

static void empty_message(struct build *b)
{
    build_remove_op(b, 1, TINY_D1_PACK_NORM);
    build_remove_op(b, 2, TINY_D2_UNPACK_NORM);
}

/* staging */

static void packs_overlap(struct build *b)
{
    build_op_at(b, 0, TINY_D0_PACK_FLAT_B)->dst_offset = 0;
}

static void pack_outside(struct build *b)
{
    b->parts[0].staging_bytes[0] = 48;
    build_op_at(b, 0, TINY_D0_PACK_TO_2)->dst_offset = 32;
}

static void messages_overlap(struct build *b)
{
    build_message_at(b, 1, TINY_D1_RECV_0)->offset = 0;
}

static void unpack_of_nothing(struct build *b)
{
    build_op_at(b, 1, TINY_D1_UNPACK_EMBED)->src_offset = 0;
}

static void piece_left(struct build *b)
{
    build_remove_op(b, 1, TINY_D1_UNPACK_FLAT_B);
}

static void piece_missing(struct build *b)
{
    build_remove_op(b, 0, TINY_D0_PACK_FLAT_B);
}

static void piece_twice(struct build *b)
{
    struct shunt_plan_op op = *build_op_at(b, 1, TINY_D1_UNPACK_FLAT_B);
    build_op(&b->parts[1], 1, SHUNT_OP_UNPACK, op.src_buffer, op.src_view, op.src_offset, op.dst_buffer, op.dst_view,
             op.dst_offset);
}

static void piece_of_other_shape(struct build *b)
{
    uint32_t view = build_view(&b->parts[2], 2, 2, I64(2, 2), NULL);
    build_op_at(b, 2, TINY_D2_UNPACK_FROM_1)->src_view = view;
    build_op_at(b, 2, TINY_D2_UNPACK_FROM_1)->dst_view = view;
}

/* coordinates */

static void rows_swapped(struct build *b)
{
    build_op_at(b, 2, TINY_D2_UNPACK_FROM_0)->dst_offset = 12;
    build_op_at(b, 2, TINY_D2_UNPACK_FROM_1)->dst_offset = 0;
}

static void wrong_columns(struct build *b)
{
    build_op_at(b, 0, TINY_D0_PACK_TO_2)->src_offset = 0;
}

static void wrong_copy(struct build *b)
{
    build_op_at(b, 1, TINY_D1_COPY_EMBED)->src_offset = 4;
}

static void one_row_off(struct build *b)
{
    build_op_at(b, 2, TINY_D2_UNPACK_FROM_1)->dst_offset = 8;
}

/* sources */

static void read_after_free(struct build *b)
{
    build_buffer_at(b, 0, TINY_D0_FLAT)->free_round = 0;
}

static void read_of_new(struct build *b)
{
    build_op_at(b, 1, TINY_D1_PACK_EMBED)->src_buffer = TINY_D1_EMBED_NEW;
}

static void read_across_holdings(struct build *b)
{
    build_op_at(b, 0, TINY_D0_PACK_FLAT_B)->src_offset = 8;
}

static void read_past_row_end(struct build *b)
{
    build_op_at(b, 0, TINY_D0_PACK_TO_1)->src_offset = 2;
    build_op_at(b, 0, TINY_D0_PACK_TO_1)->src_view = build_view(&b->parts[0], 2, 2, I64(3, 2), I64(4, 2));
}

/* targets */

static void write_to_old(struct build *b)
{
    build_op_at(b, 1, TINY_D1_COPY_EMBED)->dst_buffer = TINY_D1_EMBED_OLD;
    build_op_at(b, 1, TINY_D1_COPY_EMBED)->dst_offset = 0;
}

static void write_to_kept(struct build *b)
{
    build_op_at(b, 1, TINY_D1_UNPACK_FLAT_A)->dst_buffer = TINY_D1_NORM;
}

static void write_before_alloc(struct build *b)
{
    build_buffer_at(b, 1, TINY_D1_EMBED_NEW)->alloc_round = 1;
}

static void write_into_pads(struct build *b)
{
    build_op_at(b, 2, TINY_D2_UNPACK_FROM_1)->dst_offset = 20;
}

static void write_other_strides(struct build *b)
{
    build_op_at(b, 1, TINY_D1_COPY_EMBED)->dst_view = build_view(&b->parts[1], 2, 2, I64(3, 2), I64(8, 2));
    build_op_at(b, 1, TINY_D1_COPY_EMBED)->dst_offset = 0;
}

static void fill_over_holding(struct build *b)
{
    build_op_at(b, 1, TINY_D1_FILL)->dst_offset = 20;
}

static void fill_of_old(struct build *b)
{
    build_op_at(b, 1, TINY_D1_FILL)->dst_buffer = TINY_D1_EMBED_OLD;
    build_op_at(b, 1, TINY_D1_FILL)->dst_offset = 0;
}

static void fill_of_other_size(struct build *b)
{
    build_op_at(b, 1, TINY_D1_FILL)->dst_view = build_view(&b->parts[1], 4, 1, I64(2), NULL);
}

static void fill_of_odd_strides(struct build *b)
{
    build_op_at(b, 1, TINY_D1_FILL)->dst_view = build_view(&b->parts[1], 2, 1, I64(2), I64(6));
}

static void fill_before_alloc(struct build *b)
{
    build_buffer_at(b, 2, TINY_D2_EMBED)->alloc_round = 1;
}

/* coverage */

static void written_twice(struct build *b)
{
    struct shunt_plan_op op = *build_op_at(b, 1, TINY_D1_COPY_EMBED);
    build_op(&b->parts[1], 1, SHUNT_OP_COPY, op.src_buffer, op.src_view, op.src_offset, op.dst_buffer, op.dst_view,
             op.dst_offset);
    build_buffer_at(b, 1, TINY_D1_EMBED_OLD)->free_round = 1;
}

static void never_written(struct build *b)
{
    build_remove_op(b, 1, TINY_D1_COPY_EMBED);
}

static void pad_left(struct build *b)
{
    build_remove_op(b, 1, TINY_D1_FILL);
}

static void pad_half_filled(struct build *b)
{
    build_op_at(b, 2, TINY_D2_FILL)->dst_view = build_view(&b->parts[2], 2, 2, I64(2, 1), I64(4, 2));
}

static void pad_twice(struct build *b)
{
    struct shunt_plan_op op = *build_op_at(b, 1, TINY_D1_FILL);
    build_op(&b->parts[1], 1, SHUNT_OP_FILL, op.src_buffer, 0, 0, op.dst_buffer, op.dst_view, op.dst_offset);
}

static void nothing_written(struct build *b)
{
    build_remove_op(b, 2, TINY_D2_UNPACK_NORM);
    build_remove_op(b, 1, TINY_D1_PACK_NORM);
    build_remove_message(b, 2, TINY_D2_RECV_NORM);
    build_remove_message(b, 1, TINY_D1_SEND_NORM);
}

static void lost_state(struct build *b)
{
    build_buffer(b, 0, TINY_NORM, SHUNT_STATE_EXP_AVG, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 1, I64(4), 0);
    build_holding(&b->parts[0], 1, I64(0), I64(4), NULL, 0);
}

static void lost_element(struct build *b)
{
    struct shunt_plan_holding *holding = build_holding_at(b, 1, build_buffer_at(b, 1, TINY_D1_FLAT_OLD)->holding_begin);
    holding->corner = build_corner(&b->parts[1], 2, I64(1, 1));
}

/* holdings */

static void holdings_overlap_in_tensor(struct build *b)
{
    build_holding_at(b, 0, build_buffer_at(b, 0, TINY_D0_FLAT)->holding_begin + 1)->corner =
        build_corner(&b->parts[0], 2, I64(0, 1));
}

static void holdings_overlap_in_buffer(struct build *b)
{
    build_holding_at(b, 0, build_buffer_at(b, 0, TINY_D0_FLAT)->holding_begin + 1)->offset = 8;
}

static void holding_replicates(struct build *b)
{
    build_holding_at(b, 1, build_buffer_at(b, 1, TINY_D1_EMBED_NEW)->holding_begin)->view =
        build_view(&b->parts[1], 2, 2, I64(6, 2), I64(0, 2));
}

static void holding_interleaves(struct build *b)
{
    build_holding_at(b, 1, build_buffer_at(b, 1, TINY_D1_EMBED_NEW)->holding_begin)->view =
        build_view(&b->parts[1], 2, 2, I64(6, 2), I64(2, 4));
}

static void holding_strides_do_not_divide(struct build *b)
{
    build_holding_at(b, 0, build_buffer_at(b, 0, TINY_D0_EMBED)->holding_begin)->view =
        build_view(&b->parts[0], 2, 2, I64(2, 4), I64(12, 2));
}

static void same_binding(struct build *b)
{
    build_buffer(b, 0, TINY_EMBED, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_SIDE_FROM, 2, I64(3, 4), 0);
    build_holding(&b->parts[0], 2, I64(0, 0), I64(3, 4), NULL, 0);
}

/* lifetime, ranks */

static void old_without_rank(struct build *b)
{
    b->devices[0].from_rank = SHUNT_PLAN_NONE;
}

static void new_without_rank(struct build *b)
{
    b->devices[2].to_rank = SHUNT_PLAN_NONE;
}

static void rank_twice(struct build *b)
{
    b->devices[2].to_rank = 0;
}

static void rank_missing(struct build *b)
{
    b->header.to_rank_count = 3;
}

/* memory */

static void over_cap(struct build *b)
{
    b->summary.cap = b->summary.peak - 1;
}

static void wrong_live(struct build *b)
{
    b->parts[1].live_bytes[1]++;
}

static void wrong_live_at_the_end(struct build *b)
{
    b->parts[2].live_bytes[2]--;
}

static void wrong_peak(struct build *b)
{
    b->devices[1].peak_bytes++;
}

static void wrong_from(struct build *b)
{
    b->devices[0].from_bytes--;
}

static void wrong_to(struct build *b)
{
    b->devices[2].to_bytes++;
}

/* Its bytes are still counted as the device's. */
static void host_buffer_counted(struct build *b)
{
    build_buffer_at(b, 1, TINY_D1_FLAT_NEW)->tier = SHUNT_TIER_HOST;
}

static void staging_over(struct build *b)
{
    b->summary.staging = 79;
}

static void sizes_wrap(struct build *b)
{
    b->summary.reserve = UINT64_MAX;
}

/* summary */

static void bound_beaten(struct build *b)
{
    b->summary.inter_node_lower_bound = b->summary.inter_node + 1;
}

static void peak_bound_beaten(struct build *b)
{
    b->summary.peak_lower_bound = b->summary.peak + 1;
}

static void other_peak_device(struct build *b)
{
    b->summary.peak_device = 2;
}

/* A device that receives what it holds moves more than it needed. */
/* the statement about the state beside the tensors; "flat" stands for an entry of it */

static void copied_without_tensor(struct build *b)
{
    b->summary.state_notes = build_string(b, "flat\tcopied\tw\nstep\tcopied\tw\n");
}

static void left_with_tensor(struct build *b)
{
    b->summary.state_notes = build_string(b, "step\tleft\tw\nflat\treseeded\tw\n");
}

static void noted_twice(struct build *b)
{
    b->summary.state_notes = build_string(b, "step\tleft\tw\nflat\tcopied\tw\nstep\tleft\tw\n");
}

static void received_what_it_had(struct build *b)
{
    b->devices[2].from_rank = 2;
    b->header.from_rank_count = 3;
    build_buffer(b, 2, TINY_NORM, SHUNT_STATE_PARAM, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 1, I64(4), 1);
    build_holding(&b->parts[2], 1, I64(0), I64(4), NULL, 0);
}

struct row {
    const char *name;
    void (*edit)(struct build *build);
    bool account; /* recompute the figures, so that they do not hide the fault */
    enum shunt_verify_rule rule;
    const char *want;
};

/* clang-format off */
static const struct row rows[] = {
    {"recv shorter than send", recv_shorter, true, SHUNT_RULE_MESSAGE, "device 1 round 1: receives 16 bytes but device 0 sends 32 (old rank 1, new rank 0; peer: old rank 0, new rank -)"},
    {"recv longer than send", recv_longer, true, SHUNT_RULE_MESSAGE, "device 1 round 1: receives 48 bytes but device 0 sends 32"},
    {"unlike dtype", other_dtype, true, SHUNT_RULE_COORDINATE, "device 2 round 1: unpack into to:param/norm.weight writes [0,4) of i32 but device 1 packed [0,4) of fp32 from kept:param/norm.weight"},
    {"unlike element size", other_element_size, true, SHUNT_RULE_STAGING, "device 2 round 1: unpack into to:param/norm.weight reads [0,4) of 2-byte elements but device 1 packed [0,4) of 4-byte elements"},
    {"unlike state", other_state, true, SHUNT_RULE_COORDINATE, "unpack into to:master/norm.weight writes [0,4) of fp32 but device 1 packed [0,4) of fp32 from kept:param/norm.weight"},
    {"send without receive", send_alone, true, SHUNT_RULE_MESSAGE, "device 1 round 1: send to device 2 of 16 bytes has no receive there"},
    {"receive without send", recv_alone, true, SHUNT_RULE_MESSAGE, "device 2 round 1: receive from device 1 of 16 bytes has no send there"},
    {"receive in another round", other_round, true, SHUNT_RULE_MESSAGE, "device 1 round 0: send to device 2 of 16 bytes has no receive there"},
    {"message without a piece", empty_message, true, SHUNT_RULE_MESSAGE, "device 2 round 1: message of 16 bytes from device 1 carries no piece"},

    {"packs overlap", packs_overlap, false, SHUNT_RULE_STAGING, "device 0 round 1: two packs write staging bytes [0,8)"},
    {"pack outside of every send", pack_outside, true, SHUNT_RULE_STAGING, "device 0 round 0: pack writes staging bytes [32,44), which are not inside one send"},
    {"messages share bytes", messages_overlap, false, SHUNT_RULE_STAGING, "device 1 round 0: send to device 2 and receive from device 0 share staging bytes [0,16)"},
    {"unpack of what was not received", unpack_of_nothing, false, SHUNT_RULE_SOURCE, "device 1 round 0: unpack reads staging bytes [0,12), which are not inside one receive"},
    {"piece not unpacked", piece_left, true, SHUNT_RULE_STAGING, "device 1 round 1: no unpack matches the pack of [0,1)x[0,2) from from:exp_avg/flat at byte 16 of the message from device 0 (old rank 0, new rank -)"},
    {"piece not packed", piece_missing, true, SHUNT_RULE_STAGING, "device 1 round 1: no pack matches the unpack of [0,1)x[0,2) into to:exp_avg/flat at byte 16 of the message from device 0"},
    {"piece unpacked twice", piece_twice, true, SHUNT_RULE_STAGING, "device 1 round 1: no pack matches the unpack of [0,1)x[0,2)"},
    {"piece of another shape", piece_of_other_shape, true, SHUNT_RULE_STAGING, "device 2 round 0: unpack into to:param/embed.weight reads [0,2)x[0,2) of 2-byte elements but device 1 packed [0,3)x[0,2)"},

    {"rows swapped", rows_swapped, false, SHUNT_RULE_COORDINATE, "device 2 round 0: unpack into to:param/embed.weight writes [3,6)x[2,4) of bf16 but device 0 packed [0,3)x[2,4) of bf16 from from:param/embed.weight (old rank -, new rank 1; source: old rank 0, new rank -)"},
    {"wrong columns packed", wrong_columns, false, SHUNT_RULE_COORDINATE, "writes [0,3)x[2,4) of bf16 but device 0 packed [0,3)x[0,2)"},
    {"wrong columns copied", wrong_copy, false, SHUNT_RULE_COORDINATE, "device 1 round 0: copy into to:param/embed.weight writes [3,6)x[0,2) of bf16 but device 1 reads [3,6)x[2,4)"},
    {"one row off", one_row_off, false, SHUNT_RULE_COORDINATE, "writes [2,5)x[2,4) of bf16 but device 1 packed [3,6)x[2,4)"},

    {"read after free", read_after_free, true, SHUNT_RULE_SOURCE, "device 0 round 1: pack reads [0,1)x[0,3) of 4-byte elements at offset 0 of from:exp_avg/flat, which an earlier round has freed"},
    {"read of a new buffer", read_of_new, false, SHUNT_RULE_SOURCE, "to:param/embed.weight, which is not inside one of its holdings"},
    {"read across holdings", read_across_holdings, false, SHUNT_RULE_SOURCE, "at offset 8 of from:exp_avg/flat, which is not inside one of its holdings"},
    {"read past the end of a row", read_past_row_end, false, SHUNT_RULE_SOURCE, "pack reads [0,3)x[0,2) of 2-byte elements at offset 2 of from:param/embed.weight, which is not inside"},

    {"write to an old buffer", write_to_old, false, SHUNT_RULE_TARGET, "device 1 round 0: copy writes [0,3)x[0,2) of 2-byte elements at offset 0 of from:param/embed.weight, which the old side still needs"},
    {"write to a kept buffer", write_to_kept, false, SHUNT_RULE_TARGET, "of kept:param/norm.weight, which the old side still needs"},
    {"write before alloc", write_before_alloc, true, SHUNT_RULE_TARGET, "of to:param/embed.weight, which a later round allocates"},
    {"write into pads", write_into_pads, false, SHUNT_RULE_TARGET, "device 2 round 0: unpack writes [0,3)x[0,2) of 2-byte elements at offset 20 of to:param/embed.weight, which is not inside one of its holdings"},
    {"write with other strides", write_other_strides, false, SHUNT_RULE_TARGET, "which is not inside one of its holdings"},
    {"fill over a holding", fill_over_holding, false, SHUNT_RULE_TARGET, "byte 20 of to:param/embed.weight belongs to a holding and is filled"},
    {"fill of an old buffer", fill_of_old, false, SHUNT_RULE_TARGET, "fill writes [0,2)x[0,2) of 2-byte elements at offset 0 of from:param/embed.weight, which the old side still needs"},
    {"fill of another element size", fill_of_other_size, false, SHUNT_RULE_TARGET, "whose elements have another size"},
    {"fill with odd strides", fill_of_odd_strides, true, SHUNT_RULE_TARGET, "fill of 4 bytes at offset 24 of to:param/embed.weight is no box of its buffer"},
    {"fill before alloc", fill_before_alloc, true, SHUNT_RULE_TARGET, "device 2 round 0: fill writes"},

    {"written twice", written_twice, true, SHUNT_RULE_COVERAGE, "device 1: element [3,0] of to:param/embed.weight, box [0,6)x[0,2), is written 2 times (old rank 1, new rank 0)"},
    {"never written", never_written, true, SHUNT_RULE_COVERAGE, "device 1: element [3,0] of to:param/embed.weight, box [0,6)x[0,2), is written never"},
    {"holding without a write", nothing_written, true, SHUNT_RULE_COVERAGE, "device 2: element [0] of to:param/norm.weight, box [0,4), is written never"},
    {"pad not filled", pad_left, true, SHUNT_RULE_COVERAGE, "device 1: byte 24 of to:param/embed.weight is a pad that no op fills"},
    {"pad half filled", pad_half_filled, true, SHUNT_RULE_COVERAGE, "device 2: byte 26 of to:param/embed.weight is a pad that no op fills"},
    {"pad filled twice", pad_twice, true, SHUNT_RULE_COVERAGE, "device 1: byte 24 of to:param/embed.weight is filled twice"},
    {"state lost", lost_state, true, SHUNT_RULE_COVERAGE, "box [0,4) of exp_avg/norm.weight is held by no new rank"},
    {"element lost", lost_element, true, SHUNT_RULE_COVERAGE, "box [1,2)x[2,3) of exp_avg/flat is held by no old rank"},

    {"holdings overlap in the tensor", holdings_overlap_in_tensor, false, SHUNT_RULE_HOLDING, "device 0: from:exp_avg/flat holds [0,1)x[0,3) and [0,1)x[1,3), which overlap"},
    {"holdings overlap in the buffer", holdings_overlap_in_buffer, false, SHUNT_RULE_HOLDING, "device 0: byte 8 of from:exp_avg/flat belongs to two holdings"},
    {"holding replicates", holding_replicates, false, SHUNT_RULE_HOLDING, "holding 1 of to:param/embed.weight has elements on the same bytes"},
    {"holding interleaves", holding_interleaves, false, SHUNT_RULE_HOLDING, "holding 1 of to:param/embed.weight has elements on the same bytes or strides that interleave"},
    {"holding strides do not divide", holding_strides_do_not_divide, false, SHUNT_RULE_HOLDING, "device 0: strides of the holdings of from:param/embed.weight do not divide each other"},
    {"two buffers of one binding", same_binding, true, SHUNT_RULE_HOLDING, "device 0: buffers 0 and 3 are both from:param/embed.weight on the old side"},

    {"old buffer without a rank", old_without_rank, false, SHUNT_RULE_LIFETIME, "device 0: from:param/embed.weight is of the old side, which has no rank here"},
    {"new buffer without a rank", new_without_rank, false, SHUNT_RULE_LIFETIME, "device 2: to:param/norm.weight is of the new side, which has no rank here"},
    {"rank twice", rank_twice, false, SHUNT_RULE_RANK, "devices 1 and 2 are both new rank 0"},
    {"rank missing", rank_missing, false, SHUNT_RULE_RANK, "no device is new rank 2"},

    {"over the cap", over_cap, false, SHUNT_RULE_MEMORY, "bytes are live, the cap is"},
    {"live_bytes", wrong_live, false, SHUNT_RULE_MEMORY, "device 1 round 1: live_bytes is "},
    {"live_bytes at the end", wrong_live_at_the_end, false, SHUNT_RULE_MEMORY, "device 2 round 2: live_bytes is "},
    {"peak_bytes", wrong_peak, false, SHUNT_RULE_MEMORY, "device 1: peak_bytes is "},
    {"from_bytes", wrong_from, false, SHUNT_RULE_MEMORY, "device 0: from_bytes is "},
    {"to_bytes", wrong_to, false, SHUNT_RULE_MEMORY, "device 2: to_bytes is "},
    {"host buffer counted", host_buffer_counted, false, SHUNT_RULE_MEMORY, "device 1 round 1: live_bytes is 1204, the replay has 1180"},
    {"staging over the summary", staging_over, false, SHUNT_RULE_MEMORY, "device 1: staging slots are 80 bytes, the summary allows 79"},
    {"sizes wrap", sizes_wrap, false, SHUNT_RULE_MEMORY, "the sum of all sizes is above 2^64 bytes"},

    {"inter_node_lower_bound beaten", bound_beaten, false, SHUNT_RULE_SUMMARY, "inter_node_lower_bound is "},
    {"peak_lower_bound beaten", peak_bound_beaten, false, SHUNT_RULE_SUMMARY, "peak_lower_bound is "},
    {"peak_device", other_peak_device, false, SHUNT_RULE_SUMMARY, "peak_device is 2, whose peak is "},
    {"copied without a tensor", copied_without_tensor, false, SHUNT_RULE_SUMMARY, "state_notes says that step is copied, no tensor has that name"},
    {"left with a tensor", left_with_tensor, false, SHUNT_RULE_SUMMARY, "state_notes says that flat is reseeded, a tensor has that name"},
    {"noted twice", noted_twice, false, SHUNT_RULE_SUMMARY, "state_notes names step twice"},
    {"received what it had", received_what_it_had, true, SHUNT_RULE_SUMMARY, "needed_remote is 72, the replay has 56"},
};
/* clang-format on */

static void find_faults(const struct row *faults, size_t count, struct build *(*make)(void),
                        void (*account)(struct build *build))
{
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &faults[i];
        struct build *build = make();
        struct shunt_err err = {""};
        row->edit(build);
        if (row->account)
            account(build);
        enum shunt_status st = verify_build(build, &err);
        CHECK_MSG(st == SHUNT_ERR_VERIFY, "%s: status %s %s", row->name, shunt_status_name(st), err.text);
        CHECK_MSG(reported(row->rule, row->want), "%s: no \"%s: %s\" among", row->name,
                  shunt_verify_rule_name(row->rule), row->want);
        if (!reported(row->rule, row->want))
            print_problems();
        CHECK_MSG(strcmp(err.text, report.problems[0].text) == 0, "%s: err is \"%s\"", row->name, err.text);
        build_destroy(build);
    }
    printf("# %zu faults\n", count);
}

static void faults_are_found(void)
{
    find_faults(rows, sizeof(rows) / sizeof(rows[0]), build_tiny, build_account);
}

/* ---- casts and reads of the new side ------------------------------------------------- */

static void cast_missing(struct build *b)
{
    struct shunt_plan_op *op = build_op_at(b, 0, CAST_D0_COPY_AVG);
    op->cast = SHUNT_CAST_NONE;
    op->src_view = op->dst_view; /* the same shape of 2-byte elements: half of each fp32 */
}

static void cast_missing_in_pack(struct build *b)
{
    struct shunt_plan_op *op = build_op_at(b, 0, CAST_D0_PACK_PARAM);
    op->cast = SHUNT_CAST_NONE;
    op->dst_view = op->src_view;
    b->parts[0].staging_bytes[1] = 32;
    build_message_at(b, 0, 4)->bytes = 32;
    build_message_at(b, 1, 4)->bytes = 32;
    b->parts[1].staging_bytes[1] = 32;
}

static void cast_of_another_dtype(struct build *b)
{
    build_buffer_at(b, 0, CAST_D0_AVG_SQ)->dtype = SHUNT_DTYPE_FP16;
}

static void cast_where_none_belongs(struct build *b)
{
    build_buffer_at(b, 1, CAST_D1_AVG_SQ_NEW)->origin_dtype = 0;
}

/* fp32 is narrowed in the pack and widened in the unpack: the dtype is right, the value is not. */
static void cast_twice(struct build *b)
{
    uint32_t narrow = build_op_at(b, 0, CAST_D0_PACK_PARAM)->dst_view;
    struct shunt_plan_op *pack = build_op_at(b, 0, CAST_D0_PACK_MASTER);
    struct shunt_plan_op *unpack = build_op_at(b, 1, CAST_D1_UNPACK_MASTER);
    pack->cast = SHUNT_CAST_FP32_BF16;
    pack->dst_view = narrow;
    unpack->cast = SHUNT_CAST_BF16_FP32;
    unpack->src_view = build_op_at(b, 1, CAST_D1_UNPACK_PARAM)->src_view;
}

static void source_of_another_dtype(struct build *b)
{
    build_buffer_at(b, 0, CAST_D0_MASTER_OLD)->dtype = SHUNT_DTYPE_I32;
}

/* The new master has been through bf16 already, or so it says: from it nothing else is made. */
static void made_from_a_cast(struct build *b)
{
    build_buffer_at(b, 0, CAST_D0_MASTER_NEW)->origin_dtype = 1 + SHUNT_DTYPE_BF16;
}

static void other_origin_state(struct build *b)
{
    build_buffer_at(b, 0, CAST_D0_MASTER_NEW)->origin_state = 1 + SHUNT_STATE_PARAM;
    build_buffer_at(b, 1, CAST_D1_MASTER_NEW)->origin_state = 1 + SHUNT_STATE_PARAM;
}

static void origins_differ(struct build *b)
{
    build_buffer_at(b, 1, CAST_D1_PARAM_NEW)->origin_state = 0;
}

static void origin_lost(struct build *b)
{
    build_buffer_at(b, 0, CAST_D0_MASTER_OLD)->state = SHUNT_STATE_GRAD;
    build_buffer_at(b, 1, CAST_D1_MASTER_OLD)->state = SHUNT_STATE_GRAD;
}

static void move_op(struct build *b, uint32_t device, uint32_t op, uint32_t round)
{
    ((struct build_op *)b->parts[device].ops.at)[op].round = round;
}

/* The master arrives in round 0: at depth 2 its unpack may still be under way in round 1. */
static void read_too_early(struct build *b)
{
    move_op(b, 0, CAST_D0_COPY_PARAM_B, 1);
}

static void read_in_the_same_round(struct build *b)
{
    move_op(b, 0, CAST_D0_COPY_PARAM_B, 0);
}

static void read_before_alloc(struct build *b)
{
    build_buffer_at(b, 0, CAST_D0_MASTER_NEW)->alloc_round = 3;
}

static void read_of_the_new_side_outside(struct build *b)
{
    build_op_at(b, 0, CAST_D0_COPY_PARAM_B)->src_offset = 8;
}

static void read_of_other_rows(struct build *b)
{
    build_op_at(b, 0, CAST_D0_COPY_PARAM_B)->src_offset = 0;
}

static void half_dropped(struct build *b)
{
    build_buffer(b, 1, 0, SHUNT_STATE_MOMENTUM, SHUNT_DTYPE_FP32, SHUNT_SIDE_TO, 2, I64(2, 4), 0);
    build_holding(&b->parts[1], 2, I64(0, 0), I64(2, 4), NULL, 0);
}

static void buffer_dropped(struct build *b)
{
    build_buffer_at(b, 0, CAST_D0_MOMENTUM)->state = SHUNT_STATE_BUFFER;
}

static void saved_wrong(struct build *b)
{
    b->summary.saved++;
}

/* clang-format off */
static const struct row cast_rows[] = {
    {"cast missing", cast_missing, false, SHUNT_RULE_SOURCE, "copy reads [0,2)x[0,4) of 2-byte elements at offset 0 of from:exp_avg/w, which is not inside one of its holdings"},
    {"cast missing in the pack", cast_missing_in_pack, true, SHUNT_RULE_STAGING, "reads [0,2)x[0,4) of 2-byte elements but device 0 packed [0,2)x[0,4) of 4-byte elements of from:master/w"},
    {"cast of another dtype", cast_of_another_dtype, false, SHUNT_RULE_COORDINATE, "unpack into to:exp_avg_sq/w writes [0,4)x[0,4) of fp32 but device 0 packed [0,4)x[0,4) of fp16"},
    {"cast where none belongs", cast_where_none_belongs, false, SHUNT_RULE_COORDINATE, "unpack into to:exp_avg_sq/w writes [0,4)x[0,4) of fp32 but device 0 packed [0,4)x[0,4) of bf16"},
    {"cast twice", cast_twice, true, SHUNT_RULE_COORDINATE, "device 1 round 0: unpack into to:master/w: from:master/w of device 0 is fp32, the target fp32 made from master fp32; found fp32 to bf16 in the pack and bf16 to fp32"},
    {"made from a cast", made_from_a_cast, false, SHUNT_RULE_COORDINATE, "device 0 round 2: copy into to:param/w writes [2,4)x[0,4) of bf16 but device 0 reads [2,4)x[0,4) of fp32 from to:master/w"},
    {"source of another dtype", source_of_another_dtype, false, SHUNT_RULE_COORDINATE, "copy into to:param/w writes [0,2)x[0,4) of bf16 but device 0 reads [0,2)x[0,4) of i32 from from:master/w"},
    {"another state", other_origin_state, false, SHUNT_RULE_COORDINATE, "copy into to:master/w writes [0,2)x[0,4) of fp32 but device 0 reads [0,2)x[0,4) of fp32 from from:master/w"},
    {"origins differ", origins_differ, false, SHUNT_RULE_COORDINATE, "device 1: to:param/w is bf16 made from param fp32, on another device it is bf16 made from master fp32"},
    {"origin lost", origin_lost, false, SHUNT_RULE_COVERAGE, "box [0,4)x[0,4) of master/w is held by no old rank"},
    {"read too early", read_too_early, true, SHUNT_RULE_SOURCE, "device 0 round 1: copy reads [2,4)x[0,4) of to:master/w, of which round 0 writes a part: expected writes in rounds up to -1"},
    {"read in the same round", read_in_the_same_round, true, SHUNT_RULE_SOURCE, "device 0 round 0: copy reads [2,4)x[0,4) of to:master/w, of which round 0 writes a part"},
    {"read before alloc", read_before_alloc, true, SHUNT_RULE_SOURCE, "device 0 round 2: copy reads [0,2)x[0,4) of 4-byte elements at offset 32 of to:master/w, which a later round allocates"},
    {"read outside a holding", read_of_the_new_side_outside, false, SHUNT_RULE_SOURCE, "to:master/w, which is not inside one of its holdings"},
    {"read of other rows", read_of_other_rows, false, SHUNT_RULE_COORDINATE, "copy into to:param/w writes [2,4)x[0,4) of bf16 but device 0 reads [0,2)x[0,4) of fp32 from to:master/w"},
    {"state half dropped", half_dropped, true, SHUNT_RULE_COVERAGE, "box [2,4)x[0,4) of momentum/w is held by no new rank"},
    {"buffer dropped", buffer_dropped, false, SHUNT_RULE_COVERAGE, "box [0,4)x[0,4) of buffer/w is held by no new rank"},
    {"saved", saved_wrong, false, SHUNT_RULE_SUMMARY, "saved is 33, the replay has 32"},
};
/* clang-format on */

static void faults_of_casts_are_found(void)
{
    find_faults(cast_rows, sizeof(cast_rows) / sizeof(cast_rows[0]), build_cast, build_cast_account);
}

/* ---- the summary's figures --------------------------------------------------------- */

#define FIGURE(name)                                                                                                   \
    {                                                                                                                  \
#name, offsetof(struct shunt_plan_summary, name), sizeof(((struct shunt_plan_summary *)0)->name)               \
    }

static void figures_are_compared(void)
{
    static const struct {
        const char *name;
        size_t offset, size;
    } figures[] = {FIGURE(needed_remote),
                   FIGURE(moved),
                   FIGURE(relayed),
                   FIGURE(forwarded),
                   FIGURE(local),
                   FIGURE(kept),
                   FIGURE(filled),
                   FIGURE(peak),
                   FIGURE(intra_node),
                   FIGURE(max_send),
                   FIGURE(max_recv),
                   FIGURE(to_max),
                   FIGURE(max_group_messages),
                   FIGURE(rollback_until_round),
                   FIGURE(max_peers),
                   FIGURE(ops),
                   FIGURE(from_max),
                   FIGURE(inter_node)};
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        struct build *build = build_tiny();
        struct shunt_err err = {""};
        char want[64];
        ++*((unsigned char *)&build->summary + figures[i].offset);
        snprintf(want, sizeof(want), "%s is ", figures[i].name);
        CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
        CHECK_MSG(reported(SHUNT_RULE_SUMMARY, want), "%s", figures[i].name);
        CHECK_EQ_U64(report.problem_total, 1);
        build_destroy(build);
    }
}

/* Buffers in host memory are outside the cap, whatever else is right about them. */
static void host_buffers_do_not_count(void)
{
    struct build *build = build_tiny();
    struct shunt_err err = {""};
    build_buffer_at(build, 1, TINY_D1_FLAT_OLD)->tier = SHUNT_TIER_HOST;
    build_buffer_at(build, 1, TINY_D1_FLAT_NEW)->tier = SHUNT_TIER_HOST;
    build_buffer_at(build, 1, TINY_D1_NORM)->tier = SHUNT_TIER_HOST;
    build_account(build);
    CHECK_EQ_U64(build->summary.peak, 1024 + 80 + 24 + 32);
    CHECK_EQ_U64(build->devices[1].from_bytes, 24);
    CHECK_EQ_U64(build->devices[1].to_bytes, 32);
    CHECK_EQ_U64(build->summary.host_peak, 0);
    build->summary.cap = build->summary.peak;
    CHECK(verify_build(build, &err) == SHUNT_OK);
    CHECK_STR(err.text, "");
    build_destroy(build);
}

static uint32_t count_peers(struct build *build, uint32_t device)
{
    uint32_t met = 0;
    for (uint32_t i = 0; i < build->parts[device].messages.count; i++)
        met |= UINT32_C(1) << build_message_at(build, device, i)->peer;
    return (uint32_t)__builtin_popcount(met);
}

/* Every device pays for its own peers, once each. */
static void peers_take_memory(void)
{
    struct build *build = build_tiny();
    struct shunt_err err = {""};
    build->summary.transport_per_peer = 3072;
    build->summary.peak = 0;
    for (uint32_t d = 0; d < 3; d++) {
        uint64_t taken = UINT64_C(3072) * count_peers(build, d);
        for (uint32_t k = 0; k <= build->header.round_count; k++)
            build->parts[d].live_bytes[k] += taken;
        build->devices[d].peak_bytes += taken;
        if (build->devices[d].peak_bytes > build->summary.peak) {
            build->summary.peak = build->devices[d].peak_bytes;
            build->summary.peak_device = d;
        }
    }
    build->summary.cap = build->summary.peak;
    CHECK(verify_build(build, &err) == SHUNT_OK);
    CHECK_STR(err.text, "");
    build->summary.transport_per_peer = 4096;
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_MEMORY, "live_bytes is "));
    build_destroy(build);
}

/* The cap of one device, 64 KiB at a time. */
static void small_devices_have_a_cap_of_their_own(void)
{
    struct build *build = build_tiny();
    struct shunt_err err = {""};
    build->summary.cap = build->devices[1].peak_bytes + 2 * SHUNT_PLAN_SHORT_BYTES;
    build->devices[1].cap_short = 2;
    CHECK(verify_build(build, &err) == SHUNT_OK);
    CHECK_STR(err.text, "");
    build->summary.cap -= 1;
    build->devices[1].cap_short = 2;
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_MEMORY, "bytes are live, the cap is "));
    CHECK_EQ_U64(report.problem_total, 1);
    build_destroy(build);
}

/* Written out, so that the builder's own sums are checked too. */
static void tiny_figures(void)
{
    struct build *build = build_tiny();
    const struct shunt_plan_summary *sum = &build->summary;
    struct shunt_err err = {""};
    CHECK(verify_build(build, &err) == SHUNT_OK);
    CHECK_STR(err.text, "");
    CHECK_EQ_U64(report.problem_total, 0);
    CHECK_EQ_U64(sum->moved, 3 * 12 + 16 + 20);
    CHECK_EQ_U64(sum->needed_remote, 72);
    CHECK_EQ_U64(sum->local, 12 + 4 + 16);
    CHECK_EQ_U64(sum->kept, 16);
    CHECK_EQ_U64(sum->filled, 16);
    CHECK_EQ_U64(sum->inter_node, 2 * 12 + 16);
    CHECK_EQ_U64(sum->intra_node, 12 + 20);
    CHECK_EQ_U64(sum->max_send, 44);
    CHECK_EQ_U64(sum->max_recv, 40);
    CHECK_EQ_U64(sum->ops, 4 + 8 + 4 + 3 + 4 + 3);
    CHECK_EQ_U64(sum->max_group_messages, 2);
    CHECK_EQ_U64(sum->max_peers, 2);
    CHECK_EQ_U64(sum->rollback_until_round, 0);
    CHECK_EQ_U64(sum->peak, 1024 + 80 + 24 + 32 + 16 + 4 + 24);
    CHECK_EQ_U64(sum->peak_device, 1);
    CHECK_EQ_U64(report.devices, 3);
    CHECK_EQ_U64(report.rounds, 2);
    CHECK_EQ_U64(report.ops, sum->ops);
    CHECK_EQ_U64(report.messages, 10);
    CHECK_EQ_U64(report.bytes_moved, sum->moved);
    CHECK_EQ_U64(report.bytes_local, sum->local);
    CHECK_EQ_U64(report.bytes_filled, sum->filled);
    CHECK_EQ_U64(report.peak, sum->peak);
    build_destroy(build);
}

/* ---- plans that are right -------------------------------------------------------------- */

static void expect_accepted(struct build *build, const char *name)
{
    struct shunt_err err = {""};
    enum shunt_status st = verify_build(build, &err);
    CHECK_MSG(st == SHUNT_OK, "%s: %s %s", name, shunt_status_name(st), err.text);
    build_destroy(build);
}

static void accepts_a_right_statement(void)
{
    struct build *build = build_tiny();
    build->summary.state_notes = build_string(build, "step\tleft\tw\nflat\tcopied\tw\nfla\tleft\tw\n");
    expect_accepted(build, "statement");
}

/* Whatever else an op says of its cast, the reader or the verifier refuses it. */
static void every_other_cast_is_refused(void)
{
    struct build *build = build_cast();
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < build->parts[d].ops.count; i++) {
            struct shunt_plan_op *op = build_op_at(build, d, i);
            uint8_t own = op->cast;
            for (uint8_t cast = 0; cast < 4; cast++) {
                struct shunt_err err = {""};
                op->cast = cast;
                enum shunt_status st = verify_build(build, &err);
                CHECK_MSG((st == SHUNT_OK) == (cast == own), "device %u op %u cast %u: %s", d, i, cast, err.text);
            }
            op->cast = own;
        }
    }
    build_destroy(build);
}

/* The same of what a new buffer says that it is made from. */
static void every_other_origin_is_refused(void)
{
    struct build *build = build_cast();
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < build->parts[d].buffers.count; i++) {
            struct shunt_plan_buffer *buffer = build_buffer_at(build, d, i);
            const struct shunt_plan_buffer own = *buffer;
            for (unsigned n = 1; n <= SHUNT_DTYPE_COUNT; n++) {
                struct shunt_err err = {""};
                buffer->origin_state = own.origin_state != n ? (uint8_t)n : 0;
                CHECK_MSG(verify_build(build, &err) == SHUNT_ERR_VERIFY, "device %u buffer %u state %u", d, i, n);
                *buffer = own;
                buffer->origin_dtype = own.origin_dtype != n ? (uint8_t)n : 0;
                CHECK_MSG(verify_build(build, &err) == SHUNT_ERR_VERIFY, "device %u buffer %u dtype %u", d, i, n);
                *buffer = own;
            }
        }
    }
    build_destroy(build);
}

static void accepts_casts(void)
{
    struct build *build = build_cast();
    CHECK_EQ_U64(build->summary.moved, 2 * 32 + 16 + 32 + 16);
    CHECK_EQ_U64(build->summary.local, 2 * 32 + 3 * 16 + 16);
    expect_accepted(build, "casts");
}

/* Older plans have a shorter summary, and nothing of the new kind. */
static void accepts_older_versions(void)
{
    for (uint32_t minor = 0; minor < 3; minor++) {
        struct build *build = build_tiny();
        build->header.version_minor = minor;
        expect_accepted(build, "older version");
    }
}

/* At depth 1 the round before is done. */
static void accepts_early_reads_at_depth_1(void)
{
    struct build *build = build_cast();
    build->header.overlap_depth = 1;
    for (uint32_t d = 0; d < 2; d++) {
        build->parts[d].staging_bytes[1] = 0;
        for (uint32_t i = 0; i < build->parts[d].messages.count; i++)
            build_message_at(build, d, i)->buffer = SLOT(0);
        for (uint32_t i = 0; i < build->parts[d].ops.count; i++) {
            struct shunt_plan_op *op = build_op_at(build, d, i);
            op->src_buffer = op->src_buffer == SLOT(1) ? SLOT(0) : op->src_buffer;
            op->dst_buffer = op->dst_buffer == SLOT(1) ? SLOT(0) : op->dst_buffer;
        }
    }
    move_op(build, 0, CAST_D0_COPY_PARAM_B, 1);
    build_cast_account(build);
    expect_accepted(build, "depth 1");
}

/* A fill cut along columns covers the same pads. */
static void accepts_cut_fills(void)
{
    struct build *build = build_tiny();
    struct shunt_plan_op *fill = build_op_at(build, 2, TINY_D2_FILL);
    uint32_t column = build_view(&build->parts[2], 2, 1, I64(2), I64(4));
    fill->dst_view = column;
    build_op(&build->parts[2], 0, SHUNT_OP_FILL, SHUNT_PLAN_NONE, 0, 0, TINY_D2_EMBED, column, 26);
    build_account(build);
    expect_accepted(build, "cut fills");
}

/* Pads of a kept buffer may be filled; that touches the old side. */
static void accepts_fill_of_kept_pads(void)
{
    struct build *build = build_tiny();
    struct build_part *part = &build->parts[1];
    struct shunt_plan_buffer *kept = build_buffer_at(build, 1, TINY_D1_NORM);
    kept->bytes = 24;
    kept->view = build_view(part, 4, 1, I64(6), NULL);
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < build->parts[d].buffers.count; i++) {
            struct shunt_plan_buffer *buffer = build_buffer_at(build, d, i);
            buffer->free_round = buffer->free_round == 0 ? 1 : buffer->free_round;
        }
    }
    build_op(part, 0, SHUNT_OP_FILL, SHUNT_PLAN_NONE, 0, 0, TINY_D1_NORM, build_view(part, 4, 1, I64(2), NULL), 16);
    build_account(build);
    CHECK_EQ_U64(build->summary.rollback_until_round, 1);
    build->summary.rollback_until_round = 0;
    expect_accepted(build, "fill of kept pads");
}

/* An old holder of everything beside two holders of halves. */
static void accepts_overlapping_replicas(void)
{
    struct build *build = build_tiny();
    build->devices[2].from_rank = 2;
    build->header.from_rank_count = 3;
    build_buffer(build, 2, TINY_FLAT, SHUNT_STATE_EXP_AVG, SHUNT_DTYPE_FP32, SHUNT_SIDE_FROM, 1, I64(6), 0);
    build_holding(&build->parts[2], 2, I64(0, 0), I64(2, 3), NULL, 0);
    build_buffer(build, 2, TINY_EMBED, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_SIDE_FROM, 2, I64(2, 4), 0);
    build_holding(&build->parts[2], 2, I64(2, 0), I64(2, 4), NULL, 0);
    build_account(build);
    build->summary.needed_remote -= 2 * 2 * 2; /* rows 2 and 3 of columns 2 and 3 were there */
    expect_accepted(build, "overlapping replicas");
}

/* At depth 1 both slots are one and a buffer freed in round 0 is gone in round 1. */
static void accepts_depth_1(void)
{
    struct build *build = build_tiny();
    build->header.overlap_depth = 1;
    for (uint32_t d = 0; d < 3; d++) {
        struct build_part *part = &build->parts[d];
        part->staging_bytes[0] =
            part->staging_bytes[0] > part->staging_bytes[1] ? part->staging_bytes[0] : part->staging_bytes[1];
        part->staging_bytes[1] = 0;
        for (uint32_t i = 0; i < part->messages.count; i++)
            build_message_at(build, d, i)->buffer = SLOT(0);
        for (uint32_t i = 0; i < part->ops.count; i++) {
            struct shunt_plan_op *op = build_op_at(build, d, i);
            op->src_buffer = op->src_buffer == SLOT(1) ? SLOT(0) : op->src_buffer;
            op->dst_buffer = op->dst_buffer == SLOT(1) ? SLOT(0) : op->dst_buffer;
        }
    }
    build_account(build);
    expect_accepted(build, "depth 1");
}

/* Nothing moves: no round, no op, one kept buffer per device. */
static void accepts_a_plan_without_rounds(void)
{
    struct build *build = build_create(2, 0, 1);
    build->header.from_rank_count = build->header.to_rank_count = 2;
    build_tensor(build, "w", 1, I64(8));
    for (uint32_t d = 0; d < 2; d++) {
        build->devices[d].from_rank = build->devices[d].to_rank = 1 - d;
        build_buffer(build, d, 0, SHUNT_STATE_PARAM, SHUNT_DTYPE_U8, SHUNT_SIDE_BOTH, 1, I64(4), 0);
        build_holding(&build->parts[d], 1, I64(4 * (int64_t)d), I64(4), NULL, 0);
    }
    build_account(build);
    expect_accepted(build, "no rounds");
}

/*
 * A fused [4, 2*3] tensor of two column segments, cut in two, kept as flat ranges that begin in the
 * middle of a row: holdings are strided regions of a 1-D buffer, and one wraps around its rows.
 *
 *     local [4, 4]: columns 0,1 of segment 0 | columns 3,4 of segment 1      elements 3 .. 14
 */
static void accepts_strided_holdings_of_a_flat_buffer(void)
{
    struct build *build = build_create(2, 1, 1);
    build->header.from_rank_count = build->header.to_rank_count = 1;
    build->devices[0].from_rank = 0;
    build->devices[1].to_rank = 0;
    build_tensor(build, "fused", 2, I64(4, 6));
    /* the old side holds all; only two rows and a bit are asked for, so the new side lacks the rest */
    build_buffer(build, 0, 0, SHUNT_STATE_PARAM, SHUNT_DTYPE_U8, SHUNT_SIDE_FROM, 1, I64(12), 0);
    build_holding(&build->parts[0], 2, I64(0, 4), I64(1, 1), NULL, 0);
    build_holding(&build->parts[0], 2, I64(1, 0), I64(2, 2), I64(4, 1), 1);
    build_holding(&build->parts[0], 2, I64(1, 3), I64(2, 2), I64(4, 1), 3);
    build_holding(&build->parts[0], 2, I64(3, 0), I64(1, 2), NULL, 9);
    build_holding(&build->parts[0], 2, I64(3, 3), I64(1, 1), NULL, 11);
    build_account(build);
    struct shunt_err err = {""};
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK(!reported(SHUNT_RULE_HOLDING, ""));
    CHECK(reported(SHUNT_RULE_COVERAGE, "box [0,4)x[0,6) of param/fused is held by no new rank"));
    build_holding_at(build, 0, 2)->offset = 2; /* onto the columns before */
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_HOLDING, "byte 2 of from:param/fused belongs to two holdings"));
    build_destroy(build);
}

/* Seeds of the fuzzer, written by make_seeds: plans of earlier builds that every later reader must take. */
static void accepts_stored_plans(void)
{
    static const char *const names[] = {"tiny", "casts", "scratch", "one-device", "two-devices", "no-tensors"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[4096];
        struct shunt_plan *plan = NULL;
        struct shunt_err err = {""};
        snprintf(path, sizeof(path), "%s/%s.plan", CORPUS_PLAN, names[i]);
        enum shunt_status st = shunt_plan_open(path, &plan, &err);
        if (st == SHUNT_OK)
            st = shunt_plan_verify(plan, &report, &err);
        CHECK_MSG(st == SHUNT_OK, "%s: %s", path, err.text);
        shunt_plan_close(plan);
    }
}

/* ---- reports ---------------------------------------------------------------------- */

static void unreadable_part(void)
{
    struct build *build = build_tiny();
    struct image image = build_encode(build);
    struct shunt_err err = {""};
    image_part(&image, 1)->reserved = 1;
    CHECK(verify_image(&image, &err) == SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_PART, "plan: part of device 1: checksum is "));
    CHECK_EQ_U64(report.problem_total, 1);
    image_finish(&image);
    build_destroy(build);
}

static void many_problems(void)
{
    struct build *build = build_large(4, 40, 3);
    struct shunt_err err = {""};
    for (uint32_t i = 0; i < build->parts[2].ops.count; i++) {
        struct shunt_plan_op *op = build_op_at(build, 2, i);
        op->src_offset -= op->kind == SHUNT_OP_COPY ? 32 : 0; /* one row up */
    }
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK_EQ_U64(report.problem_count, SHUNT_VERIFY_MAX_PROBLEMS);
    CHECK_EQ_U64(report.problem_total, 40);
    build_destroy(build);
}

static void long_names(void)
{
    struct build *build = build_tiny();
    struct shunt_err err = {""};
    char name[2000];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    ((struct shunt_plan_tensor *)build->tensors.at)[TINY_EMBED].name = build_string(build, name);
    rows_swapped(build);
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_COORDINATE, "device 2 round 0: unpack into to:param/nnn"));
    ((struct shunt_plan_tensor *)build->tensors.at)[TINY_EMBED].name = build_string(build, "a\x1b[2J\n\xc2\x9b");
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_COORDINATE, "unpack into to:param/a\\x1B[2J\\x0A\\xC2\\x9B writes"));
    CHECK_CONTAINS(err.text, "to:param/a\\x1B[2J\\x0A\\xC2\\x9B writes");
    build_destroy(build);
}

static void rules_have_names(void)
{
    for (int rule = SHUNT_RULE_PART; rule < SHUNT_RULE_COUNT; rule++) {
        const char *name = shunt_verify_rule_name((enum shunt_verify_rule)rule);
        CHECK(name[0] != 0 && strcmp(name, "none") != 0);
        CHECK(strlen(shunt_verify_rule_text((enum shunt_verify_rule)rule)) > 10);
        for (int other = SHUNT_RULE_PART; other < rule; other++)
            CHECK(strcmp(name, shunt_verify_rule_name((enum shunt_verify_rule)other)) != 0);
    }
    CHECK_STR(shunt_verify_rule_name(SHUNT_RULE_COVERAGE), "coverage");
    CHECK_STR(shunt_verify_rule_name(SHUNT_RULE_COUNT), "none");
}

/* ---- size ----------------------------------------------------------------------- */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The time is printed; the limit is loose because sanitizers and busy machines are slow. */
static void large_plan(void)
{
    struct build *build = build_large(32, 390, 250);
    struct image image = build_encode(build);
    struct shunt_err err = {""};
    double begin = seconds_now();
    CHECK(verify_image(&image, &err) == SHUNT_OK);
    double seconds = seconds_now() - begin;
    CHECK_STR(err.text, "");
    printf("# 32 devices, 250 rounds, %llu ops with allocs and frees: %.1f ms\n", (unsigned long long)report.ops,
           seconds * 1e3);
    CHECK(seconds < 5);
    image_finish(&image);
    build_destroy(build);
}

/* ---- plans that are too large to be held ------------------------------------------------ */

static uint64_t bytes_read_so_far(void)
{
    unsigned long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    CHECK(file != NULL && fscanf(file, "rchar: %llu", &bytes) == 1);
    if (file != NULL)
        fclose(file);
    return bytes;
}

/* Verify a plan's file as a large one. @return bytes read */
static uint64_t verify_file(const struct image *image, enum shunt_status want)
{
    char path[] = "/tmp/shunt-verify-XXXXXX";
    int fd = mkstemp(path);
    struct shunt_plan *plan = NULL;
    struct shunt_err err = {""};
    CHECK(fd >= 0 && write(fd, image->bytes, image->size) == (ssize_t)image->size);
    close(fd);
    CHECK_MSG(shunt_plan_open(path, &plan, &err) == SHUNT_OK, "%s", err.text);
    uint64_t keep = schema_verify_keep_bytes, before = bytes_read_so_far();
    schema_verify_keep_bytes = 0;
    CHECK_EQ_U64(shunt_plan_verify(plan, &report, &err), want);
    schema_verify_keep_bytes = keep;
    uint64_t bytes = bytes_read_so_far() - before;
    shunt_plan_close(plan);
    unlink(path);
    return bytes;
}

/* A sound plan is read once; only a wrong one is worth looking at the other end of each message. */
static void reads_each_part_once(void)
{
    struct build *build = build_large(8, 40, 5);
    struct image image = build_encode(build);
    CHECK(image.size > 100000);
    CHECK(verify_file(&image, SHUNT_OK) < image.size + 10000);
    image_finish(&image);
    build_op_at(build, 3, 2)->src_offset += 16;
    image = build_encode(build);
    CHECK(verify_file(&image, SHUNT_ERR_VERIFY) > 2 * image.size);
    image_finish(&image);
    build_destroy(build);
}

/* From the reference implementation's table of vectors: the key is 00 01 .. 0f, the message 00 01 .. */
static void digest_is_siphash(void)
{
    const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    CHECK_EQ_U64(vsip_words(key, NULL, 0), UINT64_C(0x726fdb47dd0e0e31));
    CHECK_EQ_U64(vsip_words(key, key, 1), UINT64_C(0x93f5f5799a932462));
}

/* The sums hold whatever the order, and nothing of a message can be changed unseen. */
static void digest_sees_every_change(void)
{
    const struct shunt_plan_view view = {1, 4, {8, 1, 1, 1, 1, 1}, {4}};
    const struct shunt_plan_buffer buffer = {.tensor = 3, .state = SHUNT_STATE_MASTER, .dtype = SHUNT_DTYPE_FP32};
    const int64_t lo[SHUNT_MAX_DIMS] = {16};
    const struct vdigest_piece first = {0, &view, &buffer, lo}, second = {32, &view, &buffer, lo};
    const struct vdigest_message message = {.from = 1, .to = 2, .round = 3, .bytes = 64};
    for (int change = 0; change < 12; change++) {
        struct shunt_plan_view v = view;
        struct shunt_plan_buffer b = buffer;
        int64_t at[SHUNT_MAX_DIMS] = {16};
        struct vdigest_piece piece = {32, &v, &b, at};
        struct vdigest_message received = message, other = message;
        struct vdigest digest;
        uint64_t *const words[] = {&piece.distance, (uint64_t *)&v.shape[0], (uint64_t *)&at[0], &received.bytes};
        uint32_t *const halves[] = {&v.ndim, &v.elem_bytes, &b.tensor, &received.from, &received.to, &received.round};
        CHECK(vdigest_begin(&digest));
        for (int d = 0; d < 2; d++) { /* each direction in another order */
            struct vdigest_message sent = message, large = {.from = 5, .to = 6, .bytes = 1 << 20};
            vdigest_piece(&digest, &sent, &first);
            vdigest_piece(&digest, &sent, &second);
            if (d == 0)
                vdigest_message(&digest, &sent, SHUNT_SEND);
            vdigest_message(&digest, &large, d == 0 ? SHUNT_SEND : SHUNT_RECV);
        }
        if (change < 4)
            ++*words[change];
        else if (change < 10)
            ++*halves[change - 4];
        else if (change == 10)
            b.dtype++;
        vdigest_piece(&digest, &received, &first);
        vdigest_piece(&digest, &received, &piece);
        vdigest_message(&digest, &received, SHUNT_RECV);
        CHECK_MSG(vdigest_agrees(&digest) == (change == 11), "change %d", change);
        vdigest_piece(&digest, &other, &second);
        vdigest_message(&digest, &other, SHUNT_SEND);
        CHECK(!vdigest_agrees(&digest));
    }
}

/* One holding written by very many small boxes, and one of them twice. */
static void many_boxes_in_one_holding(void)
{
    enum { SIDE = 200 };
    struct build *build = build_create(1, 1, 1);
    struct build_part *part = &build->parts[0];
    build->header.from_rank_count = build->header.to_rank_count = 1;
    build->devices[0].from_rank = build->devices[0].to_rank = 0;
    build_tensor(build, "w", 2, I64(SIDE, SIDE));
    build_buffer(build, 0, 0, SHUNT_STATE_PARAM, SHUNT_DTYPE_U8, SHUNT_SIDE_FROM, 2, I64(SIDE, SIDE), 0);
    build_holding(part, 2, I64(0, 0), I64(SIDE, SIDE), NULL, 0);
    build_buffer(build, 0, 0, SHUNT_STATE_PARAM, SHUNT_DTYPE_U8, SHUNT_SIDE_TO, 2, I64(SIDE, SIDE), 0);
    build_holding(part, 2, I64(0, 0), I64(SIDE, SIDE), NULL, 0);
    uint32_t one = build_view(part, 1, 2, I64(1, 1), NULL);
    for (uint64_t at = 0; at < SIDE * SIDE; at++)
        build_op(part, 0, SHUNT_OP_COPY, 0, one, at, 1, one, at);
    build_account(build);
    struct shunt_err err = {""};
    double begin = seconds_now();
    CHECK(verify_build(build, &err) == SHUNT_OK);
    CHECK(seconds_now() - begin < 5);
    struct shunt_plan_op *op = build_op_at(build, 0, 12345);
    op->src_offset = op->dst_offset = 12346;
    CHECK(verify_build(build, &err) == SHUNT_ERR_VERIFY);
    CHECK(reported(SHUNT_RULE_COVERAGE, "element [61,145] of to:param/w, box [0,200)x[0,200), is written never"));
    build_destroy(build);
}

static const struct test_case cases[] = {
    {"tiny_figures", tiny_figures},
    {"host_buffers_do_not_count", host_buffers_do_not_count},
    {"peers_take_memory", peers_take_memory},
    {"small_devices_have_a_cap_of_their_own", small_devices_have_a_cap_of_their_own},
    {"faults_are_found", faults_are_found},
    {"figures_are_compared", figures_are_compared},
    {"accepts_a_right_statement", accepts_a_right_statement},
    {"faults_of_casts_are_found", faults_of_casts_are_found},
    {"every_other_cast_is_refused", every_other_cast_is_refused},
    {"every_other_origin_is_refused", every_other_origin_is_refused},
    {"accepts_casts", accepts_casts},
    {"accepts_older_versions", accepts_older_versions},
    {"accepts_early_reads_at_depth_1", accepts_early_reads_at_depth_1},
    {"accepts_cut_fills", accepts_cut_fills},
    {"accepts_fill_of_kept_pads", accepts_fill_of_kept_pads},
    {"accepts_overlapping_replicas", accepts_overlapping_replicas},
    {"accepts_depth_1", accepts_depth_1},
    {"accepts_a_plan_without_rounds", accepts_a_plan_without_rounds},
    {"accepts_strided_holdings_of_a_flat_buffer", accepts_strided_holdings_of_a_flat_buffer},
    {"accepts_stored_plans", accepts_stored_plans},
    {"unreadable_part", unreadable_part},
    {"many_problems", many_problems},
    {"long_names", long_names},
    {"rules_have_names", rules_have_names},
    {"large_plan", large_plan},
    {"reads_each_part_once", reads_each_part_once},
    {"digest_is_siphash", digest_is_siphash},
    {"digest_sees_every_change", digest_sees_every_change},
    {"many_boxes_in_one_holding", many_boxes_in_one_holding},
};
TEST_MAIN(cases)
