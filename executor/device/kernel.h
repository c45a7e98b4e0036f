/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_KERNEL_H
#define SHUNT_EXECUTOR_KERNEL_H

/**
 * The one kernel of the CUDA device: strided copies, casts and zeros, described by tables in device memory.
 * Plain C, so that the double of CUDA runs the same lines; no shared memory, no barriers, nothing that depends
 * on how lanes are scheduled.
 *
 * A box is `rows` rows of `row_vectors` vectors. A vector is what a lane moves at once, and is contiguous on both
 * sides; a row is contiguous on both sides too, and rows lie where up to KERNEL_MAX_DIMS strides put them.
 * Boxes are cut into tiles of about KERNEL_TILE_VECTORS vectors, so that one large box and a thousand small
 * ones fill the machine alike:
 *
 *     rows of up to a tile    |rrrr|rrrr|rr  |     tile_rows whole rows in each tile
 *     longer rows             |r...|....|..| |     row_tiles tiles in each row; tile_rows is 0
 *
 * Vectors of 16 bytes where addresses, strides and rows are multiples of 16, else of 8, 4, 2 or 1. What the
 * caller's memory is not aligned to, though the plan's offsets are, is found per tile and moved by bytes.
 */

#include "device/bf16.h"

#define KERNEL_MAX_DIMS     6
#define KERNEL_TILE_VECTORS 2048u
#define KERNEL_LANES        256u
#define KERNEL_NAME         "shunt_move"

#ifdef __CUDACC__
#define KERNEL_ROLLED _Pragma("unroll 1") /* unrolled, the loops over dimensions would be most of the code */
#define KERNEL_APART  static __device__ __noinline__
#else
#define KERNEL_ROLLED
#define KERNEL_APART static inline
#endif

enum kernel_kind {
    KERNEL_COPY = 0, /* vectors of 1, 2, 4, 8 or 16 bytes */
    KERNEL_ZERO,     /* the same, without a source */
    KERNEL_NARROW,   /* fp32 to bf16: vectors of 1 or 4 elements */
    KERNEL_WIDEN,    /* bf16 to fp32: vectors of 1 or 4 elements */
};

/** For quotients by a number that is known beforehand: n / d = high 64 bits of n * magic, where n < 2^32 and d > 1. */
struct kernel_divisor {
    uint64_t magic;
    uint32_t number, unused;
};

struct kernel_dim {
    struct kernel_divisor extent;
    uint64_t dst_stride, src_stride;
};

struct kernel_box {
    uint32_t dst_base, src_base; /* places in the table of bases */
    uint64_t dst_offset, src_offset;
    uint32_t kind;                 /* enum kernel_kind */
    uint32_t dst_bytes, src_bytes; /* of a vector */
    uint32_t rows;
    uint64_t row_vectors;
    struct kernel_divisor short_row; /* row_vectors, when tile_rows is not 0 */
    uint32_t tile_rows, row_tiles;
    uint32_t ndim, unused;
    struct kernel_dim dims[KERNEL_MAX_DIMS]; /* of the rows, innermost first */
};

struct kernel_tile {
    uint32_t box, index;
};

/** The kernel's argument. Pointers are device memory. */
struct kernel_args {
    const struct kernel_box *boxes;
    const struct kernel_tile *tiles;
    const uint64_t *bases; /* addresses */
    uint32_t tile_begin, tile_count;
};

/** What a lane moves at once. Aligned to its size, and allowed to alias anything. */
typedef struct __attribute__((aligned(16), may_alias)) {
    uint32_t part[4];
} kernel_16;
typedef struct __attribute__((aligned(8), may_alias)) {
    uint32_t part[2];
} kernel_8;
typedef uint32_t __attribute__((may_alias)) kernel_4;
typedef uint16_t __attribute__((may_alias)) kernel_2;
typedef uint8_t kernel_1;

struct kernel_at {
    uint64_t dst, src; /* bytes from the sides' starts */
};

/** One tile of one box, and where both sides start. */
struct kernel_span {
    const struct kernel_box *box;
    char *dst;
    const char *src;
    uint32_t first_row;
    uint32_t count; /* vectors */
};

SHUNT_KERNEL uint32_t kernel_divide(uint32_t n, struct kernel_divisor by)
{
    if (by.number == 1)
        return n;
    uint64_t low = (uint64_t)n * (uint32_t)by.magic, high = (uint64_t)n * (by.magic >> 32);
    return (uint32_t)((high + (low >> 32)) >> 32);
}

/** Where a row starts. */
SHUNT_KERNEL struct kernel_at kernel_row(const struct kernel_box *box, uint32_t row)
{
    struct kernel_at at = {box->dst_offset, box->src_offset};
    KERNEL_ROLLED
    for (uint32_t d = 0; d < box->ndim; d++) {
        const struct kernel_dim *dim = &box->dims[d];
        uint32_t above = d + 1 == box->ndim ? 0 : kernel_divide(row, dim->extent);
        uint32_t index = row - above * dim->extent.number;
        at.dst += index * dim->dst_stride;
        at.src += index * dim->src_stride;
        row = above;
    }
    return at;
}

/** Where the i-th vector of a span lies. */
SHUNT_KERNEL struct kernel_at kernel_vector(const struct kernel_span *span, uint32_t i)
{
    const struct kernel_box *box = span->box;
    struct kernel_at at = {0, 0};
    if (box->tile_rows != 0) {
        uint32_t row = kernel_divide(i, box->short_row);
        i -= row * box->short_row.number;
        at = kernel_row(box, span->first_row + row);
    }
    at.dst += (uint64_t)i * box->dst_bytes;
    at.src += (uint64_t)i * box->src_bytes;
    return at;
}

/** dst and src are the sides' bases. */
SHUNT_KERNEL struct kernel_span kernel_span_of(const struct kernel_box *box, uint32_t index, char *dst, const char *src)
{
    struct kernel_span span = {box, dst, src, 0, 0};
    if (box->tile_rows != 0) {
        span.first_row = index * box->tile_rows;
        uint32_t rows = box->rows - span.first_row;
        rows = rows < box->tile_rows ? rows : box->tile_rows;
        span.count = rows * box->short_row.number;
        return span;
    }
    uint32_t row = index / box->row_tiles;
    uint64_t first = (uint64_t)(index - row * box->row_tiles) * KERNEL_TILE_VECTORS;
    uint64_t left = box->row_vectors - first;
    struct kernel_at at = kernel_row(box, row);
    span.count = left < KERNEL_TILE_VECTORS ? (uint32_t)left : KERNEL_TILE_VECTORS;
    span.dst += at.dst + first * box->dst_bytes;
    span.src += at.src + first * box->src_bytes;
    return span;
}

SHUNT_KERNEL kernel_8 kernel_narrow(kernel_16 wide)
{
    kernel_8 narrow;
    narrow.part[0] = cast_to_bf16(wide.part[0]) | (uint32_t)cast_to_bf16(wide.part[1]) << 16;
    narrow.part[1] = cast_to_bf16(wide.part[2]) | (uint32_t)cast_to_bf16(wide.part[3]) << 16;
    return narrow;
}

SHUNT_KERNEL kernel_16 kernel_widen(kernel_8 narrow)
{
    kernel_16 wide;
    wide.part[0] = narrow.part[0] << 16;
    wide.part[1] = narrow.part[0] & UINT32_C(0xFFFF0000);
    wide.part[2] = narrow.part[1] << 16;
    wide.part[3] = narrow.part[1] & UINT32_C(0xFFFF0000);
    return wide;
}

/* Four loads in flight before the first store. */
#define KERNEL_LOOP(from, to, convert)                                                                                 \
    do {                                                                                                               \
        uint32_t i = lane;                                                                                             \
        KERNEL_ROLLED                                                                                                  \
        for (; i + 3 * lanes < span->count; i += 4 * lanes) {                                                          \
            struct kernel_at a = kernel_vector(span, i), b = kernel_vector(span, i + lanes);                           \
            struct kernel_at c = kernel_vector(span, i + 2 * lanes), d = kernel_vector(span, i + 3 * lanes);           \
            from va = *(const from *)(span->src + a.src), vb = *(const from *)(span->src + b.src);                     \
            from vc = *(const from *)(span->src + c.src), vd = *(const from *)(span->src + d.src);                     \
            *(to *)(span->dst + a.dst) = convert(va);                                                                  \
            *(to *)(span->dst + b.dst) = convert(vb);                                                                  \
            *(to *)(span->dst + c.dst) = convert(vc);                                                                  \
            *(to *)(span->dst + d.dst) = convert(vd);                                                                  \
        }                                                                                                              \
        KERNEL_ROLLED                                                                                                  \
        for (; i < span->count; i += lanes) {                                                                          \
            struct kernel_at a = kernel_vector(span, i);                                                               \
            *(to *)(span->dst + a.dst) = convert(*(const from *)(span->src + a.src));                                  \
        }                                                                                                              \
    } while (0)

#define KERNEL_ZERO_LOOP(to)                                                                                           \
    do {                                                                                                               \
        const to zero = {0};                                                                                           \
        KERNEL_ROLLED                                                                                                  \
        for (uint32_t i = lane; i < span->count; i += lanes)                                                           \
            *(to *)(span->dst + kernel_vector(span, i).dst) = zero;                                                    \
    } while (0)

#define KERNEL_AS_IT_IS(value) (value)

SHUNT_KERNEL void kernel_copy(const struct kernel_span *span, uint32_t lane, uint32_t lanes)
{
    switch (span->box->dst_bytes) {
    case 16:
        KERNEL_LOOP(kernel_16, kernel_16, KERNEL_AS_IT_IS);
        break;
    case 8:
        KERNEL_LOOP(kernel_8, kernel_8, KERNEL_AS_IT_IS);
        break;
    case 4:
        KERNEL_LOOP(kernel_4, kernel_4, KERNEL_AS_IT_IS);
        break;
    case 2:
        KERNEL_LOOP(kernel_2, kernel_2, KERNEL_AS_IT_IS);
        break;
    default:
        KERNEL_LOOP(kernel_1, kernel_1, KERNEL_AS_IT_IS);
    }
}

SHUNT_KERNEL void kernel_zero(const struct kernel_span *span, uint32_t lane, uint32_t lanes)
{
    switch (span->box->dst_bytes) {
    case 16:
        KERNEL_ZERO_LOOP(kernel_16);
        break;
    case 8:
        KERNEL_ZERO_LOOP(kernel_8);
        break;
    case 4:
        KERNEL_ZERO_LOOP(kernel_4);
        break;
    case 2:
        KERNEL_ZERO_LOOP(kernel_2);
        break;
    default:
        KERNEL_ZERO_LOOP(kernel_1);
    }
}

/* An element of a cast, of sides that are not aligned. */
SHUNT_KERNEL void kernel_cast_bytes(uint32_t kind, unsigned char *dst, const unsigned char *src)
{
    if (kind == KERNEL_NARROW) {
        uint16_t narrow =
            cast_to_bf16((uint32_t)src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16 | (uint32_t)src[3] << 24);
        dst[0] = (unsigned char)narrow;
        dst[1] = (unsigned char)(narrow >> 8);
        return;
    }
    dst[0] = dst[1] = 0;
    dst[2] = src[0];
    dst[3] = src[1];
}

SHUNT_KERNEL void kernel_move_bytes(const struct kernel_box *box, unsigned char *dst, const unsigned char *src)
{
    uint32_t to = box->kind == KERNEL_NARROW ? 2 : 4, from = 6 - to;
    if (box->kind == KERNEL_NARROW || box->kind == KERNEL_WIDEN) {
        KERNEL_ROLLED
        for (uint32_t e = 0; e * to < box->dst_bytes; e++)
            kernel_cast_bytes(box->kind, dst + e * to, src + e * from);
        return;
    }
    KERNEL_ROLLED
    for (uint32_t i = 0; i < box->dst_bytes; i++)
        dst[i] = box->kind == KERNEL_ZERO ? 0 : src[i];
}

/* By value: a span that others point at would live in memory instead of registers. */
KERNEL_APART void kernel_move_unaligned(struct kernel_span span, uint32_t lane, uint32_t lanes)
{
    KERNEL_ROLLED
    for (uint32_t i = lane; i < span.count; i += lanes) {
        struct kernel_at at = kernel_vector(&span, i);
        kernel_move_bytes(span.box, (unsigned char *)span.dst + at.dst, (const unsigned char *)span.src + at.src);
    }
}

SHUNT_KERNEL int kernel_is_aligned(const struct kernel_box *box, const char *dst, const char *src)
{
    if (((uintptr_t)dst & (box->dst_bytes - 1)) != 0)
        return 0;
    return box->kind == KERNEL_ZERO || ((uintptr_t)src & (box->src_bytes - 1)) == 0;
}

/** What lane `lane` of `lanes` does of a tile. dst and src are the sides' bases. */
SHUNT_KERNEL void kernel_move(const struct kernel_box *box, uint32_t index, char *dst, const char *src, uint32_t lane,
                              uint32_t lanes)
{
    struct kernel_span whole = kernel_span_of(box, index, dst, src);
    const struct kernel_span *span = &whole;
    if (!kernel_is_aligned(box, dst, src))
        kernel_move_unaligned(whole, lane, lanes);
    else if (box->kind == KERNEL_COPY)
        kernel_copy(span, lane, lanes);
    else if (box->kind == KERNEL_ZERO)
        kernel_zero(span, lane, lanes);
    else if (box->kind == KERNEL_NARROW && box->dst_bytes == 8)
        KERNEL_LOOP(kernel_16, kernel_8, kernel_narrow);
    else if (box->kind == KERNEL_NARROW)
        KERNEL_LOOP(kernel_4, kernel_2, cast_to_bf16);
    else if (box->dst_bytes == 16)
        KERNEL_LOOP(kernel_8, kernel_16, kernel_widen);
    else
        KERNEL_LOOP(kernel_2, kernel_4, cast_to_fp32);
}

#endif
