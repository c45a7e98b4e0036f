/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Staging and messages of one device, round by round. Each piece in a slot has the same distance
 * from the start of its message at both ends, so pairing the sender's packs with the receiver's
 * unpacks is one walk over two lists sorted by offset:
 *
 *     sender's slot     |  pack A  | pack B |        receiver's slot  .. |  unpack A  | unpack B |
 *                       ^ send.offset                                    ^ recv.offset
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "verify_internal.h"

struct span {
    uint64_t begin, end; /* bytes of the slot */
    const struct shunt_plan_message *message;
};

/* One round of the device under replay. */
struct round_check {
    struct vreplay *replay;
    struct verifier *v;
    uint32_t device, round;
    const struct vpart *vp;
    const struct shunt_plan_message *messages;
    uint32_t message_count;
    struct span *spans; /* the messages by offset */
};

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->message > y->message) - (x->message < y->message);
}

static const char *direction_name(const struct shunt_plan_message *message)
{
    return message->direction == SHUNT_SEND ? "send to" : "receive from";
}

/* Everything of a group is in flight at once, so no two of its messages may share bytes. */
static void check_apart(struct round_check *check)
{
    for (uint32_t i = 0; i < check->message_count; i++) {
        const struct shunt_plan_message *message = &check->messages[i];
        check->spans[i] = (struct span){message->offset, message->offset + message->bytes, message};
    }
    vsort(check->spans, check->message_count, sizeof(*check->spans), compare_spans);
    const struct span *reach = check->spans; /* the one that ends last so far */
    for (uint32_t i = 1; i < check->message_count; i++) {
        const struct span *span = &check->spans[i];
        if (span->begin < reach->end)
            vproblem(check->v, SHUNT_RULE_STAGING, check->device, check->round,
                     "%s device %" PRIu32 " and %s device %" PRIu32 " share staging bytes [%" PRIu64 ",%" PRIu64 ")",
                     direction_name(reach->message), reach->message->peer, direction_name(span->message),
                     span->message->peer, span->begin, span->end < reach->end ? span->end : reach->end);
        if (span->end > reach->end)
            reach = span;
    }
}

/* ---- pieces inside messages ----------------------------------------------------- */

static const struct shunt_plan_op *op_at(const struct vpart *vp, uint32_t at)
{
    return &vp->part.ops[vp->op_order[at]];
}

/* The view of a piece in its slot. */
static const struct shunt_plan_view *piece_view(const struct vpart *vp, uint32_t at)
{
    const struct shunt_plan_op *op = op_at(vp, at);
    return &vp->part.views[op->kind == SHUNT_OP_UNPACK ? op->src_view : op->dst_view];
}

static uint64_t piece_bytes(const struct vpart *vp, uint32_t at)
{
    return vview_bytes(piece_view(vp, at));
}

/* Each piece of a half round must lie inside one message of a direction; packs also apart from each other. */
static void check_pieces(struct round_check *check, uint32_t begin, uint32_t end, uint32_t direction)
{
    bool packs = direction == SHUNT_SEND;
    uint64_t reach = 0;
    uint32_t m = 0;
    for (uint32_t at = begin; at < end; at++) {
        uint64_t lo = vindex_staging_offset(check->vp, at);
        if (lo == UINT64_MAX)
            break;
        uint64_t hi = lo + piece_bytes(check->vp, at);
        while (m < check->message_count &&
               (check->spans[m].end <= lo || check->spans[m].message->direction != direction))
            m++;
        if (m == check->message_count || lo < check->spans[m].begin || hi > check->spans[m].end)
            vproblem(check->v, packs ? SHUNT_RULE_STAGING : SHUNT_RULE_SOURCE, check->device, check->round,
                     "%s staging bytes [%" PRIu64 ",%" PRIu64 "), which are not inside one %s",
                     packs ? "pack writes" : "unpack reads", lo, hi, packs ? "send" : "receive");
        if (packs && lo < reach)
            vproblem(check->v, SHUNT_RULE_STAGING, check->device, check->round,
                     "two packs write staging bytes [%" PRIu64 ",%" PRIu64 ")", lo, hi < reach ? hi : reach);
        vmax(&reach, hi);
    }
}

/* ---- pairs ---------------------------------------------------------------------- */

/* The messages of a device in a round. */
static const struct shunt_plan_message *messages_of(const struct verifier *v, uint32_t device, uint32_t round,
                                                    uint32_t *count_out)
{
    const struct shunt_plan_part *part = &v->parts[device].part;
    *count_out = part->rounds[round + 1].message_begin - part->rounds[round].message_begin;
    return &part->messages[part->rounds[round].message_begin];
}

/* The message of `device` in this round to or from `peer`, or NULL. They are sorted by (direction, peer). */
static const struct shunt_plan_message *find_message(const struct round_check *check, uint32_t device,
                                                     uint32_t direction, uint32_t peer)
{
    uint32_t begin = 0, end = 0;
    const struct shunt_plan_message *messages = messages_of(check->v, device, check->round, &end);
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        const struct shunt_plan_message *message = &messages[middle];
        if (message->direction == direction && message->peer == peer)
            return message;
        if (message->direction < direction || (message->direction == direction && message->peer < peer))
            begin = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

/* Pieces of one message at one end, in order of offset. */
struct pieces {
    const struct vpart *vp;
    uint32_t device, at, end;
    uint64_t base, limit; /* bytes of the message in the slot */
};

static struct pieces pieces_of(const struct verifier *v, uint32_t device, uint32_t round,
                               const struct shunt_plan_message *message)
{
    const struct vpart *vp = &v->parts[device];
    const struct shunt_plan_round *record = &vp->part.rounds[round];
    bool packs = message->direction == SHUNT_SEND;
    uint32_t begin = packs ? record->op_begin : record->unpack_begin;
    uint32_t end = packs ? record->unpack_begin : record[1].op_begin;
    return (struct pieces){.vp = vp,
                           .device = device,
                           .at = vindex_find(vp, begin, end, message->offset),
                           .end = end,
                           .base = message->offset,
                           .limit = message->offset + message->bytes};
}

/* Distance of the next piece from the start of the message; UINT64_MAX when there is none left. */
static uint64_t next_distance(const struct pieces *pieces)
{
    if (pieces->at == pieces->end)
        return UINT64_MAX;
    uint64_t offset = vindex_staging_offset(pieces->vp, pieces->at);
    return offset < pieces->limit ? offset - pieces->base : UINT64_MAX;
}

static struct vtext piece_text(const struct pieces *pieces)
{
    static const int64_t origin[SHUNT_MAX_DIMS];
    const struct shunt_plan_view *view = piece_view(pieces->vp, pieces->at);
    return vtext_box(origin, view->shape, view->ndim);
}

static void report_unmatched(struct round_check *check, const struct pieces *packs, const struct pieces *unpacks,
                             bool pack_is_left)
{
    const struct pieces *left = pack_is_left ? packs : unpacks;
    const struct shunt_plan_op *op = op_at(left->vp, left->at);
    uint32_t buffer = pack_is_left ? op->src_buffer : op->dst_buffer;
    vproblem(check->v, SHUNT_RULE_STAGING, check->device, check->round,
             pack_is_left ? "no unpack matches the pack of %s from %s at byte %" PRIu64 " of the message from device "
                            "%" PRIu32 " (%s)"
                          : "no pack matches the unpack of %s into %s at byte %" PRIu64 " of the message from device "
                            "%" PRIu32 " (%s)",
             piece_text(left).text, vtext_buffer(check->v, left->device, buffer).text, next_distance(left),
             packs->device, vtext_ranks(check->v, packs->device).text);
}

/* Both lists stand at the same distance: the two must be the same elements. */
static void match_piece(struct round_check *check, const struct pieces *packs, const struct pieces *unpacks)
{
    const struct shunt_plan_op *pack = op_at(packs->vp, packs->at), *unpack = op_at(unpacks->vp, unpacks->at);
    const struct shunt_plan_view *packed = &packs->vp->part.views[pack->dst_view];
    const struct shunt_plan_view *wanted = &unpacks->vp->part.views[unpack->src_view];
    struct verifier *v = check->v;
    if (packed->ndim != wanted->ndim || packed->elem_bytes != wanted->elem_bytes ||
        memcmp(packed->shape, wanted->shape, sizeof(packed->shape)) != 0) {
        vproblem(v, SHUNT_RULE_STAGING, check->device, check->round,
                 "unpack into %s reads %s of %" PRIu32 "-byte elements but device %" PRIu32 " packed %s of %" PRIu32
                 "-byte elements of %s",
                 vtext_buffer(v, check->device, unpack->dst_buffer).text, piece_text(unpacks).text, wanted->elem_bytes,
                 packs->device, piece_text(packs).text, packed->elem_bytes,
                 vtext_buffer(v, packs->device, pack->src_buffer).text);
        return;
    }
    struct vsource source = {.device = packs->device, .buffer = pack->src_buffer, .cast = pack->cast};
    uint32_t index = unpacks->vp->op_order[unpacks->at];
    if (check->replay->targets[index].holding != VNONE &&
        vindex_resolve(v, packs->device, pack->src_buffer, &packs->vp->part.views[pack->src_view], pack->src_offset,
                       &source.end))
        vops_compare(check->replay, check->round, index, &source);
}

static void match_pieces(struct round_check *check, const struct shunt_plan_message *recv,
                         const struct shunt_plan_message *send)
{
    struct pieces packs = pieces_of(check->v, recv->peer, check->round, send);
    struct pieces unpacks = pieces_of(check->v, check->device, check->round, recv);
    uint64_t sent = next_distance(&packs), wanted = next_distance(&unpacks);
    if (sent == UINT64_MAX && wanted == UINT64_MAX)
        vproblem(check->v, SHUNT_RULE_MESSAGE, check->device, check->round,
                 "message of %" PRIu64 " bytes from device %" PRIu32 " carries no piece", recv->bytes, recv->peer);
    while (sent != UINT64_MAX || wanted != UINT64_MAX) {
        if (sent == wanted)
            match_piece(check, &packs, &unpacks);
        else
            report_unmatched(check, &packs, &unpacks, sent < wanted);
        bool step_packs = sent <= wanted, step_unpacks = wanted <= sent;
        packs.at += step_packs;
        unpacks.at += step_unpacks;
        sent = next_distance(&packs);
        wanted = next_distance(&unpacks);
    }
}

static void check_pair(struct round_check *check, const struct shunt_plan_message *message)
{
    struct verifier *v = check->v;
    if (!v->parts[message->peer].readable || !vparts_hold(v, message->peer, check->device))
        return;
    const struct shunt_plan_message *other = find_message(check, message->peer, !message->direction, check->device);
    if (other == NULL) {
        vproblem(v, SHUNT_RULE_MESSAGE, check->device, check->round,
                 "%s device %" PRIu32 " of %" PRIu64 " bytes has no %s there (%s; peer: %s)", direction_name(message),
                 message->peer, message->bytes, message->direction == SHUNT_SEND ? "receive" : "send",
                 vtext_ranks(v, check->device).text, vtext_ranks(v, message->peer).text);
        return;
    }
    if (message->direction == SHUNT_SEND)
        return; /* the receiver compares */
    if (other->bytes != message->bytes)
        vproblem(v, SHUNT_RULE_MESSAGE, check->device, check->round,
                 "receives %" PRIu64 " bytes but device %" PRIu32 " sends %" PRIu64 " (%s; peer: %s)", message->bytes,
                 message->peer, other->bytes, vtext_ranks(v, check->device).text, vtext_ranks(v, message->peer).text);
    else
        match_pieces(check, message, other);
}

/* The dtype that a piece has in its message; false if it cannot, or if it is cast here and was before or need not be. */
static bool dtype_in_message(const struct shunt_plan_op *op, const struct shunt_plan_buffer *buffer,
                             unsigned *dtype_out)
{
    bool packs = op->kind == SHUNT_OP_PACK;
    *dtype_out = buffer->dtype;
    if (op->cast == SHUNT_CAST_NONE)
        return true;
    *dtype_out = packs ? shunt_plan_cast_to(op->cast) : shunt_plan_cast_from(op->cast);
    return buffer->dtype == (packs ? shunt_plan_cast_from(op->cast) : shunt_plan_cast_to(op->cast)) &&
           shunt_plan_origin_dtype(buffer) == shunt_plan_cast_from(op->cast);
}

/* Which elements the next piece is; false if another rule has found fault with it. */
static bool describe_piece(const struct round_check *check, const struct pieces *pieces, bool packs, struct vend *end,
                           struct vdigest_piece *piece)
{
    const struct shunt_plan_part *part = &pieces->vp->part;
    uint32_t index = pieces->vp->op_order[pieces->at];
    const struct shunt_plan_op *op = &part->ops[index];
    *piece = (struct vdigest_piece){.distance = next_distance(pieces),
                                    .view = &part->views[packs ? op->dst_view : op->src_view],
                                    .buffer = &part->buffers[packs ? op->src_buffer : op->dst_buffer],
                                    .lo = end->lo};
    bool cast = dtype_in_message(op, piece->buffer, &piece->dtype);
    if (packs)
        return cast &&
               vindex_resolve(check->v, check->device, op->src_buffer, &part->views[op->src_view], op->src_offset, end);
    *end = check->replay->targets[index];
    return cast && end->holding != VNONE;
}

static void digest_message(struct round_check *check, const struct shunt_plan_message *message)
{
    bool send = message->direction == SHUNT_SEND;
    struct vdigest *digest = &check->v->digest;
    struct vdigest_message end = {.from = send ? check->device : message->peer,
                                  .to = send ? message->peer : check->device,
                                  .round = check->round,
                                  .bytes = message->bytes};
    struct pieces pieces = pieces_of(check->v, check->device, check->round, message);
    for (; next_distance(&pieces) != UINT64_MAX; pieces.at++) {
        struct vdigest_piece piece;
        struct vend at = {.holding = VNONE};
        digest->odd |= !describe_piece(check, &pieces, send, &at, &piece);
        vdigest_piece(digest, &end, &piece);
    }
    digest->odd |= end.pieces == 0;
    vdigest_message(digest, &end, message->direction);
}

/* Payload that crosses from here, by whether it leaves the node. */
static void add_crossing(struct round_check *check, const struct shunt_plan_message *send)
{
    struct pieces packs = pieces_of(check->v, check->device, check->round, send);
    bool inside = shunt_plan_get_device(check->v->plan, send->peer)->node == check->replay->record->node;
    uint64_t *sum = inside ? &check->v->figures.intra_node : &check->v->figures.inter_node;
    for (; next_distance(&packs) != UINT64_MAX; packs.at++)
        vadd(sum, piece_bytes(packs.vp, packs.at));
}

static void check_round(struct round_check *check)
{
    const struct shunt_plan_round *record = &check->vp->part.rounds[check->round];
    check->messages = messages_of(check->v, check->device, check->round, &check->message_count);
    check_apart(check);
    check_pieces(check, record->op_begin, record->unpack_begin, SHUNT_SEND);
    check_pieces(check, record->unpack_begin, record[1].op_begin, SHUNT_RECV);
    for (uint32_t i = 0; i < check->message_count; i++) {
        if (check->v->digest.active)
            digest_message(check, &check->messages[i]);
        else
            check_pair(check, &check->messages[i]);
        if (check->messages[i].direction == SHUNT_SEND)
            add_crossing(check, &check->messages[i]);
    }
    if (check->message_count > check->v->figures.max_group_messages)
        check->v->figures.max_group_messages = check->message_count;
}

/* ---- the device ------------------------------------------------------------------- */

static int compare_peers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static enum shunt_status count_peers(struct vreplay *replay)
{
    uint32_t count = replay->part->header->message_count, peers = 0;
    uint32_t *sorted = schema_alloc(count, sizeof(*sorted));
    if (sorted == NULL)
        return SHUNT_ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = replay->part->messages[i].peer;
    vsort(sorted, count, sizeof(*sorted), compare_peers);
    for (uint32_t i = 0; i < count; i++)
        peers += i == 0 || sorted[i] != sorted[i - 1];
    replay->peers = peers;
    if (peers > replay->v->figures.max_peers)
        replay->v->figures.max_peers = peers;
    free(sorted);
    return SHUNT_OK;
}

enum shunt_status vmessages_check(struct vreplay *replay)
{
    struct verifier *v = replay->v;
    struct round_check check = {.replay = replay, .v = v, .device = replay->device, .vp = &v->parts[replay->device]};
    check.spans = schema_alloc(replay->part->header->message_count, sizeof(*check.spans));
    if (check.spans == NULL)
        return SHUNT_ERR_NOMEM;
    for (check.round = 0; check.round < v->header->round_count && v->status == SHUNT_OK; check.round++)
        check_round(&check);
    free(check.spans);
    if (v->status != SHUNT_OK)
        return v->status;
    v->figures.messages += replay->part->header->message_count;
    return count_peers(replay);
}
