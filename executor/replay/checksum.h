/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_CHECKSUM_H
#define SHUNT_EXECUTOR_CHECKSUM_H

/**
 * End-to-end checksums: XXH3 of each piece where it was read, compared with what was written.
 *
 * The sender takes the checksum of a piece from the buffer that it comes from, the receiver from the buffer that it went
 * to; where a cast lies in between, from what is on the wire. So a byte that changes in either staging slot or on the
 * way is found, and so is a pack or unpack that goes wrong. The checksums of a message travel as a message of their own,
 * in a group of their own behind that of the round, so that the round's messages are those of the plan.
 *
 * What lies on a device is brought to the host for it, which waits: rounds overlap less.
 */

#include "replay/engine.h"
#include "replay/pieces.h"
#include "replay/readback.h"

/** What travels: one for each piece of a message, in the order of their places in it. */
struct checksum_record {
    uint64_t xxh3;
    uint64_t offset; /* of the piece in its message */
};

struct checksum {
    struct pieces pieces;
    struct checksum_record *records;    /* one per piece, as in pieces.ops */
    struct transport_message *messages; /* one per message of the part; a round's are as far apart as in the part */
    struct readback readback;           /* on a device with streams */
};

/** @return SHUNT_ERR_UNSUPPORTED (not in this build), SHUNT_ERR_NOMEM */
enum shunt_status checksum_create(const struct engine *engine, struct checksum **checksum_out, struct shunt_err *err);
void checksum_destroy(struct checksum *checksum); /* accepts NULL */

/* While a run is on; they do nothing without checksums, or where the host reads the memory itself. */
enum shunt_status checksum_begin(struct engine *engine, struct shunt_err *err);
void checksum_end(struct engine *engine);
void checksum_bind(struct engine *engine, uint32_t base, void *data);

/** After the packs of a round: take the checksums of what it sends. */
enum shunt_status checksum_seal(struct engine *engine, uint32_t round, struct shunt_err *err);

/** The round's checksums as messages. */
struct transport_message *checksum_messages(struct engine *engine, uint32_t round, uint32_t *count_out);

/**
 * After the unpacks of a round, before the next ones into its slot.
 *
 * @return SHUNT_ERR_CHECK, which names device, peer, round, tensor and piece; SHUNT_ERR_MISMATCH
 */
enum shunt_status checksum_check(struct engine *engine, uint32_t round, struct shunt_err *err);

#endif
