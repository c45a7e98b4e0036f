/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLAN_FORMAT_H
#define SHUNT_PLAN_FORMAT_H

/**
 * Records of the binary plan, exactly as they lie in the file. Little-endian,
 * fixed width. schemas/plan-format.md is the description; field names agree.
 *
 *   header | section table | STRINGS | SUMMARY | TENSORS | DIMS | DEVICES | PARTS
 *
 * Sections follow each other in the order of their kinds, each starting at the
 * next multiple of SHUNT_PLAN_ALIGN after the one before; gaps are zero. The
 * checksum of a section covers its bytes and the gap behind it, up to the next
 * section.
 *
 * PARTS holds one part per device, in device order, each starting at a multiple
 * of SHUNT_PLAN_ALIGN. A part has its own checksum in its device record, covering
 * the part and the gap behind it (part_bytes includes that gap), and the
 * section's own checksum field is 0: a rank reads the header, the small global
 * sections and its own part, and nothing else.
 */

#include <stddef.h>
#include <stdint.h>

#include "shunt/types.h"

#ifdef __cplusplus
#define SHUNT_STATIC_ASSERT static_assert
extern "C" {
#else
#define SHUNT_STATIC_ASSERT _Static_assert
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "plans are mapped as they are: a little-endian machine is needed"
#endif

#define SHUNT_PLAN_MAGIC         "SHUNTPLN"
#define SHUNT_PLAN_VERSION_MAJOR 1u
#define SHUNT_PLAN_VERSION_MINOR 3u
#define SHUNT_PLAN_ALIGN         64u        /* sections and parts start at multiples of this */
#define SHUNT_PLAN_MESSAGE_ALIGN 16u        /* message offsets and sizes are multiples of this */
#define SHUNT_PLAN_NONE          UINT32_MAX /* "no round", "no rank", "no buffer" */
#define SHUNT_PLAN_DIGEST_BYTES  32u        /* SHA-256 */
#define SHUNT_PLAN_MAX_DEPTH     2u         /* staging slots per device */
#define SHUNT_PLAN_SHORT_BYTES   65536u     /* cap_short counts these */

/** A staging slot in place of a buffer index: SHUNT_PLAN_STAGING + slot. */
#define SHUNT_PLAN_STAGING 0xFFFFFF00u

/* limits that a reader enforces */
#define SHUNT_PLAN_MAX_DEVICES      (1u << 20)
#define SHUNT_PLAN_MAX_ROUNDS       (1u << 20)
#define SHUNT_PLAN_MAX_BUFFER_BYTES (UINT64_C(1) << 46)

enum shunt_plan_section_kind {
    SHUNT_SECTION_STRINGS = 1, /* NUL-terminated UTF-8, the first one empty */
    SHUNT_SECTION_SUMMARY,     /* one shunt_plan_summary */
    SHUNT_SECTION_TENSORS,     /* shunt_plan_tensor */
    SHUNT_SECTION_DIMS,        /* int64_t, global logical shapes */
    SHUNT_SECTION_DEVICES,     /* shunt_plan_device */
    SHUNT_SECTION_PARTS,       /* per-device parts; crc32c is 0, see above */
    SHUNT_SECTION_END
};
#define SHUNT_PLAN_SECTION_COUNT 6u

struct shunt_plan_header {
    char magic[8];
    uint32_t version_major;
    uint32_t version_minor;
    uint32_t header_bytes;  /* 256 */
    uint32_t header_crc32c; /* over the header with this field zero */
    uint64_t file_bytes;
    uint8_t plan_id[SHUNT_PLAN_DIGEST_BYTES]; /* SHA-256 of the file with plan_id and header_crc32c zero */
    uint8_t model_digest[SHUNT_PLAN_DIGEST_BYTES];
    uint8_t from_digest[SHUNT_PLAN_DIGEST_BYTES];
    uint8_t to_digest[SHUNT_PLAN_DIGEST_BYTES];
    uint8_t cluster_digest[SHUNT_PLAN_DIGEST_BYTES];
    uint32_t device_count;
    uint32_t from_rank_count;
    uint32_t to_rank_count;
    uint32_t round_count;
    uint32_t overlap_depth; /* 1: pack k+1 after round k; 2: pack k+1 while round k is on the wire */
    uint32_t section_count; /* SHUNT_PLAN_SECTION_COUNT */
    uint32_t section_table_crc32c;
    uint8_t reserved[36]; /* zero; reject otherwise */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_header) == 256, "header size");

struct shunt_plan_section {
    uint32_t kind;
    uint32_t crc32c;       /* over bytes and the gap behind; 0 for PARTS */
    uint64_t offset;       /* from the start of the file */
    uint64_t bytes;        /* without the gap */
    uint32_t record_bytes; /* size of one record; 1 for STRINGS and PARTS */
    uint32_t reserved;     /* zero */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_section) == 32, "section size");

/**
 * Figures. Bytes are payload, without message padding. Seconds are model times on the cluster.
 * Versions before 1.2 end before `saved`, version 1.2 ends before `host_peak`: what they lack reads as 0.
 */
struct shunt_plan_summary {
    uint32_t model, from, to, cluster;      /* string offsets: names */
    uint32_t method, solver, solver_status; /* string offsets */
    uint32_t placement; /* string offset: how new ranks came to their devices; 0 before version 1.3 */
    uint64_t needed_remote, moved, relayed, local, kept, inter_node, intra_node, filled;
    uint64_t inter_node_lower_bound, max_send, max_recv;
    double predicted_seconds, lower_bound_seconds, lower_bound_rounds_seconds;
    uint64_t cap, peak, peak_lower_bound, least_cap, staging, from_max, to_max;
    uint64_t reserve, transport; /* per device, inside cap and peak */
    uint32_t peak_device;
    uint32_t max_group_messages;   /* most messages (sends + receives) of one device in one round */
    uint32_t max_peers;            /* most distinct peers of one device in the whole plan */
    uint32_t rollback_until_round; /* first round whose frees or fills touch the old side; round_count if none */
    uint32_t replicas_checked;     /* 1 if copies were compared bytewise, which a compiler cannot do: 0 */
    uint32_t state_notes;          /* string offset: what becomes of the state beside the tensors; 0 in version 1.0 */
    uint64_t ops;                  /* op records of all parts, plus allocs and frees */
    uint64_t saved;                /* not sent, because devices make it from another state that they have */
    uint64_t host_peak;            /* most bytes of scratch buffers live in the host memory of one device at once */
    uint64_t parked;               /* bytes copied into scratch buffers, in local */
    uint64_t transport_per_peer;   /* bytes for each distinct peer of a device, beside transport */
    uint64_t forwarded;            /* sent out of buffers of the new side, in moved */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_summary) == 288, "summary size");
#define SHUNT_PLAN_SUMMARY_BYTES_1_1 248u
#define SHUNT_PLAN_SUMMARY_BYTES_1_2 256u

struct shunt_plan_tensor {
    uint32_t name;     /* string offset: global name */
    uint32_t ndim;     /* 1..SHUNT_MAX_DIMS */
    uint64_t dims;     /* index of the first extent in DIMS */
    uint64_t elements; /* product of the extents */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_tensor) == 24, "tensor size");

struct shunt_plan_device {
    uint32_t id;          /* the device's number in the cluster; ascending */
    uint32_t node;        /* devices are numbered node by node */
    uint32_t from_rank;   /* SHUNT_PLAN_NONE: no old rank here */
    uint32_t to_rank;     /* SHUNT_PLAN_NONE: no new rank here */
    uint64_t part_offset; /* from the start of the file */
    uint64_t part_bytes;  /* with the gap behind */
    uint32_t part_crc32c;
    uint32_t cap_short;  /* its cap is so many times SHUNT_PLAN_SHORT_BYTES below `cap`; 0 before version 1.3 */
    uint64_t from_bytes; /* buffers of the old side in device memory, kept ones included */
    uint64_t to_bytes;   /* buffers of the new side in device memory, kept ones included */
    uint64_t peak_bytes; /* most bytes live at once, reserve and transport included */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_device) == 64, "device size");

/**
 * Start of a part. Tables follow in this order, each at the next multiple of 8:
 * buffers, holdings, views, corners, rounds (round_count + 1), ops, messages.
 */
struct shunt_plan_part_header {
    uint32_t device; /* index in DEVICES */
    uint32_t buffer_count;
    uint32_t holding_count;
    uint32_t view_count;
    uint32_t corner_count;
    uint32_t op_count;
    uint32_t message_count;
    uint32_t reserved;                            /* zero */
    uint64_t staging_bytes[SHUNT_PLAN_MAX_DEPTH]; /* size of each slot; multiples of 16; slot 1 is 0 at depth 1 */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_part_header) == 48, "part header size");

enum shunt_plan_side {
    SHUNT_SIDE_FROM = 0,    /* old side only: exists at the start, freed at the end of free_round */
    SHUNT_SIDE_TO = 1,      /* new side only: allocated at the start of alloc_round */
    SHUNT_SIDE_BOTH = 2,    /* kept: the same memory serves both sides; never allocated nor freed */
    SHUNT_SIDE_SCRATCH = 3, /* neither: allocated at the start of alloc_round, freed at the end of free_round */
};
enum shunt_plan_tier { SHUNT_TIER_DEVICE = 0, SHUNT_TIER_HOST = 1 };

/** One buffer = one tensor and state of one rank. Its binding name is "STATE/TENSOR". */
struct shunt_plan_buffer {
    uint32_t tensor; /* index in TENSORS */
    uint8_t state;   /* enum shunt_state */
    uint8_t dtype;   /* enum shunt_dtype */
    uint8_t side;    /* enum shunt_plan_side */
    uint8_t tier;    /* enum shunt_plan_tier */
    uint64_t bytes;
    uint32_t view;          /* local shape, pads included, dense row-major: elements as the framework sees them */
    uint32_t holding_begin; /* holdings [begin, begin + count) are this buffer's, disjoint; each begins where the one
                               of the buffer before ends, so that every holding has one buffer */
    uint32_t holding_count;
    uint32_t alloc_round; /* SHUNT_PLAN_NONE unless side is TO or SCRATCH */
    uint32_t free_round;  /* SHUNT_PLAN_NONE unless side is FROM or SCRATCH */
    /* what its elements are made from on the old side; 0: the buffer's own state, its own dtype. Only if side is TO
       or SCRATCH */
    uint8_t origin_state; /* 1 + enum shunt_state: master for a param, param for a master */
    uint8_t origin_dtype; /* 1 + enum shunt_dtype */
    uint8_t reserved[2];  /* zero */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_buffer) == 40, "buffer size");

/** A box of the space and where it lies in the buffer: element (lo + i) at offset + sum i_d * stride_d. */
struct shunt_plan_holding {
    uint32_t view;   /* shape of the box and byte strides; ndim of the tensor */
    uint32_t corner; /* lo of the box, global indices */
    uint64_t offset; /* bytes inside the buffer */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_holding) == 16, "holding size");

/** Shape and strides, interned per part. Unused dimensions: shape 1, stride 0. */
struct shunt_plan_view {
    uint32_t ndim;                  /* 1..SHUNT_MAX_DIMS, outermost first */
    uint32_t elem_bytes;            /* 1, 2, 4 or 8 */
    int64_t shape[SHUNT_MAX_DIMS];  /* elements, >= 1 */
    int64_t stride[SHUNT_MAX_DIMS]; /* bytes, >= 0 */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_view) == 104, "view size");

struct shunt_plan_corner {
    int64_t lo[SHUNT_MAX_DIMS]; /* unused dimensions: 0 */
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_corner) == 48, "corner size");

/**
 * Round k on this device: ops [op_begin, unpack_begin) before the group, messages
 * [message_begin, next.message_begin) in the group, ops [unpack_begin, next.op_begin)
 * after it. The table has a sentinel record at index round_count whose *_begin are
 * the counts and whose live_bytes is what is live after the last frees: the new side,
 * both staging slots, transport and reserve.
 *
 * live_bytes is the most that is live during round k: everything allocated in
 * rounds <= k, but for what was freed in rounds <= k - overlap_depth, both staging
 * slots, transport and reserve. Of the buffers, those in device memory count.
 */
struct shunt_plan_round {
    uint32_t op_begin;
    uint32_t unpack_begin;
    uint32_t message_begin;
    uint32_t reserved; /* zero */
    uint64_t live_bytes;
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_round) == 24, "round size");

enum shunt_plan_op_kind {
    SHUNT_OP_COPY = 1,   /* buffer -> buffer, before the group */
    SHUNT_OP_PACK = 2,   /* buffer -> staging slot of this round, before the group */
    SHUNT_OP_FILL = 3,   /* zeros -> buffer, before the group */
    SHUNT_OP_UNPACK = 4, /* staging slot of this round -> buffer, after the group */
};

/** What an op does to each element. Over the network goes the narrower form: a pack only narrows, an unpack only widens. */
enum shunt_plan_cast {
    SHUNT_CAST_NONE = 0,
    SHUNT_CAST_FP32_BF16 = 1, /* to nearest, ties to even; a NaN stays one, made quiet */
    SHUNT_CAST_BF16_FP32 = 2, /* exact */
};

/**
 * A strided copy of one box. src_view and dst_view have the same shape and, but for a cast, element size.
 * A staging side is dense row-major (its view says so) at a multiple of 16.
 * FILL has no source: src_buffer is SHUNT_PLAN_NONE, src_view and src_offset 0.
 */
struct shunt_plan_op {
    uint8_t kind;
    uint8_t cast;         /* enum shunt_plan_cast */
    uint8_t reserved0[2]; /* zero */
    uint32_t src_buffer;  /* buffer of this part, or SHUNT_PLAN_STAGING + slot */
    uint32_t dst_buffer;
    uint32_t src_view;
    uint32_t dst_view;
    uint32_t reserved1; /* zero */
    uint64_t src_offset;
    uint64_t dst_offset;
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_op) == 40, "op size");

enum shunt_plan_direction { SHUNT_SEND = 0, SHUNT_RECV = 1 };

/**
 * One message of a group. At most one per peer and direction in a round. Messages of a
 * round are sorted by (direction, peer). offset and bytes are multiples of 16.
 */
struct shunt_plan_message {
    uint32_t peer; /* index in DEVICES */
    uint32_t direction;
    uint32_t buffer;   /* SHUNT_PLAN_STAGING + slot */
    uint32_t reserved; /* zero */
    uint64_t offset;
    uint64_t bytes;
};
SHUNT_STATIC_ASSERT(sizeof(struct shunt_plan_message) == 32, "message size");

#ifdef __cplusplus
}
#endif
#endif
