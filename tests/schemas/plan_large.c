/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "plan_builder.h"

#define I64(...) ((const int64_t[]){__VA_ARGS__})

enum {
    CHUNK = 8,  /* rows per device */
    COLS = 16,  /* bf16 */
    PITCH = 32, /* bytes of a row */
    PIECE = 64, /* bytes of 4 rows of 8 columns */
};

/* Old and new buffer of a tensor on a device; the last device's new rows wrap around to row 0. */
static void add_buffers(struct build *build, uint32_t device, uint32_t tensor, uint32_t round)
{
    struct build_part *part = &build->parts[device];
    int64_t first = (int64_t)device * CHUNK, half = CHUNK / 2;
    bool last = device + 1 == build->header.device_count;
    build_buffer(build, device, tensor, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_SIDE_FROM, 2, I64(CHUNK, COLS),
                 round);
    build_holding(part, 2, I64(first, 0), I64(CHUNK, COLS), NULL, 0);
    build_buffer(build, device, tensor, SHUNT_STATE_PARAM, SHUNT_DTYPE_BF16, SHUNT_SIDE_TO, 2, I64(CHUNK, COLS), round);
    build_holding(part, 2, I64(first + half, 0), I64(last ? half : CHUNK, COLS), NULL, 0);
    if (last)
        build_holding(part, 2, I64(0, 0), I64(half, COLS), NULL, (uint64_t)half * PITCH);
}

/* One copy, two packs for the device before, two unpacks from the device behind, at byte `at` of both messages. */
static void add_ops(struct build *build, uint32_t device, uint32_t tensor, uint32_t round, uint64_t at)
{
    struct build_part *part = &build->parts[device];
    uint32_t old = 2 * tensor, new = old + 1, slot = SHUNT_PLAN_STAGING + round % build->header.overlap_depth;
    uint32_t half = build_view(part, 2, 2, I64(CHUNK / 2, COLS), NULL);
    uint32_t strided = build_view(part, 2, 2, I64(4, 8), I64(PITCH, 2)),
             dense = build_view(part, 2, 2, I64(4, 8), NULL);
    uint64_t half_bytes = CHUNK / 2 * PITCH, recv = part->staging_bytes[0] / 2 + at;
    build_op(part, round, SHUNT_OP_COPY, old, half, half_bytes, new, half, 0);
    for (uint64_t i = 0; i < 2; i++) {
        build_op(part, round, SHUNT_OP_PACK, old, strided, i * 16, slot, dense, at + i * PIECE);
        build_op(part, round, SHUNT_OP_UNPACK, slot, dense, recv + i * PIECE, new, strided, half_bytes + i * 16);
    }
}

static void add_messages(struct build *build, uint32_t device, uint32_t round, uint64_t bytes)
{
    uint32_t count = build->header.device_count;
    build_message(build, device, round, SHUNT_SEND, (device + count - 1) % count, 0, bytes);
    build_message(build, device, round, SHUNT_RECV, (device + 1) % count, build->parts[device].staging_bytes[0] / 2,
                  bytes);
}

struct build *build_large(uint32_t devices, uint32_t tensors, uint32_t rounds)
{
    struct build *build = build_create(devices, rounds, 2);
    uint64_t slot = ((uint64_t)tensors / rounds + 1) * 2 * PIECE * 2;
    build->header.from_rank_count = build->header.to_rank_count = devices;
    for (uint32_t d = 0; d < devices; d++) {
        build->devices[d].from_rank = build->devices[d].to_rank = d;
        build->devices[d].node = d / 8;
        build->parts[d].staging_bytes[0] = build->parts[d].staging_bytes[1] = slot;
    }
    for (uint32_t t = 0; t < tensors; t++) {
        char name[32];
        snprintf(name, sizeof(name), "layers.%u.weight", t);
        build_tensor(build, name, 2, I64((int64_t)devices * CHUNK, COLS));
    }
    for (uint32_t d = 0; d < devices; d++) {
        for (uint32_t t = 0, round = 0, in_round = 0; t < tensors; t++, in_round++) {
            if ((uint64_t)t * rounds / tensors != round) {
                add_messages(build, d, round, in_round * 2 * PIECE);
                round = (uint32_t)((uint64_t)t * rounds / tensors);
                in_round = 0;
            }
            add_buffers(build, d, t, round);
            add_ops(build, d, t, round, in_round * 2 * PIECE);
            if (t + 1 == tensors)
                add_messages(build, d, round, (in_round + 1) * 2 * PIECE);
        }
    }
    build_account(build);
    return build;
}
