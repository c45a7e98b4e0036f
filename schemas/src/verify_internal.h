/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_SCHEMAS_VERIFY_INTERNAL_H
#define SHUNT_SCHEMAS_VERIFY_INTERNAL_H

/**
 * Inside the verifier. verify.c reads the parts once and then walks the devices; for each one
 *
 *   verify_buffers.c   holdings, sides, memory and what the device needed from afar
 *   verify_ops.c       every op: what it reads, what it writes, same box
 *   verify_messages.c  staging and the peers
 *   verify_coverage.c  every element of the new side and every pad written once
 *
 * and at the end verify_space.c (no element of a tensor lost) and verify_summary.c (figures).
 * A stage reports every problem it meets and goes on; it returns only "out of memory".
 *
 * Why two staging slots are enough. A device walks its rounds in order. At depth 1 round k+1 packs
 * after round k is done. At depth 2 round k+1 packs while round k is on the wire, into the other
 * slot (round % depth, checked by the reader); round k+2, the next user of round k's slot, packs
 * only after round k has unpacked. So inside one round nothing but that round touches its slot,
 * and it is enough to check that the round's packs, sends and receives are disjoint in it.
 *
 * Why reads see the right bytes. Old-only buffers are never a target, and kept buffers are a target
 * of pad fills only, so both keep their bytes until they are freed. An element of a new buffer is
 * written once and read only in rounds that begin after its write is done (round k reads what rounds
 * up to k - depth wrote). So order inside a round does not matter. Scratch buffers are like new ones in
 * this, but for that they are freed; no side counts what they hold.
 *
 * Why an element is cast once at most. A new buffer says what its elements are made from on the old
 * side. What an op reads is that, or a new buffer made from the same; the casts on the way, those
 * that the source has behind it included, are then counted (verify_ops.c).
 */

#include "shunt/verify.h"
#include "verify_box.h"
#include "verify_region.h"

#define VNONE SHUNT_PLAN_NONE

/** A part and two indices over it, while it is held. */
struct vpart {
    struct shunt_plan_part part;
    const unsigned char *bytes; /* of the part */
    bool readable;              /* it has passed all checks of the reader */
    bool held;                  /* part and indices are there */
    uint32_t newer, older;
    /* Ops of each half round by their offset in staging: packs by target, then the rest; unpacks by source. */
    uint32_t *op_order;
    /* Holdings of each buffer by offset, and the greatest end among those up to here. */
    uint32_t *holding_order;
    uint64_t *holding_reach;
};

/** What the replay adds up, to compare with the summary; sums in bytes stop at UINT64_MAX. */
struct vfigures {
    uint64_t needed_remote, moved, relayed, forwarded, copied, parked, kept, inter_node, intra_node, filled;
    /* of buffers made from another state: what must be sent, and what would have to be, if made from their own */
    uint64_t made_needed, own_needed;
    uint64_t max_send, max_recv, from_max, to_max, peak, host_peak, ops, messages;
    uint32_t max_group_messages, max_peers, rollback_until_round;
};

/** See verify_digest.c. */
struct vdigest {
    bool active;
    bool odd; /* an end of a message says something that another rule objects to */
    uint64_t keys[2][2];
    uint64_t sent[2], received[2]; /* sums modulo 2^128 */
};

struct verifier {
    const struct shunt_plan *plan;
    const struct shunt_plan_header *header;
    const struct shunt_plan_summary *summary;
    struct shunt_verify_report *report;
    struct vpart *parts;
    uint32_t newest, oldest; /* held parts by last use; VNONE: none */
    uint64_t held_bytes;
    bool all_readable;
    enum shunt_status status; /* why the walk cannot go on */
    struct shunt_err err;
    struct vspace *space;
    struct vdigest digest; /* active: messages are compared by digest, and no peer is looked at */
    uint64_t *device_peaks;
    struct vfigures figures;
};

/** Where an op's region lies in the space. */
struct vend {
    uint32_t holding;
    int64_t lo[SHUNT_MAX_DIMS];
};

/** The device under replay. */
struct vreplay {
    struct verifier *v;
    uint32_t device;
    const struct shunt_plan_device *record;
    const struct shunt_plan_part *part;
    uint8_t *sound;       /* per buffer: its holdings are disjoint and nested */
    uint32_t *old_sorted; /* buffers of the old side by (tensor, state); scratch ones are in no list */
    uint32_t old_count;   /* entries of old_sorted */
    uint32_t *new_sorted; /* the same of the new side */
    uint32_t new_count;
    struct vend *targets;    /* per op: what a COPY or UNPACK writes; holding VNONE: nothing that counts */
    uint64_t sent, received; /* payload bytes */
    uint32_t peers;          /* distinct ones */
};

/* ---- verify_report.c */

struct vtext {
    char text[200];
};

/** Add a problem "device D round R: ..."; device and round may be VNONE. */
void vproblem(struct verifier *v, enum shunt_verify_rule rule, uint32_t device, uint32_t round, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/** "[0,64)x[0,768)" */
struct vtext vtext_box(const int64_t *lo, const int64_t *shape, uint32_t ndim);
/** "[3,5]" */
struct vtext vtext_point(const int64_t *point, uint32_t ndim);
/** "to:param/embed.weight"; kept buffers are "kept:" */
struct vtext vtext_buffer(const struct verifier *v, uint32_t device, uint32_t buffer);
/** "old rank 3, new rank -" */
struct vtext vtext_ranks(const struct verifier *v, uint32_t device);

/* ---- verify_parts.c */

/**
 * Most bytes of parts that are held beyond the two at hand, and most bytes of a plan whose messages are
 * compared end by end at once. A test may put another number here.
 */
extern uint64_t schema_verify_keep_bytes;

/** Before the first part is read. False if out of memory. */
bool vparts_open(struct verifier *v);
/**
 * Read the parts of devices [begin, end) in turn; one that does not read is a problem, not an error. `visit` sees those
 * that do.
 */
enum shunt_status vparts_read(struct verifier *v, uint32_t begin, uint32_t end,
                              enum shunt_status (*visit)(struct verifier *v, uint32_t device));

/**
 * Have a readable part and its indices in memory; those of `also` (VNONE: of none), which are, stay.
 *
 * @return false if that failed; v->status and v->err then say why, and nothing is held any more
 */
bool vparts_hold(struct verifier *v, uint32_t device, uint32_t also);
void vparts_drop_all(struct verifier *v);
void vparts_finish(struct verifier *v);

/* ---- verify_digest.c */

/** One end of a message; all members but state and pieces are set before the pieces come. */
struct vdigest_message {
    uint32_t from, to, round;
    uint64_t bytes, pieces, state[2];
};

struct vdigest_piece {
    uint64_t distance; /* from the start of the message */
    const struct shunt_plan_view *view;
    const struct shunt_plan_buffer *buffer; /* which elements: tensor, origin, and the first one */
    const int64_t *lo;
    unsigned dtype; /* in the message */
};

/** False if there are no random numbers. */
bool vdigest_begin(struct vdigest *digest);
void vdigest_piece(struct vdigest *digest, struct vdigest_message *message, const struct vdigest_piece *piece);
/** Add a message whose pieces have all come to the sum of its direction. */
void vdigest_message(struct vdigest *digest, const struct vdigest_message *message, uint32_t direction);
bool vdigest_agrees(const struct vdigest *digest);
/** Add what another one has seen under the same keys. */
void vdigest_merge(struct vdigest *digest, const struct vdigest *other);

/* ---- verify_index.c */

/** Index a part that has been read. False if out of memory. */
bool vindex_part(struct vpart *vp, uint32_t round_count);
void vindex_finish(struct vpart *vp);

/** Staging offset of entry `at` of op_order; UINT64_MAX if that op has none. */
uint64_t vindex_staging_offset(const struct vpart *vp, uint32_t at);
/** First entry of op_order[begin, end) at or behind a staging offset. */
uint32_t vindex_find(const struct vpart *vp, uint32_t begin, uint32_t end, uint64_t offset);

/** Resolve a region of a buffer to the one holding that contains it. Reports nothing. */
bool vindex_resolve(const struct verifier *v, uint32_t device, uint32_t buffer, const struct shunt_plan_view *view,
                    uint64_t offset, struct vend *end_out);

/* ---- stages */

enum shunt_status vbuffers_check(struct vreplay *replay);
enum shunt_status vops_check(struct vreplay *replay);
enum shunt_status vmessages_check(struct vreplay *replay);
enum shunt_status vcoverage_check(struct vreplay *replay);
enum shunt_status vmemory_check(struct vreplay *replay);
enum shunt_status vspace_open(struct verifier *v);
enum shunt_status vspace_add(struct verifier *v, uint32_t device);
enum shunt_status vspace_check(struct verifier *v);
/** Add what another one has seen. */
enum shunt_status vspace_merge(struct verifier *v, const struct verifier *other);
void vspace_close(struct verifier *v);
enum shunt_status vranks_check(struct verifier *v);
void vsummary_check(struct verifier *v);
enum shunt_status vnotes_check(struct verifier *v);

/** What an op reads, or a PACK has read for an UNPACK. */
struct vsource {
    uint32_t device, buffer;
    struct vend end;
    unsigned cast; /* of the pack; SHUNT_CAST_NONE for a copy */
};

/** Report a source and a target that are not the same elements, or not cast as they should. Shapes are the same. */
void vops_compare(struct vreplay *replay, uint32_t round, uint32_t op, const struct vsource *source);

/* ---- verify_shared.c */

/** Read and replay all parts by digest, by so many threads. A failure may have another reason when it is tried again. */
enum shunt_status vshared_replay(struct verifier *v, uint32_t threads,
                                 enum shunt_status (*visit)(struct verifier *v, uint32_t device));

/* ---- small things shared by the stages */

static inline uint64_t vview_bytes(const struct shunt_plan_view *view)
{
    return shunt_plan_view_elements(view) * view->elem_bytes;
}

/** The box [lo, lo + shape) of a view's elements. */
static inline struct vbox vbox_of(const int64_t *lo, const struct shunt_plan_view *view)
{
    struct vbox box;
    for (int d = 0; d < SHUNT_MAX_DIMS; d++) {
        box.lo[d] = lo[d];
        box.hi[d] = lo[d] + view->shape[d];
    }
    return box;
}

static inline struct vbox vbox_of_holding(const struct shunt_plan_part *part, uint32_t holding)
{
    return vbox_of(part->corners[part->holdings[holding].corner].lo, &part->views[part->holdings[holding].view]);
}

static inline uint32_t vtensor_ndim(const struct verifier *v, uint32_t tensor)
{
    return shunt_plan_get_tensor(v->plan, tensor)->ndim;
}

/** Sort what mostly is in order already. */
void vsort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b));

/** Add, and stay at UINT64_MAX from where it would be more. */
static inline void vadd(uint64_t *sum, uint64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = UINT64_MAX;
}

static inline void vmax(uint64_t *most, uint64_t value)
{
    if (value > *most)
        *most = value;
}

#endif
