/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/digest.h"

static uint32_t piece_count(const struct checksum *checksum, uint32_t message)
{
    return checksum->pieces.begin[message + 1] - checksum->pieces.begin[message];
}

/* The end in the buffer, unless a cast makes it other bytes than those of the message. */
static bool reads_source(const struct shunt_plan_op *op)
{
    return (op->kind == SHUNT_OP_PACK) == (op->cast == SHUNT_CAST_NONE);
}

enum shunt_status checksum_create(const struct engine *engine, struct checksum **checksum_out, struct shunt_err *err)
{
    const struct shunt_plan_part *part = &engine->part;
    if (!digest_available())
        return shunt_fail(err, SHUNT_ERR_UNSUPPORTED, "checksums are not supported: built without xxhash");
    struct checksum *checksum = calloc(1, sizeof(*checksum));
    bool enough = checksum != NULL && pieces_init(&checksum->pieces, part, engine->header->round_count);
    if (enough) {
        uint32_t count = checksum->pieces.begin[part->header->message_count];
        checksum->records = calloc((size_t)count + 1, sizeof(*checksum->records));
        checksum->messages = calloc((size_t)part->header->message_count + 1, sizeof(*checksum->messages));
        enough = checksum->records != NULL && checksum->messages != NULL;
    }
    if (enough && engine->on->ops->asynchronous)
        enough = readback_init(&checksum->readback, engine, &checksum->pieces, reads_source);
    if (!enough) {
        checksum_destroy(checksum);
        return shunt_fail(err, SHUNT_ERR_NOMEM, "device %u: out of memory for checksums", engine->device);
    }
    for (uint32_t i = 0; i < part->header->message_count; i++)
        checksum->messages[i] =
            (struct transport_message){.peer = part->messages[i].peer,
                                       .direction = part->messages[i].direction,
                                       .data = &checksum->records[checksum->pieces.begin[i]],
                                       .bytes = piece_count(checksum, i) * sizeof(struct checksum_record)};
    *checksum_out = checksum;
    return SHUNT_OK;
}

void checksum_destroy(struct checksum *checksum)
{
    if (checksum == NULL)
        return;
    pieces_finish(&checksum->pieces);
    readback_finish(&checksum->readback);
    free(checksum->records);
    free(checksum->messages);
    free(checksum);
}

/* One end of an op. */
static uint64_t digest_end(const struct engine *engine, uint32_t buffer, uint64_t offset, uint32_t view)
{
    const char *base =
        buffer >= SHUNT_PLAN_STAGING ? engine->staging[buffer - SHUNT_PLAN_STAGING] : engine->buffers[buffer].data;
    return digest_box(base + offset, &engine->part.views[view]);
}

/* Of a piece that was brought, where that is needed. */
static uint64_t digest_piece(const struct engine *engine, uint32_t piece)
{
    const struct checksum *checksum = engine->checksum;
    const struct shunt_plan_op *op = &engine->part.ops[checksum->pieces.ops[piece]];
    if (engine->on->ops->asynchronous)
        return digest_box(readback_piece(&checksum->readback, piece), &checksum->readback.dense[piece]);
    return reads_source(op) ? digest_end(engine, op->src_buffer, op->src_offset, op->src_view)
                            : digest_end(engine, op->dst_buffer, op->dst_offset, op->dst_view);
}

enum shunt_status checksum_begin(struct engine *engine, struct shunt_err *err)
{
    struct shunt_err cause = {{0}};
    if (engine->checksum == NULL || !engine->on->ops->asynchronous)
        return SHUNT_OK;
    enum shunt_status st = readback_begin(&engine->checksum->readback, engine, &cause);
    return st == SHUNT_OK ? st : shunt_fail(err, st, "device %u: for checksums: %s", engine->device, cause.text);
}

void checksum_end(struct engine *engine)
{
    if (engine->checksum != NULL)
        readback_end(&engine->checksum->readback, engine);
}

void checksum_bind(struct engine *engine, uint32_t base, void *data)
{
    if (engine->checksum != NULL)
        readback_bind(&engine->checksum->readback, engine, base, data);
}

/* The pieces of one direction, to where the host can read them. Sends come before receives. */
static enum shunt_status bring(struct engine *engine, uint32_t round, uint32_t direction, struct shunt_err *err)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    const uint32_t *begin = engine->checksum->pieces.begin;
    uint32_t middle = r->message_begin;
    struct shunt_err cause = {{0}};
    if (!engine->on->ops->asynchronous)
        return SHUNT_OK;
    while (middle < r[1].message_begin && engine->part.messages[middle].direction == SHUNT_SEND)
        middle++;
    enum shunt_status st =
        direction == SHUNT_SEND
            ? readback_bring(&engine->checksum->readback, engine, begin[r->message_begin], begin[middle], &cause)
            : readback_bring(&engine->checksum->readback, engine, begin[middle], begin[r[1].message_begin], &cause);
    if (st == SHUNT_OK)
        return st;
    return shunt_fail(err, st, "device %u: round %u: checksums: %s", engine->device, round, cause.text);
}

enum shunt_status checksum_seal(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    struct checksum *checksum = engine->checksum;
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    enum shunt_status st = bring(engine, round, SHUNT_SEND, err);
    if (st != SHUNT_OK)
        return st;
    for (uint32_t m = r->message_begin; m < r[1].message_begin; m++) {
        const struct shunt_plan_message *message = &engine->part.messages[m];
        if (message->direction != SHUNT_SEND)
            continue;
        for (uint32_t i = checksum->pieces.begin[m]; i < checksum->pieces.begin[m + 1]; i++) {
            const struct shunt_plan_op *op = &engine->part.ops[checksum->pieces.ops[i]];
            checksum->records[i] = (struct checksum_record){.xxh3 = digest_piece(engine, i),
                                                            .offset = pieces_offset(op) - message->offset};
        }
    }
    return SHUNT_OK;
}

struct transport_message *checksum_messages(struct engine *engine, uint32_t round, uint32_t *count_out)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    *count_out = r[1].message_begin - r->message_begin;
    return &engine->checksum->messages[r->message_begin];
}

/* "[2,3] at byte 96": the box as it lies in the buffer. */
static void print_box(const struct shunt_plan_view *view, uint64_t offset, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t d = 0; d < view->ndim && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, d == 0 ? "[" : ",", view->shape[d]);
    if (used < size)
        snprintf(text + used, size - used, "] at byte %" PRIu64, offset);
}

static enum shunt_status check_piece(const struct engine *engine, uint32_t round, uint32_t m, uint32_t i,
                                     struct shunt_err *err)
{
    const struct checksum *checksum = engine->checksum;
    const struct shunt_plan_message *message = &engine->part.messages[m];
    const struct checksum_record *sent = &checksum->records[i];
    const struct shunt_plan_op *op = &engine->part.ops[checksum->pieces.ops[i]];
    uint32_t number = i - checksum->pieces.begin[m];
    if (sent->offset != pieces_offset(op) - message->offset)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "device %u: round %u: piece %u from device %u is at byte %" PRIu64
                          " of the message there, at %" PRIu64 " here",
                          engine->device, round, number, message->peer, sent->offset,
                          pieces_offset(op) - message->offset);
    uint64_t found = digest_piece(engine, i);
    if (found == sent->xxh3)
        return SHUNT_OK;
    char box[160];
    print_box(&engine->part.views[op->dst_view], op->dst_offset, box, sizeof(box));
    return shunt_fail(err, SHUNT_ERR_CHECK,
                      "device %u: round %u: checksum of %s from device %u differs: piece %u of %u, %s, is "
                      "%016" PRIx64 ", was sent as %016" PRIx64,
                      engine->device, round, engine->buffers[op->dst_buffer].name, message->peer, number + 1,
                      piece_count(checksum, m), box, found, sent->xxh3);
}

static enum shunt_status check_message(const struct engine *engine, uint32_t round, uint32_t m, struct shunt_err *err)
{
    const struct checksum *checksum = engine->checksum;
    const struct transport_message *records = &checksum->messages[m];
    if (records->arrived != records->bytes)
        return shunt_fail(err, SHUNT_ERR_MISMATCH,
                          "device %u: round %u: device %u sent checksums of %" PRIu64 " bytes, %" PRIu64 " expected",
                          engine->device, round, records->peer, records->arrived, records->bytes);
    for (uint32_t i = checksum->pieces.begin[m]; i < checksum->pieces.begin[m + 1]; i++) {
        enum shunt_status st = check_piece(engine, round, m, i, err);
        if (st != SHUNT_OK)
            return st;
    }
    return SHUNT_OK;
}

enum shunt_status checksum_check(struct engine *engine, uint32_t round, struct shunt_err *err)
{
    const struct shunt_plan_round *r = &engine->part.rounds[round];
    enum shunt_status st = bring(engine, round, SHUNT_RECV, err);
    for (uint32_t m = r->message_begin; m < r[1].message_begin && st == SHUNT_OK; m++) {
        if (engine->part.messages[m].direction != SHUNT_RECV)
            continue;
        st = check_message(engine, round, m, err);
        for (uint32_t i = engine->checksum->pieces.begin[m];
             st == SHUNT_OK && i < engine->checksum->pieces.begin[m + 1]; i++)
            engine->stats.checksummed_bytes +=
                pieces_bytes(&engine->part, &engine->part.ops[engine->checksum->pieces.ops[i]]);
    }
    return st;
}
